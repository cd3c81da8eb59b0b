"""What the laws are parametrised over."""

from __future__ import annotations

from anyshape.testing import Example
from anyshape_ops.strategies import PROPERTIES
from tests.laws.calls import variants


def names() -> list[str]:
    return list(PROPERTIES)


def dyn_names() -> list[str]:
    """Ops with a static and a dyn variant."""
    return [n for n in PROPERTIES if len(variants(n)) == 2]


def examples() -> list[tuple[str, str, tuple[str, Example]]]:
    """(label, op, (op, example)) of every example of every spec."""
    return [(f"{n}-{k}", n, (n, e)) for n, p in PROPERTIES.items() for k, e in enumerate(p.examples)]
