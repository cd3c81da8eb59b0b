"""OrtValue and OrtDevice: arrays in the caller's memory under onnxruntime's names.

An OrtValue of a NumPy array shares its memory; a list of arrays is a sequence, None an optional without a value.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, DType, from_numpy
from anyshape.errors import AnyshapeError
from anyshape.frontends.onnx.dtypes import BY_NUMBER, NUMBER_OF, STRING
from anyshape.onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented, NoValue, WrongKind, error
from anyshape.onnxruntime.enumerations import EqualToIntegers
from anyshape.onnxruntime.translation import entry
from anyshape.public import short

SPELLED = {"f16": "float16", "bf16": "bfloat16", "f32": "float", "f64": "double", "bool": "bool", "char": "string",
           "f8e4m3fn": "float8e4m3fn", "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2": "float8e5m2", "f8e5m2fnuz": "float8e5m2fnuz",
           "f8e8m0": "float8e8m0", "f4e2m1": "float4e2m1"}  # fmt: skip
"""What ONNX calls element types whose name is more than kind and bits"""


_CAPSULE: Any = type(np.empty(0).__dlpack__())
_CPU = (1, 0)
"""What DLPack calls the CPU"""


class _OfCapsule:
    """What NumPy reads a capsule of: it says that it is on the CPU, and NumPy refuses a capsule of another device."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


class OrtAllocatorType(EqualToIntegers):
    """Kinds of allocators of onnxruntime."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(EqualToIntegers):
    """Kinds of memory of onnxruntime."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = CPU_OUTPUT
    DEFAULT = 0


def spelled_dtype(t: DType) -> str:
    """The element type as onnxruntime spells it: `float`, `int64`."""
    return SPELLED.get(t.name) or f"{t.kind}{t.bits}"


class UnsupportedDevice(AnyshapeError):
    """A device that nothing here knows."""


def check_device(device: Any) -> None:
    """Raises an error for the name of a device other than the CPU; an OrtDevice is the CPU."""
    name = "cpu" if isinstance(device, OrtDevice) else str(device)
    if name in ("cuda", "gpu", "dml", "npu", "webgpu", "cann", "hip"):
        raise NoValue(f"Can't allocate memory on the device {name!r}: anyshape runs on the CPU")
    if name != "cpu":
        raise UnsupportedDevice(f"Unsupported device type: {name}")


class OrtDevice:
    """The CPU: number 0 of the kinds of devices."""

    def __init__(self, number: int = 0) -> None:
        self._number = number

    @staticmethod
    @entry
    def make(ort_device_name: str, device_id: int, vendor_id: Any = -1) -> OrtDevice:
        check_device(ort_device_name)
        return OrtDevice(device_id)

    @entry
    def device_type(self) -> int:
        return 0

    @entry
    def device_id(self) -> int:
        return self._number

    @entry
    def device_mem_type(self) -> int:
        return 0

    @entry
    def device_vendor_id(self) -> int:
        return 0


