"""The arena in use: results written over dying operands, memory poisoned between calls, threads, many shapes, sizes that data decide."""

from __future__ import annotations

import ctypes
import mmap
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import arguments, random_function

import anyshape
import anyshape_ops.api as ops
from anyshape.equations import Tensor
from anyshape.errors import ShapeError
from anyshape.graph.value import Value
from anyshape.passes.steps import KernelStep
from anyshape.vm import Executable, compile
from anyshape.vm.compiling import plans
from anyshape.vm.compiling.kernels import InterpretedKernels, LoweredStep
from anyshape.vm.executable.memory_text import memory_text
from anyshape.vm.run.arena import Region
from tests.in_threads import in_threads
from tests.vm.poisoning import poison


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


def elementwise(draw: Any) -> anyshape.Function:
    """A random graph of maps over x[n, m], with broadcasts, casts, views, and operands that are read at other places."""
    x, z = anyshape.input("x", "f32[n, m]"), anyshape.input("z", "f32[m]")
    values: list[Value] = [x, ops.neg(x)]

    def pick() -> Value:
        return draw(st.sampled_from(values[-5:]))

    makers = [
        lambda: ops.add(pick(), pick()),
        lambda: ops.sub(pick(), pick()),
        lambda: ops.maximum(pick(), pick()),
        lambda: ops.mul(pick(), z),
        lambda: ops.tanh(pick()),
        lambda: ops.abs(pick()),
        lambda: ops.where(ops.greater(pick(), np.float32(0)), pick(), pick()),
        lambda: ops.cast(ops.cast(pick(), to="i32"), to="f32"),
        lambda: ops.slice(pick(), [-1], [-99], axes=[1], steps=[-1]),
        lambda: ops.add(pick(), ops.slice(pick(), [-1], [-99], axes=[0], steps=[-1])),
        lambda: ops.sub(pick(), ops.sum(pick(), axes=[1], keepdims=True)),
        lambda: ops.sub(pick(), ops.max(pick(), axes=[0], keepdims=True)),
        lambda: ops.softmax(pick(), axis=draw(st.integers(0, 1))),
        lambda: like(ops.abs(ops.reshape(pick(), (-1,))), x),
        lambda: ops.add(pick(), like(ops.reshape(pick(), (-1,)), x)),
    ]
    for _ in range(draw(st.integers(1, 10))):
        values.append(draw(st.sampled_from(makers))())
    results = {"last": values[-1]}
    if draw(st.booleans()):
        results["earlier"] = pick()
    return anyshape.function([x, z], results)


def like(x: Value, y: Value) -> Value:
    return ops.reshape(x, ops.shape_of(y))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_in_place_maps_agree_with_the_interpreter(data: Any) -> None:
    f = elementwise(data.draw)
    slow = compile(f, kernels="interpret", fuse=False)
    for exe in (compile(f, kernels="native", fuse=False), compile(f, kernels="native")):
        for n, m in ((3, 37), (1, 1), (0, 4), (2, 0), (4, 4)):
            rng = np.random.default_rng(n)
            arrays = [rng.integers(-9, 9, s).astype(np.float32) for s in ((n, m), (m,))]
            kept = [a.copy() for a in arrays]
            expected = outcome(slow, arrays)
            for _ in range(2):
                got = outcome(exe, arrays)
                poison(exe)
                assert (got is None) == (expected is None)
                for g, w in zip(got or (), expected or (), strict=True):
                    np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-3, err_msg=memory_text(exe))
            for a, b in zip(arrays, kept):
                np.testing.assert_array_equal(a, b, err_msg="an argument was written to")


def outcome(exe: Executable, arrays: list[Any]) -> list[Any] | None:
    """The results, or None for a shape that the function refuses."""
    try:
        return exe.run(dict(zip(exe.input_names, arrays)))
    except ShapeError:
        return None


def chain(length: int) -> anyshape.Function:
    x = anyshape.input("x", "f32[n, m]")
    v = x
    for _ in range(length):
        v = ops.tanh(v)
    return anyshape.function([x], v)


