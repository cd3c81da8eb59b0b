"""Contractions that read one operand: what may stand beside another in one kernel, which is then shared out to threads once for all.

In: the equations of a group. Out: what its contraction reads, if it reads it as it lies in memory: who else reads it so, over as many
summed elements and for as many rows, may join: the queries, keys and values of attention, say. Which ops the equations came from does not
matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Const, Expr, Read, Reduce
from anyshape.equations.traversal import walk
from anyshape.kernel_model.contractions import EXPRESSIONS, as_stored, contraction_of

MOST_BESIDE = 4
"""Contractions in one kernel: code grows by each, and the results of all are held from then on."""


@dataclass(frozen=True, slots=True)
class LeftOperand:
    """A factor that has no columns of the result. `index`: for each of its axes the axis of the result, -1 for what is summed over, or the
    constant that stands there."""

    tensor: Tensor
    index: tuple[int | Expr, ...]
    rows: tuple[Size, ...]
    summed: Size


def left_operand(equations: Sequence[Equation]) -> LeftOperand | None:
    """The left operand of a group's only reduction, a contraction; None where the lowering might need memory between it and the rest: one
    thread would have to run all of the kernel then."""
    sums = [(q, e) for q in equations for e in walk(q.value) if isinstance(e, Reduce)]
    if len(sums) != 1 or any(q.form is not None or q.unbacked is not None for q in equations):
        return None
    (q, e), own = sums[0], {q.target for q in equations}
    product = contraction_of(EXPRESSIONS, e)
    if product is None or len(product.summed) != 1 or not _stay_in_place(equations, own):
        return None
    a, b = (as_stored(EXPRESSIONS, x) for x in product.factors)
    if not (_is_outside(a, own) and _is_outside(b, own)):
        return None
    if not q.index or q.index[-1] not in a.free ^ b.free:
        return None
    left = b if q.index[-1] in a.free else a
    roles: dict[Expr, int | Expr] = {**{i: k for k, i in enumerate(q.index)}, product.summed[0]: -1}
    if not isinstance(left, Read) or not all(i in roles or isinstance(i, Const) for i in left.index):
        return None
    index = tuple(roles.get(i, i) for i in left.index)
    return LeftOperand(left.tensor, index, q.target.shape[:-1], product.summed[0].extent)


def _is_outside(factor: Expr, own: set[Tensor]) -> bool:
    return isinstance(factor, Read) and factor.tensor not in own and not _reads(factor.index) and factor.outside is None


def _reads(parts: Iterable[Expr]) -> list[Read]:
    return [e for part in parts for e in walk(part) if isinstance(e, Read)]


def _stay_in_place(equations: Sequence[Equation], written: set[Tensor]) -> bool:
    """Whether what an equation of the group made is read at the place that the reader writes, or else only moved."""
    for q in equations:
        own = [e for e in _reads([q.value]) if e.tensor in written]
        if q.value not in own and any(e.index != q.index for e in own):
            return False
    return True
