"""Limits of memory that elements decide: what a run demands never exceeds them, and where there is none nothing says that there is."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.graph.function import Function
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import arena_of, bytes_at, export, export_target
from anyshape.vm.export.status_code import Code
from anyshape_testing.exports.loaded import SATURATED, Exported, StatusError
from anyshape_testing.laws.exported_ops import RUNS_HERE, exported_call
from tests.examples.example_files import load_example
from tests.export.test_c_programs import branches, loop

pytestmark = pytest.mark.skipif(not RUNS_HERE, reason="there is no target for processors like this one")


def decoder() -> Function:
    """The decoder of examples/decoding: two caches grow by a row for each token, of which there are at most 200."""
    f: Function = load_example("decoding/run.py", "decoding_run").decoder()
    return f


def longer(value: Any) -> Any:
    return ops.concat([value, ops.slice(value, [0], [1], axes=[0])], axis=0)


def scan() -> Function:
    """A value grows by one in each of as many iterations as x has rows."""
    x, start = anyshape.input("x", "f32[n]"), anyshape.input("start", "f32[m]")

    def iteration(k: Any, value: Any) -> list[Any]:
        return [anyshape.constant(np.array(True)), longer(value), ops.sum(ops.exp(value))]

    grown, sums = control.loop(x.size, iteration, [start], anyshape.constant(np.array(True)), collects=1)
    return anyshape.function([x, start], {"grown": grown, "sums": sums})


def nested() -> Function:
    """A value that grows in a loop within a loop: by 3 * 4 at most."""
    x = anyshape.input("x", "f32[n]")

    def inner(k: Any, value: Any) -> list[Any]:
        return [ops.less(ops.sum(value), np.float32(1e9)), longer(value)]

    def outer(k: Any, value: Any) -> list[Any]:
        (grown,) = control.loop(4, inner, [value], anyshape.constant(np.array(True)))
        return [anyshape.constant(np.array(True)), grown]

    (grown,) = control.loop(3, outer, [x], anyshape.constant(np.array(True)))
    return anyshape.function([x], ops.exp(grown))


def chosen() -> Function:
    """A branch decides how large a value is that is computed with afterwards."""
    x, cond = anyshape.input("x", "f32[n]"), anyshape.input("cond", "bool[]")
    (y,) = control.if_(cond, lambda: ops.concat([x, x, x], axis=0), lambda: ops.exp(x))
    return anyshape.function([x, cond], ops.sum(ops.exp(ops.cumsum(y, axis=0))))


def doubling() -> Function:
    """A value that doubles in each iteration: its size is no sum of limited steps."""
    x = anyshape.input("x", "f32[n]")

    def iteration(k: Any, value: Any) -> list[Any]:
        return [anyshape.constant(np.array(True)), ops.concat([value, value], axis=0)]

    (grown,) = control.loop(5, iteration, [x], anyshape.constant(np.array(True)))
    return anyshape.function([x], grown)


def endless() -> Function:
    """A loop that only an element ends."""
    x = anyshape.input("x", "f32[n]")

    def iteration(k: Any, value: Any) -> list[Any]:
        return [ops.less(ops.sum(value), np.float32(40)), longer(value)]

    (grown,) = control.loop(None, iteration, [x], anyshape.constant(np.array(True)))
    return anyshape.function([x], grown)


def counted() -> Function:
    """An element says how many iterations there are."""
    x, count = anyshape.input("x", "f32[n]"), anyshape.input("count", "i64[]")

    def iteration(k: Any, value: Any) -> list[Any]:
        return [anyshape.constant(np.array(True)), longer(value)]

    (grown,) = control.loop(count, iteration, [x], anyshape.constant(np.array(True)))
    return anyshape.function([x, count], grown)


def vector(n: int) -> Any:
    return np.arange(1, n + 1, dtype=np.float32)


CALLS: dict[Callable[[], Function], list[list[Any]]] = {
    loop: [[vector(n) * 0] for n in (1, 2, 40)],
    decoder: [[np.arange(n) % 7 + 1] for n in (1, 30)],
    scan: [[vector(n), vector(m)] for n, m in ((1, 1), (33, 5), (100, 1))],
    nested: [[vector(n)] for n in (1, 50)],
    chosen: [[vector(n), np.array(c)] for n in (1, 2000) for c in (True, False)],
}


@pytest.mark.parametrize("make", CALLS)
def test_a_run_needs_no_more_than_the_limit(make: Callable[[], Function]) -> None:
    f = make()
    c, python = Exported(exported_call(f)), anyshape.compile(f, threads=1)
    assert "arena, at most = " in c.export.header.replace("\n  ", "")
    grew = False
    for inputs in CALLS[make]:
        dims = c.sizes(inputs)
        expected = python.run(dict(zip(python.input_names, inputs)))
        most = c.arena_bytes_most(1, dims)
        assert c.arena_bytes(dims) <= most < 1 << 24
        room = [a.nbytes for a in expected]
        for got, value in zip(c.run(inputs, dims, most, room), expected, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5)
        try:
            c.run(inputs, dims, c.arena_bytes(dims), room)
        except StatusError as e:
            assert e.code is Code.ARENA
            grew = True
    assert grew or make is chosen, "no call needs more than its dims say: the limit limits nothing"


@pytest.mark.parametrize("make", [doubling, endless, counted])
def test_what_has_no_limit_has_no_function(make: Callable[[], Function]) -> None:
    e = exported_call(make())
    assert "model_arena_bytes_most" not in e.functions and "at most" not in e.header
    assert "A run may need more" in e.header


def test_the_formula_is_what_the_function_returns() -> None:
    """The decoder has a row of 256 bytes in each of two caches and their copies for each of 200 tokens."""
    formulas = arena_of(decoder(), export_target("x86-64-v3"), make_options({"dims": {}}))
    assert formulas.is_limited and "256*" in str(formulas.most[0])
    c = Exported(exported_call(decoder()))
    (dim,) = formulas.interface.dims
    if c.export.target.name == "x86-64-v3":
        for n in (1, 7, 500):
            assert formulas.most[0] is not None
            assert c.arena_bytes_most(1, [n]) == bytes_at(formulas.most[0], {dim.c_name: n})
    assert c.arena_bytes_most(1, [-1]) == c.arena_bytes_most(1, [2**62]) == SATURATED
    assert c.arena_bytes_most(4, [100]) >= c.arena_bytes_most(1, [100])


def test_several_levels_have_the_limit_of_the_highest() -> None:
    e = export(loop(), "op", export_target(["x86-64-v2", "x86-64-v3"]), make_options({"dims": {}}))
    assert "op_arena_bytes_most" in e.functions and e.formulas[-1].startswith("arena, where a dim is 0, at most")
    if platform.machine() == "x86_64":
        c, x = Exported(e), vector(5) * 0
        most, limit = c.arena_bytes_most(1, [5]), arena_of(loop(), e.target, make_options({"dims": {}})).most[0]
        assert limit is not None and most == bytes_at(limit, {"n": 5})
        assert c.run([x], [5], most, [4 * 35, 4 * 30])[1].shape == (30,)


def test_branches_alone_need_what_dims_say() -> None:
    e = exported_call(branches())
    assert "op_arena_bytes_most" not in e.functions and "A run may need more" not in e.header
