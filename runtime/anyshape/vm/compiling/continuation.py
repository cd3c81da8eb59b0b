"""Continuations: programs of which a part cannot be typed before the run, for unknown ranks or structures that a value decides.

In: a function with values of unknown rank. It is cut before the first such value: what comes before is a plan of its own, the
*prefix*. At run time the rest, the *tail*, is rebuilt over the live values with their actual ranks, compiled like any function (and
cut again if need be), and kept in a cache of at most LIMIT entries, the least recently used leaving first. What a live value fixes of
a tail is its level:

    RANK    its rank; dims stay symbols
    SHAPE   its shape: an operand whose length decides a rank, or data of which a dim does (squeeze of all that is 1)
    VALUE   its elements: an operand that decides more, such as axes; it becomes a constant of the tail

Of a list: RANK is which ranks are in it, SHAPE that of each element; the tail takes it apart then, so that each element has its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, Size, bounds, free_symbols, fresh
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.infer import build as make_node
from anyshape.graph.joining import joined_list, without_dims
from anyshape.graph.lists import LIST
from anyshape.graph.retype import rebuild
from anyshape.graph.value import SMALL, Node, Value, constant
from anyshape.logs import COMPILE
from anyshape.passes.branch_specialisation import in_branches
from anyshape.passes.regions import decided_branches
from anyshape.passes.rewriting import rewrite
from anyshape.passes.unlike_ranks import moved_into_branches
from anyshape.types import ListType, TensorType, list_of
from anyshape.vm.compiling.open_lengths import refuse_open_lengths
from anyshape.vm.compiling.options import Options
from anyshape.vm.program.table import Program
from anyshape.vm.report.causes import named, undecided
from anyshape.vm.run.limits import CallLimits

if TYPE_CHECKING:
    from anyshape.vm.compiling.plans import Compiler, Plan

Array = NDArray[Any]
RANK, SHAPE, VALUE = 0, 1, 2
Passed = tuple[tuple["Value", "int | None"], ...]
"""Arguments of a tail: live values, and elements of those that are lists."""
LIMIT = 64
"""Number of tails that one cut keeps."""


class Continued:
    """A function cut in two."""

    def __init__(self, compiler: Compiler, f: Function) -> None:
        self.compiler, self.f = compiler, f
        self.tail_nodes = _blocked(f)
        refuse_open_lengths(self.tail_nodes)
        self.live = _live(f, self.tail_nodes)
        self.known_params = tuple(p for p in f.params if p.type.shape is not None)
        computed = tuple(v for v in self.live if not v.is_param)
        self.prefix: Plan | None = None
        if computed or f.checks or _demanding(self.known_params):
            self.prefix = compiler.plan(
                Function(self.known_params, computed, f"{f.name}.prefix", None, checks=f.checks)
            )
        self.levels = dict.fromkeys((*f.params, *computed), RANK)
        self._tails: OrderedDict[Any, tuple[Plan, Passed]] = OrderedDict()
        self._lock = threading.Lock()
        self._cancels = [0]
        for v in _first_operands(self.tail_nodes, set(self.levels)):
            self.levels[v] = SHAPE

    direct = None

    def run(
        self, arrays: Sequence[Any], places: Sequence[Array | None] = (), by: Callable[[Plan], Plan] = lambda plan: plan
    ) -> list[Any]:
        """Runs prefix and tail. `by` maps a plan to the one that runs in its place."""
        values: dict[Value, Any] = dict(zip(self.f.params, arrays, strict=True))
        bounds = CallLimits(self.f.name, self._cancels)
        if self.prefix is not None:
            results = by(self.prefix).run([values[p] for p in self.known_params])
            values.update(zip((v for v in self.live if not v.is_param), results, strict=True))
        bounds.look()
        plan, passed = self.tail(values)
        bounds.look()
        return by(plan).run([values[v] if k is None else values[v][k] for v, k in passed], places)

    def cancel(self) -> None:
        """Makes calls that are under way stop soon, between their programs too."""
        self._cancels[0] += 1
        for plan in self._plans():
            plan.cancel()

    def release(self) -> None:
        for plan in self._plans():
            plan.release()

    def _plans(self) -> list[Plan]:
        with self._lock:
            tails = [plan for plan, _ in self._tails.values()]
        return tails if self.prefix is None else [self.prefix, *tails]

    def by(self, options: Options) -> Plan:
        return ContinuedBy(self, options)

    def tail(self, values: dict[Value, Any]) -> tuple[Plan, Passed]:
        """The plan of the tail for these live values, and its arguments among them."""
        key = self.key(values)
        with self._lock:
            tail = self._tails.get(key)
            if tail is not None:
                self._tails.move_to_end(key)
                return tail
        with self.compiler.lock:
            with self._lock:
                tail = self._tails.get(self.key(values))  # another thread may just have made it
            if tail is not None:
                return tail
            COMPILE.info("%s: ranks or lengths of a call are new, its tail is compiled", self.f.name)
            tail = self.build(values)
            key = self.key(values)  # a level may have risen meanwhile
        with self._lock:
            self._tails[key] = tail
            while len(self._tails) > LIMIT:
                self._tails.popitem(last=False)
        return tail

    def key(self, values: dict[Value, Any]) -> tuple[Any, ...]:
        parts: list[Any] = []
        for v, level in self.levels.items():
            a = values[v]
            if isinstance(v.type, ListType):
                parts.append(_ranks(a) if level == RANK else tuple(map(_ranks, a)))
                continue
            parts.append(a.ndim if level == RANK else a.shape if level == SHAPE else (a.shape, a.tobytes()))
        return tuple(parts)

    def build(self, values: dict[Value, Any]) -> tuple[Plan, Passed]:
        """Compiles a tail: raises levels until its first node can be typed."""
        while True:
            f, passed, mapping = self.typed(values)
            f = rewrite(f, (decided_branches,))  # what a branch leaves open is the tail's own then, and can be decided
            stuck = [n for n in f.nodes if _is_first_blocked(n)]
            if not stuck:
                return self.compiler.plan(f), passed
            if not self.raise_levels(stuck, mapping):
                if _count(_blocked(f)) < _count(self.tail_nodes):  # the rest is the matter of the tail's own cut
                    return self.compiler.plan(f), passed
                for specialised in (in_branches, moved_into_branches):
                    branched = specialised(f)
                    if branched is not f:
                        return self.compiler.plan(branched), passed
                names = ", ".join(map(named, stuck))
                if any(n.regions for n in stuck):
                    raise UnsupportedError(f"{names}: {'; '.join(undecided(n) for n in stuck if n.regions)}")
                raise AnyshapeError(f"the rank of {names} stays unknown, though all its operands are known")

    def raise_levels(self, stuck: Sequence[Node], mapping: dict[Value, Value]) -> bool:
        """Raises by one the levels of what the stuck nodes need: operands first, then the shapes of their data, then numbers that operands
        inside of them are computed from. False if none is left."""
        operands = {v for n in stuck for v in _operands(n)}
        data = {v for n in stuck for v in n.inputs}
        raised = [old for old, new in mapping.items() if new in operands and self.levels[old] < VALUE]
        raised = raised or [old for old, new in mapping.items() if new in data and self.levels[old] < SHAPE]
        if not raised:
            computed_from = {v for n in stuck for v in _operands(n, also_computed=True)}
            raised = [old for old, new in mapping.items() if new in computed_from and self.levels[old] < VALUE]
        for v in raised:
            self.levels[v] += 1
        return bool(raised)

    def typed(self, values: dict[Value, Any]) -> tuple[Function, Passed, dict[Value, Value]]:
        """Builds the tail over these live values; the tail, its arguments, and the value in it that stands for each live value."""
        sizes: list[Size] = [n for v, level in self.levels.items() if level < SHAPE for n in v.type.shape or ()]
        bound = {n for n in sizes if isinstance(n, Dim) and n.is_symbol}
        mapping: dict[Value, Value] = {}
        params: list[Value] = []
        passed: list[tuple[Value, int | None]] = []
        names: set[str] = set()
        for k, (v, level) in enumerate(self.levels.items()):
            a = values[v]
            if level == VALUE:
                mapping[v] = constant(np.array(a))
                continue
            name = _unused(v.name or f"live{k}", names)
            if isinstance(v.type, ListType) and level == SHAPE:
                elements = [Value(_own_type(e, v.type.element), f"{name}_{j}") for j, e in enumerate(a)]
                mapping[v] = _list(elements, v.type)
                params += elements
                passed += [(v, j) for j in range(len(a))]
                continue
            mapping[v] = Value(_type(v, a, level, bound), name)
            params.append(mapping[v])
            passed.append((v, None))
        return rebuild(self.f, mapping, params, self.tail_nodes), tuple(passed), mapping

    @property
    def overwrites(self) -> tuple[tuple[int, int], ...]:
        return ()  # each call may run another program

    @property
    def programs(self) -> tuple[Program, ...]:
        return tuple(p for plan in self._plans() for p in plan.programs)

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self._plans())


class ContinuedBy:
    """A plan of the same programs as another one, run with other options."""

    direct = None

    def __init__(self, plan: Continued, options: Options) -> None:
        self._plan = plan

        @lru_cache(LIMIT + 1)
        def by(part: Plan) -> Plan:
            plan = part.by(options)
            self._plans.append(plan)
            return plan

        self._by = by
        self._plans: list[Plan] = []

    def run(self, arrays: Sequence[Any], places: Sequence[Array | None] = ()) -> list[Any]:
        return self._plan.run(arrays, places, lambda part: self._by(part))

    def cancel(self) -> None:
        self._plan.cancel()
        for plan in tuple(self._plans):
            plan.cancel()

    def release(self) -> None:
        for plan in tuple(self._plans):
            plan.release()

    def by(self, options: Options) -> Plan:
        return self._plan.by(options)

    @property
    def overwrites(self) -> tuple[tuple[int, int], ...]:
        return ()

    @property
    def programs(self) -> tuple[Program, ...]:
        return self._plan.programs

    @property
    def bytes(self) -> int:
        return sum(plan.bytes for plan in tuple(self._plans))


def _type(v: Value, a: Array, level: int, bound: set[Dim]) -> TensorType:
    """Type of a live value in the tail: relations between dims are kept where their symbols are bound by some live value."""
    if isinstance(v.type, ListType):
        own = _own_type(a, v.type)
        assert isinstance(own, ListType)
        said = without_dims(v.type, lambda s: s not in bound)
        return said if own.never or said.tensor.shape is not None else own
    if level == SHAPE:
        return TensorType(v.type.dtype, a.shape)
    if v.type.shape is None:
        return TensorType(v.type.dtype, tuple(fresh("?", 0) for _ in a.shape))
    return TensorType(v.type.dtype, tuple(n if free_symbols(n) <= bound else fresh("?", 0) for n in v.type.shape))


def _own_type(value: Any, t: TensorType) -> TensorType:
    """Type of a value by the ranks of its tensors."""
    if not isinstance(t, ListType):
        return TensorType(t.dtype, tuple(fresh("?", 0) for _ in value.shape))
    elements = [list_of(_own_type(e, t.element), t.optional) for e in value]
    if not elements:
        return list_of(t.element, t.optional, never=True)
    return without_dims(reduce(lambda a, b: joined_list(a, b, "an element"), elements), lambda s: True)


def _ranks(value: Any) -> Any:
    """Collects the ranks of the tensors of a value."""
    return frozenset(map(_ranks, value)) if isinstance(value, list) else value.ndim


def _list(elements: Sequence[Value], t: ListType) -> Value:
    """Makes a list of elements as a value of the tail."""
    said = "" if elements else str(t.element)
    return make_node(LIST, elements, {"element": said, "optional": t.optional}).outputs[0]


def _blocked(f: Function) -> tuple[Node, ...]:
    """Lists the nodes with a result of unknown rank, and all that read such a result, directly or not."""
    unknown = {p for p in f.params if p.type.shape is None}
    blocked: list[Node] = []
    for node in f.nodes:
        if any(v in unknown for v in node.inputs) or node.is_open:
            unknown.update(node.outputs)
            blocked.append(node)
    return tuple(blocked)


def _count(nodes: Sequence[Node]) -> int:
    """Counts nodes, with those in their regions."""
    return sum(1 + sum(_count(r.nodes) for r in node.regions) for node in nodes)


def _live(f: Function, tail: Sequence[Node]) -> tuple[Value, ...]:
    """Lists the values from before the cut that the tail or a result needs."""
    computed = {v for node in tail for v in node.outputs}
    needed = [v for node in tail for v in node.inputs if v is not None] + list(f.results)
    return tuple(dict.fromkeys(v for v in needed if v not in computed and v.constant is None))


def _demanding(params: Sequence[Value]) -> bool:
    """Tests whether the types of parameters refuse some shapes of their ranks: by a number, a bound, or a size that two dims share. A tail
    that fixes a shape does not know these any more."""
    types = [p.type.tensor if isinstance(p.type, ListType) else p.type for p in params]
    sizes = [n for t in types for n in t.shape or ()]
    free = {n for n in sizes if isinstance(n, Dim) and n.is_symbol and bounds(n) == (0, None)}
    return len(free) < len(sizes)


def _is_first_blocked(node: Node) -> bool:
    """Tests whether the node itself, not one before it, leaves the rank open."""
    return node.is_open and all(v is None or v.type.shape is not None for v in node.inputs)


def _operands(node: Node, also_computed: bool = False) -> set[Value]:
    """Collects the values that decide the node's shapes: its operand parameters, and those that its regions capture for their nodes. Also
    the few integers that regions compute such operands from, if asked for."""
    deciding = {v for v in node.operand_inputs().values() if v is not None}
    captured = node.op.control.captured(node) if node.op.control is not None else ()
    for region in node.regions:
        inner = {v for n in region.nodes for v in _operands(n, also_computed)}
        for n in reversed(region.nodes) if also_computed else ():
            if not inner.isdisjoint(n.outputs):
                inner |= {v for v in n.inputs if v is not None and _is_number(v)}
        own = region.params[len(region.params) - len(captured) :]
        deciding |= {v for v, p in zip(captured, own, strict=True) if p in inner}
    return deciding


def _is_number(v: Value) -> bool:
    """Tests whether a value is a few integers or truths."""
    count = v.type.count() if v.type.shape is not None else None
    return isinstance(count, int) and count <= SMALL and not v.type.dtype.is_float


def _first_operands(tail: Sequence[Node], live: set[Value]) -> list[Value]:
    """Lists the live values that are operand parameters of nodes of open rank."""
    return [v for node in tail if node.is_open for v in _operands(node) if v in live]


def _unused(name: str, names: set[str]) -> str:
    """Makes a name that is not among `names`, and adds it to them: a tail of a tail may have values of equal names."""
    while name in names:
        name += "'"
    names.add(name)
    return name
