"""Orders equations: definitions come before reads, updates follow definitions, cycles are recurrences.

In: resolved equations in the order written. Out: the same in dependency order; members of a cycle stay together, in the order in which
each position computes them, and have the variable by which they read other positions of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyshape_gen.model.analysis import ResolvedEquation
from anyshape_gen.model.nodes import Compare, Expr, Name, Star, Str, TensorRead, Unary
from anyshape_gen.model.source import Findings
from anyshape_gen.model.traverse import walk_all
from anyshape_gen.resolve.recurrences import Cycle


def in_order(
    equations: list[ResolvedEquation], findings: Findings, positive: Sequence[Expr] = ()
) -> tuple[ResolvedEquation, ...]:
    """Sorts equations in dependency order. `positive` are expressions that the spec asserts to be at least 1."""
    reach = _closure(_needs(equations))
    stepping = {k for k, e in enumerate(equations) if k in reach[k] or e.target.tensor in _tensors_read(e)}
    again = [replace(e, op="set") if _sets_again(e, equations, stepping) else e for e in equations]
    reach, equations = _closure(_needs(again)), again
    reads = [_tensors_read(e) for e in equations]
    order: list[ResolvedEquation] = []
    left = list(range(len(equations)))
    done: list[int] = []
    number = 0
    while left:
        # The first equation of which all dependencies are done, but for those that depend on it in turn.
        ready = next(k for k in left if all(j in done or k in reach[j] for j in reach[k] - {k}))
        cycle = [j for j in left if j == ready or (j in reach[ready] and ready in reach[j])]
        if len(cycle) == 1 and not (equations[ready].op == "=" and equations[ready].target.tensor in reads[ready]):
            order.append(equations[ready])
        else:
            order += _recurrence([equations[j] for j in cycle], positive, number, findings)
            number += 1
        done += cycle
        left = [j for j in left if j not in cycle]
    return tuple(order)


def _tensors_read(e: ResolvedEquation) -> set[str]:
    return {node.tensor for node in walk_all((e.right, *e.parts)) if isinstance(node, TensorRead)}


def _needs(equations: Sequence[ResolvedEquation]) -> list[set[int]]:
    """Lists, for each equation, those that come before it: definitions of what it reads; for an update also of what it changes, and the
    updates before it."""
    updates = [e.op != "=" or any(isinstance(n, TensorRead) for n in walk_all(e.parts)) for e in equations]
    needs: list[set[int]] = []
    for k, equation in enumerate(equations):
        reads = _tensors_read(equation)
        own = {
            j
            for j, other in enumerate(equations)
            if other.target.tensor in reads and j != k and not _exclusive(equation, other)
        }
        if updates[k]:
            same = [j for j, other in enumerate(equations) if other.target.tensor == equation.target.tensor]
            own |= {j for j in same if j != k and (not updates[j] or j < k)}
        needs.append(own)
    return needs


def _sets_again(e: ResolvedEquation, equations: Sequence[ResolvedEquation], stepping: set[int]) -> bool:
    """Whether an equation sets part of a tensor that another equation defines as a whole, and so is an update; where that other equation
    is of a recurrence (`stepping`), it is the recurrence's start, and no update."""
    if e.op != "=" or _is_whole(e):
        return False
    wholes = [k for k, o in enumerate(equations) if o.target.tensor == e.target.tensor and o.op == "=" and _is_whole(o)]
    return any(k not in stepping and not _exclusive(e, equations[k]) for k in wholes)


def _is_whole(e: ResolvedEquation) -> bool:
    """Whether the indices of the left side are variables only."""
    variables = {v.name for v in e.vars}
    bare = (i.value if isinstance(i, Star) else i for i in e.target.items or ())
    return e.target.element is None and all(isinstance(i, Name) and i.id in variables for i in bare)


def _recurrence(
    cycle: list[ResolvedEquation], positive: Sequence[Expr], number: int, findings: Findings
) -> list[ResolvedEquation]:
    update = next((e for e in cycle if e.op != "="), None)
    if update is not None:
        findings.add(
            update.target.span,
            f"an update of '{update.target.tensor}' cannot be part of a recurrence: define it by `=`",
        )
        return cycle
    resolved = Cycle(cycle, positive).resolve(number)
    if resolved is None:
        names = " and ".join(f"'{t}'" for t in dict.fromkeys(e.target.tensor for e in cycle))
        text = f"{names} would be read before being computed: a recurrence reads only strictly earlier positions of one variable, `s - 1`"
        findings.add(cycle[0].target.span, text)
        return cycle
    return resolved


def _exclusive(a: ResolvedEquation, b: ResolvedEquation) -> bool:
    """Whether no call computes both equations: one has a condition and the other its negation, or they are of two members of an
    enumeration."""
    return any(
        c == Unary("not", d) or d == Unary("not", c) or _of_two_members(c, d)
        for c in a.conditions
        for d in b.conditions
    )


def _of_two_members(c: Expr, d: Expr) -> bool:
    match c, d:
        case Compare(Name(one), (("==", Str(member)),)), Compare(Name(two), (("==", Str(other)),)):
            return one == two and member != other
    return False


def _closure(needs: list[set[int]]) -> list[set[int]]:
    reach = [set(direct) for direct in needs]
    for middle in range(len(needs)):
        for k in range(len(needs)):
            if middle in reach[k]:
                reach[k] |= reach[middle]
    return reach
