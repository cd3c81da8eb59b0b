"""A function for one size of some dims, to which smaller operands are padded: masks where padding would be seen, results to be cut.

In: an optimised function and a size for each dim that is padded. Out: the function of operands of that size, with a mask (`fill_after`)
over the padded tail of what a call must not see (`kernel_model.padding` says what). Raises UnsupportedError, with the call, where padding
would be seen all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.dtypes import I64
from anyshape.equations.dependencies import needed
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.infer import build, equations_of, tensors_of
from anyshape.graph.matching import make
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Node, Value, constant
from anyshape.kernel_model.padding import Number, fills_of
from anyshape.types import ListType, TensorType


@dataclass(frozen=True)
class PaddedFunction:
    """`function` takes, behind the padded operands, the true size that each of `lengths` is of, as an `i64[]`."""

    function: Function
    lengths: tuple[Size, ...]


def padded(f: Function, sizes: Mapping[Dim, int]) -> PaddedFunction:
    """The function with operands of these sizes for some of its dims, right for operands that are at most as long and not empty."""
    return _PaddedCopy(f, sizes).run()


class _PaddedCopy:
    def __init__(self, f: Function, sizes: Mapping[Dim, int]) -> None:
        self._f, self._sizes, self._dims = f, sizes, frozenset(sizes)
        self._values: dict[Value, Value] = {}
        self._lengths: dict[Size, Value] = {}
        self._masks: dict[tuple[Value, int, str], Value] = {}
        self._sizes_of_padded: set[Value] = set()
        """Values whose elements are sizes of what is padded: right for shapes alone."""
        self._taken = {p.name for p in f.params}
        self._read = {*f.results, *(v for n in f.nodes for v in n.inputs if v is not None)}

    def run(self) -> PaddedFunction:
        f = self._f
        if checks := [c for c in f.checks if self._grows(c.cond)]:
            raise UnsupportedError(f"the inputs are checked: {checks[0]}")
        params = [self._param(p) for p in f.params]
        for node in f.nodes:
            try:
                self._node(node)
            except AnyshapeError as e:
                raise UnsupportedError(
                    f"{node.op.full_name}{f' (at {node.source})' if node.source else ''}: {e}"
                ) from None
        if any(v in self._sizes_of_padded for v in f.results):
            raise UnsupportedError("a result tells a size")
        results = [self._values.get(v, v) for v in f.results]
        function = Function([*params, *self._lengths.values()], results, f.name, f.result_names, checks=f.checks)
        return PaddedFunction(function, tuple(self._lengths))

    def _grows(self, n: Any) -> bool:
        return not isinstance(n, int) and not self._dims.isdisjoint(dims.free_symbols(n))

    def _is_padded(self, t: TensorType) -> bool:
        return not self._dims.isdisjoint(t.symbols())

    def _param(self, p: Value) -> Value:
        if not self._is_padded(p.type):
            return p
        if isinstance(p.type, ListType) or p.type.shape is None:
            raise UnsupportedError(f"{p.name} is {p.type}")
        self._values[p] = Value(p.type.substitute(self._sizes), p.name)
        return self._values[p]

    def _node(self, node: Node) -> None:
        if not any(v in self._values for v in node.inputs if v is not None):
            if any(self._is_padded(v.type) for v in node.outputs):
                _refuse("its result has a padded dim, and no operand has")
            return
        if (
            node.regions
            or node.op.structure is not None
            or node.is_open
            or node.op.is_random
            or node.sequence is not None
        ):
            _refuse("what it does with padded operands is unknown")
        if node.checks or any(self._grows(n) for a in node.attrs.values() for n in _dims_in(a)):
            _refuse("it is checked when it runs, or an attribute is a padded dim")
        if self._tells_sizes(node):
            self._take(node, [self._now(v) for v in node.inputs])
            self._sizes_of_padded.update(node.outputs)
            return
        shaping = [v for v, p in zip(node.param_operands, node.op.operands, strict=True) if p.name in node.op.shaping]
        if any(v in self._sizes_of_padded for v in node.inputs if v not in shaping):
            _refuse("it computes with a size")
        self._take(node, self._masked(node))

    def _now(self, v: Value | None) -> Value | None:
        return v if v is None else self._values.get(v, v)

    def _tells_sizes(self, node: Node) -> bool:
        """Whether the elements of the results are sizes that are known, some of them padded."""
        contents = [v.contents for v in node.outputs]
        return all(c is not None for c in contents) and any(
            self._grows(n) for c in contents for n in c or () if n is not None
        )

    def _take(self, node: Node, operands: Sequence[Value | None]) -> None:
        """Calls the op of a node on padded operands; its results must be those of the node but for the sizes."""
        call = build(node.op, operands, node.attrs, node.source, count=node.count)
        if call.checks:
            _refuse(f"padded operands are checked: {call.checks[0]}")
        for old, new in zip(node.outputs, call.outputs, strict=True):
            if old.type.substitute(self._sizes) != new.type:
                _refuse(f"{old.type} becomes {new.type}")
            known = old.contents
            if known is not None and self._sizes_of_padded.isdisjoint(node.outputs):
                becomes = tuple(n if isinstance(n, int) else dims.substitute(n, self._sizes) for n in known)
                if becomes != new.contents:
                    _refuse(f"{known} becomes {new.contents}")
            self._values[old] = new

    def _masked(self, node: Node) -> list[Value | None]:
        """The operands, with masks over padded tails that the call must not see."""
        if node.op.kernel is None:
            if node.op.view:
                self._keeps_axes(node)
                return [self._now(v) for v in node.inputs]
            _refuse("it has no equations")
        tensors: dict[Value, Any] = {}
        inputs, outputs = tensors_of(node, tensors)
        operands = {tensors[v]: v for v in node.inputs if v is not None and v in tensors}
        read = [tensors[v] for v in node.outputs if v in self._read]
        stated = needed(equations_of(node, inputs, outputs).equations, read)
        fills = fills_of(stated, operands, self._dims)
        now = {v: self._now(v) for v in node.inputs if v is not None}
        for (t, axis), value in fills.items():
            if self._grows(t.shape[axis]):
                v = now[operands[t]]
                assert v is not None
                now[operands[t]] = self._mask(v, axis, t.shape[axis], value)
        return [None if v is None else now[v] for v in node.inputs]

    def _mask(self, v: Value, axis: int, true: Size, value: Number) -> Value:
        key = (v, axis, repr(value))
        if key not in self._masks:
            fill = constant(np.asarray(value, v.type.dtype.numpy))
            self._masks[key] = make("fill_after", [v, self._length(true), fill], {"axis": axis}, "padding")
        return self._masks[key]

    def _length(self, true: Size) -> Value:
        if true not in self._lengths:
            name = unused(f"length of {true}", self._taken)
            self._lengths[true] = Value(TensorType(I64, ()), name)
        return self._lengths[true]

    def _keeps_axes(self, node: Node) -> None:
        """Refuses a view in which a padded axis is not an axis of its own on both sides."""
        v = node.grouped_inputs()[next(iter(node.op.view.values()))]
        assert isinstance(v, Value)
        a, b = v.type.shape or (), node.outputs[0].type.shape or ()
        if self._padded_axes(a) != self._padded_axes(b):
            _refuse(f"{v.type} as {node.outputs[0].type} has no axis for each padded dim")

    def _padded_axes(self, shape: Sequence[Size]) -> list[tuple[Size, Size, Size]]:
        """The padded axes of a shape, each with the elements before and behind it."""
        return [(_product(shape[:k]), n, _product(shape[k + 1 :])) for k, n in enumerate(shape) if self._grows(n)]


def _product(sizes: Sequence[Size]) -> Size:
    total: Size = 1
    for n in sizes:
        total = total * n
    return total


def _dims_in(attribute: Any) -> Iterable[Dim]:
    items = attribute if isinstance(attribute, list | tuple) else [attribute]
    return [n for n in items if isinstance(n, Dim)]


def _refuse(why: str) -> NoReturn:
    raise UnsupportedError(why)
