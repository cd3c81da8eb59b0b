"""Kernels that were compiled before, in a shared library of a package, called on the memory of tensors without a compiler.

In: the folder of a package, which has `compiled/libNAME.so` and `compiled/NAME.kernels.json` where its wheel was built with kernels
(`library.py` writes both). Out: for the kinds of a call the kernel, as a function of tensors.
"""

from __future__ import annotations

import ctypes
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from anyshape.dtypes import parse_dtype
from anyshape.errors import AnyshapeError, ModelError, OverflowedError, ShapeError, UnsupportedError
from anyshape.files import open_plain
from anyshape.frontends.torch.dtypes import readable, torch_of_dtype
from anyshape.torch.kinds import FORMAT, TABLE, Kinds, read_kinds
from anyshape.torch.schema import Argument
from anyshape.torch.threads import PoolStruct, pool_of

FOLDER = "compiled"
ALIGNMENT = 64
_OK, _SHAPE, _OVERFLOW, _ARENA, _OUTPUT, _PROCESSOR = 0, 1, 2, 3, 4, 9
"""Codes of a status, those of `vm.export.status_code.Code`, which is not loaded here"""
_ERRORS: Mapping[int, type[AnyshapeError]] = {
    _SHAPE: ShapeError,
    _OVERFLOW: OverflowedError,
    _PROCESSOR: UnsupportedError,
}
_MOST_BYTES = 1 << 62
_NOTHING = ctypes.create_string_buffer(ALIGNMENT)
"""Memory for tensors without elements, which have none of their own"""


class _TensorStruct(ctypes.Structure):
    """`anyshape_tensor` of an exported header."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _StatusStruct(ctypes.Structure):
    """`anyshape_status` of an exported header."""

    _fields_ = [
        ("code", ctypes.c_int32), ("output", ctypes.c_int32), ("needed", ctypes.c_uint64), ("length", ctypes.c_uint64),
        ("text", ctypes.c_char * 488),
    ]  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """A tensor of a kernel: the name of its dtype, DLPack's code and bits of it, and its rank."""

    dtype: str
    code: int
    bits: int
    rank: int

    @cached_property
    def of_torch(self) -> Any:
        return torch_of_dtype(parse_dtype(self.dtype))

    def empty(self, shape: Sequence[int]) -> Any:
        """A tensor of that shape. Raises AnyshapeError where there is no memory for it."""
        with _memory(f"{self.dtype}{[*shape]}"):
            return torch.empty([*shape], dtype=self.of_torch)


