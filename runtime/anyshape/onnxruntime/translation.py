"""What the edge of this interface raises: errors by onnxruntime's names, whatever they are called inside.

In: a method with annotations. Out: the same method, which raises a TypeError for arguments that its signature has no room for, and an error
of `capi.onnxruntime_pybind11_state` for everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from anyshape.errors import AnyshapeError, ArgumentError, DtypeError, ModelError, ShapeError, UnsupportedError
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import (
    STATUS,
    Fail,
    InvalidArgument,
    NotImplemented,
    NoValue,
    RuntimeException,
    WrongKind,
    error,
)
from anyshape.public import demand, own_errors

P = ParamSpec("P")
R = TypeVar("R")
OWN: tuple[type[AnyshapeError], ...] = (*STATUS, WrongKind, NoValue)
KINDS: tuple[tuple[type[AnyshapeError], type[AnyshapeError]], ...] = (
    (DtypeError, InvalidArgument), (ShapeError, Fail), (UnsupportedError, NotImplemented), (ModelError, InvalidArgument),
    (ArgumentError, InvalidArgument),
)  # fmt: skip
"""Errors of anyshape, and what they are called here; others are RuntimeExceptions"""


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a method of the interface."""
    name = function.__qualname__.removesuffix(".__init__").replace("._run_named", ".run")
    inner = own_errors(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            demand(function, name, args, kwargs)
        except ArgumentError as e:
            raise WrongKind(str(e)) from None
        try:
            return inner(*args, **kwargs)
        except OWN:
            raise
        except AnyshapeError as e:
            raise translated(e) from e

    return checked


def translated(e: AnyshapeError) -> AnyshapeError:
    """The error of the same text by onnxruntime's name for its kind."""
    return error(next((ours for theirs, ours in KINDS if isinstance(e, theirs)), RuntimeException), e)
