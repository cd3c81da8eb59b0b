"""Sizes of torch as dims: expressions of sympy over the symbols of a trace, and the ranges that torch has for these.

In: SymInts and expressions of torch's shape environment. Out: dims. Torch's symbols are the dims that people named, where they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyshape.dims import Size, maximum, minimum, mod, symbol
from anyshape.errors import UnsupportedError

LARGEST = 1 << 62
"""Bounds beyond this say nothing of a size."""


@dataclass
class Symbols:
    """The dims of torch's symbols: those that people named, and others, made as they come."""

    ranges: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """the least and the largest value of symbols"""
    dims: dict[str, Size] = field(default_factory=dict)

    def size(self, value: Any) -> Size:
        """The dim of an int, a SymInt or an expression. Raises UnsupportedError for an expression that dims cannot say."""
        if isinstance(value, int):
            return int(value)
        expr = value.node.expr if hasattr(value, "node") else value
        if not expr.free_symbols:
            return int(expr)
        return self._dim(expr)

    def _dim(self, e: Any) -> Size:
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            name = str(e)
            if name not in self.dims:
                low, high = self.ranges.get(name, (0, None))
                self.dims[name] = symbol(name, low, high)
            return self.dims[name]
        kind, arguments = type(e).__name__, e.args
        if kind == "Pow" and arguments[1].is_Integer and 0 <= int(arguments[1]) <= 8:
            arguments, kind = (arguments[0],) * int(arguments[1]), "Mul"
        operands = [self._dim(a) for a in arguments] if kind in _OPERATIONS else []
        if not operands:
            raise UnsupportedError(f"the size {e}: dims are made of +, *, //, %, min and max")
        first, *rest = operands
        for other in rest:
            first = _OPERATIONS[kind](first, other)
        return first


_OPERATIONS: dict[str, Any] = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": mod,
    "PythonMod": mod,
    "Max": maximum,
    "Min": minimum,
}


def ranges_of(constraints: Mapping[Any, Any]) -> dict[str, tuple[int | None, int | None]]:
    """The bounds of symbols in torch's table of ranges."""
    return {str(s): (_bound(r.lower), _bound(r.upper)) for s, r in constraints.items()}


def _bound(e: Any) -> int | None:
    try:
        number = int(e)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return number if abs(number) < LARGEST else None
