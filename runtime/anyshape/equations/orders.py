"""Orders of which only the first positions are read: what says how many is the extent of the index that reads them.

In: the equations of one call. Out: the same, where an order that no caller sees has no more positions than are read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from anyshape.dims import Size
from anyshape.equations.builder import Equation, Sorting
from anyshape.equations.expr import Read, Tensor, Var
from anyshape.equations.traversal import reading, walk


def first_of_orders(equations: Sequence[Equation], results: Collection[Tensor]) -> list[Equation]:
    """The equations with orders cut to the positions that are read."""
    shortened = {
        q.target: new for q in equations if q.target not in results and (new := _shortened(q, equations)) is not None
    }
    if not shortened or any(q.form is not None and not isinstance(q.form, Sorting) for q in equations):
        return list(equations)
    tensors = {t: new.target for t, new in shortened.items()}
    return [
        shortened.get(q.target)
        or replace(q, index=tuple(reading(i, tensors) for i in q.index), value=reading(q.value, tensors))
        for q in equations
    ]


def _shortened(q: Equation, equations: Sequence[Equation]) -> Equation | None:
    """The equation of an order with as many positions as all that read it count; None where they count all, or otherwise."""
    if not isinstance(q.form, Sorting):
        return None
    axis = next(k for k, i in enumerate(q.index) if i is q.form.along)
    indices = [
        e.index[axis]
        for p in equations
        for x in p.expressions
        for e in walk(x)
        if isinstance(e, Read) and e.tensor is q.target
    ]
    counts = [i.extent for i in indices if isinstance(i, Var)]
    if (
        not counts
        or len(counts) < len(indices)
        or any(n != counts[0] for n in counts)
        or counts[0] == q.form.along.extent
    ):
        return None
    along = Var(q.form.along.name, counts[0])
    shape: tuple[Size, ...] = (*q.target.shape[:axis], counts[0], *q.target.shape[axis + 1 :])
    index = (*q.index[:axis], along, *q.index[axis + 1 :])
    return replace(
        q, target=Tensor(q.target.name, q.target.dtype, shape), index=index, form=replace(q.form, along=along)
    )
