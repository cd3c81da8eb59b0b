"""Names that nothing else has: a base name, with a number appended where it is taken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count


def unused(base: str, taken: set[str], numbered: Callable[[int], str] | None = None) -> str:
    """The name, or the first of `numbered(2)`, `numbered(3)`, … (`name_2`, `name_3`) that is not among those taken, which it joins."""
    spell = numbered or (lambda k: f"{base}_{k}")
    name = base if base not in taken else next(n for n in map(spell, count(2)) if n not in taken)
    taken.add(name)
    return name
