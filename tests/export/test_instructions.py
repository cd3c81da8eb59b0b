"""Products of bytes and in narrow precisions, exported for each target of x86-64: the instructions of the object, and what it computes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.graph.function import Function
from anyshape.precision import CHUNKED, NARROW, Narrow, Precision
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import Export, export, export_target, own_targets
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


def apart(got: Any, want: Any) -> float:
    """The largest difference as a share of the largest result."""
    return float(np.abs(got - want).max() / np.abs(want).max())


def product() -> Function:
    x = anyshape.input("x", "f32[m, 65]")
    return anyshape.function([x], ops.relu(ops.matmul(x, W) + 1))


def bytes_product() -> Function:
    x = anyshape.input("x", "u8[m, 65]")
    return anyshape.function([x], ops.matmul_integer(x, CODES))


EXPECTED: dict[str, dict[str, str]] = {
    "znver4": {"bytes": "vpdpbusd", "bf16": "vdpbf16ps"},
    "sapphirerapids": {
        "bytes": "vpdpbusd",
        CHUNKED: "vfmadd231ph",
    },  # its vectors multiply f32 faster than pairs of bf16
}
"""What products of each kind are made of, where it is one of these instructions"""
OWN = [t.name for t in own_targets()]
COMPILED = list(dict.fromkeys([*OWN, *EXPECTED]))


def exported(f: Function, target: str, precision: Precision = "exact") -> Export:
    return export(f, "op", export_target(target), make_options({"precision": precision}))


def used(e: Export) -> list[str]:
    return [name for name, pattern in INSTRUCTIONS.items() if len(pattern.findall(e.object)) > FEWEST]


def expected(target: str, kind: str) -> list[str]:
    return [name for k, name in EXPECTED.get(target, {}).items() if k == kind]


@pytest.mark.parametrize("target", COMPILED)
@pytest.mark.parametrize("precision", NARROW)
def test_each_level_rounds_what_the_interpreter_rounds(target: str, precision: Narrow) -> None:
    e = exported(product(), target, precision)
    assert used(e) == expected(target, precision)
    if target in OWN:
        x = RNG.standard_normal((9, 65)).astype(np.float32)
        (want,) = anyshape.compile(product(), precision=precision, kernels="interpret").run({"x": x})
        (got,) = Exported(e)(x)
        in_f16 = precision == CHUNKED and e.target.processor.halves
        assert apart(got, want) <= (SUMS_OF_F16 if in_f16 else SUMS)
        assert apart(np.maximum(x @ W + 1, 0), want) > SUMS, "factors are rounded"


@pytest.mark.parametrize("target", COMPILED)
def test_each_level_multiplies_bytes_exactly(target: str) -> None:
    e = exported(bytes_product(), target)
    assert used(e) == expected(target, "bytes")
    if target in OWN:
        x = RNG.integers(0, 256, (9, 65)).astype(np.uint8)
        np.testing.assert_array_equal(Exported(e)(x)[0], x.astype(np.int32) @ CODES.astype(np.int32))