def test_a_chain_of_maps_is_one_place() -> None:
    exe = compile(chain(9), kernels="native", fuse=False)
    exe(np.zeros((1024, 1024), np.float32))
    assert exe.memory == 1024 * 1024 * 4  # a whole number of huge pages
    text = memory_text(exe, {"n": 64, "m": 64})
    assert "7 more over it in turn" in text and "16,384" in text


def test_a_value_that_is_read_again_is_kept() -> None:
    x = anyshape.input("x", "f32[n]")
    a = ops.tanh(x)
    b = ops.neg(a)
    exe = compile(anyshape.function([x], ops.mul(ops.abs(b), a)), kernels="native", fuse=False)
    array = np.linspace(-2, 2, 33, dtype=np.float32)
    np.testing.assert_allclose(exe(array), np.abs(np.tanh(array)) * np.tanh(array), atol=1e-6)


def test_an_operand_that_the_step_sees_twice_is_kept() -> None:
    x = anyshape.input("x", "f32[n]")
    a = ops.tanh(ops.slice(ops.tanh(x), [-1], [-99], axes=[0], steps=[-1]))
    seen = ops.slice(ops.reshape(a, (-1, 1)), [-1], [-99], axes=[0], steps=[-1])
    b = ops.add(a, ops.sum(seen, axes=[1]))
    f = anyshape.function([x], ops.matmul(b, b))
    array = np.linspace(-2, 2, 77, dtype=np.float32)
    np.testing.assert_allclose(
        compile(f, kernels="native")(array), compile(f, kernels="interpret", fuse=False)(array), rtol=1e-4
    )


class Generous(InterpretedKernels):
    """Permits every output over every input: the interpreter computes all of a step before it writes any of it."""

    def lower(self, step: KernelStep) -> LoweredStep:
        lowered = super().lower(step)
        pairs = [(o, i) for o in lowered.outputs for i in lowered.inputs if isinstance(i, Tensor)]
        return replace(lowered, reusable=tuple(pairs))


def test_two_results_do_not_take_over_one_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    x = anyshape.input("x", "f32[n, n]")
    a = ops.reshape(ops.matmul(x, x), (-1,))
    y = ops.tanh(a)
    z = ops.add(y, a)
    f = anyshape.function([x], ops.matmul(like(y, x), like(z, x)))
    array = np.linspace(-1, 1, 25, dtype=np.float32).reshape(5, 5)
    expected = compile(f, kernels="interpret", fuse=False)(array)
    monkeypatch.setattr(plans, "kernel_maker", lambda options, report: Generous())
    exe = compile(f, kernels="interpret")
    np.testing.assert_allclose(exe(array), expected, rtol=1e-4)
    assert "over it in turn" in memory_text(exe)