class OrtValue:
    """A tensor, a sequence of tensors, or an optional without a value."""

    def __init__(self, value: Any) -> None:
        """Wraps an array, a list of arrays or None, which is shared."""
        self._value = value

    @staticmethod
    @entry
    def ortvalue_from_numpy(
        numpy_obj: Any, device_type: Any = "cpu", device_id: int = 0, vendor_id: Any = -1
    ) -> OrtValue:
        """A tensor in the memory of the array."""
        check_device(device_type)
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "USO":
            raise NoValue(
                f"Creation of OrtValues is currently only supported from non-string numpy arrays, got {short(numpy_obj)}"
            )
        return OrtValue(np.ascontiguousarray(numpy_obj).reshape(numpy_obj.shape))

    @staticmethod
    @entry
    def ortvalue_from_numpy_with_onnx_type(data: NDArray[Any], onnx_element_type: int) -> OrtValue:
        """A tensor in the memory of the array, whose elements are taken as another element type of as many bits."""
        dtype = _dtype(onnx_element_type).numpy
        if data.dtype.itemsize != dtype.itemsize:
            raise NoValue(f"elements of {data.dtype} are not of as many bits as those of {dtype}")
        return OrtValue(np.ascontiguousarray(data).reshape(data.shape).view(dtype))

    @staticmethod
    @entry
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any = np.float32, device_type: Any = "cpu", device_id: int = 0, vendor_id: Any = -1,
        memory_info: Any = None,
    ) -> OrtValue:  # fmt: skip
        """A tensor of new memory, whose elements are undefined. `element_type`: a dtype of NumPy, or ONNX's number of one."""
        check_device(device_type)
        if any(n < 0 for n in shape):
            raise NoValue(f"a shape has no negative sizes, got {short(shape)}")
        return OrtValue(np.empty(tuple(shape), numpy_dtype(element_type)))

    @staticmethod
    @entry
    def ort_value_from_sparse_tensor(sparse_tensor: Any) -> OrtValue:
        raise error(NotImplemented, "OrtValue.ort_value_from_sparse_tensor: tensors are dense")

    @staticmethod
    @entry
    def from_dlpack(data: Any) -> OrtValue:
        """A tensor in the memory of what has DLPack, or of a capsule of it."""
        if isinstance(data, _CAPSULE):
            data = _OfCapsule(data)
        if not hasattr(data, "__dlpack__"):
            raise WrongKind(f"from_dlpack takes what has __dlpack__, or a capsule, got {short(data)}")
        try:
            return OrtValue(np.from_dlpack(data))
        except ValueError as e:
            raise WrongKind(f"from_dlpack takes a capsule that nobody has taken from: {e}") from e
        except (TypeError, RuntimeError, BufferError) as e:
            raise NoValue(f"from_dlpack: {e}") from e

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The tensor as NumPy's functions read it: a copy of its own, as `numpy` gives."""
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def __dlpack__(self, **keywords: Any) -> Any:
        try:
            return self._array().__dlpack__(**keywords)
        except (TypeError, BufferError) as e:
            raise NoValue(f"__dlpack__: {e}") from e

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array().__dlpack_device__()

    def _array(self) -> NDArray[Any]:
        if not isinstance(self._value, np.ndarray):
            raise NoValue("Only OrtValues that are Tensors are currently supported")
        return self._value

    @entry
    def data_ptr(self) -> int:
        return int(self._array().ctypes.data)

    @entry
    def device_name(self) -> str:
        return "cpu"

    @entry
    def shape(self) -> list[int]:
        return list(self._array().shape)

    @entry
    def data_type(self) -> str:
        if isinstance(self._value, list):
            return f"seq({OrtValue(self._value[0]).data_type() if self._value else 'tensor(float)'})"
        return f"tensor({spelled_dtype(_of(self._array()))})"

    @entry
    def element_type(self) -> int:
        return NUMBER_OF[_of(self._array())]

    @entry
    def tensor_size_in_bytes(self) -> int:
        return int(self._array().nbytes)

    @entry
    def has_value(self) -> bool:
        return self._value is not None

    @entry
    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    @entry
    def is_sparse_tensor(self) -> bool:
        return False

    @entry
    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    @entry
    def as_sparse_tensor(self) -> Any:
        raise error(NotImplemented, "OrtValue.as_sparse_tensor: tensors are dense")

    @entry
    def numpy(self) -> NDArray[Any]:
        """A copy of the tensor."""
        return self._array().copy()

    @entry
    def update_inplace(self, data: Any) -> None:
        """Copies the elements of an array into this memory."""
        place, new = self._array(), data.numpy() if isinstance(data, OrtValue) else np.asarray(data)
        if new.size != place.size or new.dtype != place.dtype:
            raise NoValue(
                f"The input size of numpy arrays does not match the size of the OrtValue: {new.dtype}{list(new.shape)}"
            )
        if not place.flags.writeable:
            raise NoValue("the memory of the OrtValue cannot be written to")
        place[...] = new.reshape(place.shape)


def _of(a: NDArray[Any]) -> DType:
    return CHAR if a.dtype.kind in "USO" else from_numpy(a.dtype)


def _dtype(number: int) -> DType:
    if number == STRING or number not in BY_NUMBER:
        raise NoValue(f"{number} is not an element type of numbers")
    return BY_NUMBER[number]


def numpy_dtype(element_type: Any) -> np.dtype[Any]:
    """NumPy's dtype of an element type: a number of ONNX, or anything that NumPy takes for one."""
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        return _dtype(element_type).numpy
    try:
        dtype: np.dtype[Any] = np.dtype(element_type)
    except (TypeError, ValueError, SyntaxError):
        raise NoValue(f"{short(element_type)} is not an element type") from None
    return dtype


def array_at(address: int, shape: Sequence[int], element_type: Any) -> NDArray[Any]:
    """An array in memory of the caller, which must outlive it."""
    dtype = numpy_dtype(element_type)
    count = math.prod(shape)
    if any(n < 0 for n in shape) or (count and not 0 < address <= sys.maxsize - count * dtype.itemsize):
        raise NoValue(f"there is no tensor of shape {list(shape)} at address {address}")
    if not count:
        return np.empty(tuple(shape), dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(memory), dtype).reshape(tuple(shape))
