"""Equality of attributes as every op sees it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from anyshape.dtypes import literal_key


def alike(attrs: Mapping[str, Any]) -> Hashable:
    """A key that is equal for attributes that no op distinguishes."""
    return tuple((name, _hashable(attrs[name])) for name in sorted(attrs))


def _hashable(v: Any) -> Hashable:
    if isinstance(v, (tuple, list)):
        return tuple(map(_hashable, v))
    if isinstance(v, (bool, float)):
        return literal_key(v)
    key: Hashable = v
    return key
