"""Arguments of a session's runs: as the executable takes them, and whether they fit the declared inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anyshape.dims import Dim
from anyshape.dtypes import CHAR
from anyshape.frontends.onnx.dtypes import declared_dims
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, NoValue, error
from anyshape.onnxruntime.values import OrtValue
from anyshape.public import short
from anyshape.types import ListType, TensorType


def argument(value: Any, t: TensorType) -> Any:
    """An argument as the executable takes it: OrtValues are their arrays, lists of numbers arrays of the declared dtype."""
    if isinstance(value, OrtValue):
        return value._value
    is_tensor = not isinstance(t, ListType) and t.dtype is not CHAR
    if isinstance(value, str | bytes) and is_tensor:
        raise NoValue(f"Input must be an array, got {short(value)} for an input of type {t}")
    if value is None and is_tensor:
        raise error(Fail, f"an input of type {t} has no value, got None")
    if isinstance(value, list | tuple) and is_tensor:
        try:
            return np.array(value, t.dtype.numpy)
        except (TypeError, ValueError, OverflowError, MemoryError) as e:
            raise error(InvalidArgument, f"a list is no tensor of {t.dtype}: {e}") from None
    return value


def misfits(feed: Mapping[str, Any], types: Mapping[str, TensorType]) -> bool:
    """Whether the rank of an input, or a dim that is a number in the model, is another one."""
    for name, t in types.items():
        shape, dims = getattr(feed[name], "shape", None), declared_dims(t)
        if shape is None or dims is None or isinstance(t, ListType):
            continue
        if len(shape) != len(dims) or any(isinstance(d, int) and d != n for d, n in zip(dims, shape)):
            return True
    return False


def unequal_dims(feed: Mapping[str, Any], types: Mapping[str, TensorType]) -> list[str]:
    """The names of dims for which inputs, each of which fits its own type, have several sizes."""
    sizes: dict[Dim, set[int]] = {}
    for name, t in types.items():
        for d, n in (
            zip(declared_dims(t) or (), getattr(feed[name], "shape", ())) if not isinstance(t, ListType) else ()
        ):
            if isinstance(d, Dim) and d.is_symbol:
                sizes.setdefault(d, set()).add(n)
    return [str(d) for d, several in sizes.items() if len(several) > 1]
