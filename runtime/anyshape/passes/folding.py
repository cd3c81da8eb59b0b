"""Folding: a call on constants alone is made when the model is compiled.

In: a node with constant operands. Out: its results as constants, or None where the run has to make them. Small calls are read by the
interpreter of equations, for which nothing has to be compiled; it stops where that takes long, since a loop of a procedure takes it some
thousand times as long as machine code. What is left then is made by kernels, if whoever optimises has any (`Compute`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from anyshape import dims
from anyshape.dtypes import CHAR, F32
from anyshape.equations import Tensor
from anyshape.equations.array_sizes import iterations_of
from anyshape.equations.expr import Apply, Reduce
from anyshape.equations.interpret import Arithmetic, interpret
from anyshape.errors import AnyshapeError
from anyshape.graph.infer import build, equations_of, flat, tensors_of
from anyshape.graph.registry import operands_of_patterns
from anyshape.graph.value import Node, Value, constant
from anyshape.kernel_model.forms import KernelKind, classify
from anyshape.passes.simplify import static_shape
from anyshape.passes.wide_factors import MOST_BYTES

Array = NDArray[Any]

Compute = Callable[[Node], Sequence[Array] | None]
"""The results of a call on constants, by kernels; None where that cannot be, or where the call is refused."""

FOLD_ELEMENTS = 1 << 24
"""Constants are folded into others of at most this many elements, or of no more bytes than they have themselves, as weights that are laid
out otherwise; a larger one stays an op of the program. Floats of at most 8 bits, which products do not widen as they read them, become f32
of any number."""
FOLD_ITERATIONS = 1 << 25
"""The most elements, those summed over included, of the arrays of an equation that only the interpreter can compute."""
FOLD_OPERATIONS = 5000
"""The most operations on arrays of a call that only the interpreter can compute, some tenths of a second: a procedure makes one for each of
its steps, so that preparing an ensemble of trees has hundreds of thousands."""
QUICK_ITERATIONS = 1 << 14
QUICK_OPERATIONS = 300
"""The limits of interpreting a call that kernels can compute: elements of its arrays, operations on arrays. Some 5 ms."""


class _TakesLong(Exception):
    """Raised where the interpreter has done as much as it may."""


class _Counted(Arithmetic):
    """The arithmetic of the interpreter, until so many operations were made."""

    def __init__(self, left: int) -> None:
        self._left = left

    def apply(self, e: Apply, args: list[Array]) -> Array:
        self._count()
        return super().apply(e, args)

    def reduce(self, e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
        self._count()
        return super().reduce(e, body, keep, axes)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TakesLong


class FoldConstants:
    """The rewrite rule that folds calls on constants; `compute` evaluates those that are slow to interpret."""

    def __init__(self, compute: Compute | None = None) -> None:
        self._compute = compute

    def __call__(self, node: Node) -> Sequence[Value] | None:
        if (
            node.checks
            or node.bound is None
            or node.op.is_random
            or not all(v is None or v.is_constant for v in node.inputs)
        ):
            return None
        if not _is_small_enough(node):
            return None
        if node.op.view:
            source = node.grouped_inputs()[next(iter(node.op.view.values()))]
            assert isinstance(source, Value) and source.constant is not None
            return [constant(source.constant.reshape(static_shape(node.outputs[0])), computed=True)]
        arrays = None if node.op.kernel is None else self._computed(node)
        if arrays is None:
            return None
        folded = [constant(a, computed=True) for a in arrays]
        call = _known_call(node, sum(a.nbytes for a in arrays))
        for v in folded:
            v.folded = call
        return folded

    def _computed(self, node: Node) -> Sequence[Array] | None:
        ins, outs = tensors_of(node)
        equations = equations_of(node, ins, outs).equations
        if not {s for v in node.outputs for s in v.type.symbols()} <= {q.unbacked for q in equations}:
            return None
        data = node.data_inputs
        arrays = {
            t: v.constant for t, v in zip(flat(ins), data, strict=True) if v is not None and v.constant is not None
        }
        iterations = max(map(iterations_of, equations), default=0)
        compute = None if any(t.dtype is CHAR for t in (*flat(ins), *flat(outs))) else self._compute
        try:
            if compute is None:
                if iterations > FOLD_ITERATIONS:
                    return None
                return _results(interpret(equations, arrays, arithmetic=_Counted(FOLD_OPERATIONS)), outs)
            if iterations <= QUICK_ITERATIONS:
                return _results(interpret(equations, arrays, arithmetic=_Counted(QUICK_OPERATIONS)), outs)
        except AnyshapeError:
            return None  # an index out of range and the like: the error belongs to the run, where its source is named
        except _TakesLong:
            pass
        return None if compute is None else compute(node)


def _known_call(node: Node, size: int) -> Node | None:
    """The call that constants of so many bytes are known to be folded from: the node, where a rewrite may look for it, or it reads fewer
    bytes. Where it moves a large constant of which such a call is known, it is the node as it moves what that call computes, so that the
    elements of the constant are not kept for it."""
    if node.op.name in operands_of_patterns():
        return node
    data = [v for v in node.data_inputs if v is not None]
    call = data[0].folded if len(data) == len(node.outputs) == 1 and size > MOST_BYTES else None
    if call is not None and len(call.outputs) == 1 and _moves(node):
        return build(node.op, [call.outputs[0] if v is data[0] else v for v in node.inputs], node.attrs, node.source)
    return node if size > _bytes_of_operands(node) else None


def _moves(node: Node) -> bool:
    return classify(equations_of(node, *tensors_of(node)).equations) is KernelKind.MOVE


def _is_small_enough(node: Node) -> bool:
    counts = [dims.bounds(v.type.count())[1] for v in node.outputs]
    known = [n for n in counts if n is not None]
    if len(known) < len(counts):
        return False
    computed = sum(n * v.type.dtype.itemsize for n, v in zip(known, node.outputs, strict=True))
    widens = any(v is not None and v.type.dtype.is_narrow_float for v in node.data_inputs)
    return sum(known) <= FOLD_ELEMENTS or computed <= _bytes_of_operands(node) * (F32.itemsize if widens else 1)


def _bytes_of_operands(node: Node) -> int:
    return sum(v.constant.nbytes for v in node.data_inputs if v is not None and v.constant is not None)


def _results(arrays: Mapping[Tensor, Array], outs: Mapping[str, Any]) -> Sequence[Array]:
    return [arrays[t] for t in flat(outs)]
