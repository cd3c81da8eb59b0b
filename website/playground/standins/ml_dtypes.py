"""Stands in for ml_dtypes, which there is no build of for browsers: the precision of the floats that there are without it."""

from __future__ import annotations

from typing import Any, NoReturn

from anyshape.errors import UnsupportedError

MANTISSA = {"float16": 10, "float32": 23, "float64": 52}


class finfo:
    """Facts about a float dtype."""

    def __init__(self, of: Any) -> None:
        self.nmant = MANTISSA[str(of)]


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnsupportedError(f"the page cannot compute with {name}: its interpreter of Python has no package ml_dtypes")
