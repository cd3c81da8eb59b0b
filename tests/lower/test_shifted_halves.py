"""f16 weights widened by shifts give bit for bit what conversions give, whatever they are and whatever they are multiplied by."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anyshape
from anyshape import ops
from anyshape.dtypes import F32
from anyshape.equations.expr import cast
from anyshape.lower import Group, host_target
from anyshape.lower.forms import FormWriter
from anyshape.lower.gemm.halves import are_finite
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.types import PTR, VOID
from anyshape.lower.target import Target
from tests.lower.groups import Builder, N
from tests.lower.native import Native

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = EVERY[np.isfinite(EVERY)]
SHIFTED = "shifted_kernels"
Halves = NDArray[np.float16]


def drawn(seed: int, *shape: int) -> Halves:
    """Any finite f16, and rows of zeros of both signs."""
    a: Halves = np.random.default_rng(seed).choice(FINITE, shape)
    a[::7] = 0
    a[::9] = -0.0
    return a


def product(weights: Halves, left: str = "f16") -> Group:
    b = Builder("matmul")
    x, w = b.input([N, weights.shape[0]], left), b.input([*weights.shape], "f16")
    wide = [b.map(lambda v: cast(v, F32), t, dtype="f32") if t.dtype.name != "f32" else t for t in (x, w)]
    b.output(b.matmul(*wide))
    return replace(b.group(), constants={w: weights})


def sums(group: Group, x: Halves, target: Target, parts: int) -> NDArray[Any]:
    status, (found,) = Native(group, target).run({group.inputs[0]: x}, {N: len(x)}, parts)
    assert status == 0
    return found.view(np.uint32)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize(("k", "n"), [(7, 33), (40, 16), (33, 70), (600, 65), (513, 96)])
def test_bits_are_those_of_conversions(level: str, k: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, group = host_target().limited(level), product(drawn(0, k, n))
    rows = [drawn(m, m, k) for m in (1, 4, 5, 8, 14, 15, 28, 33, 64)]
    rows[3][2, k // 2], rows[4][1, 0] = np.inf, np.nan
    found = []
    for shifts in (False, True):
        monkeypatch.setattr(Target, "shifts_halves", shifts)
        assert (SHIFTED in Native(group, target).kernel.text) is shifts
        with np.errstate(all="ignore"):
            found.append([sums(group, x, target, parts) for x in rows for parts in (1, 2, 4)])
    for converted, shifted in zip(*found, strict=True):
        np.testing.assert_array_equal(shifted, converted)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_is_converted(bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of weights of one shape, in one process, in any order."""
    monkeypatch.setattr(Target, "shifts_halves", True)
    finite = np.ones((40, 48), np.float16)
    other = finite.copy()
    other[3, 5] = bad
    assert FormWriter().group(product(finite)) != FormWriter().group(product(other))
    x = anyshape.input("x", "f16[n, 40]")
    for weights in (finite, other, finite):
        exe = anyshape.compile(anyshape.function([x], ops.matmul(x, anyshape.constant(weights))))
        with np.errstate(all="ignore"):
            want = np.ones((8, 40), np.float32) @ weights.astype(np.float32)
        np.testing.assert_array_equal(exe(np.ones((8, 40), np.float16)), want.astype(np.float16))


@pytest.mark.parametrize("left", ["f32", "bf16"])
def test_other_factors_have_no_room(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "shifts_halves", True)
    assert SHIFTED not in Native(product(drawn(0, 40, 48), left)).kernel.text


def test_every_number_is_known_for_what_it_is() -> None:
    assert [are_finite(EVERY[k : k + 1]) for k in range(1 << 16)] == np.isfinite(EVERY).tolist()
    assert are_finite(FINITE) and are_finite(FINITE[::2]) and are_finite(FINITE[:0]) and not are_finite(EVERY)


@contextmanager
def denormals_are_zeros() -> Iterator[None]:
    """As a library compiled with -ffast-math leaves the thread that loads it (bit 6 of x86's MXCSR)."""
    module = Module(host_target())
    for name in ("st", "ld"):
        with module.function(name, VOID, [("word", PTR)]) as f:
            f.call_intrinsic(f"llvm.x86.sse.{name}mxcsr", VOID, [f.args[0]])
            f.ret()
    loaded, word = compile_module(module), ctypes.c_uint32()
    st, ld = (ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address(name)) for name in ("st", "ld"))
    st(ctypes.addressof(word))
    before = word.value
    word.value = before | 1 << 6
    ld(ctypes.addressof(word))
    try:
        yield
    finally:
        word.value = before
        ld(ctypes.addressof(word))


@pytest.mark.skipif(not host_target().triple.startswith("x86_64"), reason="the switch is x86's")
def test_small_weights_count_where_small_numbers_are_taken_for_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "shifts_halves", True)
    small = np.full((40, 48), 2**-20, np.float16)
    group, x = product(small), np.full((8, 40), 2**10, np.float16)
    want = np.full((8, 48), 40 * 2**-10, np.float32).view(np.uint32)
    np.testing.assert_array_equal(sums(group, x, host_target(), 1), want)
    with denormals_are_zeros():
        found = sums(group, x, host_target(), 1)
    np.testing.assert_array_equal(found, want)


def test_wider_panels_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows and fewer take several panels at once, which are converted."""
    monkeypatch.setattr(Target, "shifts_halves", True)
    weights = np.eye(40, 96, dtype=np.float16)
    group, x = product(weights), drawn(1, 4, 40)
    for m in range(1, 5):
        found = sums(group, x[:m], host_target(), 1).view(np.float32)
        np.testing.assert_array_equal(found, x[:m].astype(np.float32) @ weights.astype(np.float32))
