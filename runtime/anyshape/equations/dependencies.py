"""What an equation needs before it can be computed: tensors it reads, symbols it mentions, equations that come first.

In: equations. Out: sets, and the order to compute them in. Fusion, the interpreter and the VM share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anyshape.dims import Cond, Dim, Size, free_symbols
from anyshape.equations.builder import Compaction, Equation, RecurrenceStep, Run, Sorting, Update
from anyshape.equations.expr import Read, Reduce, Scalar, Tensor, Var
from anyshape.equations.traversal import walk
from anyshape.errors import ShapeError


def reads(q: Equation) -> set[Tensor]:
    """The tensors an equation reads."""
    tensors = {e.tensor for part in q.expressions for e in walk(part) if isinstance(e, Read)}
    return tensors - q.form.program.own if isinstance(q.form, Run) else tensors


def symbols(q: Equation) -> set[Dim]:
    """The symbols in the extents and values of an equation."""
    sizes: list[Size | Cond] = list(q.target.shape)
    sizes += [v.extent for v in q.over]
    for part in q.expressions:
        for e in walk(part):
            if isinstance(e, Scalar):
                sizes.append(e.size)
            elif isinstance(e, Var):
                sizes.append(e.extent)
            elif isinstance(e, Reduce):
                sizes += [v.extent for v in e.vars]
            elif isinstance(e, Read):
                sizes += e.tensor.shape
    mentioned = {s for n in sizes for s in free_symbols(n)}
    if isinstance(q.form, Run):
        mentioned |= {s for t in q.form.program.own for n in t.shape for s in free_symbols(n)}
        mentioned -= q.form.program.symbols
    return mentioned


def units(equations: Sequence[Equation]) -> list[list[Equation]]:
    """The equations in an order of evaluation, as lists: the equations of one recurrence or one program, or one equation."""
    left, done = _units(equations), list[list[Equation]]()
    place = {q: k for k, q in enumerate(equations)}
    while left:
        ready = [
            u
            for u in left
            if not any(_needs(q, o, place[o] < place[q]) for v in left if v is not u for q in u for o in v)
        ]
        if not ready:
            raise ShapeError("the equations form a cycle: " + "; ".join(str(q) for u in left for q in u))
        done += ready
        left = [u for u in left if u not in ready]
    return done


def _units(equations: Sequence[Equation]) -> list[list[Equation]]:
    by_unit: dict[object, list[Equation]] = {}
    for q in equations:
        by_unit.setdefault(together(q), []).append(q)
    return list(by_unit.values())


def together(q: Equation) -> object:
    """A key that is equal for equations that are computed together."""
    if isinstance(q.form, RecurrenceStep):
        return q.form.cycle
    return q.form.program if isinstance(q.form, Run) else q


def _needs(q: Equation, other: Equation, earlier: bool) -> bool:
    """Whether `other` must come before q. `earlier`: it was stated earlier."""
    if other.target is q.target:
        if isinstance(q.form, (Compaction, Sorting, RecurrenceStep)):
            return other.form is None
        return isinstance(q.form, Update) and (earlier or not isinstance(other.form, Update))
    return other.target in reads(q) or (other.unbacked is not None and other.unbacked in symbols(q))


def needed(equations: Iterable[Equation], targets: Iterable[Tensor], stop: Iterable[Tensor] = ()) -> list[Equation]:
    """The equations that define the target tensors or what they read, in their order; nothing below `stop`."""
    stated = list(equations)
    required = set(targets)
    border = set(stop) - required
    kept: set[Equation] = set()
    grown = True
    while grown:
        grown = False
        for q in stated:
            if q.target in required and q not in kept:
                kept.add(q)
                required |= reads(q) - border
                grown = True
    return [q for q in stated if q in kept]
