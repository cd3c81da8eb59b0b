"""Words numbers of things in messages."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str = "") -> str:
    """Returns `1 input`, `2 inputs`: the number, and the noun in the singular or plural."""
    return f"{n} {noun if n == 1 else plural or f'{noun}s'}"
