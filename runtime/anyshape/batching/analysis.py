"""The search for a batch dim of a function: each dim of its inputs is tried, and followed through the nodes.

In: a `Function`. Out: a `BatchDim` or `Unbatched`. What equations say is `accesses.py`; here is what lies between calls: views, sizes that
the graph computes, checks, and nodes that have no equations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyshape.batching.accesses import RowsMeet, follow
from anyshape.batching.conditions import holds_of_fewer
from anyshape.batching.states import FIXED, Computed, Fixed, IndexElements, Joint, RowDim, Rows, RowState
from anyshape.dims import Dim, Size, bounds, free_symbols
from anyshape.dtypes import CHAR, I64
from anyshape.equations import Equation, Tensor, Var
from anyshape.equations.expr import cast, const
from anyshape.equations.indexing import ravel, unravel
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.passes import optimise
from anyshape.rules import Check
from anyshape.types import ListType, TensorType


@dataclass(frozen=True)
class RowAxis:
    """An input or output, and which of its axes has the rows; None: it has none, and is the same for all requests of a call."""

    name: str
    axis: int | None


@dataclass(frozen=True)
class BatchDim:
    """The dim along which requests can be joined. An axis of an output may have several positions for each row, as many for every row.
    `most` is the largest size of the dim, None if there is no limit."""

    name: str
    inputs: tuple[RowAxis, ...]
    outputs: tuple[RowAxis, ...]
    most: int | None

    def __str__(self) -> str:
        places = ", ".join(f"axis {i.axis} of {i.name}" for i in self.inputs if i.axis is not None)
        return f"{self.name} ({places})"


@dataclass(frozen=True)
class Unbatched:
    """Says why requests cannot be joined: for each dim of the inputs, the first value that depends on more than one row."""

    reasons: Mapping[str, str]

    def __str__(self) -> str:
        listed = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        return listed or "no input has a dim that callers choose"


def batch_dim(f: Function) -> BatchDim | Unbatched:
    """Finds the dim along which requests can be joined: of several, one of the foremost axis."""
    calls = _StatedCalls(optimise(f))
    reasons: dict[str, str] = {}
    for symbol in _candidates(calls.function):
        try:
            return _Search(calls, symbol).batch_dim()
        except RowsMeet as e:
            reasons[symbol.name] = str(e)
    return Unbatched(reasons)


def _candidates(f: Function) -> list[Dim]:
    """Lists the symbols that are dims of inputs, those of foremost axes first."""
    places: dict[Dim, int] = {}
    for p in f.params:
        for axis, n in enumerate(_shape(p) or ()):
            if isinstance(n, Dim) and n.is_symbol:
                places[n] = min(axis, places.get(n, axis))
    return sorted(places, key=places.__getitem__)


def _shape(v: Value) -> Sequence[Size] | None:
    return v.type.shape if isinstance(v.type, TensorType) and not isinstance(v.type, ListType) else None


class _StatedCalls:
    """The equations of the nodes of a function, over tensors that connect them; they are stated once for all dims."""

    def __init__(self, f: Function) -> None:
        self.function = f
        self.tensors: dict[Value, Tensor] = {}
        self._equations: dict[Node, Sequence[Equation]] = {}

    def variables(self, v: Value) -> tuple[Var, ...]:
        """Makes a variable for each axis of a value."""
        return tuple(Var(f"i{k}", n) for k, n in enumerate(_shape(v) or ()))

    def equations(self, node: Node) -> Sequence[Equation]:
        if node not in self._equations:
            self._equations[node] = equations_of(node, *tensors_of(node, self.tensors)).equations
        return self._equations[node]


class _Search:
    """One dim, followed through the function. Raises RowsMeet where results may depend on more than their own rows."""

    def __init__(self, calls: _StatedCalls, symbol: Dim) -> None:
        self.symbol, self.calls = symbol, calls
        self.seen = set(calls.function.symbols())
        self.fixed = self.seen - {symbol}
        self.dim = RowDim(symbol, self.fixed)
        self.states: dict[Value, RowState] = {}
        self.of_tensors: dict[Tensor, RowState] = {}

    def batch_dim(self) -> BatchDim:
        f = self.calls.function
        inputs = tuple(RowAxis(p.name, self._param(p)) for p in f.params)
        for check in f.checks:
            self._check(check)
        for node in f.nodes:
            self._node(node)
        outputs = tuple(RowAxis(name, self._result(v)) for name, v in zip(f.result_names, f.results, strict=True))
        if all(o.axis is None for o in outputs):
            raise RowsMeet("no output has it")
        return BatchDim(self.symbol.name, inputs, outputs, bounds(self.symbol)[1])

    def _param(self, p: Value) -> int | None:
        shape = _shape(p)
        if shape is None or p.type.dtype is CHAR:
            raise RowsMeet(f"the input {p.name} is {p.type}, of which no rows are known")
        if not any(map(self.dim.varies, shape)):
            self.states[p] = FIXED
            self.fixed |= _symbols_of(p)
            self.seen |= _symbols_of(p)
            return None
        rows = self.dim.rows(shape)
        if rows is None or rows.stride != 1:
            raise RowsMeet(f"the input {p.name} is {p.type}, where it is not one axis")
        self.states[p] = rows
        return rows.axis

    def _result(self, v: Value) -> int | None:
        state = self._state(v)
        if isinstance(state, Joint | Computed):
            raise RowsMeet(state.reason)
        return state.axis if isinstance(state, Rows) else None

    def _state(self, v: Value) -> RowState:
        if v not in self.states:  # a constant
            self.states[v] = Fixed(self._only_size(v))
        return self.states[v]

    def _check(self, check: Check) -> None:
        if not holds_of_fewer(check.cond, self.symbol):
            raise RowsMeet(f"a check may hold of the joined call alone: {check}")

    def _node(self, node: Node) -> None:
        for check in node.checks:
            self._check(check)
        operands = [v for v in node.inputs if v is not None]
        self._add_sizes(node, all(isinstance(self._state(v), Fixed) for v in operands))
        for v, state in zip(node.outputs, self._outputs(node, operands), strict=True):
            self.states[v] = self._by_contents(v, state)

    def _add_sizes(self, node: Node, is_fixed: bool) -> None:
        """Adds the sizes and elements that first stand here: those computed of what is the same for all requests are so, too."""
        for v in node.outputs:
            mentioned = _symbols_of(v)
            if is_fixed:
                self.fixed.update(mentioned - self.seen)
            self.seen |= mentioned

    def _by_contents(self, v: Value, state: RowState) -> RowState:
        """The state of a value, better known where its elements are sizes."""
        known, only = v.contents, self._only_size(v)
        if known is not None and not any(map(self.dim.varies, known)):
            return Fixed(only)
        return Computed(only, state.reason) if only is not None and isinstance(state, Joint | Computed) else state

    def _only_size(self, v: Value) -> IndexElements | None:
        """The element of a value that has one, where it is a size."""
        known = v.contents
        if known is None or len(known) != 1 or not v.type.dtype.is_integer or not isinstance(known[0], int | Dim):
            return None
        return IndexElements(self.calls.variables(v), cast(known[0], v.type.dtype))

    def _outputs(self, node: Node, operands: Sequence[Value]) -> list[RowState]:
        if node.op.view:
            grouped = node.grouped_inputs()
            pairs = [(grouped[node.op.view[o.name]], v) for o, v in zip(node.op.outputs, node.outputs, strict=True)]
            return [self._view(source, v, node) for source, v in pairs if isinstance(source, Value)]
        if node.op.kernel is None or node.is_open or node.sequence is not None or node.regions:
            return self._without_equations(node, operands)
        equations, tensors = self.calls.equations(node), self.calls.tensors
        self.of_tensors.update({tensors[v]: self._state(v) for v in operands if v in tensors})
        follow(equations, self.of_tensors, self.dim, _place(node))
        return [self.of_tensors[tensors[v]] for v in node.outputs]

    def _view(self, source: Value, view: Value, node: Node) -> RowState:
        """The state of the same elements under another shape: an axis whose positions, and those of the axes after it, are as many for each
        row, behind as many."""
        state, before, after = self._state(source), _shape(source), _shape(view)
        if before is None or after is None or isinstance(state, Joint):
            return state if isinstance(state, Joint) else Joint(f"{_place(node)}: its rank is not known")
        if isinstance(state, Computed):
            return Computed(self._viewed(state.elements, before, view), state.reason)
        if isinstance(state, Fixed) and not any(map(self.dim.varies, after)):
            return Fixed(None if state.elements is None else self._viewed(state.elements, before, view))
        rows = self.dim.rows(after)
        if isinstance(state, Rows) and rows is not None:
            ahead = _product(before[: state.axis]) == _product(after[: rows.axis])
            inner = _product(before[state.axis + 1 :]) * state.stride, _product(after[rows.axis + 1 :]) * rows.stride
            if ahead and inner[0] == inner[1]:
                return rows
        return Joint(f"{_place(node)}: {source.type} becomes {view.type}, where rows are no axis")

    def _viewed(self, elements: IndexElements, shape: Sequence[Size], view: Value) -> IndexElements:
        after = _shape(view) or ()
        own = self.calls.variables(view)
        if [n for n in shape if n != 1] == [n for n in after if n != 1]:  # axes of size 1 come or go
            left = iter([v for v in own if v.extent != 1])
            return IndexElements(own, elements.at([const(0, I64) if n == 1 else next(left) for n in shape]))
        return IndexElements(own, elements.at(unravel(ravel(own, after), shape)))

    def _without_equations(self, node: Node, operands: Sequence[Value]) -> list[RowState]:
        """The states of results of control flow, of calls and of lists: nothing is known of those that read rows."""
        joint = next((s for v in operands if isinstance(s := self._state(v), Joint)), None)
        inner = [v.type for r in node.regions for n in r.all_nodes() for v in n.outputs]
        types = [*inner, *(v.type for v in node.outputs)]
        mentioned = any(self.dim.varies(n) for t in types if isinstance(t, TensorType) for n in t.shape or ())
        if all(isinstance(self._state(v), Fixed) for v in operands) and not mentioned:
            return [FIXED] * len(node.outputs)
        reason = joint.reason if joint is not None else f"{_place(node)}: what it does with rows is not known"
        return [Joint(reason)] * len(node.outputs)


def _place(node: Node) -> str:
    return f"{node.op.full_name} ({node.source})" if node.source else node.op.full_name


def _symbols_of(v: Value) -> set[Dim]:
    """The sizes in the type and in the known elements of a value."""
    of_type = v.type.symbols() if isinstance(v.type, TensorType) else set()
    return of_type.union(*(free_symbols(e) for e in v.contents or ()))


def _product(sizes: Sequence[Size]) -> Size:
    product: Size = 1
    for n in sizes:
        product = product * n
    return product
