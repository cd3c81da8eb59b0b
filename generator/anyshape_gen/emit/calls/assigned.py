"""Collects the names that steps of a composition assign and collect: inputs and outputs of its regions."""

from __future__ import annotations

from collections.abc import Iterable

from anyshape_gen.model.body_nodes import Branch, For, Set, Step, While


def assigned(steps: tuple[Step, ...], known: Iterable[str]) -> list[str]:
    """Lists the names that the steps assign, and that are known after them; `known` are those known before."""
    names: dict[str, None] = {}
    for step in steps:
        before = {*known, *names}
        match step:
            case Set(targets=targets, op="="):
                names |= dict.fromkeys(t.tensor for t in targets)
            case For(body=body) | While(body=body):
                names |= dict.fromkeys(n for n in assigned(body, before) if n in before)
                names |= dict.fromkeys(collected(body))
            case Branch(then=then, other=other):
                sides = assigned(then, before), assigned(other, before)
                both = set(sides[0]) & set(sides[1])
                names |= dict.fromkeys(n for n in (*sides[0], *sides[1]) if n in before or n in both)
    return list(names)


def collected(steps: tuple[Step, ...]) -> list[str]:
    """Lists the names that a loop with this body collects."""
    return [step.targets[0].tensor for step in steps if isinstance(step, Set) and step.op == "+="]
