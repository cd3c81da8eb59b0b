"""Stores values in memory with their channels last where it pays, so that convolutions are products of whole rows of channels.

In: a schedule. Out: the schedule in which such a value is stored as its transpose: the equations of kernels have the indices of it in that
order, and a kernel of its own transposes what comes or goes without channels last. What a kernel computes is the same.

The channels of a contraction's result are the axis that its constant factor has alone; those of its other operand the axis that it sums
over and shares with the constant. From there channels are followed through all nodes that keep them an axis: maps, windows, pads, joins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Var, read
from anyshape.equations.traversal import replace_node, walk
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.matching import make
from anyshape.graph.value import Node, Value, constant
from anyshape.kernel_model.contractions import EXPRESSIONS, contraction_of
from anyshape.passes.group_equations import GroupEquations
from anyshape.passes.steps import KernelStep, Schedule, ScheduleStep, ViewStep, stands_alone

LEAST = 8
"""Channels of a value that are worth being adjacent: of fewer, vectors would be half empty."""
FASTER, FASTER_FEW, FASTER_PLAIN = 4, 8, 32
"""A product of windows saves one of so many cycles of a convolution, which takes `LANES` products in each; of one that reads few channels,
which stay where they are, less, and of one with a single tap, which is a product of the image as it lies, least. `python -m
benchmarks.layout_costs` prints what it saves."""
LANES, COLUMNS = 32, 16
"""Products in a cycle; and columns of which a part takes as long as all."""
IN_GROUP = 32
"""Channels of each group's results: of a product with fewer columns every step loads as many elements as it multiplies vectors."""
APART = 1.5
"""A sum saves a cycle for so many of its terms, if each lies in a plane of its own: in rows of images they are read across vectors. Of 32
channels at 8 x 8 places of four terms, 8,192 results take 6.1 us so, and 2.7 in rows of channels (Zen 5, `anyshape profile`)."""
TAPS, ALIKE = 25, 6
"""A window whose lanes are channels saves a cycle for so many of its products (`benchmarks.layout_costs` too), with factors of each
channel: more than one of 3 x 3 needs, since larger ones are as fast along rows; and with factors that are the same for all channels."""


def channels_last(schedule: Schedule, stated: GroupEquations) -> Schedule:
    """The schedule with the channels of values last where convolutions gain more than the transposes cost at which that begins and ends.
    `stated`: the equations of the nodes."""
    f = schedule.function
    if not any(_may_convolve(n) for n in f.nodes):
        return schedule
    storage = _ValueUses(schedule)
    gaining = [group for group in _Layouts(f, stated).groups() if storage.pays(group)]
    return _Rewriting(storage, gaining).run() if gaining else schedule


def _may_convolve(node: Node) -> bool:
    return any(v is not None and v.constant is not None and v.constant.ndim > 2 for v in node.inputs)


@dataclass(frozen=True, slots=True)
class _Roles:
    """The axes along which a node has its channels: `result`, the axis of its result, and of each operand that has them; `saved`: the
    cycles that they save an element of the result, if it is a contraction."""

    result: int
    operands: dict[Value, int]
    saved: float = 0


@dataclass(slots=True)
class _LayoutGroup:
    """Values that have their channels last together. `saved`: what convolutions save, in cycles for a place of an image."""

    axes: dict[Value, int] = field(default_factory=dict)
    nodes: dict[Node, Value] = field(default_factory=dict)
    """Nodes that compute these values, each with its result."""
    saved: float = 0


