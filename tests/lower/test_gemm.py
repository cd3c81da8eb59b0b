"""The contraction template against NumPy: every edge of tile and panel, every layout, canaries and poisoned scratch."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.lower import gemm
from anyshape.lower.gemm.library import library_module
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import F32, F64, I32, I64, PTR, Type, Val, const
from anyshape.lower.target import Target, host_target
from tests.lower.forbidden import before_forbidden_memory

ELEMENTS: dict[str, Type] = {"float32": F32, "float64": F64, "int32": I32, "int64": I64}
SIZES = [0, 1, 2, 3, 5, 7, 13, 14, 15, 16, 17, 31, 32, 33, 64, 77, 128, 129, 200]
CANARY = 77
TOGETHER = {"fused": 1, "fused by pairs": 2}
"""Vectors of a row that an epilogue takes at once."""


def bias_relu(bias: Val, to: Val, row_stride: Val, batch_stride: Val) -> gemm.Epilogue:
    """max(sums + bias[column], 0), stored with unit column stride."""

    def columns(f: FunctionBuilder, tile: gemm.Tile, column: Val, masks: gemm.Masks) -> gemm.RowBody:
        def body(g: FunctionBuilder, row: Val, vectors: Sequence[Val]) -> None:
            first = g.add(g.mul(row, row_stride), g.mul(tile.batch[0], batch_stride))
            for k, (sums, mask) in enumerate(zip(vectors, masks, strict=True)):
                at = g.add(column, k * sums.type.lanes)
                b = g.load(bias, sums.type, at) if mask is None else g.masked_load(bias, sums.type, mask, at)
                total = g.add(sums, b)
                result = g.select(g.compare("gt", total, 0), total, const(total.type, 0))
                if mask is None:
                    g.store(result, to, g.add(first, at))
                else:
                    g.masked_store(result, to, mask, g.add(first, at))

        return body

    return columns


NAMES = ["m", "n", "k", "am", "ak", "bk", "bn", "cm", "cn", "b1", "b2", "a1", "a2", "bb1", "bb2", "c1", "c2"]


def processor(level: str) -> Target:
    """Returns this machine as a target that uses less of it; a number behind the level is KiB of its first cache."""
    name, _, first_cache = level.partition(" ")
    target = host_target().limited(name)
    return replace(target, l1_bytes=int(first_cache) << 10) if first_cache else target


@cache
def kernel(dtype: str, level: str, b_kind: str, finish: str) -> Loaded:
    """Scalars: NAMES in order; buffers: a, b, c, bias."""
    module = Module(processor(level))
    with module.kernel("contract") as f:
        scalars, buffers, scratch, part, nparts = f.args
        s = {name: f.load(scalars, I64, at) for at, name in enumerate(NAMES)}
        a, b, c, bias = (f.load(buffers, PTR, at) for at in range(4))
        if b_kind == "prepacked":
            right: gemm.Strided | gemm.Prepacked = gemm.Prepacked(b)
        else:
            right = gemm.Strided(b, s["bk"], 1 if b_kind == "unit" else s["bn"])
        destination = gemm.Destination(c, s["cm"], 1 if finish == "direct" else s["cn"])
        fused = bias_relu(bias, c, s["cm"], s["c1"]) if finish in TOGETHER else None
        gemm.emit_contraction(
            f,
            gemm.ContractionSpec(
                element=ELEMENTS[dtype],
                m=s["m"],
                n=s["n"],
                k=s["k"],
                a=gemm.Strided(a, s["am"], s["ak"]),
                b=right,
                c=None if fused else destination,
                epilogue=fused,
                batch=[
                    gemm.Batch(s["b1"], s["a1"], s["bb1"], s["c1"]),
                    gemm.Batch(s["b2"], s["a2"], s["bb2"], s["c2"]),
                ],
                together=TOGETHER.get(finish, 1),
            ),
            scratch,
            part,
            nparts,
        )
        f.ret(const(I32, 0))
    return compile_module(module, gemm.resolve(module.imports, module.target))


def random_of(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(sum(shape) + 1)
    if dtype.startswith("int"):
        return rng.integers(-9, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def steps(x: np.ndarray[Any, Any]) -> list[int]:
    return [stride // x.itemsize for stride in x.strides]


def contract(
    a: np.ndarray[Any, Any],
    b: np.ndarray[Any, Any],
    b_kind: str = "any",
    finish: str = "direct",
    level: str = "avx512",
    nparts: int = 1,
    c_order: str = "rows",
    bias: np.ndarray[Any, Any] | None = None,
    only: int | None = None,
) -> np.ndarray[Any, Any]:
    """a [b1, b2, m, k] @ b [b1, b2, k, n] by the template, with canaries around c and NaN in the scratch; one part `only`."""
    b1, b2, m, k = a.shape
    n = b.shape[-1]
    dtype = a.dtype
    tiles = gemm.tiles_for(processor(level), ELEMENTS[dtype.name])
    bb1, bb2, bk, bn = steps(b)
    if b_kind == "prepacked":
        b = gemm.prepack_b(b, tiles)
        bb2 = gemm.prepacked_elements(k, n, tiles)
        bb1 = bb2 * b2
    size = b1 * b2 * m * n
    memory = np.full(size + 128, CANARY, dtype)
    inner = memory[64 : 64 + size]
    c = inner.reshape(b1, b2, n, m).swapaxes(2, 3) if c_order == "columns" else inner.reshape(b1, b2, m, n)
    c1, c2, cm, cn = steps(c)
    a1, a2, am, ak = steps(a)
    scalars = np.array([m, n, k, am, ak, bk, bn, cm, cn, b1, b2, a1, a2, bb1, bb2, c1, c2], np.int64)
    bias = np.zeros(max(n, 1), dtype) if bias is None else bias
    buffers = np.array([a.ctypes.data, b.ctypes.data, memory.ctypes.data + 64 * dtype.itemsize, bias.ctypes.data])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(
        kernel(dtype.name, level, b_kind, finish).address("contract")
    )
    bytes_ = gemm.scratch_bytes(tiles, m, n, k, packs_b=b_kind == "any")
    for part in range(nparts) if only is None else [only]:
        scratch = np.full(bytes_ + 64, 255, np.uint8)
        assert function(scalars.ctypes.data, buffers.ctypes.data, scratch.ctypes.data, part, nparts) == 0
        assert (scratch[bytes_:] == 255).all()
    assert (memory[:64] == CANARY).all()
    assert (memory[64 + size :] == CANARY).all()
    return c.copy()


def check(got: np.ndarray[Any, Any], a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    if a.dtype.kind == "i":
        np.testing.assert_array_equal(got, a @ b)
        return
    wide = np.longdouble if a.dtype == np.float64 else np.float64
    expected = a.astype(wide) @ b.astype(wide)
    size = np.abs(a).astype(wide) @ np.abs(b).astype(wide)
    assert (np.abs(got - expected) <= np.finfo(a.dtype).eps * (4 + 2 * np.sqrt(a.shape[-1])) * size).all()


def layouts(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], index: int) -> tuple[Any, Any, str]:
    """One of eight ways to hold the same operands."""
    a_way, b_way = index % 3, index % 5
    if a_way == 1:
        a = np.ascontiguousarray(a.swapaxes(2, 3)).swapaxes(2, 3)
    elif a_way == 2:
        a = np.repeat(np.repeat(a, 2, axis=3), 2, axis=2)[:, :, ::2, ::2]
    if b_way == 0:
        return a, b, "unit"
    if b_way == 1:
        return a, b, "prepacked"
    if b_way == 2:
        return a, b, "any"
    if b_way == 3:
        return a, np.ascontiguousarray(b.swapaxes(2, 3)).swapaxes(2, 3), "any"
    return a, np.repeat(b, 3, axis=3)[..., ::3], "any"


@pytest.mark.parametrize("m", SIZES)
def test_every_size_by_some_layout(m: int) -> None:
    for index, (n, k) in enumerate(itertools.product(SIZES, [0, 1, 2, 7, 15, 16, 17, 33, 130])):
        a, b = random_of("float32", 1, 1, m, k), random_of("float32", 1, 1, k, n)
        left, right, kind = layouts(a, b, index + m)
        check(contract(left, right, kind), a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_every_type_and_level(dtype: str, level: str) -> None:
    sizes = [(1, 40, 9), (2, 70, 33), (4, 129, 8), (5, 64, 20), (14, 33, 17), (23, 31, 40), (60, 100, 65), (3, 1, 7)]
    for index, (m, n, k) in enumerate(sizes * 2):
        a, b = random_of(dtype, 1, 2, m, k), random_of(dtype, 1, 2, k, n)
        left, right, kind = layouts(a, b, index)
        check(contract(left, right, kind, level=level), a, b)


@pytest.mark.parametrize(
    "m, n, k", [(1, 300, 20), (1, 9001, 5), (5, 200, 31), (64, 33, 50), (129, 70, 10), (0, 5, 3), (3, 0, 4)]
)
@pytest.mark.parametrize("batch", [(1, 1), (2, 3), (0, 2), (5, 1)])
def test_parts_are_bit_equal(m: int, n: int, k: int, batch: tuple[int, int]) -> None:
    a, b = random_of("float32", *batch, m, k), random_of("float32", *batch, k, n)
    for kind in ("unit", "any", "prepacked"):
        whole = contract(a, b, kind)
        check(whole, a, b)
        for nparts in (2, 3, 7):
            np.testing.assert_array_equal(contract(a, b, kind, nparts=nparts), whole)


@pytest.mark.parametrize("m, n", [(29, 256), (33, 768), (33, 3072), (65, 1024), (512, 768), (700, 30)])
@pytest.mark.parametrize("nparts", [2, 4])
def test_no_part_has_more_than_its_share(m: int, n: int, nparts: int) -> None:
    """Rows are shared out only if that is even: all wait for the part with the 17th of 33."""
    a, b = random_of("float32", 1, 1, m, 8), random_of("float32", 1, 1, 8, n)
    done = [(contract(a, b, "prepacked", nparts=nparts, only=part) != CANARY).sum() for part in range(nparts)]
    assert sum(done) == m * n
    assert max(done) <= 1.02 * m * n / nparts


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_few_rows_of_columns_along_k(level: str, dtype: str) -> None:
    """Nine rows are more than are multiplied in place."""
    for m, n, k in itertools.product(range(1, 10), (1, 2, 7, 16, 33), (0, 1, 15, 16, 40)):
        a, b = random_of(dtype, 1, 2, m, k), random_of(dtype, 1, 2, k, n)
        left, right, kind = layouts(a, b, 3)
        check(contract(left, right, kind, level=level), a, b)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("level", ["avx512 32", "avx512 48", "avx2 32", "avx2 48", "sse"])
def test_few_rows_of_a_matrix_beyond_the_second_cache(m: int, level: str) -> None:
    """Columns that several panels, one and a piece of one take; a part alone has few enough for the cache."""
    n = 203
    k = gemm.tiles_for(processor(level), F32).unfetched // (4 * n) + 5
    a, b = random_of("float32", 1, 1, m, k), random_of("float32", 1, 1, k, n)
    for kind in ("unit", "prepacked"):
        whole = contract(a, b, kind, level=level)
        check(whole, a, b)
        np.testing.assert_array_equal(contract(a, b, kind, level=level, nparts=3), whole)


@pytest.mark.parametrize(
    ("level", "lines"), [("avx512 32", 0), ("avx512 48", 12), ("avx2 32", 4), ("avx2 48", 12), ("sse 32", 4)]
)
def test_few_rows_prefetch_unless_whole_lines_fill_few_buffers(level: str, lines: int) -> None:
    """The library has a kernel of its own for few rows, or none; a large first cache has more buffers for misses."""
    target = replace(processor(level), line_bytes=64)
    if level == "avx512 32" and target.vector_bytes < 64:
        lines = 4  # a machine whose longest vectors are half a line
    assert target.lines_ahead == lines
    assert ("f32_far_1" in library_module(target, F32).text()) == (lines > 0)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_a_tile_takes_several_panels_before_the_next_one(level: str) -> None:
    """A tile takes several panels as long as its rows stay in the first cache: a length that does, and one that does not."""
    tiles = gemm.tiles_for(processor(level), F32)
    m, n = 2 * tiles.rows + 1, 3 * tiles.columns + 5
    for k in (tiles.strip // tiles.rows, tiles.strip // tiles.rows + 1):
        a, b = random_of("float32", 1, 1, m, k), random_of("float32", 1, 1, k, n)
        for kind in ("unit", "any", "prepacked"):
            whole = contract(a, b, kind, level=level)
            check(whole, a, b)
            fused = contract(a, b, kind, "fused", level=level, bias=np.zeros(n + 1, np.float32))
            np.testing.assert_array_equal(fused, np.maximum(whole, 0))


def test_shared_operands_and_gaps_between_rows() -> None:
    a = np.broadcast_to(random_of("float32", 1, 1, 9, 12), (2, 3, 9, 12))
    b = random_of("float32", 2, 3, 12, 50)[..., 3:40]
    check(contract(a, b, "unit"), a, b)


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (6, 40, 0), (15, 33, 9), (40, 100, 20)])
def test_columns_of_c_may_be_strided(m: int, n: int, k: int) -> None:
    a, b = random_of("float32", 2, 1, m, k), random_of("float32", 2, 1, k, n)
    check(contract(a, b, "unit", finish="strided", c_order="columns"), a, b)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    "m, n, k", [(1, 200, 30), (1, 9001, 7), (3, 77, 5), (8, 32, 0), (29, 45, 64), (1, 0, 4), (15, 55, 9)]
)
@pytest.mark.parametrize("finish", TOGETHER)
def test_epilogue_sees_every_element_once(dtype: str, m: int, n: int, k: int, finish: str) -> None:
    a, b, bias = random_of(dtype, 2, 1, m, k), random_of(dtype, 2, 1, k, n), random_of(dtype, n + 1)
    plain = contract(a, b, "unit")
    fused = contract(a, b, "unit", finish=finish, bias=bias)
    np.testing.assert_array_equal(fused, np.maximum(plain + bias[:n], 0))


def test_long_sums_cut_the_blocks_of_rows() -> None:
    a, b = random_of("float32", 1, 1, 100, 20_000), random_of("float32", 1, 1, 20_000, 40)
    check(contract(a, b, "unit"), a, b)
    check(contract(a, np.asfortranarray(b), "any"), a, b)


def test_operands_computed_while_packing() -> None:
    """A[i, l] = i + l and B[l, j] = l - j, from no memory at all."""
    module = Module(host_target())

    def packer(sign: int) -> gemm.Packed:
        def emit(f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
            with f.for_range(0, 50) as steps_, f.for_range(0, count) as rows:
                other = f.add(first, rows.index)
                value = f.add(steps_.index, f.mul(other, sign))
                f.store(f.convert("sitofp", value, F32), to, f.add(f.mul(steps_.index, width), rows.index))

        return gemm.Packed(emit)

    with module.kernel("contract") as f:
        c = f.load(f.arg("buffers"), PTR)
        spec = gemm.ContractionSpec(element=F32, m=37, n=75, k=50, a=packer(1), b=packer(-1), c=gemm.Destination(c, 75))
        gemm.emit_contraction(f, spec, f.arg("scratch"))
        f.ret(const(I32, 0))
    loaded = compile_module(module, gemm.resolve(module.imports, module.target))
    got = np.zeros((37, 75), np.float32)
    tiles = gemm.tiles_for(host_target(), F32)
    scratch = np.full(gemm.scratch_bytes(tiles, 37, 75, 50, True), 255, np.uint8)
    buffers = np.array([got.ctypes.data])
    ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(loaded.address("contract"))(
        0, buffers.ctypes.data, scratch.ctypes.data, 0, 1
    )
    rows, columns, along = np.arange(37)[:, None], np.arange(75), np.arange(50)
    np.testing.assert_allclose(got, (rows + along) @ (along[:, None] - columns), rtol=1e-5)


def run_plain(
    build: Callable[[FunctionBuilder], None],
    *arrays: np.ndarray[Any, Any],
    nparts: int = 1,
    only: int | None = None,
    target: Target | None = None,
    room: int = 1 << 21,
) -> None:
    """Emit a kernel with `build`, call every part of it, or one, with the arrays as buffers."""
    module = Module(target or host_target())
    with module.kernel("contract") as f:
        build(f)
        f.ret(const(I32, 0))
    loaded = compile_module(module, gemm.resolve(module.imports, module.target))
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(loaded.address("contract"))
    buffers = np.array([array.ctypes.data for array in arrays])
    for part in range(nparts) if only is None else [only]:
        scratch = np.full(room, 255, np.uint8)
        function(0, buffers.ctypes.data, scratch.ctypes.data, part, nparts)


@pytest.mark.parametrize("computed, times", [("b", {"b": 1, "a": 2}), ("a", {"a": 1, "b": 2})])
def test_what_takes_longer_to_compute_is_computed_once_by_two_parts(computed: str, times: dict[str, int]) -> None:
    """Counts how often each row of A and each column of B is packed, where the other operand is the smaller one."""
    m, n, k = (64, 512, 20) if computed == "b" else (512, 64, 20)

    def build(f: FunctionBuilder) -> None:
        c, of_a, of_b = (f.load(f.arg("buffers"), PTR, at) for at in range(3))

        def packer(counts: Val) -> gemm.Packed:
            def emit(f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
                with f.for_range(0, count) as rows:
                    at = f.add(first, rows.index)
                    f.store(f.add(f.load(counts, I64, at), 1), counts, at)
                    with f.for_range(0, k) as along:
                        f.store(const(F32, 1), to, f.add(f.mul(along.index, width), rows.index))

            return gemm.Packed(emit)

        spec = gemm.ContractionSpec(
            element=F32, m=m, n=n, k=k, a=packer(of_a), b=packer(of_b), c=gemm.Destination(c, n)
        )  # fmt: skip
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"))

    c, of_a, of_b = np.zeros((m, n), np.float32), np.zeros(m, np.int64), np.zeros(n, np.int64)
    run_plain(build, c, of_a, of_b, nparts=2)
    assert (c == k).all()
    assert {"a": int(of_a.max()), "b": int(of_b.max())} == times


@pytest.mark.parametrize("last_cache", [8 << 20, 1 << 18])
@pytest.mark.parametrize("nparts", [1, 2])
def test_rows_that_batches_share_are_packed_before_them(last_cache: int, nparts: int) -> None:
    """Columns are computed for each block of rows that a quarter of the last cache holds. Rows a page apart are packed: what becomes of
    them while the columns of the last batch are computed is not seen, unless another block follows."""
    m, n, k, batches = 40, 64, 1024, 3
    target = replace(host_target(), l2_bytes=1 << 16, l3_bytes=last_cache)
    tiles = gemm.tiles_for(target, F32)
    block = last_cache // 4 // (k * tiles.element.bytes) // tiles.rows * tiles.rows
    times = -(-m // block)
    assert (times == 1) == (last_cache == 8 << 20)

    def build(f: FunctionBuilder) -> None:
        c, a, counts = (f.load(f.arg("buffers"), PTR, at) for at in range(3))

        def emit(f: FunctionBuilder, tile: gemm.Tile, first: Val, count: Val, width: Val, to: Val) -> None:
            (batch,) = tile.batch
            if times == 1:
                f.store(const(F32, 1000), a)
            with f.for_range(0, count) as columns:
                at = f.add(f.mul(batch, n), f.add(first, columns.index))
                f.store(f.add(f.load(counts, I64, at), 1), counts, at)
                with f.for_range(0, k) as along:
                    value = f.convert("sitofp", f.add(batch, f.add(first, columns.index)), F32)
                    f.store(value, to, f.add(f.mul(along.index, width), columns.index))

        spec = gemm.ContractionSpec(
            element=F32, m=m, n=n, k=k, a=gemm.Strided(a, k, 1), b=gemm.Packed(emit), c=gemm.Destination(c, n),
            batch=[gemm.Batch(batches, 0, 0, m * n)],
        )  # fmt: skip
        assert spec.packs_a_once
        assert not replace(spec, batch=[gemm.Batch(batches, m * k, 0, m * n)]).packs_a_once
        assert not replace(spec, b=gemm.Strided(a, n, 1)).packs_a_once
        assert not replace(spec, b=gemm.Packed(emit, lambda f, tile: None)).packs_a_once
        assert not replace(spec, rows_done=lambda f, tile, row, count: None).packs_a_once
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"))

    rows = np.arange(m, dtype=np.float32)
    for part in range(nparts):
        a = np.repeat(rows[:, None], k, axis=1)
        c, counts = np.zeros((batches, m, n), np.float32), np.zeros((batches, n), np.int64)
        room = gemm.scratch_bytes(tiles, m, n, k, True, block=tiles.computed_block, once=True)
        run_plain(build, c, a, counts, nparts=nparts, only=part, target=target, room=room)
        done = counts > 0
        assert (counts[done] == times).all() and done.any()
        want = k * rows[:, None] * (np.arange(batches)[:, None, None] + np.arange(n))
        assert (c == np.where(done[:, None], want, 0)).all()


@pytest.mark.parametrize("m, n, k", [(3, 40, 9), (37, 75, 50), (200, 33, 1000)])
@pytest.mark.parametrize("nparts", [1, 3])
def test_rows_done_sees_every_row_complete(m: int, n: int, k: int, nparts: int) -> None:
    """Each finished row is replaced by its running sum, which is wrong if any column is still missing."""

    def build(f: FunctionBuilder) -> None:
        a, b, c, iterations = (f.load(f.arg("buffers"), PTR, at) for at in range(4))

        def accumulate(g: FunctionBuilder, tile: gemm.Tile, row: Val, count: Val) -> None:
            with g.for_range(row, g.add(row, count)) as rows:
                g.store(g.add(g.load(iterations, I64, rows.index), 1), iterations, rows.index)
                with g.for_range(0, n, carried=[const(F32, 0)]) as loop:
                    place = g.add(g.mul(rows.index, n), loop.index)
                    total = g.add(loop.carried[0], g.load(c, F32, place))
                    g.store(total, c, place)
                    loop.next(total)

        spec = gemm.ContractionSpec(
            element=F32,
            m=m,
            n=n,
            k=k,
            a=gemm.Strided(a, k, 1),
            b=gemm.Strided(b, 1, k),
            c=gemm.Destination(c, n),
            rows_done=accumulate,
        )
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"))

    a, b = random_of("float32", m, k), random_of("float32", n, k)
    c, iterations = np.zeros((m, n), np.float32), np.zeros(m, np.int64)
    run_plain(build, a, b, c, iterations, nparts=nparts)
    assert (iterations == 1).all()
    np.testing.assert_allclose(c, np.cumsum(a.astype(np.float64) @ b.T, axis=1), atol=1e-3 * k**0.5)


@pytest.mark.parametrize("n", [5, 32, 77])
def test_b_packed_once_for_several_products(n: int) -> None:
    m, k = 20, 33

    def build(f: FunctionBuilder) -> None:
        a, b, c, room = (f.load(f.arg("buffers"), PTR, at) for at in range(4))
        gemm.emit_prepack(f, F32, gemm.Strided(b, 1, k), k, n, room)
        with f.for_range(0, m, 4) as loop:
            left = gemm.Strided(f.gep(a, f.mul(loop.index, k), F32), k, 1)
            to = gemm.Destination(f.gep(c, f.mul(loop.index, n), F32), n)
            gemm.emit_contraction(
                f,
                gemm.ContractionSpec(element=F32, m=4, n=n, k=k, a=left, b=gemm.Prepacked(room), c=to),
                f.arg("scratch"),
            )

    a, b, c = random_of("float32", m, k), random_of("float32", n, k), np.zeros((m, n), np.float32)
    tiles = gemm.tiles_for(host_target(), F32)
    run_plain(build, a, b, c, np.full(gemm.prepacked_elements(k, n, tiles) + tiles.slack, np.nan, np.float32))
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4, atol=1e-5)


def test_scratch_formula_takes_dims() -> None:
    tiles = gemm.tiles_for(host_target(), F32)
    m, n, k = (dims.symbol(name) for name in "mnk")
    formula = gemm.scratch_bytes(tiles, m, n, k, True, dims.minimum, dims.maximum)
    for values in ((1, 1, 1), (0, 5, 9), (1000, 3000, 4000), (100_000, 7, 100_000)):
        numbers = gemm.scratch_bytes(tiles, *values, packs_b=True)
        assert dims.evaluate(formula, dict(zip((m, n, k), values))) == numbers


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("m, n, k", [(1, 5, 3), (3, 33, 17), (4, 129, 16), (14, 16, 15), (20, 77, 33)])
def test_nothing_is_read_beyond_the_operands(m: int, n: int, k: int, level: str) -> None:
    a = before_forbidden_memory(random_of("float32", 1, 1, m, k))
    b = before_forbidden_memory(random_of("float32", 1, 1, k, n))
    across = before_forbidden_memory(random_of("float32", 1, 1, n, k)).swapaxes(2, 3)
    down = before_forbidden_memory(random_of("float32", 1, 1, k, m)).swapaxes(2, 3)
    for left, right in itertools.product((a, down), (b, across)):
        check(contract(left, right, level=level), left, right)


@pytest.mark.parametrize("m, n, k", [(1, 40, 9), (9, 200, 12), (30, 20, 33)])
def test_operands_may_be_broadcast_along_any_axis(m: int, n: int, k: int) -> None:
    left = [random_of("float32", 1, 1, m, 1), random_of("float32", 1, 1, 1, k), random_of("float32", 1, 1, m, k)]
    right = [random_of("float32", 1, 1, k, 1), random_of("float32", 1, 1, 1, n), random_of("float32", 1, 1, k, n)]
    for x, y in itertools.product(left, right):
        a, b = np.broadcast_to(x, (1, 1, m, k)), np.broadcast_to(y, (1, 1, k, n))
        check(contract(a, b), a, b)


@pytest.mark.parametrize(("k", "chains"), [(128, 1), (129, 2), (192, 2), (256, 2), (257, 3)])
@pytest.mark.parametrize("level", ["avx512", "avx2"])
def test_sums_begin_anew_after_a_number_of_products(k: int, chains: int, level: str) -> None:
    """A small number is lost in a chain that begins with a large one; what a chain of small ones adds up to is not."""
    a, b = np.ones((1, 1, 20, k), np.float32), np.full((1, 1, k, 40), 4.0, np.float32)
    b[:, :, 0] = 2.0**27
    small = (0 if chains == 1 else k - 128) * 4.0
    result = contract(a, b, "unit", level=level)
    assert (np.abs(result - (2.0**27 + small)) <= 8).all()


@pytest.mark.parametrize("level", ["avx512", "avx2"])
@pytest.mark.parametrize(("kind", "ragged"), [("masked", True), ("narrow", True), ("full", False)])
def test_few_last_columns_are_half_a_vector_where_vectors_are_longest(level: str, kind: str, ragged: bool) -> None:
    target = host_target().limited(level)
    halves = target.vector_bytes == 64
    lanes = gemm.tiles_for(target, F32).lanes
    text = library_module(target, F32).text()
    kernel = re.search(rf"@f32_{kind}_6\(.*?\n}}", text, re.DOTALL)
    assert kernel is not None and f"<{lanes} x float>" in kernel[0]
    assert (f"<{lanes // 2} x float>" in kernel[0]) == (halves and ragged)


@pytest.mark.parametrize("lda", [1024, 1000])
def test_rows_a_page_apart(lda: int) -> None:
    a = random_of("float32", 1, 1, 30, lda)[..., :50]
    b = random_of("float32", 1, 1, 50, 40)
    check(contract(a, b, "unit"), a, b)
    tall = np.ascontiguousarray(random_of("float32", 1, 1, 50, lda))[..., :30].swapaxes(2, 3)
    check(contract(tall, b, "unit"), tall, b)
