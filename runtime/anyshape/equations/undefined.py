"""What no equation defines is zero: equations for the elements of a tensor that its own leave out.

In: the equations of one call. Out: the same, and before the first of a tensor one for each part of it that they leave out. Parts are boxes,
an interval of positions on each axis. Where parts cannot be told, as of a diagonal, or where two equations may define one element, all of
the tensor is zero first, and its equations are updates, one after the other in the order stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cmp_to_key
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Tensor, Var, const
from anyshape.equations.traversal import replace_node, walk
from anyshape.rules import Elements

if TYPE_CHECKING:
    from anyshape.equations.builder import Equation, Equations


class Span(NamedTuple):
    """Positions along an axis: the first, how many (`size`), and how far apart."""

    first: Size
    size: Size
    step: int = 1

    @property
    def end(self) -> Size:
        return self.first + self.size


Box = tuple[Span, ...]


MOST_REMAINDERS = 16
"""The most remainders of positions that are told apart where indices go in steps, as in `y[2 * i]`."""


class Undecided(Exception):
    """Raised where it is not known which elements equations define, or two may define the same."""


def define_the_rest(eqs: Equations) -> None:
    """Adds the equations of what is left out. The results of procedures are zero at first anyway."""
    from anyshape.equations.builder import Demand, Run

    by_target: dict[Tensor, list[Equation]] = {t: [] for o in eqs.outputs.values() for t in _tensors(o)}
    for q in eqs.equations:
        by_target.setdefault(q.target, []).append(q)
    if any(isinstance(q.form, Run) for q in eqs.equations):
        return
    for t, stated in by_target.items():
        if not any(isinstance(q.form, Demand) or q.unbacked is not None for q in stated) and not _is_plain(stated):
            _define_the_rest_of(t, stated, eqs)


def _tensors(o: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return (o,) if isinstance(o, Tensor) else o


def _is_plain(stated: Sequence[Equation]) -> bool:
    """Whether the first of the equations defines the whole tensor, and others only change it, as far as a look at them says."""
    from anyshape.equations.builder import Update

    if not stated or any(not isinstance(q.form, Update) for q in stated[1:]):
        return False
    q = stated[0]
    if isinstance(q.form, Update):
        return True  # the builder has seen to it
    plain = all(isinstance(i, Var) and i.extent == n for i, n in zip(q.index, q.target.shape, strict=True))
    return q.form is None and plain and len(set(q.index)) == len(q.index)


def _define_the_rest_of(t: Tensor, stated: list[Equation], eqs: Equations) -> None:
    from anyshape.equations.builder import Compaction, Equation, RecurrenceStep, Sorting, Update

    defining = [q for q in stated if not isinstance(q.form, Update)]
    try:
        whole = _universe(t, defining, eqs)
        boxes = [_box(q) for q in defining if not isinstance(q.form, (Compaction, Sorting)) or _fills(q, eqs)]
        parts = list(_left_out(boxes, whole))
    except Undecided:
        parts = [tuple(Span(0, n) for n in t.shape)]
        again: dict[Equation, Equation] = {
            q: replace(q, form=Update("set"))
            for q in defining
            if q.form is None and not any(isinstance(s.form, RecurrenceStep) for s in stated)
        }
        eqs.equations = [again.get(q, q) for q in eqs.equations]
        stated = [again.get(q, q) for q in stated]
    zeros = []
    for part in parts:
        index = tuple(Var(f"z{k}", s.size) * s.step + s.first for k, s in enumerate(part))
        zeros.append(Equation(t, index, const(0, t.dtype), stated[0].source if stated else ""))
    at = _place(t, stated, eqs)
    eqs.equations[at:at] = zeros


def _place(t: Tensor, stated: Sequence[Equation], eqs: Equations) -> int:
    """Returns the position at which the equations of a tensor begin: ahead of all that is computed with its first one, or reads it."""
    from anyshape.equations.builder import RecurrenceStep

    for k, q in enumerate(eqs.equations):
        first = stated[0] if stated else None
        together = (
            first is not None
            and isinstance(first.form, RecurrenceStep)
            and isinstance(q.form, RecurrenceStep)
            and q.form.cycle == first.form.cycle
        )
        if (
            q is first
            or together
            or any(isinstance(e, Read) and e.tensor is t for part in q.expressions for e in walk(part))
        ):
            return k
    return len(eqs.equations)


# --- which elements an equation defines


def _box(q: Equation) -> Box:
    """The elements that an equation defines, each of them once. Raises Undecided."""
    used = [v for i in q.index for v in sorted(i.free, key=lambda v: v.serial)]
    if len(set(used)) != len(used):
        raise Undecided
    return tuple(map(_span, q.index))


def _span(i: Expr) -> Span:
    """The positions that an index takes: a place, or the variables of several dims that are one, from a place on. Raises Undecided."""
    first, terms = _affine(i)
    terms = {v: c for v, c in terms.items() if v.extent != 1}
    step = min((c for c in terms.values() if isinstance(c, int) and c > 0), default=1)
    width: Size = step
    while terms:
        v = next((v for v, c in terms.items() if dims.eq(c, width) is True), None)
        if v is None:
            raise Undecided
        width = width * v.extent
        del terms[v]
    return Span(first, dims.floordiv(width, step), step)


def _affine(i: Expr) -> tuple[Size, dict[Var, Size]]:
    """The offset of an index and the coefficients of its variables. Raises Undecided."""
    match i:
        case Var():
            return 0, {i: 1}
        case Const(value=value) if not isinstance(value, float):
            return int(value), {}
        case Scalar(size=size) if isinstance(size, int | Dim):
            return size, {}
        case Apply(op="add" | "sub" as op, args=(a, b)):
            (first, terms), (second, more) = _affine(a), _affine(b)
            sign = 1 if op == "add" else -1
            return first + sign * second, terms | {v: terms.get(v, 0) + sign * c for v, c in more.items()}
        case Apply(op="mul", args=(a, b)):
            (first, terms), (second, more) = _affine(a), _affine(b)
            if terms and more:
                raise Undecided
            factor, offset, terms = (second, first, terms) if terms else (first, second, more)
            return offset * factor, {v: c * factor for v, c in terms.items()}
    raise Undecided


def _fills(q: Equation, eqs: Equations) -> bool:
    """Whether what is put along an axis is known to be as many elements as it has."""
    from anyshape.equations.builder import Compaction, Sorting

    assert isinstance(q.form, (Compaction, Sorting))
    extent = q.target.shape[q.index.index(q.form.along)]
    if q.where is None:
        count: Size = 1
        for v in q.over:
            count = count * v.extent
        return dims.ge(count, extent) is True
    return any(_counts(s.value, q) for s in eqs.equations if s.unbacked is not None and s.unbacked is extent)


def _counts(value: Expr, q: Equation) -> bool:
    """Whether a size counts the elements that a compaction keeps."""
    if (
        not isinstance(value, Reduce)
        or value.kind != "sum"
        or value.where is not None
        or len(value.vars) != len(q.over)
    ):
        return False
    assert q.where is not None
    kept = replace_node(q.where, dict(zip(q.over, value.vars, strict=True)))
    same = all(dims.eq(v.extent, w.extent) is True for v, w in zip(q.over, value.vars, strict=True))
    return same and isinstance(value.body, Apply) and value.body.op == "select" and value.body.args[0] is kept


# --- what boxes leave out


def _universe(t: Tensor, defining: Sequence[Equation], eqs: Equations) -> Box:
    """All elements of a tensor; of a result for the elements of a list those for one of them. Raises Undecided."""
    whole = tuple(Span(0, n) for n in t.shape)
    lists = [x for x in eqs.inputs.values() if isinstance(x, Elements)]
    if not lists:
        return whole
    own = frozenset[Dim]().union(*(dims.free_symbols(x.index) | x.own for x in lists))
    own |= {s for x in lists for each in x.sums for s in dims.free_symbols(each.before)}
    boxes = [_box(q) for q in defining]
    spans = []
    for k, span in enumerate(whole):
        of_one = {b[k] for b in boxes if dims.free_symbols(b[k].first) & own}
        if len(of_one) > 1 or (of_one and any(b[k] not in of_one for b in boxes)):
            raise Undecided
        spans.append(of_one.pop() if of_one else span)
    return tuple(spans)


def _left_out(boxes: Sequence[Box], whole: Box) -> Iterator[Box]:
    """Yields boxes that are in none of the given ones. Raises Undecided, also where two of the given ones may overlap."""
    if not boxes:
        yield whole
        return
    if not whole:
        if len(boxes) > 1:
            raise Undecided
        return
    axis, *rest = whole
    if any(b[0].step != 1 for b in boxes):
        yield from _left_out_between(boxes, axis, tuple(rest))
        return
    if all(b[0] == boxes[0][0] for b in boxes[1:]):
        ends = [boxes[0][0].first, boxes[0][0].end]
    else:
        ends = sorted((end for b in boxes for end in (b[0].first, b[0].end)), key=_in_order)
    ends = [e for k, e in enumerate(ends) if k == 0 or dims.eq(e, ends[k - 1]) is not True]
    first, last = ends[0], ends[-1]
    if dims.le(first, axis.first) is not True:
        yield (_between(axis.first, first, axis), *rest)
    for a, b in pairwise(ends):
        here = [box for box in boxes if dims.le(box[0].first, a) is True and dims.ge(box[0].end, b) is True]
        for part in _left_out([box[1:] for box in here], tuple(rest)):
            yield (_between(a, b, axis), *part)
    if dims.ge(last, axis.end) is not True:
        yield (_between(last, axis.end, axis), *rest)


def _between(a: Size, b: Size, axis: Span) -> Span:
    """The positions from a to b, of those that the axis has."""
    first = a if a is axis.first else dims.minimum(a, axis.end)
    return Span(first, dims.maximum(0, dims.minimum(b, axis.end) - first))


def _left_out_between(boxes: Sequence[Box], axis: Span, rest: Box) -> Iterator[Box]:
    """Yields boxes that are in none of those, where the first axis is defined in steps: the positions of each remainder are an axis of
    their own. Raises Undecided."""
    step = max(b[0].step for b in boxes)
    if step > MOST_REMAINDERS or axis.first != 0 or any(b[0].step not in (1, step) for b in boxes):
        raise Undecided
    of: dict[int, list[Box]] = {r: [] for r in range(step)}
    for (first, count, own), *inner in boxes:
        if not isinstance(first, int) or first < 0 or (own == 1 and count != 1):
            raise Undecided
        of[first % step].append((Span(first // step, count), *inner))
    for r, mine in of.items():
        count = dims.maximum(0, dims.floordiv(axis.size - r + step - 1, step))
        for part in _left_out(mine, (Span(0, count), *rest)):
            yield (Span(part[0].first * step + r, part[0].size, step), *part[1:])


def _compare(a: Size, b: Size) -> int:
    """The order of two positions. Raises Undecided."""
    if a == b:
        return 0
    if dims.le(a, b) is True:
        return -1
    if dims.le(b, a) is True:
        return 1
    raise Undecided


_in_order = cmp_to_key(_compare)