class _Layouts:
    """The channels of all values, as convolutions begin them and other nodes continue them."""

    def __init__(self, f: Function, stated: GroupEquations) -> None:
        self.f, self.stated = f, stated
        self.readers: dict[Value, list[Node]] = {}
        for n in f.nodes:
            for v in dict.fromkeys(n.inputs):
                if v is not None:
                    self.readers.setdefault(v, []).append(n)
        self.results = set(f.results)

    def equations(self, node: Node) -> tuple[list[Equation], dict[Tensor, Value]] | None:
        """What a node computes, and the operands that its tensors are; None for one without equations of a single plain result."""
        result, stated = self.result(node), self.stated.equations.get(node)
        if result is None or stated is None or stands_alone(node):
            return None
        tensors = self.stated.tensors
        equations = [q for q in stated if q.target is tensors[result]]
        if any(q.form is not None or q.unbacked is not None for q in equations):
            return None
        return equations, {tensors[v]: v for v in (*node.inputs, result) if v is not None and v in tensors}

    def result(self, node: Node) -> Value | None:
        """The only output of a node that is read."""
        read = [v for v in node.outputs if v in self.readers or v in self.results]
        return read[0] if len(read) == 1 else None

    def convolution(self, node: Node) -> _Roles | None:
        """The channels of a contraction with a constant, if they are last in neither its result nor what it reads."""
        stated = self.equations(node)
        if stated is None or len(stated[0]) != 1:
            return None
        ((q,), values) = stated
        products = [
            p for e in walk(q.value) if isinstance(e, Reduce) and (p := contraction_of(EXPRESSIONS, e)) is not None
        ]
        if len(products) != 1:
            return None
        (product,) = products
        for x, weights in (product.factors, product.factors[::-1]):
            reads = [e for e in walk(x) if isinstance(e, Read) and e.free & set(product.summed)]
            constants = [values.get(e.tensor) for e in walk(weights) if isinstance(e, Read)]
            if len(reads) != 1 or not all(v is not None and v.constant is not None for v in constants):
                continue
            own = [k for k, i in enumerate(q.index) if _is_of_group(i, weights.free - x.free, weights.free)]
            summed = set(product.summed)
            shared = [k for k, i in enumerate(reads[0].index) if i.free & summed and i.free <= weights.free]
            operand = values.get(reads[0].tensor)
            if len(own) > 1:  # a window of products for each place: one of them for each channel
                own = [k for k in own if _counts_in(q.index[k], IN_GROUP)][:1]
            if len(own) != 1 or len(shared) != 1 or operand is None or own[0] == len(q.index) - 1:
                continue
            work = math.prod(v.extent for v in product.summed if isinstance(v.extent, int))
            taps = math.prod(
                v.extent
                for v in product.summed
                if isinstance(v.extent, int) and v not in reads[0].index[shared[0]].free
            )
            axes = {operand: shared[0]} if _counts(operand, shared[0]) and shared[0] < _rank(operand) - 1 else {}
            columns = math.prod(_size(v.extent) for v in q.index[own[0]].free & (weights.free - x.free))
            return _Roles(own[0], axes, work / LANES * _saved_share(taps, bool(axes), columns))
        return None

    def windows(self, node: Node) -> _Roles | None:
        """The channels of windows that are weighted by a constant, each channel by weights of its own."""
        stated, result = self.equations(node), self.result(node)
        if stated is None or result is None or len(stated[0]) != 1 or not self.taps(node):
            return None
        ((q,), values) = stated
        body = next(e.body for e in walk(q.value) if isinstance(e, Reduce) and e.kind == "sum")
        reads = [e for e in body.args if isinstance(e, Read)] if isinstance(body, Apply) else []
        constant = [(v := values.get(e.tensor)) is not None and v.constant is not None for e in reads]
        if sorted(constant) != [False, True]:
            return None
        shared = frozenset.intersection(*(e.free for e in reads))
        axes = [k for k, i in enumerate(q.index) if i in shared]
        if len(axes) != 1 or axes[0] == len(q.index) - 1 or not _counts(result, axes[0]):
            return None
        return self.roles(node, axes[0])

    def taps(self, node: Node) -> int:
        """How many products of elements under a window are summed for an element of the result, each with a factor of its channel."""
        stated = self.equations(node)
        if stated is None:
            return 0
        sums = [e for q in stated[0] for e in walk(q.value) if isinstance(e, Reduce) and e.kind == "sum"]
        products = [e for e in sums if isinstance(e.body, Apply) and e.body.op == "mul"]
        return (
            math.prod(v.extent if isinstance(v.extent, int) else 0 for v in products[0].vars)
            if len(products) == 1
            else 0
        )

    def terms_apart(self, node: Node) -> int:
        """How many terms that lie in planes of their own are summed for an element of the result: a variable of the sum is in several
        indices of what is read."""
        sums = [e for q in (self.equations(node) or ((), {}))[0] for e in walk(q.value) if isinstance(e, Reduce)]
        if len(sums) != 1 or sums[0].kind != "sum":
            return 0
        reads = [e for e in walk(sums[0].body) if isinstance(e, Read)]
        if not any(sum(v in i.free for i in e.index) > 1 for v in sums[0].vars for e in reads):
            return 0
        terms = math.prod(v.extent if isinstance(v.extent, int) else 0 for v in sums[0].vars)
        return terms if terms > 1 else 0

    def has_weights(self, node: Node, channels: int) -> bool:
        """Whether the elements that a node sums have constant factors of their own for each channel of the result."""
        equations, values = self.equations(node) or ((), {})
        sums = [(q.index[channels].free, e.body) for q in equations for e in walk(q.value) if isinstance(e, Reduce)]
        reads = ((own, e) for own, body in sums for e in walk(body) if isinstance(e, Read))
        return any(
            own & e.free and (v := values.get(e.tensor)) is not None and v.constant is not None for own, e in reads
        )

    def roles(self, node: Node, result: int) -> _Roles | None:
        """The channels of what a node reads, if those of its result are this axis; None where they are no axis of their own there."""
        stated = self.equations(node)
        if stated is None:
            return None
        operands: dict[Value, int] = {}
        for q in stated[0]:
            own = q.index[result].free
            if len(own) != 1 or any(i.free & own for k, i in enumerate(q.index) if k != result):
                return None
            (channel,) = own
            for e in (e for e in walk(q.value) if isinstance(e, Read) and channel in e.free):
                at = [k for k, i in enumerate(e.index) if channel in i.free]
                v = stated[1].get(e.tensor)
                if (
                    len(at) != 1
                    or not _is_at(e.index[at[0]], channel)
                    or v is None
                    or operands.setdefault(v, at[0]) != at[0]
                ):
                    return None
        return _Roles(result, operands)

    def carried(self, node: Node, operand: Value, axis: int) -> int | None:
        """The axis of a node's result that the channels of an operand are."""
        stated = self.equations(node)
        if stated is None:
            return None
        axes = set()
        for q in stated[0]:
            for e in (e for e in walk(q.value) if isinstance(e, Read) and stated[1].get(e.tensor) is operand):
                axes.add(
                    next(
                        (k for k, j in enumerate(q.index) if len(j.free) == 1 and _is_at(e.index[axis], *j.free)), None
                    )
                )
        return axes.pop() if len(axes) == 1 else None

    def groups(self) -> Iterator[_LayoutGroup]:
        seen: set[Value] = set()
        for node in self.f.nodes:
            if self.result(node) not in seen and (self.convolution(node) or self.windows(node)) is not None:
                group = self.group(node)
                seen.update(group.axes)
                yield group

    def group(self, first: Node) -> _LayoutGroup:
        """The values that have channels where this convolution has some."""
        group, ahead = _LayoutGroup(), [first]
        while ahead:
            node = ahead.pop()
            if node in group.nodes:
                continue
            roles = self.at(node, group)
            if roles is None:
                continue
            result = self.result(node)
            assert result is not None
            group.nodes[node] = result
            self.enter(group, result, roles.result, ahead)
            for v, axis in roles.operands.items():
                self.enter(group, v, axis, ahead)
        for n, result in group.nodes.items():
            roles = self.convolution(n)
            if result in group.axes:
                axis = group.axes[result]
                saved = self.terms_apart(n) / APART
                if roles is not None:
                    saved = roles.saved
                elif not saved:
                    saved = self.taps(n) / (TAPS if self.has_weights(n, axis) else ALIKE)
                group.saved += saved * _elements(result)
        return group

    def at(self, node: Node, group: _LayoutGroup) -> _Roles | None:
        """The channels of a node that reads or makes a value of the group."""
        begun = self.convolution(node) or self.windows(node)
        if begun is not None:
            return begun
        result = self.result(node)
        axis = group.axes.get(result) if result is not None else None
        if axis is None:
            known = ((v, group.axes[v]) for v in node.inputs if v is not None and v in group.axes)
            axis = next((k for v, a in known if (k := self.carried(node, v, a)) is not None), None)
        return None if axis is None else self.roles(node, axis)

    def enter(self, group: _LayoutGroup, v: Value, axis: int, ahead: list[Node]) -> None:
        if v in group.axes or axis == _rank(v) - 1:
            return
        group.axes[v] = axis
        ahead += self.readers.get(v, ())
        if v.node is not None:
            ahead.append(v.node)


