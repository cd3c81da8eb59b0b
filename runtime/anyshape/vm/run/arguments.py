"""Arguments of a call: from what people pass to dense native arrays that fit the inputs' types.

In: NumPy arrays, anything with DLPack, Python numbers, strings, lists. Out: arrays in the order of the inputs. Dims are not compared here:
the program's own entry checks do that. A fitting array passes as it is; strided and byte-swapped ones are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, LIST, from_numpy
from anyshape.errors import AnyshapeError, ArgumentError, DtypeError, ShapeError
from anyshape.graph.tuples import flat, form_of, member_names
from anyshape.graph.value import Value
from anyshape.strings import as_chars, is_text
from anyshape.types import ListType, TensorType
from anyshape.vm.run.available import LOOKED_AT, available_memory
from anyshape.wording import counted

Array = NDArray[Any]
_ndarray = np.ndarray


class Signature:
    """Names and types of the inputs of an executable."""

    __slots__ = ("_fast", "names", "types")

    def __init__(self, params: Sequence[Value]) -> None:
        self.names = tuple(p.name for p in params)
        self.types = tuple(p.type for p in params)
        self._fast = tuple((None if p.type.dtype is LIST else p.type.dtype.numpy, p.type.rank) for p in params)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Array]:
        """Puts arguments in the order of the inputs. Raises ArgumentError, DtypeError or ShapeError for those that do not fit."""
        if len(args) + len(kwargs) < len(self.names):
            args, kwargs = self._members(args, kwargs)
        if not args and len(kwargs) == len(self.names) and all(map(kwargs.__contains__, self.names)):
            args = tuple([kwargs[n] for n in self.names])
        elif kwargs or len(args) != len(self.names):
            args = self._in_order(args, kwargs)
        out: list[Array] = []
        for k, (a, (dtype, rank)) in enumerate(zip(args, self._fast)):
            if (
                a.__class__ is _ndarray
                and a.dtype is dtype
                and (a.ndim == rank or rank is None)
                and a.flags.c_contiguous
            ):
                out.append(a)
            else:
                out.append(adapt(self.names[k], self.types[k], a))
        return out

    def _members(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The members of tuples, where the inputs are members."""
        members: dict[str, Any] = {}
        for name, a in kwargs.items():
            members.update(zip(member_names(name, form_of(a)), flat(a)) if name not in self.names else [(name, a)])
        spread: list[Any] = []
        for a in args:
            own = len(spread) < len(self.names) and "." in self.names[len(spread)]
            spread += flat(a) if own else [a]
        return tuple(spread), members

    def _in_order(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        inputs = f"the inputs are {', '.join(self.names) or 'none'}"
        if len(args) > len(self.names):
            raise ArgumentError(f"{len(args)} arguments were given, and {inputs}")
        named = dict(zip(self.names, args))
        for name, a in kwargs.items():
            if name in named:
                raise ArgumentError(f"the argument {name} was given twice")
            if name not in self.names:
                raise ArgumentError(f"there is no input {name}; {inputs}")
            named[name] = a
        missing = [n for n in self.names if n not in named]
        if missing:
            raise ArgumentError(f"the argument {', '.join(missing)} is missing; {inputs}")
        return tuple(named[n] for n in self.names)


def adapt(name: str, type: TensorType, argument: Any) -> Any:
    """Converts an argument to a dense native array of the type's dtype and rank, or to a list of such."""
    if isinstance(type, ListType):
        return _adapted_list(name, type, argument)
    try:
        return _adapted(name, type, argument)
    except MemoryError:
        raise _no_memory(name, argument) from None


def _adapted(name: str, type: TensorType, argument: Any) -> Any:
    if type.dtype is CHAR:
        return _characters(name, type, argument)
    a = _as_array(name, type, argument)
    dtype = type.dtype.numpy
    if a.dtype != dtype:
        if a.dtype.newbyteorder("=") != dtype:
            raise DtypeError(f"input {name} must be {type.dtype}, got {_dtype_name(a.dtype)}")
        a = _copied(name, a, dtype)
    if type.rank is not None and a.ndim != type.rank:
        raise ShapeError(f"input {name} must be {type}, of rank {type.rank}; got rank {a.ndim}, shape {a.shape}")
    return a if a.flags.c_contiguous else _copied(name, a, dtype)


def _copied(name: str, a: Array, dtype: np.dtype[Any]) -> Array:
    """Copies an array to a dense native one. An array of stride 0 takes no memory until it is copied, however many elements it has."""
    if a.nbytes >= LOOKED_AT and a.nbytes > available_memory():
        raise _no_memory(name, a)
    return a.astype(dtype, order="C")


def _no_memory(name: str, a: Any) -> ArgumentError:
    shape = f" of shape {a.shape}" if isinstance(a, np.ndarray) else ""
    return ArgumentError(f"input {name}{shape} has to be copied to be dense, and there is no memory for the copy")


def _characters(name: str, type: TensorType, argument: Any) -> Array:
    """Converts strings, which have a dim less than the type, or code points, u32, which have all dims."""
    a = np.asarray(argument)
    if a.dtype == CHAR.computed and a.ndim == type.rank:
        return np.ascontiguousarray(a).reshape(a.shape).view(CHAR.numpy)
    demand = f"input {name} must be strings, of type {type}"
    if not is_text(a) and a.size:
        raise DtypeError(f"{demand}; got {_dtype_name(a.dtype)}")
    if type.rank is not None and a.ndim != type.rank - 1:
        raise ShapeError(f"{demand}, of rank {type.rank - 1}; got rank {a.ndim}, shape {a.shape}")
    try:
        return as_chars(a if is_text(a) else np.zeros(a.shape, str))
    except TypeError as e:
        raise DtypeError(f"{demand}: {e}") from None


def _adapted_list(name: str, type: ListType, argument: Any) -> list[Any]:
    """Converts a list element by element. Of an optional, None is the empty list, and anything else the element."""
    if type.optional:
        return [] if argument is None else [adapt(name, type.element, argument)]
    if not isinstance(argument, list | tuple):
        raise ArgumentError(f"input {name} must be a list of arrays, of type {type}; got {_short(argument)}")
    if argument and type.never:
        raise ArgumentError(
            f"input {name} must be an empty list, of type {type}; got {counted(len(argument), 'element')}"
        )
    return [adapt(f"{name}[{k}]", type.element, element) for k, element in enumerate(argument)]


def _dtype_name(dtype: np.dtype[Any]) -> str:
    try:
        return str(from_numpy(dtype))
    except AnyshapeError:
        return str(dtype)


def _as_array(name: str, type: TensorType, argument: Any) -> Array:
    if isinstance(argument, np.ndarray | np.generic):
        return np.asarray(argument)
    try:
        if hasattr(argument, "__dlpack__"):
            return np.from_dlpack(argument)
        a = np.asarray(argument)
        if isinstance(argument, (int, float, list, tuple)) and np.can_cast(a.dtype, type.dtype.numpy, "same_kind"):
            return np.asarray(argument, type.dtype.numpy)
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError) as e:
        raise ArgumentError(f"input {name} must be an array of type {type}, got {_short(argument)}: {e}") from None
    if a.dtype == object:
        raise ArgumentError(f"input {name} must be an array of type {type}, got {_short(argument)}")
    return a


def _short(argument: Any) -> str:
    text = repr(argument)
    return text if len(text) < 60 else f"{text[:57]}..."
