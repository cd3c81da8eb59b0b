"""What a Value does in Python: operators and methods, as the specs say which op each is (`python:` and `operator:` of a spec).

In: a Value, the name of a method. Out: the function of the generated packages. Python has an operator's method on the class alone, so
that Value has all of them, and each looks here for what it means; an operator that no op says is an ArgumentError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyshape.errors import ArgumentError, DtypeError
from anyshape.public import called

if TYPE_CHECKING:
    from anyshape.graph.value import Value

BINARY = {
    "add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "lshift": "<<",
    "rshift": ">>", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
"""Operators of Python between two operands, which it looks for on either"""
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNARY = {
    "neg": "-",
    "pos": "+",
    "invert": "~",
    "abs": "abs()",
    "round": "round()",
}
NUMBERS = {
    "bool": "a truth",
    "int": "an integer",
    "index": "an integer",
    "float": "a number",
    "complex": "a number",
    "trunc": "an integer",
    "array": "an array",
}
"""What Python asks of an operand to compute at once, by the method that it calls"""


@cache
def method(name: str) -> Callable[..., Any] | None:
    """The method of Values of this name, of the first package that has one; None if none has."""
    from anyshape.graph.registry import packages

    for package in packages():
        spelled = import_module(f"{package.__name__}.values").Spelled
        if name in vars(spelled):
            own = vars(spelled)[name]
            function: Any = own.fget if isinstance(own, property) else getattr(spelled, name)
            checked: Callable[..., Any] = called(function)
            return checked
    return None


def stacked(values: Sequence[Any], along: int) -> Value:
    """Values of one shape as one, along a new axis. Raises ArgumentError if no op is said by `[*xs]`."""
    stack = method("_list")
    if stack is None:
        raise ArgumentError("no op makes one value of several; ops are functions of anyshape.ops")
    value: Value = stack(values, along=along)
    return value


@cache
def is_property(name: str) -> bool:
    """Whether the method is called by its name alone."""
    from anyshape.graph.registry import packages

    classes = (import_module(f"{package.__name__}.values").Spelled for package in packages())
    return isinstance(next((vars(c)[name] for c in classes if name in vars(c)), None), property)


def names() -> list[str]:
    """The names of all methods and properties."""
    from anyshape.graph.registry import packages

    return sorted(
        {n for p in packages() for n in vars(import_module(f"{p.__name__}.values").Spelled) if not n.startswith("_")}
    )


def chosen(text: str, x: Any, cases: Mapping[str, Sequence[str]]) -> str:
    """The op that a spelling means for a Value of this dtype. Raises DtypeError where it means none."""
    for op, dtypes in cases.items():
        if x.type.dtype.name in dtypes:
            return op
    known = "; ".join(f"{op} of {', '.join(dtypes)}" for op, dtypes in cases.items())
    raise DtypeError(f"{text}: it means {known}, and the value is {x.type}; use cast to change the dtype")


def listed(arguments: tuple[Any, ...]) -> Any:
    """What `x.f(2, 3)` and `x.f((2, 3))` give alike."""
    from anyshape.graph.value import Value

    one = arguments[0] if len(arguments) == 1 else None
    return one if isinstance(one, list | tuple) or (isinstance(one, Value) and one.type.rank != 0) else arguments


def operators() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The special methods of Values, by name."""
    for name, sign in (*BINARY.items(), *COMPARISONS.items(), *UNARY.items()):
        yield f"__{name}__", _operator(f"__{name}__", sign)
    for name, sign in BINARY.items():
        yield f"__r{name}__", _operator(f"__r{name}__", sign)
    for name, what in NUMBERS.items():
        yield f"__{name}__", _refused(what)


def _operator(name: str, sign: str) -> Callable[..., Any]:
    def operator(self: Value, *operands: Any) -> Any:
        function = method(name)
        if function is None:
            raise ArgumentError(f"no op is called {sign} of a value; ops are functions of anyshape.ops")
        return function(self, *(_beside(self, sign, v) for v in operands))

    return operator


def _beside(x: Value, sign: str, operand: Any) -> Any:
    """An operand of an operator: a number of Python is of the dtype of x, also where the op takes two (`2 ** x`). Raises DtypeError."""
    from anyshape.graph.call import as_value
    from anyshape.types import ListType

    if not isinstance(operand, int | float) or isinstance(x.type, ListType):
        return operand
    return as_value(operand, x.type.dtype, f"{sign} of {x!r} and {operand!r}: ")


def _refused(what: str) -> Callable[..., Any]:
    def number(self: Value, *_: Any, **__: Any) -> Any:
        raise ArgumentError(
            f"{self!r} is not {what} yet: it is computed when the program runs; "
            "control.if_ and control.loop decide there, and ops take it as it is"
        )

    return number
