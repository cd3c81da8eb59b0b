"""Whether equations keep to rows: what decides if contractions and what is between them can run by blocks of rows.

In: equations and tensors. Out: yes or no. A row is what the last axis runs over; every row of a result must be made from the same row of
its operand. Which op an equation came from does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Expr, Read, Reduce, Var
from anyshape.equations.traversal import walk
from anyshape.kernel_model.contractions import EXPRESSIONS, Contraction, contraction_of


def by_rows(equations: Sequence[Equation], operand: Tensor) -> bool:
    """Whether the equations read the operand, and what they made from it, in the row that they write."""
    axes = len(operand.shape) - 1
    derived = {operand}
    for q in equations:
        reads = [e for e in walk(q.value) if isinstance(e, Read) and e.tensor in derived]
        if reads:
            derived.add(q.target)
        for e in reads:
            if e.outside is not None or len(e.index) < axes or len(q.index) < axes:
                return False
            if any(i is not own for i, own in zip(e.index[:axes], q.index[:axes])):
                return False
    return axes > 0


def has_own_rows(products: Sequence[Sequence[Equation]]) -> bool:
    """Whether there is one contraction, one factor of which alone has the rows of the result, and the other alone its columns."""
    only = _only_contraction([q for equations in products for q in equations])
    if only is None or len(only[0].index) < 2:
        return False
    row, column = only[0].index[-2:]
    return any(row in a.free - b.free and column in b.free - a.free for a, b in _orders(only[1]))


def multiplies_rows(equations: Sequence[Equation], operand: Tensor) -> bool:
    """Whether there is one contraction, over the last axis of the operand, whose rows are the operand's and not the other factor's."""
    only = _only_contraction(equations)
    if only is None:
        return False
    q, product = only
    for a, b in _orders(product):
        reads = [r for r in walk(a) if isinstance(r, Read) and r.tensor is operand]
        if len(reads) == 1 and len(reads[0].index) > 1:
            *rows, last = reads[0].index
            own = all(isinstance(i, Var) and i in q.index for i in rows) and len(set(rows)) == len(rows)
            return own and product.summed == (last,) and rows[-1] not in b.free and operand not in _tensors(b)
    return False


def _only_contraction(equations: Sequence[Equation]) -> tuple[Equation, Contraction[Expr, Var]] | None:
    """The equation and the contraction that is its only reduction, and that of all the equations."""
    reductions = [(q, e) for q in equations for e in walk(q.value) if isinstance(e, Reduce)]
    if len(reductions) != 1:
        return None
    q, e = reductions[0]
    product = contraction_of(EXPRESSIONS, e)
    return None if product is None else (q, product)


def _orders(product: Contraction[Expr, Var]) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    a, b = product.factors
    return (a, b), (b, a)


def _tensors(e: Expr) -> set[Tensor]:
    return {r.tensor for r in walk(e) if isinstance(r, Read)}
