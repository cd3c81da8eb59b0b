"""The text builder, the loader and the object cache: small functions, compiled and called."""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path

import numpy as np
import pytest

from anyshape.disk_cache import DiskCache
from anyshape.lower.gemm.library import library_module
from anyshape.lower.llvm import vecmath
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.jit import CodegenError, Loaded, compile_module, compile_object, load_object
from anyshape.lower.llvm.saturation import saturate_to_int
from anyshape.lower.llvm.types import BF16, F16, F32, F64, I8, I16, I32, I64, PTR, VOID, Val, const
from anyshape.lower.target import Target, host_target
from anyshape.vm.native.loop import loop_module

LEVELS = ["avx512", "avx2", "sse"]


def target_of(level: str) -> Target:
    return host_target().limited(level)


def call(loaded: Loaded, name: str, *args: object) -> int:
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(values))(loaded.address(name))
    return int(function(*values))


def test_loops_carry_values_and_may_run_zero_times() -> None:
    module = Module(host_target())
    with module.function("total", I64, [("n", I64)]) as f:
        with f.for_range(0, f.args[0], carried=[const(I64, 5)]) as loop:
            loop.next(f.add(loop.carried[0], loop.index))
        f.ret(loop.results[0])
    loaded = compile_module(module)
    assert [call(loaded, "total", n) for n in (-1, 0, 1, 10)] == [5, 5, 5, 50]


def test_if_else_merges_what_both_sides_give() -> None:
    module = Module(host_target())
    with module.function("pick", I64, [("n", I64)]) as f:
        n = f.args[0]
        with f.if_else(f.compare("lt", n, 3)) as branch:
            with branch.then():
                branch.give(f.mul(n, 10))
            with branch.otherwise():
                branch.give(f.neg(n))
        f.ret(branch.results[0])
    loaded = compile_module(module)
    assert [call(loaded, "pick", n) for n in (2, 3)] == [20, -3]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_vectors_of_floats_saturate(level: str, name: str, source: type) -> None:
    ends = np.iinfo(name)
    wholes = [int(source(v)) for end in (ends.min, ends.max, 0) for v in (end - 1, end, end + 1)]
    sides = [float(v) for v in wholes] + [v for end in (-128, 127, 255) for v in (end - 0.5, end + 0.5)]
    beside = [np.nextafter(source(end), source(to)) for end in (ends.min, ends.max) for to in (-np.inf, np.inf)]
    special = [
        0.5,
        -0.5,
        -0.0,
        np.nan,
        -np.nan,
        np.inf,
        -np.inf,
        2.0**31,
        -(2.0**31),
        2.0**63,
        2.0**64,
        -(2.0**63),
        3e38,
        -3e38,
    ]
    values = np.array([*sides, *beside, *special], source)
    lanes = target_of(level).lanes(4)
    values = np.concatenate([values, np.zeros(-len(values) % lanes, source)])
    element, to = F32 if source is np.float32 else F64, {8: I8, 16: I16, 32: I32, 64: I64}[ends.bits]
    module = Module(target_of(level))
    with module.function("run", VOID, [("x", PTR), ("y", PTR), ("n", I64)]) as f:
        x, y, n = f.args
        with f.for_range(0, n, lanes) as loop:
            read = f.load(x, element.vector(lanes), loop.index)
            f.store(saturate_to_int(f, read, to, unsigned=name.startswith("u")), y, loop.index)
        f.ret()
    got = np.empty(len(values), name)
    call(compile_module(module), "run", values, got, len(values))

    def cut(v: float) -> int:
        return (
            0
            if math.isnan(v)
            else min(max(math.trunc(v), ends.min), ends.max)
            if math.isfinite(v)
            else ends.max
            if v > 0
            else ends.min
        )

    np.testing.assert_array_equal(got, np.array([cut(float(v)) for v in values], name))
    assert "sat.v" not in module.text()  # LLVM would convert the lanes one by one


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 15, 16, 17, 100])
def test_masked_tail_touches_nothing_beyond(level: str, count: int) -> None:
    target = target_of(level)
    lanes = target.lanes(4)
    module = Module(target)
    with module.function("scale", VOID, [("x", PTR), ("y", PTR), ("n", I64)]) as f:
        x, y, n = f.args
        vector = F32.vector(lanes)
        with f.for_range(0, n, lanes) as loop:
            mask = f.tail_mask(f.sub(n, loop.index), lanes)
            value = f.masked_load(x, vector, mask, loop.index)
            f.masked_store(f.fma(value, 2.0, 1.0), y, mask, loop.index)
        f.ret()
    x = np.arange(128, dtype=np.float32)
    y = np.full(128, 7, np.float32)
    call(compile_module(module), "scale", x, y, count)
    assert np.array_equal(y[:count], 2 * x[:count] + 1)
    assert (y[count:] == 7).all()


