"""Sizes of torch as dims: expressions of sympy over the symbols of a trace, and the ranges that torch has for these.

In: SymInts and expressions of torch's shape environment. Out: dims. Torch's symbols are the dims that people named, where they did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyshape.dims import Cond, Size, and_, eq, ge, gt, le, lt, maximum, minimum, mod, ne, not_, or_, symbol
from anyshape.errors import UnsupportedError

LARGEST = 1 << 62
"""The largest number that is a bound of a size; one beyond says nothing."""


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

    def condition(self, e: Any) -> bool | Cond:
        """A condition of sympy on sizes. Raises UnsupportedError for one that dims cannot say."""
        kind = type(e).__name__
        if kind in _COMPARISONS:
            return _COMPARISONS[kind](*(self._dim(a) for a in e.args))
        if kind in _CONNECTIVES:
            return _CONNECTIVES[kind](*(self.condition(a) for a in e.args))
        if kind in ("BooleanTrue", "BooleanFalse"):
            return bool(e)
        raise UnsupportedError(f"the condition {e} on sizes, under which torch traced the model")


_COMPARISONS: dict[str, Callable[..., bool | Cond]] = {
    "Equality": eq,
    "Unequality": ne,
    "StrictLessThan": lt,
    "LessThan": le,
    "StrictGreaterThan": gt,
    "GreaterThan": ge,
}
_CONNECTIVES: dict[str, Callable[..., bool | Cond]] = {"And": and_, "Or": or_, "Not": not_}
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


def is_number(size: Any) -> bool:
    """Whether a size of torch is a number, also one of which a guard made one."""
    return isinstance(size, int) or not size.node.expr.free_symbols


def guards(program: Any, symbols: Symbols) -> Iterator[tuple[bool | Cond, str]]:
    """The conditions on sizes of inputs under which torch traced a program, with words for each.

    Of the decisions of the model's own code, and of `torch.nn.functional`, all are conditions. Of those that operators of torch took, only
    that sizes are equal: there torch went a special way. That sizes differ, or that one is larger, it asks where it computes strides, which
    values have not, and whether a size is 1; ops decide by themselves what they need of a size."""
    sizes = [s for node in program.graph.nodes if node.op == "placeholder" for s in _sizes(node.meta.get("val"))]
    known = {symbol for s in sizes for symbol in s.node.expr.free_symbols}
    for guard in sizes[0].node.shape_env.guards if sizes else []:
        expr = guard.expr
        if not expr.free_symbols or not expr.free_symbols <= known or _is_of_strides(guard):
            continue
        yield symbols.condition(expr), f"torch traced the model for {expr}"


def _sizes(value: Any) -> list[Any]:
    """The sizes of a value that are not known."""
    import torch

    all_sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return [s for s in all_sizes if isinstance(s, torch.SymInt)]


def _is_of_strides(guard: Any) -> bool:
    """Whether an operator of torch asked if sizes differ, as it does for strides and for sizes of 1."""
    import torch

    kind, place = type(guard.expr).__name__, getattr(guard.sloc.framework_loc, "filename", "")
    library = Path(torch.__file__).parent
    if kind == "Equality" or not place.startswith(str(library)):
        return False
    return kind == "Unequality" or Path(place) != library / "nn/functional.py"


def ranges_of(constraints: Mapping[Any, Any]) -> dict[str, tuple[int | None, int | None]]:
    """The bounds of symbols in torch's table of ranges."""
    return {str(s): (_bound(r.lower), _bound(r.upper)) for s, r in constraints.items()}


def _bound(e: Any) -> int | None:
    try:
        number = int(e)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return number if abs(number) < LARGEST else None
