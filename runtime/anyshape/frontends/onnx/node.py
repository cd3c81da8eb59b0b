"""The protocol `OnnxNode`, by which generated mappings (`anyshape_ops.onnx`) read a node, and functions that they call; those of any
`SourceNode` are for mappings of ATen too.

The importer implements the protocol; mappings depend on nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NoReturn, Protocol, TypeVar, overload

import numpy as np

from anyshape.dtypes import DType, accum
from anyshape.errors import ModelError
from anyshape.frontends.onnx.attributes import Ints
from anyshape.frontends.onnx.dtypes import declared_dims
from anyshape.graph.value import Value, constant


class SourceNode(Protocol):
    """A node of any model whose mapping is generated."""

    @property
    def source(self) -> str:
        """The place of the node, for messages."""

    def refuse(self, reason: str) -> NoReturn:
        """Raises UnsupportedError naming the node."""


class OnnxNode(Protocol):
    """A node of an ONNX graph whose inputs have been imported."""

    @property
    def source(self) -> str:
        """The place of the node, for messages: its name, or op and number."""

    @property
    def output_count(self) -> int:
        """How many outputs the node names."""

    @property
    def input_count(self) -> int:
        """How many inputs the node names, those left out among them."""

    def input(self, k: int) -> Value | None:
        """The input at position k; None where it is left out."""

    def inputs(self, start: int = 0) -> Sequence[Value]:
        """All inputs from a position on."""

    def only(self, count: int) -> None:
        """Refuses the node if it gives an input behind so many."""

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as int, float, str, list, or an array for a tensor; an empty list of an attribute that is not required is taken for
        absent, as other runtimes do."""

    @overload
    def attr_dtype(self, name: str) -> DType | None: ...
    @overload
    def attr_dtype(self, name: str, default: DType) -> DType: ...
    def attr_dtype(self, name: str, default: DType | None = None) -> DType | None:
        """An attribute that names an element type by ONNX's number, or (in old opsets) its name."""

    def has_attr(self, name: str) -> bool:
        """Whether the node gives the attribute."""

    def named(self, name: str) -> Value:
        """A tensor of the graph around the node, for operators whose attributes name some."""

    def region(self, name: str, inputs: Sequence[Value]) -> Sequence[Value]:
        """The results of a graph attribute for these inputs, built where the call stands."""

    def refuse(self, reason: str) -> NoReturn:
        """Raises UnsupportedError naming the node."""


Mapping = Callable[[OnnxNode], Sequence[Value]]
"""What a node means: the values of its outputs, in order."""


T = TypeVar("T")


def needed(n: SourceNode, value: T | None, name: str) -> T:
    """A value that the op cannot do without."""
    if value is None:
        n.refuse(f"{name} is missing")
    return value


def length_of(n: SourceNode, v: Value | Sequence[Value] | None) -> int:
    """How many inputs these are, or how many items a vector input has, 0 where it is absent."""
    if v is None:
        return 0
    if not isinstance(v, Value):
        return len(v)
    shape = declared_dims(v.type)
    if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
        n.refuse(f"the length of {v.name or 'an input'}: {v.type} must be known")
    return shape[0]


def rank_of(n: SourceNode, v: Value | None) -> int:
    """The rank of an input, which must be known."""
    dims = None if v is None else declared_dims(v.type)
    if dims is None:
        n.refuse(f"the rank of {repr(v.name) if v is not None and v.name else 'an input'} must be known")
    return len(dims)


def dtype_of(n: SourceNode, v: Value | Sequence[Value] | None) -> DType:
    """The dtype of an input, or of the first of several."""
    if v is not None and not isinstance(v, Value):
        v = v[0] if v else None
    if v is None:
        n.refuse("an input is missing")
    return v.type.dtype


def scalar(value: Any) -> Value:
    """A tensor attribute of one element, or a Python number, as a constant of rank 0. Raises ModelError for more elements, or none."""
    a = np.asarray(value)
    if a.size != 1:
        raise ModelError(f"an attribute must be a tensor of one element, got one of shape {list(a.shape)}")
    return constant(a.astype(np.float32).reshape(()) if isinstance(value, float) else a.reshape(()))


def vector(value: Any) -> Value:
    """A list of numbers as a constant tensor of rank 1, i64 of integers and f32 of floats, as an attribute without items was declared;
    a tensor attribute in its own dtype. Raises TypeError without any."""
    if value is None:
        raise TypeError("expected a list of numbers")
    if isinstance(value, np.ndarray):
        return constant(value.reshape(-1))
    whole = isinstance(value, Ints) or (len(value) > 0 and all(isinstance(v, int) for v in value))
    return constant(np.asarray(value, np.int64 if whole else np.float32).reshape(-1))


