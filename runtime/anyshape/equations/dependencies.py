"""What an equation needs before it can be computed: tensors it reads, symbols it mentions, equations that come first.

In: equations. Out: sets, and the order to compute them in. Fusion, the interpreter and the VM share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anyshape.dims import Cond, Dim, Size, free_symbols
from anyshape.equations.builder import Equation, Update
from anyshape.equations.expr import Read, Reduce, Scalar, Tensor, Var, walk
from anyshape.errors import ShapeError


def reads(q: Equation) -> set[Tensor]:
    """The tensors an equation reads."""
    return {e.tensor for part in q.expressions for e in walk(part) if isinstance(e, Read)}


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
    return {s for n in sizes for s in free_symbols(n)}


def in_order(equations: Sequence[Equation]) -> list[Equation]:
    """Every equation after those it needs: what it reads, sizes that are found, and what was defined before it is updated."""
    left, done = list(equations), list[Equation]()
    while left:
        ready = [q for k, q in enumerate(left) if not any(_needs(q, other, j < k) for j, other in enumerate(left))]
        if not ready:
            raise ShapeError("the equations form a cycle: " + "; ".join(map(str, left)))
        done += ready
        left = [q for q in left if q not in ready]
    return done


def _needs(q: Equation, other: Equation, earlier: bool) -> bool:
    """Whether `other` must come before q. `earlier`: it was stated earlier."""
    if other is q:
        return False
    if other.target is q.target:
        return isinstance(q.form, Update) and (earlier or not isinstance(other.form, Update))
    return other.target in reads(q) or (other.born is not None and other.born in symbols(q))


def needed(equations: Iterable[Equation], wanted: Iterable[Tensor], stop: Iterable[Tensor] = ()) -> list[Equation]:
    """The equations that define the wanted tensors or what they read, in the order given; nothing below `stop`."""
    stated = list(equations)
    found = set(wanted)
    border = set(stop) - found
    kept: set[Equation] = set()
    grown = True
    while grown:
        grown = False
        for q in stated:
            if q.target in found and q not in kept:
                kept.add(q)
                found |= reads(q) - border
                grown = True
    return [q for q in stated if q in kept]


__all__ = ["in_order", "needed", "reads", "symbols"]
