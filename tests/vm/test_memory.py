"""The memory plan: no two values that live at once overlap, for random lifetimes, sizes and values of the symbols; and plans are tight."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import anyshape
import anyshape_ops.api as ops
from anyshape.dims import Size, evaluate, maximum, minimum, symbol
from anyshape.vm.compiling.arena_code import ArenaCode
from anyshape.vm.compiling.lifetimes import ENTRY, StorageGroup
from anyshape.vm.compiling.shape_code import ShapeCode
from anyshape.vm.program.memory_layout import MemoryLayout, Tenant, at_typical_points, lay_out, most_alive
from anyshape.vm.program.table import Op, decode
from anyshape.vm.run.arena import MAPPED, CallMemory

N, M = symbol("n"), symbol("m")
SIZES: tuple[Size, ...] = (
    0, 64, 128, 64 * N, 64 * M, 64 * N * M, 64 * N + 64, (4 * N * M + 63) // 64 * 64, 64 * minimum(N, 7), 64 * maximum(N, M), 256 * N * N,
)  # fmt: skip
VALUES = st.integers(0, 9)


@st.composite
def tenants(draw: st.DrawFn) -> list[Tenant]:
    drawn = []
    for k in range(draw(st.integers(0, 25))):
        start = k // 2
        drawn.append(Tenant(draw(st.sampled_from(SIZES)), start, start + draw(st.integers(0, 6))))
    return draw(st.permutations(drawn))


def numbers(listed: list[Tenant], layout: MemoryLayout, n: int, m: int) -> tuple[list[int], list[int], int]:
    """(sizes, offsets, total), computed as the layout says."""
    sizes = [evaluate(t.bytes, {N: n, M: m}) for t in listed]
    offsets, ends = [0] * len(listed), [0] * len(listed)
    for k in layout.order:
        offsets[k] = max((ends[j] for j in layout.below[k]), default=0)
        ends[k] = offsets[k] + sizes[k]
    return sizes, offsets, max((ends[k] for k in layout.top), default=0)


@given(tenants(), VALUES, VALUES)
def test_values_alive_at_once_never_overlap(listed: list[Tenant], n: int, m: int) -> None:
    layout = lay_out(listed)
    assert sorted(layout.order) == list(range(len(listed)))
    sizes, offsets, total = numbers(listed, layout, n, m)
    for k, t in enumerate(listed):
        assert offsets[k] % 64 == 0 and offsets[k] >= 0 and offsets[k] + sizes[k] <= total
        for j in range(k):
            u = listed[j]
            if t.start <= u.end and u.start <= t.end:
                assert offsets[k] + sizes[k] <= offsets[j] or offsets[j] + sizes[j] <= offsets[k]


@settings(max_examples=50)
@given(tenants().filter(bool), VALUES, VALUES)
def test_instructions_compute_the_layout(listed: list[Tenant], n: int, m: int) -> None:
    code = ShapeCode()
    for s, value in ((N, n), (M, m)):
        code.define(s, code.new(Op.CONST, value))
    arena = ArenaCode(code, {ENTRY: StorageGroup(ENTRY, listed, [()] * len(listed))}, lambda values: None)
    arena.prepare(ENTRY)
    _, offsets, total = numbers(listed, arena.layouts[ENTRY], n, m)
    base = 1 << 20
    got, asked = run_scalars(code.words, base)
    assert asked == total
    for k in range(len(listed)):
        assert got[arena._addresses[ENTRY][k]] == base + offsets[k]


def run_scalars(words: list[int], base: int) -> tuple[dict[int, int], int]:
    """(registers, bytes asked of the region) after straight-line code; the region is at `base`."""
    r: dict[int, int] = {}
    asked = -1
    two = {Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b, Op.MUL: lambda a, b: a * b, Op.MAX: max, Op.MIN: min,
           Op.FLOORDIV: lambda a, b: a // b, Op.VIEW: lambda a, b: a + b}  # fmt: skip
    for _, op, o in decode(words):
        d, *rest = (k for k in o if isinstance(k, int))
        if op is Op.CONST:
            r[d] = rest[0]
        elif op is Op.REGION:
            assert asked == -1, "one growth check"
            asked, r[d] = r[rest[1]], base
        else:
            r[d] = two[op](r[rest[0]], r[rest[1]])
    return r, asked


def test_a_chain_takes_what_two_steps_need() -> None:
    listed = [Tenant(SIZES[1 + k % 6], k, k + 1) for k in range(20)]
    _, _, total = numbers(listed, lay_out(listed), 8, 8)
    sizes = [evaluate(t.bytes, {N: 8, M: 8}) for t in listed]
    assert total <= 1.2 * max(a + b for a, b in pairwise(sizes))


def test_a_large_value_takes_the_place_of_several_small_ones() -> None:
    small = [Tenant(64 * N * M, 0, 1) for _ in range(4)]
    listed = [*small, Tenant(256 * N * M, 2, 3), *(Tenant(64 * N * M, 4, 5) for _ in range(4))]
    assert numbers(listed, lay_out(listed), 5, 7)[2] == 256 * 35


def test_a_long_program_stays_near_what_is_alive() -> None:
    rng = random.Random(0)
    listed = [Tenant(rng.choice(SIZES[1:]), k // 2, k // 2 + rng.choice([0, 1, 1, 2, 5])) for k in range(1600)]
    sizes = [evaluate(t.bytes, {N: 8, M: 8}) for t in listed]
    alive = max(sum(s for s, t in zip(sizes, listed) if t.start <= step <= t.end) for step in range(0, 800, 5))
    assert numbers(listed, lay_out(listed), 8, 8)[2] <= 2 * alive


def test_unequal_symbols_share() -> None:
    listed = [Tenant(64 * N, 0, 1), Tenant(64 * M, 2, 3)]
    layout = lay_out(listed)
    assert numbers(listed, layout, 9, 2)[2] == 64 * 9 and numbers(listed, layout, 1, 5)[2] == 64 * 5


def test_typical_points_are_distinct() -> None:
    listed = [Tenant(64 * N, 0, 3), Tenant(64 * M, 1, 1)]
    sizes = at_typical_points(listed)
    assert (sizes[0] > sizes[1]).any() and (sizes[0] < sizes[1]).any()
    np.testing.assert_array_equal(most_alive(listed, sizes), sizes.sum(axis=0))


def test_a_size_that_overflows_at_a_typical_point_is_only_large() -> None:
    """The numbers of a point depend on the order in which symbols were made: none may fail a compilation."""
    product: Size = 1
    for k in range(6):
        n = symbol(f"large{k}")
        product = product * n * n * n
    sizes = at_typical_points([Tenant(product, 0, 1), Tenant(symbol("small"), 0, 1)])
    assert np.isfinite(sizes).all() and sizes[0].max() >= 2.0**62


def test_regions_are_aligned_and_grow() -> None:
    context = CallMemory(2)
    for size in (1, 64, 1000, MAPPED, 3 * MAPPED + 5, 10):
        address = context.region(0, size)
        assert address % 64 == 0 and context.regions[0].capacity >= size
    assert context.region(0, 10) == address
    assert context.regions[1].capacity == 0


def test_a_region_whose_size_varies_is_mapped_at_once() -> None:
    """A call at a larger shape finds memory that was touched before; a region whose size is a number is as large as it must be."""
    varies, fixed = (anyshape.input("x", f"f32[{n}, 64]") for n in ("n", 64))
    memory = []
    for x in (varies, fixed):
        f = anyshape.function([x], ops.matmul(ops.relu(x), ops.transpose(x, [1, 0])))  # none of which is shared out
        exe = anyshape.compile(f, kernels="native", loop="native", fuse=False)
        for n in (64, 100) if x is varies else (64, 64):
            exe(np.ones((n, 64), np.float32))
            memory.append(exe.memory)
    assert memory[:2] == [MAPPED, MAPPED]
    assert 1 << 14 <= memory[2] == memory[3] < MAPPED
