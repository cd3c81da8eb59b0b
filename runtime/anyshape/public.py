"""The edge of the library: what a public function is given is held against its signature, and what comes out of it is ours.

In: a function with annotations. Out: the same function, which raises ArgumentError for arguments that its signature has no room for,
or that
are not of the kinds that it states (`str`, `Mapping[str, int]`, `Path | bytes`; what it calls `Any` it looks at itself). `edge` also
turns what
the system and libraries raise into an AnyshapeError: a RecursionError, an OSError, a ValueError. A TypeError from inside is a defect
of ours and stays what it is.
"""

from __future__ import annotations

import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from anyshape.errors import OUT_OF_MEMORY, AnyshapeError, ArgumentError, UnsupportedError, library_error

P = ParamSpec("P")
R = TypeVar("R")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with its arguments checked."""
    name = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        demand(function, name, args, kwargs)
        return function(*args, **kwargs)

    return checked


def called(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with an ArgumentError for arguments that its signature has no room for; a right call costs nothing more."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except AnyshapeError:
            raise  # DtypeError is a TypeError
        except TypeError:
            try:
                inspect.signature(function).bind(*args, **kwargs)
            except TypeError as unfit:
                raise ArgumentError(f"{function.__name__}: {unfit}; it takes {inspect.signature(function)}") from None
            raise

    return checked


def edge(function: Callable[P, R]) -> Callable[P, R]:
    """Checks arguments, and turns errors that are not AnyshapeErrors into ones that are."""
    return own_errors(public(function))


def own_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Turns errors that are not AnyshapeErrors into ones that are; arguments are not checked."""
    name = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except AnyshapeError:
            raise  # ArgumentError is a ValueError
        except RecursionError as e:
            text = f"{name}: an argument is nested too deeply, or its graph is too deep, for Python's stack"
            raise UnsupportedError(text) from e
        except ImportError as e:
            raise library_error(e) from e
        except OSError as e:
            what = f"{os.fsdecode(e.filename)}: " if isinstance(e.filename, str | bytes) else ""
            raise AnyshapeError(f"{name}: {what}{e.strerror or e}") from e
        except OUT_OF_MEMORY as e:
            raise AnyshapeError(f"{name}: there is not enough memory") from e
        except ValueError as e:
            raise AnyshapeError(f"{name}: {e}") from e

    return checked


def demand(function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises ArgumentError for arguments that do not fit the signature."""
    signature, hints = _signature(function)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as e:
        raise ArgumentError(f"{name}: {e}; it takes {signature}") from None
    for key, value in bound.items():
        kind, hint = signature.parameters[key].kind, hints.get(key, Any)
        several = kind is inspect.Parameter.VAR_POSITIONAL or kind is inspect.Parameter.VAR_KEYWORD
        values = value.values() if kind is inspect.Parameter.VAR_KEYWORD else value if several else (value,)
        for v in values:
            if not fits(v, hint):
                raise ArgumentError(f"{name}: {key} must be {spell(hint)}, got {short(v)}")


@cache
def _signature(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(function), hints_of(function)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function or of a class's fields; names that only a type checker imports are looked up in their modules."""
    return _hints_of(function)


@cache
def _hints_of(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as e:
        raise TypeError(f"{function.__qualname__} is public: {e.name} must be imported where it is") from e


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the kind that an annotation states, members included."""
    if hint is Any or isinstance(hint, TypeVar):
        return True
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or origin is types.UnionType:
        return any(fits(value, h) for h in inner)
    if hint is None or hint is type(None):
        return value is None
    if origin is typing.Literal:
        return any(isinstance(value, type(choice)) and value == choice for choice in inner)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    kind = origin or hint
    if not isinstance(kind, type):
        return True
    if kind is np.ndarray:
        return isinstance(value, np.ndarray)
    if getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False):
        return True
    if not isinstance(value, kind):
        return False
    return _members_fit(value, kind, inner)


def _members_fit(value: Any, kind: type, inner: tuple[Any, ...]) -> bool:
    if not inner or kind is type or issubclass(kind, os.PathLike):
        return True
    if issubclass(kind, Mapping):
        return all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if isinstance(value, str | bytes) and issubclass(kind, Iterable):
        return inner[0] in (str, Any) and isinstance(value, str)
    if kind is tuple and inner[-1] is not Ellipsis:
        return len(value) == len(inner) and all(map(fits, value, inner))
    if issubclass(kind, Sequence | set | frozenset | tuple):
        return all(fits(v, inner[0]) for v in value)
    return True


def spell(hint: Any) -> str:
    """An annotation for people."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return "None" if hint is type(None) else hint.__name__
    return str(hint).replace("typing.", "").replace("collections.abc.", "").replace("NoneType", "None")


def short(value: Any) -> str:
    """A value in a message."""
    try:
        text = repr(value)
    except Exception as e:
        text = f"an object whose text raises {type(e).__name__}"
    return f"{type(value).__name__} {text if len(text) < 60 else text[:57] + '...'}"
