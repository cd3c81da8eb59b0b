"""Converts a TensorProto to an ndarray: sizes are checked before anything is read, external data is read only from the model's folder.

External data and long weights inside the file are mapped, not copied, and may be unaligned.
"""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import ModelError
from anyshape.files import open_plain
from anyshape.frontends.onnx.dtypes import BY_NUMBER, STRING, is_known, spell
from anyshape.frontends.onnx.refusals import ImportRefusal
from anyshape.wording import counted

EXTERNAL = 1
_TYPED_FIELD = {1: "float_data", 11: "double_data", 7: "int64_data", 12: "uint64_data", 13: "uint64_data"}
_BITS = {10: np.uint16, 16: np.uint16}
"""16-bit floats are spelled in int32_data as their bits"""


def tensor_array(t: Any, folder: Path | None, where: str, raw: memoryview | None = None) -> NDArray[Any]:
    """Returns the elements as a read-only array; `raw` is raw data that stayed in the mapped file.

    Raises ModelError for damage, ImportRefusal for unsupported element types.
    """
    dims = tuple(t.dims)
    if any(n < 0 for n in dims):
        raise ModelError(f"{where}: a tensor of shape {list(dims)}; sizes cannot be negative")
    if t.data_type not in BY_NUMBER:
        if is_known(t.data_type):
            raise ImportRefusal(f"tensors of {spell(t.data_type)} are not supported")
        raise ModelError(f"{where}: {t.data_type} is not an element type of ONNX")
    if t.HasField("segment"):
        raise ImportRefusal("tensors in segments are not supported")
    if t.data_type == STRING:
        return _frozen(_strings(t, dims, where))
    known = BY_NUMBER[t.data_type]
    dtype, per_byte = known.numpy, _PER_BYTE.get(known.name, 1)
    count = 1
    for n in dims:
        count *= n
    if per_byte > 1:
        packed = np.dtype(np.uint8), -(-count // per_byte)
        held = _external(t, folder, *packed, where) if t.data_location == EXTERNAL else None
        if held is None and (raw is not None or t.HasField("raw_data")):
            held = _raw(t.raw_data if raw is None else raw, *packed, where)
        elif held is None:
            held = _listed_bytes(t, packed[1], where)
        flat = _unpacked(held, per_byte, count, dtype, known.kind == "int")
    elif t.data_location == EXTERNAL:
        flat = _external(t, folder, dtype, count, where)
    elif raw is not None or t.HasField("raw_data"):
        flat = _raw(t.raw_data if raw is None else raw, dtype, count, where)
    else:
        flat = _typed(t, dtype, count, where)
    try:
        return _frozen(flat.reshape(dims))
    except (ValueError, OverflowError):
        raise ModelError(f"{where}: a tensor of shape {list(dims)} does not fit in memory") from None


def _strings(t: Any, dims: tuple[int, ...], where: str) -> NDArray[Any]:
    """Reads a tensor of strings as an array of fixed width."""
    if len(t.string_data) != math.prod(dims):
        raise ModelError(
            f"{where}: its shape has {counted(math.prod(dims), 'string')}, but its data has {len(t.string_data)}"
        )
    try:
        texts = [s.decode("utf-8") for s in t.string_data]
    except UnicodeDecodeError:
        raise ModelError(f"{where}: an element is not UTF-8 text") from None
    return np.array(texts, str).reshape(dims)


_PER_BYTE = {"i4": 2, "u4": 2, "f4e2m1": 2, "i2": 4, "u2": 4}
"""Elements that share a byte in a file, the first in the lowest bits"""


def _listed_bytes(t: Any, count: int, where: str) -> NDArray[Any]:
    if len(t.int32_data) != count:
        raise ModelError(
            f"{where}: its shape has {counted(count, 'byte')} of packed elements, but its data has {len(t.int32_data)}"
        )
    return np.array(t.int32_data, np.int64).astype(np.uint8)


def _unpacked(held: NDArray[Any], per_byte: int, count: int, dtype: np.dtype[Any], signed: bool) -> NDArray[Any]:
    """Unpacks elements that share bytes, one to a byte, as kernels read them."""
    bits = 8 // per_byte
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (held[:, None] >> shifts & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    if not signed:
        return codes.view(dtype)
    wide = codes.astype(np.int8)
    return np.where(wide >= 1 << bits - 1, wide - (1 << bits), wide).astype(dtype)


def _raw(data: bytes | memoryview, dtype: np.dtype[Any], count: int, where: str) -> NDArray[Any]:
    if len(data) != count * dtype.itemsize:
        raise ModelError(
            f"{where}: {count} elements of {dtype} are {count * dtype.itemsize} bytes, but there are {len(data)}"
        )
    return _native(np.frombuffer(data, dtype.newbyteorder("<")), dtype)


def _typed(t: Any, dtype: np.dtype[Any], count: int, where: str) -> NDArray[Any]:
    listed = getattr(t, _TYPED_FIELD.get(t.data_type, "int32_data"))
    if len(listed) != count:
        raise ModelError(
            f"{where}: its shape has {counted(count, 'element')} of {dtype}, but its data has {len(listed)}"
        )
    try:
        if BY_NUMBER[t.data_type].is_narrow_float:
            return np.array(listed, np.int64).astype(np.uint8).view(dtype)
        if t.data_type in _BITS:
            return np.array(listed, np.int64).astype(_BITS[t.data_type]).view(dtype)
        if t.data_type in (1, 11):
            return np.array(listed, dtype)
        wide = np.array(listed, np.uint64 if t.data_type in (12, 13) else np.int64)
    except (ValueError, OverflowError):
        raise ModelError(f"{where}: an element does not fit {dtype}") from None
    return wide.astype(dtype)


def _native(a: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Converts to the machine's byte order. Unaligned arrays stay unaligned: readers that need alignment copy."""
    return a.view(dtype) if a.dtype.isnative else a.astype(dtype)


def _frozen(a: NDArray[Any]) -> NDArray[Any]:
    if a.flags.writeable:
        a.flags.writeable = False
    return a


def _external(t: Any, folder: Path | None, dtype: np.dtype[Any], count: int, where: str) -> NDArray[Any]:
    said = {e.key: e.value for e in t.external_data}
    if folder is None:
        raise ModelError(
            f"{where}: its data is in another file ({said.get('location', '?')}), and the model was passed without a path; "
            "load it by its path"
        )
    path = external_path(folder, said.get("location", ""), where)
    offset, length = _number(said, "offset", 0, where), _number(said, "length", count * dtype.itemsize, where)
    if length != count * dtype.itemsize:
        raise ModelError(
            f"{where}: {count} elements of {dtype} are {count * dtype.itemsize} bytes, but length says {length}"
        )
    if count == 0:
        return np.empty(0, dtype)
    return _native(_map(path, offset, length, dtype, where), dtype)


def external_bytes(t: Any, folder: Path | None, where: str) -> bytes:
    """Reads the data of a tensor that is in another file, as it lies there. Raises ModelError."""
    known = BY_NUMBER.get(t.data_type)
    if known is None or t.data_type == STRING:
        raise ModelError(f"{where}: no data of {spell(t.data_type)} can be in another file")
    packed = -(-math.prod(t.dims) // _PER_BYTE.get(known.name, 1))
    held = _external(t, folder, np.dtype(np.uint8), packed * known.numpy.itemsize, where)
    return held.tobytes()


def _map(path: Path, offset: int, length: int, dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    try:
        with open_plain(path, follow=False) as file:
            size = os.fstat(file.fileno()).st_size
            if offset + length > size:
                raise ModelError(
                    f"{where}: its data is bytes {offset} to {offset + length} of {path}, which has {size}"
                )
            mapped = mmap.mmap(file.fileno(), offset + length - start, access=mmap.ACCESS_READ, offset=start)
    except OSError as e:
        raise ModelError(f"{where}: external data {path} cannot be read: {e.strerror or e}") from None
    return np.frombuffer(mapped, dtype.newbyteorder("<"), length // dtype.itemsize, offset - start)


def external_path(folder: Path, location: str, where: str) -> Path:
    """Returns the path of a file inside the model's folder. Raises ModelError for one outside of it, or reached by links or `..`."""
    pieces = PurePosixPath(location.replace("\\", "/"))
    if not pieces.parts or "\0" in location:
        raise ModelError(f"{where}: its data is in another file, but {location!r} is not a file name")
    if pieces.is_absolute() or ".." in pieces.parts or Path(location).is_absolute() or ":" in pieces.parts[0]:
        raise ModelError(f"{where}: external data {location!r} would be outside the model's folder, which is refused")
    path = folder
    for piece in pieces.parts:
        path = path / piece
        if os.path.islink(path):
            raise ModelError(f"{where}: external data {location!r} goes through a link ({path}), which is refused")
    return path


def _number(said: dict[str, str], key: str, default: int, where: str) -> int:
    text = said.get(key, "")
    if text == "":
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ModelError(f"{where}: external data needs {key}, a number of bytes, got {text!r}")
    return int(text)


def whole_tensor(t: Any, raw: memoryview | None, folder: Path | None, name: str) -> Any:
    """Copies a tensor of the model called `name` with its data in it: `raw`, if the data stayed in the mapped file, or that of an external
    file in `folder`. Raises ModelError where the file does not have it."""
    copy = type(t)()
    copy.CopyFrom(t)
    if raw is not None:
        copy.raw_data = bytes(raw)
    elif t.data_location == EXTERNAL and folder is not None:
        a = tensor_array(t, folder, f"{name}: initializer {t.name!r}")
        copy.ClearField("data_location")
        del copy.external_data[:]
        copy.raw_data = a.tobytes()
    return copy
