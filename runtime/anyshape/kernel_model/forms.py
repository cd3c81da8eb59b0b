"""What kind of computation a node is, read off its equations and never off its name.

map: no reduction. row: a reduction. contraction: what `contractions.py` matches.
move: a map whose value is one read, so that its index map can be folded into its consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from anyshape.equations.builder import Equation
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor, Var
from anyshape.equations.traversal import walk
from anyshape.kernel_model.contractions import (
    EXPRESSIONS,
    QuantisationConstants,
    as_stored,
    contraction_of,
    scaled_numbers,
)
from anyshape.kernel_model.costs import cost_of

NOTHING_KNOWN = QuantisationConstants(frozenset(), frozenset())


class KernelKind(Enum):
    MOVE = "move"
    MAP = "map"
    ROW = "row"
    CONTRACTION = "contraction"


def classify(equations: Iterable[Equation]) -> KernelKind:
    kinds = {_kind_of(q) for q in equations}
    for kind in (KernelKind.CONTRACTION, KernelKind.ROW, KernelKind.MAP):
        if kind in kinds:
            return kind
    return KernelKind.MOVE


def _kind_of(q: Equation) -> KernelKind:
    reductions = [e for e in walk(q.value) if isinstance(e, Reduce)]
    if any(contraction_of(EXPRESSIONS, e) for e in reductions):
        return KernelKind.CONTRACTION
    if reductions:
        return KernelKind.ROW
    return KernelKind.MOVE if _is_move(q.value) else KernelKind.MAP


def _is_move(value: Expr) -> bool:
    """Whether a value is one read, at a place that is no data."""
    if not isinstance(value, Read) or value.outside is not None:
        return False
    return not any(isinstance(e, Read) for i in value.index for e in walk(i))


def is_cheap(equations: Iterable[Equation]) -> bool:
    """Whether computing an element again costs no more than loading it: at most two reads, no operation that takes longer."""
    for q in equations:
        nodes = list(walk(q.value))
        if sum(isinstance(e, Read) for e in nodes) > 2 or any(
            isinstance(e, Apply) and not cost_of(e.op).is_cheap for e in nodes
        ):
            return False
    return True


def widens(equations: Iterable[Equation], known: QuantisationConstants = NOTHING_KNOWN) -> bool:
    """Whether the equations only move elements and widen them, as a matrix product does with what it reads, and multiply them by scales,
    which it does with its sums, or with its rows. `known`: constants that are scales, and zero points."""
    widened = moved = True
    for q in equations:
        numbers = _without_scale(q.value, known)
        stored = as_stored(EXPRESSIONS, numbers)
        widened = widened and (stored is not numbers or _is_move(numbers))
        moved = moved and stored is numbers
    return widened and not moved


def scales(equations: Iterable[Equation], known: QuantisationConstants) -> bool:
    """Whether the equations only move elements and multiply them by known scales, as a product does with what it widens."""
    numbers = [(_without_scale(q.value, known), q.value) for q in equations]
    return all(_is_move(n) for n, _ in numbers) and any(n is not value for n, value in numbers)


def _without_scale(value: Expr, known: QuantisationConstants) -> Expr:
    """What is multiplied by a scale that varies along one axis at most: along the sums or the columns, but not both."""
    scaled = scaled_numbers(EXPRESSIONS, value, known)
    if scaled is None:
        return value
    varying = [v for v in scaled.scale.free if v.extent != 1]
    return scaled.numbers if len(varying) <= 1 else value


def reads_as_columns(equations: Sequence[Equation], t: Tensor) -> bool:
    """Whether a tensor is read by contractions of one equation alone, as their columns, in which the result is contiguous, and of which the
    other factors have none."""
    readers = [(q, e) for q in equations for e in walk(q.value) if isinstance(e, Read) and e.tensor is t]
    if len(readers) != 1 or not readers[0][0].index:
        return False
    ((equation, read),) = readers
    column = equation.index[-1]
    sums = (contraction_of(EXPRESSIONS, e) for e in walk(equation.value) if isinstance(e, Reduce))
    products = [p for p in sums if p is not None and _has(read, p.term)]
    return bool(products) and all(
        isinstance(column, Var) and [column in x.free for x in p.factors] == [_has(read, x) for x in p.factors]
        for p in products
    )


def _has(part: Expr, whole: Expr) -> bool:
    return any(e is part for e in walk(whole))


def looks_up(equations: Iterable[Equation]) -> bool:
    """Whether an element is found by an index that is data: such reads are no vectors."""
    reads = (e for q in equations for e in walk(q.value) if isinstance(e, Read))
    return any(isinstance(inner, Read) for e in reads for i in e.index for inner in walk(i))


def sees_windows(equations: Iterable[Equation], t: Tensor) -> bool:
    """Whether a reduction reads a tensor at places that are a result's and a tap's together: windows that overlap read elements again."""
    for q in equations:
        for e in (e for e in walk(q.value) if isinstance(e, Reduce)):
            taps = {v for v in e.vars if v.extent != 1}
            reads = (r for r in walk(e.body) if isinstance(r, Read) and r.tensor is t)
            if any(i.free & taps and any(v.extent != 1 for v in i.free - taps) for r in reads for i in r.index):
                return True
    return False


def reads_by_data(equations: Iterable[Equation], t: Tensor) -> bool:
    """Whether an element of a tensor is picked by elements of another one: any number of times, in any order."""
    reads = (e for q in equations for e in walk(q.value) if isinstance(e, Read) and e.tensor is t)
    return any(isinstance(e, Read) for r in reads for i in r.index for e in walk(i))


def permutes(q: Equation, t: Tensor) -> bool:
    """Whether the equation only puts the axes of a tensor in an order: it reads every axis once."""
    read = q.value
    if (
        not isinstance(read, Read)
        or read.tensor is not t
        or not read.index
        or not all(isinstance(i, Var) for i in q.index)
    ):
        return False
    each = set(read.index)
    return each == set(q.index) and len(each) == len(read.index)


def keeps_axes(q: Equation, t: Tensor) -> bool:
    """Whether the equation moves elements along the axes of a tensor: each axis is read by the position on the same axis of the result."""
    read = q.value
    if not isinstance(read, Read) or read.tensor is not t or len(read.index) != len(q.index):
        return False
    return all(isinstance(own, Var) and at.free <= {own} for at, own in zip(read.index, q.index))


def puts_rows(q: Equation, t: Tensor) -> bool:
    """Whether the equation only puts the rows of a tensor elsewhere: it reads every axis once, the last one last."""
    return permutes(q, t) and isinstance(q.value, Read) and q.value.index[-1] is q.index[-1]


def reads_along(q: Equation, t: Tensor, axis: int, place: int) -> bool:
    """Whether an equation reads a tensor, always with the index of its own at `place` on an axis."""
    reads = [e for e in walk(q.value) if isinstance(e, Read) and e.tensor is t]
    return bool(reads) and all(e.index[axis] is q.index[place] for e in reads)
