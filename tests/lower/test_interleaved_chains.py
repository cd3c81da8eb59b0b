"""Chains of instructions of several vectors are interleaved where that is faster, and mean the same."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.equations.functions import exp, sin, tanh
from anyshape.lower import lower_group
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.interleaved_chains import LONG, interleave_chains, interleaved_lines
from anyshape.lower.llvm.types import F32, I64, PTR, VOID, Val
from anyshape.lower.target import Target, processor
from tests.lower.groups import Builder, N

AVX2 = processor("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma,+f16c")
AVX512 = processor("x86_64-unknown-linux-gnu", "x86-64-v4", "+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq")


def text_of(function, target: Target) -> str:
    b = Builder("map")
    b.output(b.map(function, b.input([N])))
    return lower_group(b.group(), target).text


def nearest_of_same(text: str) -> int:
    """How many lines the two next products with log2(e), of two vectors of a block, are apart."""
    places = [k for k, line in enumerate(text.splitlines()) if "0x3FF7154760000000" in line]
    return min(b - a for a, b in pairwise(places))


def test_copies_of_a_block_are_interleaved() -> None:
    assert nearest_of_same(text_of(exp, AVX2)) == 1


def test_copies_stay_in_order_on_avx512() -> None:
    assert nearest_of_same(text_of(exp, AVX512)) >= LONG


def test_a_chain_that_branches_stays() -> None:
    """The sine of large angles is computed by a branch."""
    text = text_of(lambda v: sin(v) + exp(v), AVX2)
    assert nearest_of_same(text) >= LONG


def test_a_chain_of_several_stays() -> None:
    """Five functions of a value overlap as they are, and hold five times as many values."""
    text = text_of(lambda v: exp(v) + tanh(v) * tanh(v + 1) * (tanh(v - 1) + tanh(v + 2)) * tanh(v * 3), AVX2)
    assert nearest_of_same(text) >= LONG


def test_lines_wait_for_what_they_read() -> None:
    pieces = [["%v1 = a", "%v2 = b %v1", "%v3 = c %v2"], ["%v4 = d %v3", "%v5 = e %v4"], ["%v6 = f", "%v7 = g %v6"]]
    order = interleaved_lines(pieces)
    assert order == [
        *("%v1 = a", "%v6 = f", "%v2 = b %v1", "%v7 = g %v6", "%v3 = c %v2"),
        *("%v4 = d %v3", "%v5 = e %v4"),
    ]
    defined: set[str] = set()
    for line in order:
        name, *read = re.findall(r"%v\d+", line)
        assert defined.issuperset(read)
        defined.add(name)


@pytest.mark.parametrize("stores", [False, True])
def test_memory_keeps_its_order(stores: bool) -> None:
    module = Module(AVX2)
    with module.function("f", VOID, [("x", PTR)]) as f:

        def chain(k: int) -> Val:
            v = f.load(f.args[0], F32, k)
            for _ in range(LONG):
                v = f.add(v, v)
            if stores:
                f.store(v, f.args[0], k + 1)
            return v

        first, second = interleave_chains(f, [lambda: chain(0), lambda: chain(1)])
        f.store(f.add(first, second), f.args[0], f.add(f.load(f.args[0], I64), 1))
        f.ret()
    lines = module.text().splitlines()
    loads = [k for k, line in enumerate(lines) if "load float" in line]
    assert (loads[1] - loads[0] < LONG) is not stores


@pytest.mark.parametrize("target", ["avx2", "sse"])
@pytest.mark.parametrize("count", [5, 32, 100])
def test_values(target: str, count: int) -> None:
    x = anyshape.input("x", "f32[n, m]")
    run = anyshape.compile(anyshape.function([x], [ops.softmax(x), ops.tanh(ops.exp(x))]), target=target)
    values = np.random.default_rng(0).normal(0, 2, (3, count)).astype(np.float32)
    soft, bent = run(values)
    powers = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(soft, powers / powers.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(bent, np.tanh(powers), rtol=1e-5)


def test_sums_of_chains_are_interleaved() -> None:
    b = Builder("sums")
    y = b.map(lambda v: tanh(exp(v)), b.input([N, 64]))
    b.output(b.reduce("sum", y, (1,)))
    assert nearest_of_same(lower_group(b.group(), AVX2).text) <= 4


def test_nan_lanes_are_kept_as_wide_as_floats() -> None:
    """The largest of a row with the lanes that met NaN: packing truths into fewer bits takes two instructions a pair of vectors."""
    b = Builder("largest")
    b.output(b.reduce("max", b.input([N, 64]), (1,)))
    text = lower_group(b.group(), AVX2).text
    assert "phi <8 x i32>" in text and "phi <8 x i1>" not in text
    assert "phi <16 x i1>" in lower_group(b.group(), AVX512).text
    x = anyshape.input("x", "f32[n, m]")
    for target in ("host", "avx2", "sse"):
        largest = anyshape.compile(anyshape.function([x], ops.max(x, axes=[1])), target=target)
        for place in (0, 7, 40, 63, 66):
            values = np.arange(3 * 67, dtype=np.float32).reshape(3, 67)
            values[1, place] = np.nan
            np.testing.assert_array_equal(largest(values).ravel(), values.max(1))
