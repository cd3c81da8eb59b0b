"""A vector times a matrix is a product of one row.

In: stores. Out: stores whose results have a further variable, of extent 1, where that makes a contraction of what is none: a sum of
x[k] * b[k, n] with a constant b, which can be packed, or of bytes less zero points. Static shapes lose the row, since a dim of 1 is no
loop. What cannot be packed is read as fast by a sum.
"""

from __future__ import annotations

from collections.abc import Container

from anyshape.equations import Tensor
from anyshape.kernel_model.contractions import codes_of, unrounded
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Access, Dag, DagNode, Load, LoopVar, Operation, Reduction, affine
from anyshape.lower.ir.stores import Store, reductions_of
from anyshape.lower.ir.terms import NODES


def with_row(dag: Dag, stores: list[Store], constants: Container[Tensor]) -> list[Store]:
    """The stores of one component, over a row where they are a product of a vector and a matrix and what follows from its elements."""
    sums = reductions_of(stores)
    if len(sums) != 1 or any(s.domain != sums[0].domain or not s.access.is_plain for s in stores):
        return stores
    (reduction,) = sums
    factors = _factors(reduction)
    if factors is None:
        return stores
    k, x, matrix, columns = factors
    if matrix.access.tensor not in constants or any(s.access.address.coefficient(columns) != 1 for s in stores):
        return stores
    row = dag.variable(1)
    new = dag.load(_over(x.access, row, k))
    total = Rebuild(dag, {x: new}).node(reduction)
    rebuild = Rebuild(dag, {reduction: total})
    return [Store(_over(s.access, row, columns), rebuild.node(s.value), (row, *s.variables)) for s in stores]


def _factors(r: Reduction) -> tuple[LoopVar, Load, Load, LoopVar] | None:
    """The summed variable, the vector, the matrix and its columns."""
    match r:
        case Reduction("sum", (k,), Operation("mul", (first, second))):
            a, b = (_load(f, k) for f in (first, second))
            if a is not None and b is not None and all(f.access.is_plain and k in f.domain for f in (a, b)):
                for x, matrix in ((a, b), (b, a)):
                    own = [v for v, _ in matrix.access.address.terms if v not in x.domain]
                    if len(own) == 1 and x.domain <= matrix.domain:
                        return k, x, matrix, own[0]
    return None


def _load(factor: DagNode, k: LoopVar) -> Load | None:
    """The load that a factor is, as it is or as bytes less a zero point."""
    factor = unrounded(NODES, factor)
    if isinstance(factor, Load):
        return factor
    codes = codes_of(NODES, factor, (k,))
    return codes.stored if codes is not None and isinstance(codes.stored, Load) else None


def _over(a: Access, row: LoopVar, inner: LoopVar) -> Access:
    """The access of a tensor with that row, of `inner` elements."""
    step = a.address.coefficient(inner) * inner.extent
    return Access(a.tensor, affine([*a.address.terms, (row, step)], a.address.offset))
