"""Programs with machine code: results and errors equal those of interpreted kernels, and constants are laid out once."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from handmade import ADD, DOUBLE, FILL, FLATTEN, MUL, PICK, PRODUCT, SHAPE_OF, STATIC_SUM, call

import anyshape
from anyshape.errors import ShapeError
from anyshape.vm import compile
from anyshape.vm.compiling.plans import ProgramPlan


def network() -> anyshape.Function:
    x = anyshape.input("x", "f32[n, 24]")
    weights = [
        anyshape.constant(np.random.default_rng(k).standard_normal((24, 24)).astype(np.float32)) for k in range(3)
    ]
    h = x
    for w in weights:
        h = call(ADD, call(DOUBLE, call(PRODUCT, h, w)), x)
    return anyshape.function(
        [x], {"h": h, "sums": call(STATIC_SUM, call(MUL, h, h), axes=(1,)), "d": call(SHAPE_OF, h)}
    )


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("loop", ["native", "python"])
def test_native_equals_interpreted(fuse: bool, loop: str) -> None:
    f = network()
    native = compile(f, kernels="native", fuse=fuse, loop=loop)
    slow = compile(f, kernels="interpret")
    for n in (1, 3, 0, 17, 64):
        x = np.random.default_rng(n).standard_normal((n, 24)).astype(np.float32)
        for got, expected in zip(native(x), slow(x), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)


def test_equal_kernels_are_one() -> None:
    exe = compile(network(), kernels="native", fuse=False)
    assert exe.report.kernels < exe.report.steps - 3


def test_an_error_of_a_kernel_names_the_place() -> None:
    t, i = anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[2]")
    exe = compile(anyshape.function([t, i], call(PICK, t, i, source="gather#3")), kernels="native")
    np.testing.assert_array_equal(exe(np.arange(3), np.array([0, -1])), [0, 2])
    with pytest.raises(ShapeError, match="gather#3"):
        exe(np.arange(3), np.array([0, 3]))


def test_sizes_from_elements() -> None:
    x, t, i = anyshape.input("x", "f32[]"), anyshape.input("t", "i64[k]"), anyshape.input("i", "i64[2]")
    big = call(FILL, x, call(PICK, t, i))
    f = anyshape.function([x, t, i], [call(DOUBLE, big), call(FLATTEN, big)])
    exe = compile(f, kernels="native")
    doubled, flat = exe(np.float32(1.5), np.array([7, 30, 20]), np.array([1, -1]))
    assert doubled.shape == (30, 20) and (doubled == 3).all() and flat.shape == (600,) and (flat == 1.5).all()


def test_nothing_is_read_that_was_not_written() -> None:
    """Memory of earlier calls is overwritten with NaN patterns between calls."""
    exe = compile(network(), kernels="native", fuse=False)
    x = np.random.default_rng(5).standard_normal((33, 24)).astype(np.float32)
    expected = exe(x)
    plan = exe.plan
    assert isinstance(plan, ProgramPlan)
    for byte in (0xFF, 0x7F):
        for context in plan._pool._idle:
            for region in context.regions:
                assert region.capacity > 0
                ctypes.memset(region.address, byte, region.capacity)
        for got, want in zip(exe(x), expected, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["avx2", "sse"])
def test_less_of_the_machine(target: str) -> None:
    f = network()
    x = np.random.default_rng(5).standard_normal((33, 24)).astype(np.float32)
    for got, want in zip(compile(f, kernels="native", target=target)(x), compile(f, kernels="native")(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
