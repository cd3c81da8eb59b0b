"""Exported models, loaded into this process and called as C calls them.

In: an `Export` for a processor like this one. Out: `Exported`, called with arrays; what the header's functions return, as Python has it.
Around the arena and the outputs lie bytes that must stay as they are.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, definitions, evaluate
from anyshape.errors import AnyshapeError, OverflowedError, ShapeError
from anyshape.lower.llvm.jit import load_object
from anyshape.vm.export import Export
from anyshape.vm.export.interface import Interface
from anyshape.vm.export.status_code import Code

Array = NDArray[Any]
SATURATED = (1 << 64) - 1


class Status(ctypes.Structure):
    """`anyshape_status` of the header."""

    _fields_ = [
        ("code", ctypes.c_int32), ("output", ctypes.c_int32), ("needed", ctypes.c_uint64), ("length", ctypes.c_uint64),
        ("text", ctypes.c_char * 488),
    ]  # fmt: skip


class Output(ctypes.Structure):
    """`anyshape_output` of the header."""

    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("shape", ctypes.POINTER(ctypes.c_int64))]


PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


class Pool:
    """`anyshape_pool` of the header, over threads of Python. `parts` are the numbers of parts that it was asked for."""

    class Words(ctypes.Structure):
        _fields_ = [("threads", ctypes.c_int64), ("context", ctypes.c_void_p), ("parallel_for", PARALLEL_FOR)]

    def __init__(self, threads: int) -> None:
        self.parts: list[int] = []
        self.words = self.Words(threads, None, PARALLEL_FOR(self._parallel_for))

    def _parallel_for(self, _: int | None, parts: int, part: int, job: int) -> None:
        self.parts.append(parts)
        run = PART(part)
        threads = [threading.Thread(target=run, args=(job, k)) for k in reversed(range(parts))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


class StatusError(Exception):
    """A status that no error of Python's stands for."""

    def __init__(self, code: Code, text: str, status: Status) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code, self.status = code, status


_ERRORS: dict[Code, type[AnyshapeError]] = {Code.SHAPE: ShapeError, Code.OVERFLOW: OverflowedError}


@dataclass(frozen=True)
class Answer:
    """What `NAME_run` returned: its outputs, and the bytes of the arena that it had."""

    outputs: list[Array]
    arena_bytes: int


