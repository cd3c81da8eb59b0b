"""A vector times a matrix is a product of one row.

In: stores. Out: stores whose results have a further variable, of extent 1, where that makes a contraction of what is none: a sum of
x[k] * b[k, n] with a constant b, which can be packed. Static shapes lose the row, since a dim of 1 is no loop. What cannot be packed is
read as fast by a sum.
"""

from __future__ import annotations

from collections.abc import Container

from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Access, Dag, DagNode, LoopVar, Store, affine, walk


def with_row(dag: Dag, stores: list[Store], constants: Container[Tensor]) -> list[Store]:
    """The stores of one component, over a row where they are such a product and what is made of its elements."""
    sums = [n for n in walk([r for s in stores for r in s.roots]) if n.kind == "red"]
    if len(sums) != 1 or any(s.domain != sums[0].domain or not _is_plain(s.access) for s in stores):
        return stores
    (found,) = sums
    factors = _factors(found)
    if factors is None:
        return stores
    x, columns = factors
    (matrix,) = (a for a in found.args[0].args if a is not x)
    if matrix.data.tensor not in constants or any(s.access.address.coefficient(columns) != 1 for s in stores):
        return stores
    row = dag.variable(1)
    (k,) = found.data[1]
    new = dag.load(_over(x.data, row, k))
    total = dag.red("sum", (k,), dag.op("mul", found.dtype, new, matrix), found.dtype)
    rebuild = Rebuild(dag, {found: total})
    return [Store(_over(s.access, row, columns), rebuild.node(s.value), (row, *s.variables)) for s in stores]


def _factors(r: DagNode) -> tuple[DagNode, LoopVar] | None:
    """The vector, and the columns of the matrix."""
    body = r.args[0]
    if r.data[0] != "sum" or len(r.data[1]) != 1 or body.kind != "op" or body.data != "mul":
        return None
    (k,) = r.data[1]
    if any(a.kind != "load" or not _is_plain(a.data) or k not in a.domain for a in body.args):
        return None
    for x, b in (body.args, body.args[::-1]):
        own = [v for v, _ in b.data.address.terms if v not in x.domain]
        if len(own) == 1 and x.domain <= b.domain:
            return x, own[0]
    return None


def _is_plain(a: Access) -> bool:
    return not (a.bounds or a.checks or a.address.lets)


def _over(a: Access, row: LoopVar, inner: LoopVar) -> Access:
    """The access of a tensor with that row, of `inner` elements."""
    step = a.address.coefficient(inner) * inner.extent
    return Access(a.tensor, affine([*a.address.terms, (row, step)], a.address.offset))
