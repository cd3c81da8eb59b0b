"""What kind of computation a node is, read off its equations and never off its name.

map: no reduction. row: a reduction. contraction: what `contractions.py` matches.
move: a map whose value is one read, so that its index map can be folded into its consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from enum import Enum

from anyshape.equations.builder import Equation
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor, Var
from anyshape.equations.traversal import substitute, walk
from anyshape.kernel_model.contractions import EXPRESSIONS, contraction_of
from anyshape.kernel_model.costs import cost_of


class Kind(Enum):
    MOVE = "move"
    MAP = "map"
    ROW = "row"
    CONTRACTION = "contraction"


def classify(equations: Iterable[Equation]) -> Kind:
    kinds = {_kind_of(q) for q in equations}
    for kind in (Kind.CONTRACTION, Kind.ROW, Kind.MAP):
        if kind in kinds:
            return kind
    return Kind.MOVE


def _kind_of(q: Equation) -> Kind:
    reductions = [e for e in walk(q.value) if isinstance(e, Reduce)]
    if any(contraction_of(EXPRESSIONS, e) for e in reductions):
        return Kind.CONTRACTION
    if reductions:
        return Kind.ROW
    value = q.value
    plain = (
        isinstance(value, Read)
        and value.outside is None
        and not any(isinstance(e, Read) for i in value.index for e in walk(i))
    )
    return Kind.MOVE if plain else Kind.MAP


def is_cheap(equations: Iterable[Equation]) -> bool:
    """Whether computing an element again costs no more than loading it: at most two reads, no operation that takes longer."""
    for q in equations:
        nodes = list(walk(q.value))
        if sum(isinstance(e, Read) for e in nodes) > 2 or any(
            isinstance(e, Apply) and not cost_of(e.op).is_cheap for e in nodes
        ):
            return False
    return True


def looks_up(equations: Iterable[Equation]) -> bool:
    """Whether an element is found by an index that is data: such reads are no vectors."""
    reads = (e for q in equations for e in walk(q.value) if isinstance(e, Read))
    return any(isinstance(inner, Read) for e in reads for i in e.index for inner in walk(i))


def permutation(q: Equation, t: Tensor) -> tuple[int, ...] | None:
    """The axis of a tensor that each axis of the result is, if the equation reads every axis once; None for any other."""
    read = q.value
    if not isinstance(read, Read) or read.tensor is not t or read.outside is not None or len(read.index) != len(q.index):
        return None
    if set(read.index) != set(q.index) or not all(isinstance(i, Var) for i in q.index):
        return None
    return tuple(read.index.index(i) for i in q.index)


def own_axes(equations: Iterable[Equation], tensors: Set[Tensor]) -> frozenset[int]:
    """The axes of a group's result that one factor of its only contraction has alone, a factor that reads nothing but such tensors."""
    products = [(q, p) for q in equations for e in walk(q.value) if (p := contraction_of(EXPRESSIONS, e)) is not None]
    if len(products) != 1:
        return frozenset()
    ((q, product),) = products
    for x, other in (product.factors, product.factors[::-1]):
        if all(e.tensor in tensors for e in walk(x) if isinstance(e, Read)):
            return frozenset(k for k, i in enumerate(q.index) if i in x.free - other.free)
    return frozenset()


def contiguous_axes(equations: Sequence[Equation]) -> frozenset[int]:
    """The axes of the result of a group's only reduction along which something that it reads is contiguous, as memory holds it ahead of the
    group's moves."""
    moves = {q.target: q for q in equations if _kind_of(q) is Kind.MOVE and all(isinstance(i, Var) for i in q.index)}
    rows = [q for q in equations if _kind_of(q) is Kind.ROW]
    if len(rows) != 1:
        return frozenset()
    last: set[Expr] = set()
    for read in (e for e in walk(rows[0].value) if isinstance(e, Read)):
        tensor, index = read.tensor, read.index
        while (move := moves.get(tensor)) is not None and isinstance(move.value, Read):
            given = {v: i for v, i in zip(move.index, index, strict=True) if isinstance(v, Var)}
            tensor, index = move.value.tensor, tuple(substitute(i, given) for i in move.value.index)
        last |= index[-1].free if index else frozenset()
    return frozenset(k for k, i in enumerate(rows[0].index) if i in last)


def puts_rows(q: Equation, t: Tensor) -> bool:
    """Whether the equation only puts the rows of a tensor elsewhere: it reads every axis once, the last one last."""
    read = q.value
    if not isinstance(read, Read) or read.tensor is not t or not read.index:
        return False
    each = set(read.index)
    return read.index[-1] is q.index[-1] and each == set(q.index) and len(each) == len(read.index)
