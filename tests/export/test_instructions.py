"""Instructions that multiply bytes, pairs of bf16 and f16, in the objects of those targets that have them, and in no other."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.graph.function import Function
from anyshape.precision import CHUNKED, NARROW, Narrow, Precision
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import export, export_target, own_targets
from anyshape_testing.exports.loaded import Exported

SUMS = 2e-6
"""What results may differ by, as a share of the largest, by the order of sums in f32"""
SUMS_OF_F16 = 2e-3
RNG = np.random.default_rng(7)
W, CODES = RNG.standard_normal((65, 70)).astype(np.float32), RNG.integers(-128, 128, (65, 70)).astype(np.int8)


def evex(opcode_map: int, prefix: int, opcode: int) -> re.Pattern[bytes]:
    """An instruction on vectors of 512 bits with W = 0, by the three bytes of its prefix (Intel SDM vol. 2A, "Intel AVX-512 Encoding")."""
    first = bytes(b for b in range(256) if b & 0x0F == opcode_map)
    second = bytes(b for b in range(256) if b & 0x87 == 4 | prefix)
    third = bytes(b for b in range(256) if b & 0x60 == 0x40)
    classes = b"".join(b"[" + re.escape(c) + b"]" for c in (first, second, third))
    return re.compile(b"\x62" + classes + re.escape(bytes([opcode])), re.DOTALL)


INSTRUCTIONS = {
    "vpdpbusd": evex(2, 1, 0x50),
    "vdpbf16ps": evex(2, 2, 0x52),
    "vfmadd231ph": evex(6, 1, 0xB8),
}
FEWEST = 20
"""A product has more of its instructions than this; bytes that happen to be like one are fewer."""


def product() -> Function:
    x = anyshape.input("x", "f32[m, 65]")
    return anyshape.function([x], ops.relu(ops.matmul(x, W) + 1))


def bytes_product() -> Function:
    x = anyshape.input("x", "u8[m, 65]")
    return anyshape.function([x], ops.matmul_integer(x, CODES))


@cache
def exported(make: Any, target: str, precision: Precision = "exact") -> Any:
    return export(make(), "op", export_target(target), make_options({"precision": precision}))


def used(make: Any, target: str, precision: Precision = "exact") -> set[str]:
    code = exported(make, target, precision).object
    return {name for name, pattern in INSTRUCTIONS.items() if len(pattern.findall(code)) > FEWEST}


@pytest.mark.parametrize(("target", "of_bytes", "of_bf16", "of_f16"), [
    ("x86-64-v4", set(), set(), set()),
    ("znver4", {"vpdpbusd"}, {"vdpbf16ps"}, set()),
    ("sapphirerapids", {"vpdpbusd"}, set(), {"vfmadd231ph"}),  # its vectors multiply f32 faster than pairs of bf16
])  # fmt: skip
def test_instructions_of_products(target: str, of_bytes: set[str], of_bf16: set[str], of_f16: set[str]) -> None:
    assert used(bytes_product, target) == of_bytes
    assert used(product, target, "bf16") == of_bf16
    assert used(product, target, CHUNKED) == of_f16
    assert not used(product, target)


@pytest.mark.parametrize("target", [t.name for t in own_targets()])
@pytest.mark.parametrize("precision", NARROW)
def test_each_level_rounds_what_the_interpreter_rounds(target: str, precision: Narrow) -> None:
    x = RNG.standard_normal((9, 65)).astype(np.float32)
    (expected,) = anyshape.compile(product(), precision=precision, kernels="interpret").run({"x": x})
    exact = np.maximum(x @ W + 1, 0)
    (got,) = Exported(exported(product, target, precision))(x)
    in_f16 = precision == CHUNKED and export_target(target).processor.halves
    assert np.abs(got - expected).max() <= (SUMS_OF_F16 if in_f16 else SUMS) * np.abs(expected).max()
    assert np.abs(exact - expected).max() > SUMS * np.abs(expected).max(), "factors are rounded"


@pytest.mark.parametrize("target", [t.name for t in own_targets()])
def test_each_level_multiplies_bytes_exactly(target: str) -> None:
    x = RNG.integers(0, 256, (9, 65)).astype(np.uint8)
    (got,) = Exported(exported(bytes_product, target))(x)
    np.testing.assert_array_equal(got, x.astype(np.int32) @ CODES.astype(np.int32))
