"""Floats of 16 bits on processors with and without instructions for them: every one of them, and what lies between two."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape import ops

HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def between() -> Any:
    """f32 around the rounding edges of both dtypes, special numbers, and any bits."""
    edges = [np.arange(1 << 16, dtype=np.uint32) << 16]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    edges += [halves + d for d in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)] + [
        edges[0] + d for d in (1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
    ]
    edges.append(np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32))
    return np.concatenate(edges).view(np.float32)


@pytest.mark.parametrize("target", [None, "avx2", "sse"])
@pytest.mark.parametrize("name", HALVES)
def test_both_ways(name: str, target: str | None) -> None:
    options: dict[str, Any] = {} if target is None else {"target": target}
    dtype = HALVES[name]
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    x, y = anyshape.input("x", f"{name}[n]"), anyshape.input("y", "f32[n]")
    wide = anyshape.compile(anyshape.function([x], ops.cast(x, to="f32")), **options)
    np.testing.assert_array_equal(wide(every), every.astype(np.float32))
    short = anyshape.compile(anyshape.function([y], ops.cast(y, to=name)), **options)
    numbers = between()
    with np.errstate(all="ignore"):
        want = numbers.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(short(numbers).astype(np.float32), want)
