"""Tensors of which a recurrence reads one position in each step: the products of a recurrent network with its inputs.

In: equations. Out: those tensors, with the axis of their positions. They need no memory for all positions: a block of these is computed, in
a product of enough rows, and then the steps that read it are taken. `read_by_steps` is the one test of how a tensor is read. Fusion asks
it through `block_products`, for what is worth computing so, and leaves nothing else with the recurrence; the lowering asks it of what was
left, for the axis: factors may be narrowed by then, so that they are no product of what lies in memory any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set

from anyshape.dtypes import F32, F64
from anyshape.equations import Apply, Const, Equation, Expr, Read, RecurrenceStep, Reduce, Tensor, Var
from anyshape.equations.dependencies import reads
from anyshape.equations.traversal import substitute, walk
from anyshape.kernel_model.contractions import EXPRESSIONS, contraction_of

_LINEAR = frozenset(("add", "sub", "mul", "neg"))


def read_by_steps(equations: Sequence[Equation]) -> dict[Tensor, int]:
    """The tensors of plain equations with reductions that nothing but one recurrence reads, at one position in each step, which is linear
    in that of the step and the same for all of them; each with the axis of positions."""
    plain = {q.target: q for q in equations if q.form is None and q.unbacked is None and _is_whole(q)}
    times = Counter(q.target for q in equations)
    steps = [q for q in equations if isinstance(q.form, RecurrenceStep)]
    written = {q.target for q in steps}
    positions: dict[Expr, None] = {}
    axes: dict[Tensor, int] = {}
    for t, q in plain.items():
        readers = [r for r in equations if t in reads(r)]
        if times[t] > 1 or t in written or not readers or not _sums(q) or not set(readers) <= {*steps}:
            continue
        if len({r.form.cycle for r in readers if isinstance(r.form, RecurrenceStep)}) > 1 or not _waits(readers, steps):
            continue
        at = {p for r in readers for p in _positions(r, t, plain, steps[0])}
        if len(at) == 1 and None not in at:
            axis, position = next(p for p in at if p is not None)
            positions.setdefault(position)
            if [*positions] == [position]:
                axes[t] = axis
    return axes


def block_products(equations: Sequence[Equation], constants: Collection[Tensor]) -> Set[Tensor]:
    """The tensors of `read_by_steps` that are products of what lies in memory with a constant that all positions share."""
    by_target = {q.target: q for q in equations}
    return {t for t, axis in read_by_steps(equations).items() if _is_product(by_target[t], axis, constants)}


def _is_product(q: Equation, axis: int, constants: Collection[Tensor]) -> bool:
    sums = [e for e in walk(q.value) if isinstance(e, Reduce)]
    contraction = contraction_of(EXPRESSIONS, sums[0]) if len(sums) == 1 else None
    if contraction is None or q.target.dtype not in (F32, F64):
        return False
    position = q.index[axis]
    of_weights = [x for x in contraction.factors if position not in x.free]
    own = [x for x in contraction.factors if position in x.free]
    return len(of_weights) == len(own) == 1 and all(
        isinstance(x, Read) and x.outside is None and (x.tensor in constants) is is_constant
        for x, is_constant in ((of_weights[0], True), (own[0], False))
    )


def _is_whole(q: Equation) -> bool:
    """Whether the index is distinct variables that cover the tensor."""
    return len({*q.index}) == len(q.index) and all(
        isinstance(i, Var) and i.extent == n for i, n in zip(q.index, q.target.shape, strict=True)
    )


def _sums(q: Equation) -> bool:
    return any(isinstance(e, Reduce) for e in walk(q.value))


def _waits(readers: Sequence[Equation], steps: Sequence[Equation]) -> bool:
    """Whether the recurrence sums what it computes itself: products of its own are among its steps."""
    cycles = {r.form.cycle for r in readers if isinstance(r.form, RecurrenceStep)}
    own = [q for q in steps if isinstance(q.form, RecurrenceStep) and q.form.cycle in cycles]
    written = {q.target for q in own}
    sums = (e for q in own for e in walk(q.value) if isinstance(e, Reduce))
    return any(isinstance(x, Read) and x.tensor in written for e in sums for x in walk(e))


def _positions(
    reader: Equation, t: Tensor, plain: Mapping[Tensor, Equation], of: Equation
) -> set[tuple[int, Expr] | None]:
    """The axis and the index of each read of a tensor that goes along with the position of the step, in terms of the variables of the
    equation `of`; None for a read of another kind."""
    assert isinstance(reader.form, RecurrenceStep)
    assert isinstance(of.form, RecurrenceStep)
    along = reader.form.along
    read: set[tuple[int, Expr] | None] = set()
    for e in (e for part in reader.expressions for e in walk(part) if isinstance(e, Read) and e.tensor is t):
        index = [_resolved(i, plain) for i in e.index]
        moving = [k for k, i in enumerate(index) if along in i.free]
        if e.outside is not None or len(moving) != 1 or not _is_linear(index[moving[0]]):
            read.add(None)
            continue
        renamed = {v: w for v, w in _alike(reader, of).items() if v in index[moving[0]].free}
        read.add((moving[0], substitute(index[moving[0]], renamed)))
    return read


def _alike(q: Equation, of: Equation) -> dict[Var, Expr]:
    """Variables of one equation as those of another at the same place of its index, where these have the extent; the position always."""
    assert isinstance(q.form, RecurrenceStep)
    assert isinstance(of.form, RecurrenceStep)
    pairs = zip(q.index, of.index, strict=False)
    same = {v: w for v, w in pairs if isinstance(v, Var) and isinstance(w, Var) and v.extent == w.extent}
    return {**same, q.form.along: of.form.along}


def _resolved(i: Expr, plain: Mapping[Tensor, Equation]) -> Expr:
    """An index with the value of a tensor in place of a read of it, where that is an equation without a sum."""
    if isinstance(i, Read) and i.outside is None and (q := plain.get(i.tensor)) is not None and not _sums(q):
        values = {v: j for v, j in zip(q.index, i.index, strict=True) if isinstance(v, Var)}
        return _resolved(substitute(q.value, values), plain)
    return i


def _is_linear(i: Expr) -> bool:
    """Whether an index is sums and products of variables, numbers and sizes, or one of two such for each value of a variable."""
    if isinstance(i, Apply) and i.op == "select":
        return _decides(i.args[0]) and all(map(_is_linear, i.args[1:]))
    return all(not isinstance(e, Read | Reduce) and (not isinstance(e, Apply) or e.op in _LINEAR) for e in walk(i))


def _decides(condition: Expr) -> bool:
    """Whether a condition is that a variable of two values is 1."""
    match condition:
        case Apply(op="eq", args=(Var() as v, Const(value=1))):
            return v.extent == 2
    return False
