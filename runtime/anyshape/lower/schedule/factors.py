"""What the factors of a contraction are: in memory as they are, computed anywhere, contiguous, constants.

In: nodes and accesses. Out: accesses, steps and answers.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.dtypes import BF16, F16
from anyshape.kernel_model.contractions import (
    FACTOR_ROUNDINGS,
    Contraction,
    as_stored,
    contraction_of,
    rounded_to,
    unrounded,
)
from anyshape.lower.gemm import Pairs
from anyshape.lower.ir.dag import Access, DagNode, Load, LoopVar, Reduction, walk
from anyshape.lower.ir.terms import NODES
from anyshape.lower.llvm import types
from anyshape.precision import Narrow

_NARROW = {BF16: types.BF16, F16: types.F16}
"""Dtypes that factors are rounded to, as LLVM has them"""


def plain_access(factor: DagNode) -> Access | None:
    """The access of a factor that is a plain load. Products widen some dtypes as they read them."""
    stored = as_stored(NODES, factor)
    return stored.access if isinstance(stored, Load) and stored.access.is_plain else None


def contraction(r: Reduction, over_several: bool = False) -> Contraction[DagNode, LoopVar] | None:
    """The contraction that a sum is, over one variable or over several; `WindowProducts.product` examines the operands of the latter."""
    matched = contraction_of(NODES, r)
    return matched if matched is not None and (len(matched.summed) > 1) == over_several else None


def words_of(r: Reduction) -> Pairs | None:
    """The words that the product multiplies, where both factors of a contraction are rounded, and f32 in memory."""
    a, b = r.body.inputs
    dtype = rounded_to(NODES, a)
    if dtype is None or rounded_to(NODES, b) is not dtype:
        return None
    plain = (unrounded(NODES, x) for x in (a, b))
    return Pairs(_NARROW[dtype]) if all(as_stored(NODES, x) is x for x in plain) else None


def words_of_precision(precision: Narrow) -> Pairs | None:
    """The words that contractions multiply where a precision rounds factors that are f32 in memory; None if these are no words then."""
    rounding = FACTOR_ROUNDINGS[precision]
    return None if rounding.operation is None else Pairs(_NARROW[rounding.dtype])


def factors_of(r: Reduction) -> tuple[DagNode, DagNode]:
    """The factors of a contraction, without the rounding that comes with its words."""
    a, b = r.body.inputs
    return (a, b) if words_of(r) is None else (unrounded(NODES, a), unrounded(NODES, b))


def joined_step(x: Access, over: tuple[LoopVar, ...]) -> Size | None:
    """The step of one variable that counts the values of several in a plain access; None where they are not contiguous."""
    coefficients: list[Size] = [x.address.coefficient(v) for v in over]
    for v, outer, inner in zip(over[1:], coefficients, coefficients[1:]):
        if outer != inner * v.extent:
            return None
    return coefficients[-1]


def is_contiguous(n: DagNode, v: LoopVar) -> bool:
    return isinstance(n, Load) and n.access.address.coefficient(v) == 1


def is_free(b: DagNode) -> bool:
    """Whether a value can be computed anywhere: no sums in it, and no index that has to be checked."""
    return not any(isinstance(n, Reduction) or (isinstance(n, Load) and n.access.checks) for n in walk([b]))


def is_covered(b: Access, array: NDArray[Any]) -> bool:
    """Whether what is read of a constant is known: numbers as extents and steps, from a place on that is one too, all within it."""
    offset = b.address.offset
    if not isinstance(offset, int) or array.ndim == 0:
        return False
    least = most = offset
    for v, c in b.address.terms:
        if not isinstance(c, int) or not isinstance(v.extent, int):
            return False
        far = c * (v.extent - 1)
        least, most = least + min(far, 0), most + max(far, 0)
    return least >= 0 and most < array.size
