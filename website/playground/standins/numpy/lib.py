"""What is imported of `numpy.lib`."""

from __future__ import annotations

from typing import Any

from .arrays import _ARITHMETIC, OPERATORS


class NDArrayOperatorsMixin:
    """Operators that call ufuncs, which ask `__array_ufunc__`."""


for _name in _ARITHMETIC:
    setattr(NDArrayOperatorsMixin, f"__{_name}__", (lambda n: lambda self, other: OPERATORS[n](self, other))(_name))
    setattr(NDArrayOperatorsMixin, f"__r{_name}__", (lambda n: lambda self, other: OPERATORS[n](other, self))(_name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(NDArrayOperatorsMixin, f"__{_name}__", (lambda n: lambda self, other: OPERATORS[n](self, other))(_name))
for _name in ("neg", "abs", "invert", "pos"):
    setattr(NDArrayOperatorsMixin, f"__{_name}__", (lambda n: lambda self: OPERATORS[n](self))(_name))


class mixins:
    NDArrayOperatorsMixin = NDArrayOperatorsMixin


class stride_tricks:
    @staticmethod
    def as_strided(*_: Any, **__: Any) -> Any:
        raise AttributeError("the page has a stand-in for NumPy, which has no views")