class Exported:
    """The functions of one exported model."""

    def __init__(self, export: Export) -> None:
        self.interface, self.export = export.interface, export
        self._loaded = load_object(export.object, export.functions)
        name = self.interface.name
        results = {
            "arena_bytes": ctypes.c_uint64,
            "arena_bytes_shared": ctypes.c_uint64,
            "arena_bytes_most": ctypes.c_uint64,
            "run_shared": ctypes.c_int32,
            "check": ctypes.c_int32,
            "output_shape": ctypes.c_int32,
            "run": ctypes.c_int32,
            "run_tensors": ctypes.c_int32,
            "plan_tensors": ctypes.c_int32,
            "level": ctypes.c_char_p,
            "choose": ctypes.c_int32,
        }
        self._functions = {
            what: ctypes.CFUNCTYPE(result)(self._loaded.address(f"{name}_{what}"))
            for what, result in results.items()
            if f"{name}_{what}" in export.functions
        }
        self._weights = aligned(len(export.weights.content())) if export.weights.is_file else None
        if self._weights is not None:
            self._weights[:] = np.frombuffer(export.weights.content(), np.uint8)

    def sizes(self, inputs: Sequence[Array]) -> list[int]:
        return sizes(self.interface, inputs)

    def level(self) -> str | None:
        """The name of the level that is chosen; None on a processor that has none."""
        name = self._functions["level"]()
        return None if name is None else str(name.decode())

    def choose(self, number: int) -> None:
        """Chooses a level. Raises the error that the status says."""
        status = Status()
        demand(self._functions["choose"](ctypes.c_int32(number), ctypes.byref(status)), status)

    def arena_bytes(self, dims: Sequence[int]) -> int:
        return int(self._functions["arena_bytes"](*map(ctypes.c_int64, dims)))

    def check(self, dims: Sequence[int]) -> None:
        """Raises the error that the status says."""
        status = Status()
        demand(self._functions["check"](*map(ctypes.c_int64, dims), ctypes.byref(status)), status)

    def output_shape(self, output: int, dims: Sequence[int]) -> tuple[int, ...]:
        """The shape of an output; -1 for a dim that only a run tells. Raises the error that the status says."""
        t, status = self.interface.outputs[output], Status()
        shape = (ctypes.c_int64 * max(t.rank, 1))()
        code = self._functions["output_shape"](
            ctypes.c_int32(output), *map(ctypes.c_int64, dims), shape, ctypes.byref(status)
        )
        demand(code, status)
        return tuple(shape[: t.rank])

    def __call__(self, *inputs: Array) -> list[Array]:
        """Runs the model with as much memory as it asks for. Raises the error that the status says."""
        return self.answer(*inputs).outputs

    def answer(self, *inputs: Array) -> Answer:
        dims = self.sizes(inputs)
        arena = self.arena_bytes(dims)
        if arena == SATURATED:
            self.check(dims)
            raise AssertionError("the arena has no size, and the check refuses nothing")
        known = [self.output_shape(k, dims) for k, _ in enumerate(self.interface.outputs)]
        tensors = self.interface.outputs
        room = [int(np.prod(s, dtype=object)) * t.dtype.itemsize if -1 not in s else 0 for s, t in zip(known, tensors)]
        while True:
            try:
                return Answer(self.run(inputs, dims, arena, room), arena)
            except StatusError as e:
                if e.code is Code.OUTPUT and -1 in known[e.status.output]:
                    assert e.status.needed > room[e.status.output]
                    room[e.status.output] = e.status.needed
                elif e.code is Code.ARENA and self.may_grow:
                    assert e.status.needed > arena
                    arena = e.status.needed
                else:
                    raise

    @property
    def may_grow(self) -> bool:
        """Whether the header says that a run may need more memory than the formula."""
        return "A run may need more" in self.export.header

    def arena_bytes_shared(self, threads: int, dims: Sequence[int]) -> int:
        return int(self._functions["arena_bytes_shared"](ctypes.c_int64(threads), *map(ctypes.c_int64, dims)))

    def arena_bytes_most(self, threads: int, dims: Sequence[int]) -> int:
        return int(self._functions["arena_bytes_most"](ctypes.c_int64(threads), *map(ctypes.c_int64, dims)))

    def run(
        self,
        inputs: Sequence[Array],
        dims: Sequence[int],
        arena_bytes: int,
        room: Sequence[int],
        pool: Pool | None = None,
    ) -> list[Array]:
        """Runs the model in an arena and outputs of so many bytes. Raises the error that the status says."""
        status, tensors = Status(), self.interface.outputs
        arena = Guarded(arena_bytes)
        memory = [Guarded(n) for n in room]
        shapes = [(ctypes.c_int64 * max(t.rank, 1))() for t in tensors]
        outputs = (Output * max(len(tensors), 1))(
            *(
                Output(m.address, m.bytes, ctypes.cast(s, ctypes.POINTER(ctypes.c_int64)))
                for m, s in zip(memory, shapes)
            )
        )
        dense = [np.ascontiguousarray(a) for a in inputs]
        addresses = (ctypes.c_void_p * max(len(dense), 1))(*(a.ctypes.data for a in dense))
        weights = [ctypes.c_void_p(self._weights.ctypes.data)] if self._weights is not None else []
        shared = [] if pool is None else [ctypes.byref(pool.words)]
        code = self._functions["run" if pool is None else "run_shared"](
            *shared,
            ctypes.c_void_p(arena.address), ctypes.c_uint64(arena_bytes), *weights, addresses, outputs,
            *map(ctypes.c_int64, dims), ctypes.byref(status),
        )  # fmt: skip
        for m in (arena, *memory):
            m.demand_whole()
        demand(code, status)
        return [m.array(t.dtype.numpy, tuple(s[: t.rank])) for m, s, t in zip(memory, shapes, tensors, strict=True)]

    def plan_tensors(self, inputs: Sequence[DLTensor], outputs: Sequence[DLTensor], threads: int = 1) -> int:
        """The bytes of the arena for tensors; writes the shapes of outputs. Raises the error that the status says."""
        status, needed = Status(), ctypes.c_uint64()
        rows = [(DLTensor * max(len(ts), 1))(*ts) for ts in (inputs, outputs)]
        code = self._functions["plan_tensors"](
            ctypes.c_int64(threads), *rows, ctypes.byref(needed), ctypes.byref(status)
        )
        demand(code, status)
        return needed.value

    def run_tensors(
        self, inputs: Sequence[DLTensor], outputs: Sequence[DLTensor], arena_bytes: int
    ) -> list[tuple[int, ...]]:
        """Runs the model on tensors; the shapes that outputs come to have. Raises the error that the status says."""
        status, arena = Status(), Guarded(arena_bytes)
        rows = [(DLTensor * max(len(ts), 1))(*ts) for ts in (inputs, outputs)]
        weights = [ctypes.c_void_p(self._weights.ctypes.data)] if self._weights is not None else []
        code = self._functions["run_tensors"](
            None, ctypes.c_void_p(arena.address), ctypes.c_uint64(arena_bytes), *weights, *rows, ctypes.byref(status)
        )
        arena.demand_whole()
        demand(code, status)
        return [tuple(t.shape[: t.ndim]) for t in outputs]


