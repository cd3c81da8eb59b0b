"""Results in the memory of an argument: only where one kernel reads each element before it writes it, and nobody reads it later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from tests.resident import LINUX, added

RNG = np.random.default_rng(0)


def model(body: Callable[[Any], Any], *, keeps: bool = False) -> anyshape.Function:
    """y = body(x) of an f32[n, n]; `keeps`: the model also gives x + y, and so reads x later."""
    x = anyshape.input("x", "f32[n, n]")
    y = body(x)
    return anyshape.function([x], {"y": y, "z": ops.add(ops.flip(x, axes=(0,)), y)} if keeps else {"y": y})


@pytest.mark.parametrize(
    ("body", "overwrites"),
    [
        (ops.relu, True),
        (lambda x: ops.softmax(x, axis=-1), True),
        (lambda x: ops.exp(ops.add(x, np.float32(1))), True),
        (lambda x: ops.transpose(x, (1, 0)), False),
        (lambda x: ops.matmul(x, x), False),
        (lambda x: ops.softmax(x, axis=0), True),
        (lambda x: ops.flip(x, axes=(1,)), False),
    ],
)
@pytest.mark.parametrize("loop", ["native", "python"])
def test_what_is_computed_over_its_argument(body: Any, overwrites: bool, loop: Any) -> None:
    f = anyshape.compile(model(body), loop=loop)
    assert (f.plan.overwrites == ((0, 0),)) is overwrites
    for n in (0, 1, 5, 64):
        x = RNG.normal(size=(n, n)).astype(np.float32)
        want, place = f.run({"x": x})[0], x.copy()
        (y,) = f.run({"x": place}, outputs={"y": place})
        assert y is place
        np.testing.assert_array_equal(y, want)


def test_an_argument_that_is_read_later_is_not_overwritten_before() -> None:
    f = anyshape.compile(model(ops.relu, keeps=True))
    assert f.plan.overwrites == ()
    x = RNG.normal(size=(7, 7)).astype(np.float32)
    want, place = f.run({"x": x}), x.copy()
    for got, expected in zip(f.run({"x": place}, outputs={"y": place}), want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_an_argument_that_is_a_result_is_not_overwritten() -> None:
    x = anyshape.input("x", "f32[n]")
    f = anyshape.compile(anyshape.function([x], {"y": ops.relu(x), "same": x}))
    assert f.plan.overwrites == ()


def appending(room: bool = False) -> anyshape.Executable:
    past, new = anyshape.input("past", "f32[1, g, p, 64]"), anyshape.input("new", "f32[1, g, s, 64]")
    filled, total = anyshape.input("filled", "i64[1]"), anyshape.input("total", "i64[]")
    size = ops.maximum(ops.reshape(ops.shape_of(past, start=2, end=3), []), total)
    y = ops.append_at(past, new, filled, size=size, rest=total)
    return anyshape.compile(anyshape.function([past, new, filled, total], {"y": y}), threads=1)


def arguments(past: np.ndarray, at: int, new: int) -> dict[str, np.ndarray]:
    tokens = RNG.normal(size=(1, past.shape[1], new, 64)).astype(np.float32)
    return {"past": past, "new": tokens, "filled": np.array([at]), "total": np.array(at + new)}


def test_new_entries_of_a_cache_are_written_where_it_has_room() -> None:
    """A size that is a maximum of what the cache has room for and of what it must hold is equal to the former in such calls."""
    f, past = appending(), RNG.normal(size=(1, 3, 16, 64)).astype(np.float32)
    assert f.plan.overwrites == ((0, 0),)
    inputs = arguments(past, 5, 2)
    want, place = f.run(inputs)[0], past.copy()
    (y,) = f.run({**inputs, "past": place}, outputs={"y": place})
    assert y is place
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(y[:, :, 7:], past[:, :, 7:])
    grown = f.run(arguments(past, 16, 1))[0]
    assert grown.shape == (1, 3, 17, 64)
    with pytest.raises(anyshape.AnyshapeError, match=r"output y must be an array of shape \(1, 3, 17, 64\)"):
        f.run({**arguments(past, 16, 1), "past": place}, outputs={"y": place})


IN_PLACE = """
import numpy as np
from tests.robust.test_results_over_arguments import appending, arguments
f = appending()
small = np.zeros((1, 2, 64, 64), np.float32)
f.run(arguments(small, 3, 1), outputs={"y": small})
cache = np.zeros((1, 2, 1 << 19, 64), np.float32)  # 256 MB that nothing was written to
inputs = arguments(cache, 9, 1)
"""


@pytest.mark.skipif(not LINUX, reason="the system does not tell how much memory is resident")
@pytest.mark.parametrize(("outputs", "copies"), [("{'y': cache}", False), ("None", True)])
def test_a_cache_with_room_is_not_copied(outputs: str, copies: bool) -> None:
    assert (added(IN_PLACE, f"f.run(inputs, outputs={outputs})") > 200 << 20) is copies


def scattering(mode: str, rotates: bool = False, width: int = 32) -> anyshape.Executable:
    """A block of entries [b, 2, m, width] is put into a cache from where an index says; `rotates`: it is computed of two halves first."""
    past, index = anyshape.input("past", f"f32[b, 2, n, {width}]"), anyshape.input("index", "i64[b]")
    new = anyshape.input("new", f"f32[b, m, 2, {width}]")
    halves = [ops.slice(new, starts=[k], ends=[k + width // 2], axes=[3]) for k in (0, width // 2)] if rotates else []
    entries = ops.concat([ops.neg(halves[1]), ops.mul(halves[0], np.float32(2))], axis=3) if rotates else new
    y = ops.tensor_scatter(past, ops.transpose(entries, axes=[0, 2, 1, 3]), index, axis=-2, mode=mode)
    return anyshape.compile(anyshape.function([past, new, index], {"y": y}), threads=1)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(("rotates", "width"), [(False, 32), (True, 32), (False, 1)])
def test_entries_of_a_ring_are_written_where_they_are(mode: str, rotates: bool, width: int) -> None:
    """Blocks that go on at the start too, all of the ring among them, and rings of one entry."""
    f = scattering(mode, rotates, width)
    assert f.plan.overwrites == ((0, 0),)
    for n, m, index in (
        (7, 1, [3, 6]),
        (7, 3, [4, 0]),
        (7, 3, [6, 5]),
        (7, 7, [0, 0]),
        (7, 7, [2, 6]),
        (1, 1, [0, 0]),
        (7, 0, [1, 2]),
    ):
        if mode == "linear" and max(index) > n - m:
            continue
        past, new = (RNG.normal(size=s).astype(np.float32) for s in ((2, 2, n, width), (2, m, 2, width)))
        want, place = past.copy(), past.copy()
        block = np.concatenate([-new[..., width // 2 :], 2 * new[..., : width // 2]], axis=3) if rotates else new
        for b, g, k in np.ndindex(2, 2, m):
            want[b, g, (index[b] + k) % n] = block[b, k, g]
        inputs = {"new": new, "index": np.array(index)}
        np.testing.assert_array_equal(f.run({**inputs, "past": past})[0], want)
        assert f.run({**inputs, "past": place}, outputs={"y": place})[0] is place
        np.testing.assert_array_equal(place, want)


RING = """
import numpy as np
from tests.robust.test_results_over_arguments import scattering
f = scattering({mode!r}, {rotates})
new, small = np.ones((1, 1, 2, 32), np.float32), np.zeros((1, 2, 64, 32), np.float32)
f.run({{"past": small, "new": new, "index": np.array([3])}}, outputs={{"y": small}})
cache = np.zeros((1, 2, 1 << 20, 32), np.float32)  # 256 MB that nothing was written to
inputs = {{"past": cache, "new": new, "index": np.array([1 << 19])}}
"""


@pytest.mark.skipif(not LINUX, reason="the system does not tell how much memory is resident")
@pytest.mark.parametrize(("outputs", "copies"), [("{'y': cache}", False), ("None", True)])
@pytest.mark.parametrize(("mode", "rotates"), [("linear", False), ("circular", False), ("circular", True)])
def test_a_ring_is_not_copied(mode: str, rotates: bool, outputs: str, copies: bool) -> None:
    before = RING.format(mode=mode, rotates=rotates)
    assert (added(before, f"f.run(inputs, outputs={outputs})") > 200 << 20) is copies


def test_memory_that_another_argument_shares_is_not_overwritten() -> None:
    """The result is computed elsewhere and copied, since the other argument is read as it was."""
    a, b = anyshape.input("a", "f32[n]"), anyshape.input("b", "f32[n]")
    f = anyshape.compile(anyshape.function([a, b], {"y": ops.sub(ops.flip(b, axes=(0,)), a)}))
    memory = RNG.normal(size=12).astype(np.float32)
    want = f.run({"a": memory[:8].copy(), "b": memory[4:].copy()})[0]
    place = memory.copy()
    np.testing.assert_array_equal(f.run({"a": place[:8], "b": place[4:]}, outputs={"y": place[:8]})[0], want)
    same = memory.copy()
    want = f.run({"a": same.copy(), "b": same.copy()})[0]
    np.testing.assert_array_equal(f.run({"a": same, "b": same}, outputs={"y": same})[0], want)


@pytest.mark.parametrize("shift", [1, 4, -4])
def test_a_place_that_only_overlaps_its_argument_is_copied_to(shift: int) -> None:
    f = anyshape.compile(model(ops.relu))
    memory = RNG.normal(size=64 + 8).astype(np.float32)
    x, place = memory[4:68].reshape(8, 8), memory[4 + shift : 68 + shift].reshape(8, 8)
    want = np.maximum(x.copy(), 0)
    np.testing.assert_array_equal(f.run({"x": x}, outputs={"y": place})[0], want)


def test_a_saved_model_overwrites_the_same_arguments(tmp_path: Path) -> None:
    f = appending()
    f.save(tmp_path / "model")
    assert anyshape.load(tmp_path / "model").plan.overwrites == f.plan.overwrites == ((0, 0),)


def test_the_direct_entry_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other memory that overlaps an argument is left to Python, which copies to it."""
    f = anyshape.compile(model(ops.relu))
    x = RNG.normal(size=(6, 6)).astype(np.float32)
    f.run({"x": x})

    def refuse(*_: Any) -> Any:
        raise AssertionError("Python did the call")

    monkeypatch.setattr(type(f), "_run_at_leisure", refuse)
    assert f.run({"x": x}, outputs={"y": x})[0] is x
    memory = np.zeros(48, np.float32)
    for place in (memory[6:42].reshape(6, 6), memory[:9].reshape(3, 3)):
        with pytest.raises(AssertionError, match="Python did the call"):
            f.run({"x": memory[:36].reshape(6, 6)}, outputs={"y": place})
