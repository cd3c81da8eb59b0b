"""Runs a group natively and in the interpreter, and compares: random contents, poisoned scratch, canaries, several parts."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Dim
from anyshape.equations import Tensor
from anyshape.equations.interpret import interpret
from anyshape.failure_report import AREA, FailureReport, refusal
from anyshape.lower import Group, Kernel, PackedConstant, host_target, lower_group
from anyshape.lower.llvm.jit import Loaded, load_object, object_for

Array = NDArray[Any]
CANARY = 0x5A
_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class Native:
    """A loaded kernel and its last compile; `anew`: at an address of its own, even if it is loaded already."""

    def __init__(self, group: Group, target: Any = None, anew: bool = False) -> None:
        self.group = group
        self.target = target or host_target()
        self.kernel: Kernel = lower_group(group, self.target)
        self.loaded: Loaded = (loaded_anew if anew else load_kernel)(self.kernel, self.target)
        self.refusal = ""
        """What the last call tells, if it failed."""
        self.call = _SIGNATURE(self.loaded.address(self.kernel.symbol))

    def template(self, status: int) -> str:
        return self.kernel.errors[status - 1].template(self.kernel.scalars)

    def run(
        self,
        arrays: Mapping[Tensor, Array],
        sizes: Mapping[Dim, int],
        parts: int = 1,
        shift: int = 0,
        over: Sequence[tuple[int, int]] = (),
        ran: int | None = None,
    ) -> tuple[int, list[Array]]:
        """The status and the outputs; they begin at lines of the cache, or `shift` bytes further on. `over`: (output, input) in one place.
        `ran`: how many of the parts are run, if not all."""
        scalars = np.array([*[0] * AREA, *(int(dims.evaluate(s, sizes)) for s in self.kernel.scalars), 0], np.int64)
        inputs = []
        for t in self.kernel.inputs:
            inputs.append(np.ascontiguousarray(t.array if isinstance(t, PackedConstant) else arrays[t]))
        blocks, outputs = [], []
        for t in self.kernel.outputs:
            shape = tuple(int(dims.evaluate(n, sizes)) for n in t.shape)
            size = int(np.prod(shape)) * t.dtype.itemsize
            block = np.full(size + 256 + 128, CANARY, np.uint8)
            block = block[-block.ctypes.data % 64 :]
            blocks.append((block, size, shape, t))
        places = [b.ctypes.data + 64 + shift for b, *_ in blocks]
        for k, j in over:
            ctypes.memmove(places[k], inputs[j].ctypes.data, inputs[j].nbytes)
        addresses = [a.ctypes.data for a in inputs]
        for k, j in over:
            addresses[j] = places[k]
        bytes_ = int(dims.evaluate(self.kernel.scratch, sizes))
        pool = np.full(bytes_ + 128, 0xFF, np.uint8)
        start = -pool.ctypes.data % 64
        table = np.array(addresses + places or [0], np.uintp)
        status, self.refusal = 0, ""
        for part in range(parts if ran is None else ran):
            pool[: start + bytes_] = 0xFF
            status = status or self.call(
                scalars[AREA:].ctypes.data, table.ctypes.data, pool.ctypes.data + start, part, parts
            )
        if status:
            assert scalars[FailureReport.ERROR + AREA] == status
            self.refusal = refusal(self.template(status), scalars[AREA:].tolist(), scalars[:AREA].tolist())
        assert (pool[start + bytes_ :] == 0xFF).all(), "the kernel wrote past its scratch"
        for block, size, shape, t in blocks:
            body = block[64 + shift : 64 + shift + size]
            assert (block[: 64 + shift] == CANARY).all(), f"{t.name}: written before its start"
            assert (block[64 + shift + size :] == CANARY).all(), f"{t.name}: written past its end"
            outputs.append(body.copy().view(t.dtype.numpy).reshape(shape))
        return status, outputs


_LOADED: dict[str, Loaded] = {}


def load_kernel(kernel: Kernel, target: Any) -> Loaded:
    loaded = _LOADED.get(kernel.symbol)
    if loaded is None:
        loaded = _LOADED[kernel.symbol] = loaded_anew(kernel, target)
    return loaded


def loaded_anew(kernel: Kernel, target: Any) -> Loaded:
    return load_object(object_for(kernel.text, target), [kernel.symbol], library_addresses(kernel, target))


def library_addresses(kernel: Kernel, target: Any) -> dict[str, int]:
    from anyshape.lower.gemm import resolve

    return resolve(kernel.imports, target)


def contents(t: Tensor, sizes: Mapping[Dim, int], rng: np.random.Generator, special: bool = False) -> Array:
    """Random values of a dtype; `special` puts NaN, infinities and zeros in."""
    shape = tuple(int(dims.evaluate(n, sizes)) for n in t.shape)
    if t.dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if t.dtype.is_float:
        a = np.asarray(rng.normal(size=shape)).astype(t.dtype.numpy)
        if special and a.size:
            at = rng.integers(0, a.size, max(1, a.size // 16))
            a.reshape(-1)[at] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], at.size)
        return a
    low = 0 if t.dtype.kind == "uint" else -9
    return rng.integers(low, 10, shape).astype(t.dtype.numpy)


def close(got: Array, want: Array, tolerance: float, what: str) -> None:
    if got.dtype.kind not in "f" and got.dtype.name != "bfloat16":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True, err_msg=what)


def check(
    group: Group,
    sizes: Sequence[Mapping[Dim, int]] = ({},),
    tolerance: float = 2e-5,
    special: bool = False,
    fixed: Mapping[Tensor, Array] | None = None,
    parts: Sequence[int] = (1, 2, 3),
    target: Any = None,
) -> Native:
    """Native equals interpreter at every size, with every number of parts (bit-equal among themselves)."""
    native = Native(group, target)
    rng = np.random.default_rng(7)
    for values in sizes:
        arrays = {t: contents(t, values, rng, special) for t in group.inputs} | dict(fixed or {})
        with np.errstate(all="ignore"):
            want = interpret(group.equations, arrays, values)
        first: list[Array] | None = None
        for nparts in parts:
            status, got = native.run(arrays, values, nparts, shift=t_shift(nparts))
            assert status == 0, native.refusal
            for t, g in zip(group.outputs, got, strict=True):
                close(g, want[t], tolerance, f"{group.name} {t.name} at {dict(values)} in {nparts} parts")
            if first is not None:
                for a, b in zip(first, got, strict=True):
                    assert a.tobytes() == b.tobytes(), f"{group.name} differs with {nparts} parts at {dict(values)}"
            first = got
        assert first is not None
        check_in_place(native, arrays, values, first)
    return native


def check_in_place(
    native: Native, arrays: Mapping[Tensor, Array], values: Mapping[Dim, int], want: list[Array]
) -> None:
    """Every output that may be written over an input of its size, or of its shape, is: to the same bits."""
    for k, j in {*native.kernel.reusable, *native.kernel.overwrites}:
        source = native.kernel.inputs[j]
        assert not isinstance(source, PackedConstant)
        by_size = (k, j) in native.kernel.reusable and arrays[source].nbytes == want[k].nbytes
        if not by_size and arrays[source].shape != want[k].shape:  # the caller's business
            continue
        for nparts in (1, 3):
            status, got = native.run(arrays, values, nparts, over=[(k, j)])
            assert status == 0
            for t, a, b in zip(native.group.outputs, got, want, strict=True):
                where = (
                    f"{native.group.name} {t.name} with output {k} over input {j} at {dict(values)} in {nparts} parts"
                )
                assert a.tobytes() == b.tobytes(), where


def t_shift(nparts: int) -> int:
    """Outputs off their alignment by one 8-byte element in every second run."""
    return 8 if nparts == 2 else 0