def test_a_base_is_kept_while_a_view_of_it_is_read() -> None:
    x = anyshape.input("x", "f32[n, m]")
    a = ops.tanh(x)
    flat = ops.reshape(a, (-1,))
    b = ops.neg(a)
    f = anyshape.function([x], ops.sub(ops.sum(ops.abs(b), axes=[0, 1]), ops.sum(flat, axes=[0])))
    exe = compile(f, kernels="native", fuse=False)
    array = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    t = np.tanh(array)
    np.testing.assert_allclose(exe(array), np.abs(t).sum() - t.sum(), rtol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_left_over_from_the_call_before(seed: int) -> None:
    exe = compile(random_function(seed, 14), kernels="native", fuse=bool(seed % 2))
    for shape in ((3, 3), (5, 4), (1, 1), (17, 19), (2, 3)):
        arrays = arguments(*shape)
        first = outcome(exe, arrays)
        poison(exe)
        second = outcome(exe, arrays)
        assert (first is None) == (second is None)
        for a, b in zip(first or (), second or (), strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_have_contexts_of_their_own() -> None:
    exe = compile(random_function(5, 14), kernels="native", fuse=False)
    cases = [arguments(n, m, seed=n) for n, m in ((3, 3), (5, 5), (40, 40), (1, 1))]
    expected = [outcome(exe, c) for c in cases]
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(60):
            k = rng.randrange(len(cases))
            got = outcome(exe, cases[k])
            if any(a.tobytes() != b.tobytes() for a, b in zip(got or (), expected[k] or (), strict=True)):
                wrong.append(k)

    in_threads(work, range(8))
    assert not wrong


def test_many_shapes_take_the_memory_of_the_largest() -> None:
    x = anyshape.input("x", "f32[n, m]")
    f = anyshape.function([x], ops.softmax(ops.matmul(ops.tanh(x), ops.transpose(ops.neg(x), axes=[1, 0])), axis=1))
    largest = np.ones((60, 60), np.float32)
    alone = compile(f, kernels="native", fuse=False)
    alone(largest)
    exe = compile(f, kernels="native", fuse=False)
    shapes = [(n, m) for n in range(1, 61, 4) for m in range(1, 61, 4)][:200]
    random.Random(0).shuffle(shapes)
    for n, m in [*shapes[:100], largest.shape, *shapes[100:]]:
        exe(np.ones((n, m), np.float32))
    assert 2 * 60 * 60 * 4 <= exe.memory <= alone.memory


def counted(x: Value) -> Value:
    """A length that only the data decides: how many elements are positive."""
    return ops.cast(
        ops.sum(ops.where(ops.greater(x, np.float32(0)), np.float32(1), np.float32(0)), axes=[0], keepdims=True),
        to="i64",
    )


def test_a_system_without_huge_pages_has_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 1 << 20)  # advice that no system knows is refused as on one without
    region = Region()
    region.grow(3 << 21)
    assert region.capacity >= 3 << 21
    ctypes.memset(region.address, 1, 3 << 21)
    region.release()


def test_sizes_that_data_decide_have_a_region_that_is_used_in_iterations() -> None:
    x = anyshape.input("x", "f32[n]")
    a = ops.tanh(ops.broadcast_to(ops.sum(x, axes=[0], keepdims=True), counted(x)))
    y = ops.sub(x, ops.sum(ops.neg(a), axes=[0], keepdims=True))
    b = ops.tanh(ops.broadcast_to(ops.max(y, axes=[0], keepdims=True), counted(y)))
    f = anyshape.function([x], ops.sum(ops.neg(b), axes=[0]))
    exe, slow = compile(f, kernels="native", fuse=False), compile(f, kernels="interpret", fuse=False)
    (program,) = exe.plan.programs
    assert program.memory is not None
    late = [area for area in program.memory.areas if area.region > 0]
    assert len(late) == 2 and program.regions == 2, memory_text(exe)
    for n, k in ((4, 3), (2, 1), (1, 1), (300, 299), (7, 5), (3, 0)):
        array = np.where(np.arange(n) < k, 1, -1).astype(np.float32)
        np.testing.assert_allclose(exe(array), slow(array), rtol=1e-4)
        poison(exe)


def test_what_is_scattered_into_itself_is_read_as_it_was() -> None:
    x, index = anyshape.input("x", "f32[n]"), anyshape.input("index", "i64[n]")
    h = ops.cumsum(x, axis=0)
    exe = compile(anyshape.function([x, index], ops.cumsum(ops.scatter_elements(h, index, h), axis=0)))
    np.testing.assert_array_equal(exe(np.ones(5, np.float32), np.array([1, 2, 3, 4, 0])), [5, 6, 8, 11, 15])


@pytest.mark.parametrize("options", [{}, {"loop": "python"}])
@pytest.mark.parametrize("of_type", ["f32[n]", "f32[...]"])
def test_released_memory_is_not_kept_and_calls_go_on(options: dict[str, Any], of_type: str) -> None:
    """Plans that are continued once ranks are known, and those of other options, release their memory, too."""
    x = anyshape.input("x", of_type)
    exe = compile(anyshape.function([x], ops.cumsum(ops.cumsum(x, axis=0), axis=0)))
    for e in (exe.by(**options), exe):
        want = e(np.ones(100_000, np.float32))
        assert e.memory >= want.nbytes
        e.release()
        assert e.memory == 0
        np.testing.assert_array_equal(e(np.ones(100_000, np.float32)), want)
        assert e.memory >= want.nbytes
        e.release()