@pytest.mark.parametrize("level", LEVELS)
def test_gather_scatter_shuffle_reduce(level: str) -> None:
    module = Module(target_of(level))
    with module.function("work", VOID, [("x", PTR), ("at", PTR), ("y", PTR)]) as f:
        x, at, y = f.args
        places = f.load(at, I64.vector(8))
        values = f.gather(x, F32.vector(8), places)
        f.scatter(f.shuffle(values, None, [7, 6, 5, 4, 3, 2, 1, 0]), y, places)
        f.store(f.reduce("fadd", values), y, 99)
        f.ret()
    x = np.arange(100, dtype=np.float32)
    at = np.array([3, 50, 7, 8, 9, 98, 0, 1])
    y = np.zeros(100, np.float32)
    call(compile_module(module), "work", x, at, y)
    assert np.array_equal(y[at], x[at][::-1])
    assert y[99] == x[at].sum()


def test_float_literals_are_exact() -> None:
    assert const(F32, 0.1).name == "0x" + f"{np.float64(np.float32(0.1)).view(np.uint64):016X}"
    assert const(F64, -0.0).name == "0x8000000000000000"
    assert const(F16, 1.0).name == "15360"  # as the integer that it is carried as
    assert const(BF16, 1.0).name == "16256"
    assert const(I32, 2**31).number == -(2**31)


def test_modules_call_each_other_by_import() -> None:
    inner, outer = Module(host_target()), Module(host_target())
    with inner.function("twice", I64, [("n", I64)]) as f:
        f.ret(f.add(f.args[0], f.args[0]))
    with outer.function("thrice", I64, [("n", I64)]) as f:
        outer.declare("twice", I64, [I64])
        f.ret(f.add(f.call("twice", I64, [f.args[0]]), f.args[0]))
    first = compile_module(inner)
    assert call(compile_module(outer, {"twice": first.address("twice")}), "thrice", 7) == 21
    with pytest.raises(CodegenError, match="twice"):
        compile_module(outer)


def test_bad_text_is_reported() -> None:
    with pytest.raises(CodegenError, match="does not accept"):
        compile_object("define i32 @f() { ret i64 0 }", host_target())
    with pytest.raises(CodegenError, match="link"):
        load_object(b"\x7fELFnonsense", ["f"])


def test_builder_refuses_mixed_types_and_unreachable_text() -> None:
    f = FunctionBuilder(Module(host_target()), "f", VOID, [("a", I64)], internal=False, inline=None, noalias=True)
    with pytest.raises(TypeError, match="one type"):
        f.add(f.args[0], Val("%x", F32))
    f.ret()
    with pytest.raises(TypeError, match="follows the end"):
        f.add(f.args[0], f.args[0])


def test_disk_cache_ignores_damage_and_stays_bounded(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "objects", limit_bytes=4000)
    assert cache.get("a") is None
    cache.put("a", b"code")
    assert cache.get("a") == b"code"
    path = next((tmp_path / "objects").glob("*.aso"))
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    assert cache.get("a") is None
    assert not path.exists()
    for number in range(20):
        cache.put(str(number), bytes(1000))
    assert sum(p.stat().st_size for p in (tmp_path / "objects").glob("*.aso")) <= 4000
    assert cache.get("19") == bytes(1000)
    left = tmp_path / "objects" / ".new-left"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    cache.put("again", bytes(1000))
    assert not left.exists()
    DiskCache(None).put("a", b"")
    assert DiskCache(None).get("a") is None


def test_another_architecture_gets_object_code_from_the_same_builder() -> None:
    """Vector mathematics and the matrix product hold no instruction of one processor."""
    arm = Target(
        triple="aarch64-unknown-linux-gnu",
        cpu="neoverse-n1",
        features="",
        vector_bytes=16,
        vector_registers=32,
        l1_bytes=64 << 10,
        l2_bytes=1 << 20,
        l3_bytes=4 << 20,
    )
    module = library_module(arm, F32)
    with module.function("waves", VOID, [("x", PTR)]) as f:
        x = f.load(f.args[0], F32.vector(arm.lanes(4)))
        f.store(vecmath.exp(f, vecmath.erf(f, vecmath.pow_(f, vecmath.sin(f, x), 1.5))), f.args[0])
        f.ret()
    assert compile_object(module.text(), arm).startswith(b"\x7fELF")


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu", "arm64-apple-darwin"])
def test_the_loop_and_its_threads_for_other_processors(triple: str) -> None:
    other = Target(
        triple=triple,
        cpu="generic-rv64" if "riscv" in triple else "generic",
        features="",
        vector_bytes=16,
        vector_registers=32,
        l1_bytes=64 << 10,
        l2_bytes=1 << 20,
        l3_bytes=4 << 20,
    )
    assert compile_object(loop_module(other).text(), other)
