"""When attributes are the same to every op."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any


def alike(attrs: Mapping[str, Any]) -> Hashable:
    """Equal for attributes that no op tells apart. Equal to Python is not enough: 0.0 equals -0.0 there, and true equals 1."""
    return tuple((name, _told(attrs[name])) for name in sorted(attrs))


def _told(v: Any) -> Hashable:
    if isinstance(v, (tuple, list)):
        return tuple(map(_told, v))
    if isinstance(v, (bool, float)):
        return type(v), repr(v)
    found: Hashable = v
    return found
