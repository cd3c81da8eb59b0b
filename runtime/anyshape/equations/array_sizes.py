"""How many axes the interpreter's arrays have, and how many elements.

In: expressions and equations. Out: numbers that are known before anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from anyshape import dims
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Expr, Reduce, Var
from anyshape.equations.traversal import children


def depth_of(e: Expr) -> int:
    """How many reduction variables can be bound at once below e."""
    known: dict[int, int] = {}

    def depth(node: Expr) -> int:
        if node.serial not in known:
            below = max(map(depth, children(node)), default=0)
            known[node.serial] = below + (len(node.vars) if isinstance(node, Reduce) else 0)
        return known[node.serial]

    return depth(e)


def iterations_of(q: Equation) -> int:
    """The number of elements of the largest array that the interpreter makes for an equation, as far as bounds of sizes decide it."""
    known: dict[int, int] = {}

    def extents(variables: Iterable[Var]) -> int:
        return math.prod(most for v in variables if (most := dims.bounds(v.extent)[1]) is not None)

    def iterations(node: Expr) -> int:
        if node.serial not in known:
            below = max(map(iterations, children(node)), default=1)
            known[node.serial] = below * (extents(node.vars) if isinstance(node, Reduce) else 1)
        return known[node.serial]

    return extents((*q.variables, *q.over)) * max(map(iterations, q.expressions), default=1)