class DLTensor(ctypes.Structure):
    """`DLTensor` of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


def tensor_of(a: Array) -> DLTensor:
    """The tensor in the capsule that NumPy makes of an array; array and capsule have to outlive it."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = a.__dlpack__()
    tensor = DLTensor.from_buffer_copy(DLTensor.from_address(pointer(capsule, b"dltensor")))
    tensor.capsule = capsule
    return tensor


def sizes(m: Interface, inputs: Sequence[Array]) -> list[int]:
    """The sizes that callers pass for these inputs. Raises ShapeError where no sizes give these shapes."""
    places = [((k, axis), n) for k, t in enumerate(m.inputs) for axis, n in enumerate(t.shape)]
    known: dict[Dim, int] = {}
    for s, d in definitions(places).items():
        k, axis = d.place
        n = d.of(inputs[k].shape[axis])
        assert isinstance(n, int)
        known[s] = n
    for t, a in zip(m.inputs, inputs, strict=True):
        if tuple(evaluate(n, known) if isinstance(n, Dim) else n for n in t.shape) != a.shape:
            raise ShapeError(f"input {t.name}: {a.shape} is no shape of sizes {known}")
    return [known[d.symbol] for d in m.dims]


def demand(code: int, status: Status) -> None:
    """Raises the error that a status says."""
    assert status.code == code, (status.code, code)
    text = status.text.decode(errors="replace")
    assert len(status.text) == status.length
    if code:
        kind = _ERRORS.get(Code(code))
        raise kind(text) if kind is not None else StatusError(Code(code), text, status)
    assert not text


def aligned(size: int) -> Array:
    """Allocates so many bytes at a multiple of 64."""
    block = np.zeros(size + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size]


class Guarded:
    """Memory of so many bytes at a multiple of 64, between bytes that must stay as they are."""

    MARK, AROUND = 0xA5, 64

    def __init__(self, size: int) -> None:
        self.bytes = size
        self._block = aligned(size + 2 * self.AROUND)
        self._block[:] = self.MARK
        self.address = self._block.ctypes.data + self.AROUND

    def demand_whole(self) -> None:
        assert (self._block[: self.AROUND] == self.MARK).all(), "bytes ahead of the memory were written"
        assert (self._block[self.AROUND + self.bytes :] == self.MARK).all(), "bytes behind the memory were written"

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        assert count <= self.bytes
        return self._block[self.AROUND : self.AROUND + count].view(dtype).reshape(shape)
