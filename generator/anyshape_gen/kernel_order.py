"""The order of equations: what is read is defined before, updates follow definitions, cycles are recurrences.

In: resolved equations in the order written. Out: the same in dependency order; members of a cycle stay together and
name the variable through which they read earlier positions of each other.
"""

from __future__ import annotations

from dataclasses import replace

from anyshape_gen.analysis_model import ResolvedEquation
from anyshape_gen.nodes import BinOp, Exact, Int, Name, TensorRead
from anyshape_gen.traverse import walk, walk_all


def in_order(equations: list[ResolvedEquation]) -> tuple[ResolvedEquation, ...]:
    """Dependency order; equations of a cycle in the order written."""
    reads = [{node.tensor for node in walk_all((e.value, *e.parts)) if isinstance(node, TensorRead)} for e in equations]
    needs: list[set[int]] = []
    for k, equation in enumerate(equations):
        found = {j for j, other in enumerate(equations) if other.target.tensor in reads[k] and j != k}
        if equation.op != "=":
            same = [j for j, other in enumerate(equations) if other.target.tensor == equation.target.tensor]
            found |= {j for j in same if equations[j].op == "=" or j < k}
        needs.append(found)
    reach = _closure(needs)
    order: list[int] = []
    left = list(range(len(equations)))
    while left:
        # The first equation all of whose needs are met, but for those that need it in turn.
        ready = next(k for k in left if all(j in order or k in reach[j] for j in reach[k] - {k}))
        cycle = [j for j in left if j == ready or (j in reach[ready] and ready in reach[j])]
        order += cycle
        left = [j for j in left if j not in cycle]
    return tuple(_recurrence(k, equations, reach, reads) for k in order)


def _closure(needs: list[set[int]]) -> list[set[int]]:
    reach = [set(found) for found in needs]
    for middle in range(len(needs)):
        for k in range(len(needs)):
            if middle in reach[k]:
                reach[k] |= reach[middle]
    return reach


def _recurrence(
    k: int, equations: list[ResolvedEquation], reach: list[set[int]], reads: list[set[str]]
) -> ResolvedEquation:
    equation = equations[k]
    cycle = {equations[j].target.tensor for j in reach[k] if k in reach[j]}
    if equation.target.tensor in reads[k]:
        cycle.add(equation.target.tensor)
    if not cycle:
        return equation
    for node in walk(equation.value):
        if isinstance(node, TensorRead) and node.tensor in cycle:
            for part in node.parts:
                match part:
                    case Exact(items=(BinOp(op="-" | "+", left=Name(id=name), right=Int()),)):
                        return replace(equation, recurrence=name)
    return replace(equation, recurrence=equation.vars[0].name) if equation.vars and len(cycle) > 0 else equation