def positions(n: OnnxNode, values: Sequence[str] | None, names: Sequence[str]) -> Value:
    """Returns the positions of strings among names, as a constant i64 tensor of rank 1."""
    unknown = [v for v in values or () if v not in names]
    if unknown:
        n.refuse(f"{unknown[0]!r}, which is not one of {', '.join(names)}")
    return constant(np.array([names.index(v) for v in values or ()], np.int64))


def strings(value: str | Sequence[str] | None) -> Value:
    """A string, or a list of strings, as a constant tensor of characters. Raises TypeError without any."""
    if value is None:
        raise TypeError("expected a list of strings")
    return constant(np.array(value, np.str_))


def fold(op: Callable[[Value, Value], Value], values: Sequence[Value]) -> Value:
    """A binary op over any number of operands, from the left."""
    return reduce(op, values)


def accumulate(make: Callable[[Sequence[Value]], Value], values: Sequence[Value]) -> Value:
    """Computes a term of several ops of narrow floats in their accumulation dtype, and rounds it once."""
    from anyshape import ops

    own = values[0].type.dtype if values else None
    if own is None or accum(own) is own:
        return make(values)
    wide = make([ops.cast(v, to=accum(own)) if v.type.dtype is own else v for v in values])
    return ops.cast(wide, to=own)


def groups(n: OnnxNode, start: int, count: int) -> Sequence[Sequence[Value]]:
    """Splits the inputs from a position on into a number of groups of one length, one group after the other."""
    rest = n.inputs(start)
    if len(rest) % count:
        n.refuse(f"{len(rest)} inputs that are not {count} groups of equal length")
    size = len(rest) // count
    return [rest[k * size : (k + 1) * size] for k in range(count)]


def interleaved(n: OnnxNode, start: int, count: int) -> Sequence[Sequence[Value | None]]:
    """Splits the inputs from a position on into interleaved groups: one input of each, then the next of each."""
    rest = [n.input(k) for k in range(start, n.input_count)]
    if not rest or len(rest) % count:
        n.refuse(f"{len(rest)} inputs from {start} on, which are not interleaved groups of {count}")
    return [rest[k::count] for k in range(count)]


def each(make: Callable[..., Sequence[Value]], *groups: Sequence[Value | None]) -> Sequence[Value]:
    """Computes a term for each member of some groups; all first results come before all second ones."""
    results_of_members = [make(*members) for members in zip(*groups, strict=True)]
    return [v for results in zip(*results_of_members, strict=True) for v in results]


def einsum(n: SourceNode, values: Sequence[Value | None], equation: str) -> Value:
    """Contracts tensors as the subscripts of an einsum say."""
    from anyshape.subscripts import einsum as contracted

    for v in values:
        rank_of(n, v)
    return contracted(equation, *(needed(n, v, "an operand") for v in values), source=n.source)


def choice(text: Any) -> Any:
    """Returns the text of an attribute that chooses among words; None for an empty one, for which the parameter's default stands."""
    return text or None


def aligned(n: OnnxNode, value: Value | None, to: Value | None, axis: int | None) -> Value:
    """Aligns an operand of an old opset for broadcasting: its first dim is at an axis of the other operand; without an axis, its last dim
    is at the last."""
    from anyshape import ops

    operand = needed(n, value, "an operand")
    if axis is None or operand.type.rank == 0 or (to is not None and operand.type.rank == to.type.rank is not None):
        return operand
    if operand.type.rank is None or (to is not None and to.type.rank is None):
        return _aligned_by_the_run(n, operand, needed(n, to, "an operand"), axis)
    behind = rank_of(n, to) - (axis % max(rank_of(n, to), 1)) - rank_of(n, operand)
    if behind < 0:
        n.refuse(
            f"axis {axis} of {to.type if to is not None else 'nothing'} has too few dims after it for {operand.type}"
        )
    axes = [rank_of(n, operand) + k for k in range(behind)]
    return ops.expand_dims(operand, axes=axes, source=n.source) if axes else operand


def _aligned_by_the_run(n: OnnxNode, value: Value, to: Value, axis: int) -> Value:
    """Aligns an operand of which a rank is known only at run time: its shape gets as many trailing ones as the ranks leave."""
    from anyshape import ops

    shape = ops.shape_of(value, source=n.source)
    ranks = [ops.shape_of(v, source=n.source) for v in (shape, ops.shape_of(to, source=n.source))]
    start = constant(np.array([axis])) if axis >= 0 else ops.add(ranks[1], constant(np.array([axis])), source=n.source)
    behind = ops.sub(ops.sub(ranks[1], start, source=n.source), ranks[0], source=n.source)
    ones = ops.full(constant(np.array(1)), behind, source=n.source)
    new_shape = ops.concat([shape, ones], axis=0, source=n.source)
    return ops.reshape(value, new_shape, allowzero=True, source=n.source)
