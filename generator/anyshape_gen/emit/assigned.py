"""Which names the steps of a composition make, change and collect: what its regions take in and give back."""

from __future__ import annotations

from collections.abc import Iterable

from anyshape_gen.body_nodes import Branch, For, Set, Step, While


def assigned(steps: tuple[Step, ...], known: Iterable[str]) -> list[str]:
    """Names that are known behind the steps, and that the steps make or change; `known` were known before."""
    found: dict[str, None] = {}
    for step in steps:
        before = {*known, *found}
        match step:
            case Set(targets=targets, op="="):
                found |= dict.fromkeys(t.tensor for t in targets)
            case For(body=body) | While(body=body):
                found |= dict.fromkeys(n for n in assigned(body, before) if n in before)
                found |= dict.fromkeys(collected(body))
            case Branch(then=then, other=other):
                sides = assigned(then, before), assigned(other, before)
                both = set(sides[0]) & set(sides[1])
                found |= dict.fromkeys(n for n in (*sides[0], *sides[1]) if n in before or n in both)
    return list(found)


def collected(steps: tuple[Step, ...]) -> list[str]:
    """What a loop with this body collects."""
    return [step.targets[0].tensor for step in steps if isinstance(step, Set) and step.op == "+="]
