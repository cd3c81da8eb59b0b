"""What NumPy's functions make of Values: `np.exp(x)`, `np.maximum(x, 0)`, `np.sum(x, axis=0)`.

In: a function of NumPy and its arguments, as the protocols `__array_ufunc__` and `__array_function__` have them. Out: the call of the op
that specs give the same name or the same operator of Python, or of the method of that name. Anything else is an ArgumentError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from anyshape.errors import ArgumentError
from anyshape.graph.spelled import BINARY, COMPARISONS, UNARY, names

if TYPE_CHECKING:
    from anyshape.graph.value import Value


class _Asked(np.lib.mixins.NDArrayOperatorsMixin):
    """What NumPy's own mixin asks for: each operator returns its ufunc."""

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> np.ufunc:
        return ufunc


@cache
def _operators() -> dict[np.ufunc, str]:
    """The special methods of Python's operators, by the ufunc that arrays compute them with."""
    asked = _Asked()
    binary = ("divmod", *BINARY, *COMPARISONS)
    methods = {f"__{name}__": (asked,) for name in binary} | {f"__{name}__": () for name in UNARY}
    present = {name: operands for name, operands in methods.items() if hasattr(asked, name)}
    return {getattr(asked, name)(*operands): name for name, operands in present.items()}


def of_ufunc(ufunc: np.ufunc, how: str, operands: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The value of a ufunc of operands of which one is a Value. Raises ArgumentError for one that is no op, and for options. What adds to
    an array in place, `a += x`, makes a value of it."""
    in_place = set(options) == {"out"} and options["out"][0] is operands[0]
    if how != "__call__" or (options and not in_place):
        what = f"np.{ufunc.__name__}.{how}" if how != "__call__" else f"np.{ufunc.__name__} with {', '.join(options)}"
        raise ArgumentError(f"{what} takes arrays, and a value is computed when the program runs; ops take it as it is")
    if ufunc is np.not_equal:  # no operator of a Value: its `!=` asks whether two are one
        return ~of_ufunc(np.equal, how, operands, options)
    op = _op(ufunc.__name__)
    if op is not None:
        return op(*operands)
    operator = _operators().get(ufunc)
    if operator is None:
        raise _unknown(ufunc.__name__)
    return getattr(_first(operands), operator)(*operands[1:])


def _first(operands: Sequence[Any]) -> Value:
    """The first operand as a Value, a number of Python in the dtype of the other."""
    from anyshape.graph.call import as_value
    from anyshape.graph.value import Value

    number = isinstance(operands[0], int | float)
    dtypes = (v.type.dtype for v in operands if isinstance(v, Value))
    return as_value(operands[0], next(dtypes) if number else None)


def of_function(function: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The value of a function of NumPy's, as a method or property of its first argument has it. Raises ArgumentError where that is no
    Value, or has none of this name."""
    from anyshape.graph.value import Value

    name = function.__name__
    if not arguments or not isinstance(arguments[0], Value) or not (name in names() or hasattr(Value, name)):
        raise _unknown(name)
    own = getattr(arguments[0], name)
    return own(*arguments[1:], **options) if callable(own) else own


def _op(name: str) -> Any:
    return next((vars(api)[name] for api in _apis() if name in api.__all__), None)


def _apis() -> Iterator[Any]:
    from anyshape.graph.registry import packages

    return (import_module(f"{package.__name__}.api") for package in packages())


def _unknown(name: str) -> ArgumentError:
    near = get_close_matches(name, [*(op for api in _apis() for op in api.__all__)], 3)
    likely = f"; did you mean ops.{', ops.'.join(near)}?" if near else ""
    return ArgumentError(
        f"np.{name} takes arrays alone; what values have are methods and the functions of anyshape.ops{likely}"
    )


__all__ = ["of_function", "of_ufunc"]