class CompiledCall:
    """One kernel: a function of the tensors of a call, in the order of the arguments, that returns tensors."""

    def __init__(self, library: Any, function: str, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> None:
        self.library, self.function = library, function
        self.inputs, self.outputs = inputs, outputs

    @cached_property
    def plan(self) -> Any:
        return getattr(self.library, f"{self.function}_plan_tensors")

    @cached_property
    def run(self) -> Any:
        return getattr(self.library, f"{self.function}_run_tensors")

    def __call__(self, name: str, tensors: Sequence[Any]) -> list[Any]:
        """The results of a call of the operator of that name. Raises AnyshapeError for a call that the op refuses."""
        return _KernelRun(name, self, [_dense(t, name) for t in tensors]).results()


class _KernelRun:
    """One run of a kernel: its tensors as the exported functions take them."""

    def __init__(self, name: str, call: CompiledCall, tensors: Sequence[Any]) -> None:
        self.name, self.call, self.tensors = name, call, tensors
        self.status = _StatusStruct()
        read = zip(call.inputs, tensors, strict=True)
        self.inputs = _row([_as_struct(of, t.shape, t.data_ptr()) for of, t in read])
        self.outputs = _row([_as_struct(of, [0] * of.rank, 0) for of in call.outputs])
        self.computed: list[Any] = [None] * len(call.outputs)

    def results(self) -> list[Any]:
        threads, arena_bytes = torch.get_num_threads(), ctypes.c_uint64()
        code = self.call.plan(
            ctypes.c_int64(threads), self.inputs, self.outputs, ctypes.byref(arena_bytes), ctypes.byref(self.status)
        )
        if code != _OK:
            raise self.error()
        for k in range(len(self.computed)):
            if self.is_known(k):
                self.claim(k)
        self.fill(pool_of(threads), arena_bytes.value)
        for k, t in enumerate(self.computed):
            if t is None:
                self.claim(k)
        return self.computed

    def fill(self, pool: PoolStruct | None, arena_bytes: int) -> None:
        """Runs the kernel. What an output of a size that data decide needs, a first run counts; a second one fills it."""
        arena = _arena(self.name, arena_bytes)
        while True:
            code = self.call.run(
                pool and ctypes.byref(pool),
                *_aligned(arena, arena_bytes),
                self.inputs,
                self.outputs,
                ctypes.byref(self.status),
            )
            if code == _OK:
                return
            k, needed = self.status.output, self.status.needed
            if code == _OUTPUT and 0 <= k < len(self.computed) and self.computed[k] is None:
                self.claim(k)
            elif code == _ARENA and arena_bytes < needed < _MOST_BYTES:
                arena_bytes = 2 * needed
                arena = _arena(self.name, arena_bytes)
            else:
                raise self.error()

    def shape(self, k: int) -> list[int]:
        return [self.outputs[k].shape[axis] for axis in range(self.call.outputs[k].rank)]

    def is_known(self, k: int) -> bool:
        """Whether the plan has all sizes of an output; those that it has not become 0."""
        shape = self.shape(k)
        for axis, n in enumerate(shape):
            self.outputs[k].shape[axis] = max(n, 0)
        return min(shape, default=0) >= 0

    def claim(self, k: int) -> None:
        """Makes the tensor of an output."""
        self.computed[k] = self.call.outputs[k].empty(self.shape(k))
        self.outputs[k].data = self.computed[k].data_ptr() or ctypes.addressof(_NOTHING)

    def error(self) -> AnyshapeError:
        text = self.status.text.decode(errors="replace")
        return _ERRORS.get(self.status.code, AnyshapeError)(text or f"{self.name}: code {self.status.code}")


def _dense(tensor: Any, name: str) -> Any:
    """A tensor whose elements lie in order, each at a multiple of its size."""
    plain = readable(tensor, name)
    with _memory(f"{plain.dtype}{[*plain.shape]}, an argument of {name}"):
        dense = plain.contiguous()
        return dense.clone() if dense.data_ptr() % dense.element_size() else dense


@contextmanager
def _memory(what: str) -> Iterator[None]:
    """Raises AnyshapeError where torch has no memory for a tensor."""
    try:
        yield
    except RuntimeError as e:
        raise AnyshapeError(f"no memory for {what}: {str(e).splitlines()[0]}") from None


def _as_struct(layout: Layout, shape: Sequence[int], address: int) -> _TensorStruct:
    data, sizes = address or ctypes.addressof(_NOTHING), (ctypes.c_int64 * max(layout.rank, 1))(*shape)
    return _TensorStruct(data, 1, 0, layout.rank, layout.code, layout.bits, 1, sizes, None, 0)


def _row(tensors: Sequence[_TensorStruct]) -> Any:
    return (_TensorStruct * max(len(tensors), 1))(*tensors)


def _arena(name: str, count: int) -> Any:
    if count > _MOST_BYTES:
        raise OverflowedError(f"{name}: the memory of this call does not fit 63 bits")
    return Layout("u8", 1, 8, 1).empty([count + ALIGNMENT])


def _aligned(arena: Any, count: int) -> tuple[Any, Any]:
    return ctypes.c_void_p(arena.data_ptr() + -arena.data_ptr() % ALIGNMENT), ctypes.c_uint64(count)


class CompiledLibrary:
    """The kernels of one shared library. `path` is that of its table."""

    def __init__(self, path: Path, operators: Mapping[str, Sequence[Any]], library: Any) -> None:
        self.path, self.operators, self.library = path, operators, library

    def calls(self, operator: str, arguments: Sequence[Argument]) -> dict[Kinds, CompiledCall]:
        """The kernels of an operator by the kinds of their calls. Raises ModelError for a table that is damaged."""
        calls = {}
        for entry in self.operators.get(operator, ()):
            try:
                kinds = read_kinds(arguments, entry["kinds"])
                inputs, outputs = ([Layout(*row) for row in entry[side]] for side in ("inputs", "outputs"))
                calls[kinds] = CompiledCall(self.library, entry["function"], inputs, outputs)
            except (KeyError, TypeError, ModelError) as e:
                raise ModelError(f"{self.path}: {operator}: no kernel: {e}; install the package again") from None
        return calls


def library_of_package(folder: Path) -> CompiledLibrary | None:
    """The library of the package in a folder; None where it has none, or where this machine does not load it, with a warning."""
    path = next(iter(sorted((folder / FOLDER).glob(f"*{TABLE}"))), None)
    if path is None:
        return None
    table = _table(path)
    place = path.with_name(table["library"])
    try:
        library = ctypes.CDLL(str(place))
        reason = _lacking(library, table["asks"])
    except (OSError, AttributeError) as e:
        reason = str(e)
    if reason is not None:
        warnings.warn(f"{place} is not used: {reason}; kernels are compiled when they are called", stacklevel=4)
        return None
    return CompiledLibrary(path, table["operators"], library)


def _table(path: Path) -> dict[str, Any]:
    """The content of a table. Raises ModelError for a file that is none."""
    try:
        with open_plain(path) as file:
            table = json.load(file)
    except (OSError, ValueError) as e:
        raise ModelError(f"{path}: no table of kernels: {e}; install the package again") from None
    keys = {"format": int, "library": str, "asks": str, "operators": dict}
    if not isinstance(table, dict) or any(not isinstance(table.get(k), kind) for k, kind in keys.items()):
        raise ModelError(f"{path}: no table of kernels: it needs {', '.join(keys)}; install the package again")
    if table["format"] != FORMAT:
        raise ModelError(
            f"{path}: a table of form {table['format']}, and this anyshape reads {FORMAT}; install both again"
        )
    return table


def _lacking(library: Any, asks: str) -> str | None:
    """Why a processor does not run the code; `asks`: the function that answers with the name of a level, if the code has levels."""
    if not asks:
        return None
    level = getattr(library, asks)
    level.restype = ctypes.c_char_p
    return None if level() else "this processor, or its operating system, lacks instructions of the code"