def _is_of_group(i: Expr, alone: Set[Var], known: Set[Var]) -> bool:
    """Whether an index is a channel among those of a group, of which there are enough, or of all; which group it is, a constant knows."""
    own = i.free & alone
    return len(own) == 1 and i.free <= known and (i in own or all(_size(v.extent) >= IN_GROUP for v in own))


def _saved_share(taps: int, reads_channels: bool, columns: int) -> float:
    """What a convolution saves of its cycles. Columns that are no whole vector are lost where its taps would save more than they take."""
    if taps == 1:
        return 1 / FASTER_PLAIN
    if not reads_channels:
        return 1 / FASTER_FEW
    return 1 / FASTER - (-(-columns // COLUMNS) * COLUMNS / max(columns, 1) - 1)


def _counts_in(i: Expr, least: int) -> bool:
    """Whether an index is a variable of so many values or more."""
    return isinstance(i, Var) and _size(i.extent) >= least


def _is_at(i: Expr, v: Var) -> bool:
    """Whether an index is a variable, or that plus what has variables of a single value: the channel of a group that has no other."""
    if isinstance(i, Apply) and i.op == "add":
        return any(a is v for a in i.args) and all(
            a is v or (a.free and all(w.extent == 1 for w in a.free)) for a in i.args
        )
    return i is v


def _rank(v: Value) -> int:
    return len(v.type.shape or ())


def _counts(v: Value, axis: int) -> bool:
    """Whether a value has channels enough to lie side by side."""
    shape = v.type.shape or ()
    return _number(shape, axis) >= LEAST


def _number(shape: Sequence[Size] | None, axis: int) -> int:
    return _size((shape or ())[axis])


def _elements(v: Value) -> int:
    """How many elements a value has at a place of an image, the other axes of known size counted: the phases of a place, or its window."""
    return math.prod(n if isinstance(n, int) else 1 for n in v.type.shape or ())


def _size(n: Size) -> int:
    return n if isinstance(n, int) else LANES


class _ValueUses:
    """Steps that make and read the values of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.makers: dict[Value, KernelStep] = {}
        self.readers: dict[Value, list[ScheduleStep]] = {}
        self.results = set(schedule.function.results)
        for step in schedule.steps:
            if isinstance(step, KernelStep):
                self.makers.update(dict.fromkeys(step.outputs, step))
            for v in _inputs(step):
                self.readers.setdefault(v, []).append(step)

    def is_stored(self, v: Value) -> bool:
        """Whether a kernel that can store it in any order computes the value."""
        step = self.makers.get(v)
        return step is not None and _is_plain(step) and step.tensors[v].shape == v.type.shape

    def is_read_elsewhere(self, v: Value) -> bool:
        """Whether a value is read by the caller, or by a step that takes its axes as they are."""
        return v in self.results or not all(_is_plain(step) for step in self.readers.get(v, ()))

    def pays(self, group: _LayoutGroup) -> bool:
        """Whether convolutions save more than transposes take, in cycles for a place of an image."""
        spent = 0
        for v in group.axes:
            if v.constant is None and v in self.readers | dict.fromkeys(self.results):
                begins = not self.is_stored(v) and any(_is_of(step, group.nodes) for step in self.readers.get(v, ()))
                ends = self.is_stored(v) and self.is_read_elsewhere(v)
                spent += _elements(v) * (begins + ends)
        return group.saved > spent


def _is_plain(step: ScheduleStep) -> bool:
    return isinstance(step, KernelStep) and all(q.form is None and q.unbacked is None for q in step.equations)


def _is_of(step: ScheduleStep, nodes: Mapping[Node, Value]) -> bool:
    return isinstance(step, KernelStep) and any(n in nodes for n in step.nodes)


def _inputs(step: ScheduleStep) -> Iterable[Value]:
    if isinstance(step, KernelStep):
        return step.inputs
    return (step.input,) if isinstance(step, ViewStep) else [v for v in step.node.inputs if v is not None]


class _Rewriting:
    """The schedule with values of some groups stored as transposes."""

    def __init__(self, storage: _ValueUses, groups: Sequence[_LayoutGroup]) -> None:
        self.storage = storage
        self.axes = {v: axis for group in groups for v, axis in group.axes.items()}
        self.nodes = {n: v for group in groups for n, v in group.nodes.items()}
        self.stored: dict[Value, Value] = {}
        """Values of the layout as they lie in memory."""
        self.steps: list[ScheduleStep] = []

    def run(self) -> Schedule:
        for step in self.storage.schedule.steps:
            if isinstance(step, KernelStep) and _is_plain(step):
                self.kernel(step)
            else:
                self.steps.append(step)
        return Schedule(self.storage.schedule.function, tuple(self.steps))

    def kernel(self, step: KernelStep) -> None:
        moved: dict[Value, Value] = {}
        for v in step.inputs:
            if v not in self.axes or step.tensors[v].shape != v.type.shape:
                continue
            if v not in self.stored and not self.storage.is_stored(v) and _is_of(step, self.nodes):
                self.convert(v)
            if v in self.stored and (self.storage.is_stored(v) or _is_of(step, self.nodes)):
                moved[v] = self.stored[v]
        stored_last = [v for v in step.outputs if v in self.axes and self.storage.is_stored(v)]
        for v in stored_last:
            moved[v] = self.stored[v] = make("transpose", [v], {"axes": _order(self.axes[v], _rank(v))}, _source(v))
        self.steps.append(_reordered(step, moved, {v: self.axes[v] for v in moved}) if moved else step)
        self.steps += [self.back(v) for v in stored_last if self.storage.is_read_elsewhere(v)]

    def convert(self, v: Value) -> None:
        """Stores as its transpose what lies in memory as it is."""
        order = _order(self.axes[v], _rank(v))
        if v.constant is not None:
            self.stored[v] = constant(v.constant.transpose(order).copy())
            return
        new = self.stored[v] = make("transpose", [v], {"axes": order}, _source(v))
        self.steps.append(_transposing(new, v, new))

    def back(self, v: Value) -> ScheduleStep:
        """The step that stores a value as it is, for those who take it so."""
        axis, rank = self.axes[v], _rank(v)
        order = [*range(axis), rank - 1, *range(axis, rank - 1)]
        return _transposing(make("transpose", [self.stored[v]], {"axes": order}, _source(v)), self.stored[v], v)


def _transposing(transpose: Value, source: Value, result: Value) -> KernelStep:
    """The step that computes `result` as the transpose `transpose`."""
    node = transpose.node
    assert node is not None
    known: dict[Value, Tensor] = {}
    equations = equations_of(node, *tensors_of(node, known)).equations
    tensors = {source: known[source], result: known[transpose]}
    return KernelStep(
        nodes=(node,), equations=tuple(equations), inputs=(source,), outputs=(result,), tensors=tensors, results=(result,)
    )  # fmt: skip


def _reordered(step: KernelStep, moved: Mapping[Value, Value], axes: Mapping[Value, int]) -> KernelStep:
    """The step with values replaced by their transposes, whose last axis is the given one of theirs."""
    tensors: dict[Value, Tensor] = {}
    orders: dict[Tensor, tuple[Tensor, list[int]]] = {}
    for v, t in step.tensors.items():
        if v not in moved:
            tensors[v] = t
            continue
        order = _order(axes[v], len(t.shape))
        tensors[moved[v]] = new = Tensor(t.name, t.dtype, tuple(t.shape[k] for k in order))
        orders[t] = new, order

    def renamed(values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(moved.get(v, v) for v in values)

    return replace(
        step,
        equations=tuple(_with_axes(q, orders) for q in step.equations),
        inputs=renamed(step.inputs),
        outputs=renamed(step.outputs),
        results=renamed(step.results),
        tensors=tensors,
        apart_from={moved.get(v, v): reason for v, reason in step.apart_from.items()},
    )


def _with_axes(q: Equation, orders: Mapping[Tensor, tuple[Tensor, list[int]]]) -> Equation:
    """The equation of tensors with their axes in other orders."""
    done: dict[Expr, Expr] = {}

    def index(t: Tensor, position: Sequence[Expr]) -> tuple[Expr, ...]:
        replaced = tuple(replace_node(i, done) for i in position)
        return tuple(replaced[k] for k in orders[t][1]) if t in orders else replaced

    reads = dict.fromkeys(e for part in q.expressions for e in walk(part) if isinstance(e, Read) and e.tensor in orders)
    for e in sorted(reads, key=lambda e: e.serial):  # inner ones are older
        outside = None if e.outside is None else replace_node(e.outside, done)
        done[e] = read(orders[e.tensor][0], index(e.tensor, e.index), outside)
    target = orders[q.target][0] if q.target in orders else q.target
    return replace(q, target=target, index=index(q.target, q.index), value=replace_node(q.value, done))


def _order(axis: int, rank: int) -> list[int]:
    return [*range(axis), *range(axis + 1, rank), axis]


def _source(v: Value) -> str:
    return v.node.source if v.node is not None else ""
