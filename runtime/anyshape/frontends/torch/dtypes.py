"""Element types of PyTorch and ours, and tensors as arrays over the same memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType, from_numpy
from anyshape.errors import ArgumentError, UnsupportedError

_NAMES = {
    "bool": BOOL, "int8": I8, "int16": I16, "int32": I32, "int64": I64, "uint8": U8, "uint16": U16, "uint32": U32, "uint64": U64,
    "float16": F16, "bfloat16": BF16, "float32": F32, "float64": F64,
}  # fmt: skip
ELEMENT_TYPES = frozenset(_NAMES.values())
"""The dtypes that torch has too"""


@cache
def dtype_of_torch(dtype: Any) -> DType:
    """Our dtype for one of torch. Raises UnsupportedError for one that we have not, as complex numbers."""
    name = str(dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise UnsupportedError(f"tensors of {dtype} are not supported; there are {', '.join(_NAMES)}")
    return _NAMES[name]


@cache
def torch_of_dtype(dtype: DType) -> Any:
    """The dtype of torch for one of ours."""
    import torch

    return getattr(torch, next(name for name, own in _NAMES.items() if own is dtype))


def readable(tensor: Any, name: str = "a tensor") -> Any:
    """A tensor on the CPU whose memory has its elements, whatever its strides. Raises ArgumentError for what has no such memory."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise ArgumentError(
            f"{name} must be a dense tensor on the CPU, got {tensor.layout} on {tensor.device}; pass tensor.cpu()"
        )
    plain = tensor.detach()
    return plain.resolve_neg().resolve_conj() if plain.is_neg() or plain.is_conj() else plain


def array_of(tensor: Any, name: str = "a tensor") -> NDArray[Any]:
    """A tensor on the CPU as an array over the same memory, whatever its strides. Raises ArgumentError for what has no such memory."""
    import torch

    plain = readable(tensor, name)
    dtype = dtype_of_torch(plain.dtype)
    array: NDArray[Any] = (plain.view(torch.int16) if dtype is BF16 else plain).numpy()
    return array.view(dtype.numpy) if dtype is BF16 else array


def tensor_of(array: NDArray[Any]) -> Any:
    """An array as a tensor over the same memory; an array that must not be written to is copied."""
    import torch

    array = array if array.flags.writeable else array.copy()
    if from_numpy(array.dtype) is BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
