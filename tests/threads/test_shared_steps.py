"""Recurrences of few rows on several threads: columns of products are shared out in every step, and results are those of one thread, bit
for bit, whoever comes to help."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import evaluate, symbol
from anyshape.failure_report import AREA
from anyshape.lower import host_target
from anyshape.lower.llvm.builder import KERNEL_ARGS, Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.polling import SharedPool
from anyshape.lower.llvm.types import I32, I64, const
from anyshape.lower.schedule.blocked import BlockOfRows
from anyshape.lower.schedule.shared_steps import FEW_ROWS, pieces_of
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import export, export_target
from anyshape.vm.native import pool as pool_module
from anyshape.vm.native.executor import _pool as pool_of_process
from anyshape.vm.native.pool_layout import PoolWord
from anyshape.vm.program.table import Op
from anyshape_testing.exports.loaded import Exported, Pool
from tests.in_threads import in_threads
from tests.threads.native_pool import KERNEL, native, working_pool

RNG = np.random.default_rng(7)
HIDDEN, INPUTS, STEPS = 256, 9, 5
PRODUCTS = STEPS - 1
"""Steps with a product: before the first one there is nothing."""
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


@pytest.fixture(autouse=True)
def many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets calls use as many threads as are asked for, whatever processors there are."""
    monkeypatch.setattr(pool_module, "usable_threads", lambda: 8)
    monkeypatch.setenv("ANYSHAPE_KERNELS", "native")
    monkeypatch.delenv("ANYSHAPE_LOOP", raising=False)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / 16).astype(np.float32)


def cell(kind: str, batch: str, directions: int = 1, hidden: int = HIDDEN, lengths: bool = False) -> anyshape.Function:
    gates = GATES[kind] * hidden
    x = anyshape.input("x", f"f32[s, {batch}, {INPUTS}]")
    n = anyshape.input("n", f"i32[{batch}]")
    of = [weights(directions, gates, INPUTS), weights(directions, gates, hidden), weights(directions, 2 * gates)]
    direction = "bidirectional" if directions == 2 else "forward"
    results = getattr(ops, kind)(x, *of, *([n] if lengths else []), direction=direction)
    return anyshape.function([x, *([n] if lengths else [])], list(results))


def shares(f: anyshape.Executable, *arguments: Any) -> tuple[list[bytes], int]:
    """The results, and how often the pool was given something in the call."""
    f(*arguments)
    words = pool_of_process()._words
    before = int(words[PoolWord.EPOCH])
    results = [a.tobytes() for a in f(*arguments)]
    return results, int(words[PoolWord.EPOCH]) - before


def arguments_of(rows: int, lengths: bool = False) -> list[Any]:
    x = np.random.default_rng(rows).standard_normal((STEPS, rows, INPUTS)).astype(np.float32)
    return [x, *([(STEPS - np.arange(rows) % STEPS).astype(np.int32)] if lengths else [])]


@pytest.mark.parametrize("kind", [*GATES])
@pytest.mark.parametrize("threads", [2, 3])
def test_results_are_those_of_one_thread(kind: str, threads: int) -> None:
    f = cell(kind, "b", hidden=512 if kind == "rnn" else HIDDEN)
    alone, several = anyshape.compile(f, threads=1), anyshape.compile(f, threads=threads)
    for rows in (1, 2, FEW_ROWS, FEW_ROWS + 1, 9, 0):
        arguments = arguments_of(rows)
        expected, count = shares(alone, *arguments)
        assert count == 0
        got, count = shares(several, *arguments)
        assert got == expected, rows
        assert (count >= PRODUCTS) == (0 < rows <= FEW_ROWS), (rows, count)


@pytest.mark.parametrize("lengths", [False, True])
def test_a_batch_that_is_a_number(lengths: bool) -> None:
    f = cell("lstm", "1", lengths=lengths)
    alone, several = anyshape.compile(f, threads=1), anyshape.compile(f, threads=2)
    assert any(op is Op.SHARE for _, op, _ in several.plan.programs[0].instructions())
    got, count = shares(several, *arguments_of(1, lengths))
    assert got == shares(alone, *arguments_of(1, lengths))[0] and count >= PRODUCTS


def test_both_directions_are_shared_out_instead() -> None:
    f = cell("lstm", "b", directions=2)
    alone, several = anyshape.compile(f, threads=1), anyshape.compile(f, threads=2)
    got, count = shares(several, *arguments_of(1))
    assert got == shares(alone, *arguments_of(1))[0] and count < PRODUCTS


def test_narrow_cells_share_nothing() -> None:
    """A step that is shorter than fork and join."""
    assert shares(anyshape.compile(cell("lstm", "1", hidden=32), threads=2), *arguments_of(1))[1] < PRODUCTS


@pytest.fixture
def taken() -> Iterator[None]:
    """The pool works for another call meanwhile."""
    words = pool_of_process()._words
    words[PoolWord.OWNER] = 1
    yield
    words[PoolWord.OWNER] = 0


@pytest.mark.usefixtures("taken")
def test_a_pool_that_another_call_has() -> None:
    f = cell("gru", "b")
    got, count = shares(anyshape.compile(f, threads=2), *arguments_of(1))
    assert got == shares(anyshape.compile(f, threads=1), *arguments_of(1))[0] and count == 0


def test_calls_from_several_threads_at_once() -> None:
    f = anyshape.compile(cell("lstm", "b"), threads=2)
    arguments = arguments_of(2)
    expected = [a.tobytes() for a in f(*arguments)]

    def calls(number: int) -> None:
        for _ in range(20):
            assert [a.tobytes() for a in f(*arguments)] == expected, number

    in_threads(calls, range(4))


def test_exported_objects_compute_steps_in_one_thread() -> None:
    """The pool of an exported object takes parts of kernels, and no steps."""
    f = cell("lstm", "b")
    alone, c = anyshape.compile(f, threads=1), Exported(export(f, "cell", export_target(None), make_options({})))
    for rows in (1, 2, FEW_ROWS + 1):
        arguments = arguments_of(rows)
        sizes = [STEPS, rows]
        room = [a.nbytes for a in alone(*arguments)]
        results = c.run(arguments, sizes, c.arena_bytes_shared(3, sizes), room, Pool(3))
        expected = [a.tobytes() for a in alone(*arguments)]
        assert [a.tobytes() for a in c(*arguments)] == expected and [a.tobytes() for a in results] == expected


def kernel_that_shares() -> Any:
    """A kernel that shares a function whose second part fails with 7, and returns 5 where it goes on."""
    module = Module(host_target())
    with module.function("step", I32, KERNEL_ARGS, internal=True, inline=False, noalias=False) as f:
        f.ret(f.select(f.compare("eq", f.args[3], 1), const(I32, 7), const(I32, 0)))
    with module.kernel("kernel") as f:
        pool = SharedPool.of_caller(f)
        with f.if_(f.compare("gt", pool.threads, 1)):
            pool.share(f, "step", f.args[2], const(I64, 64), pool.threads)
        f.ret(const(I32, 5))
    return compile_module(module)


@pytest.mark.parametrize(("threads", "status"), [(1, 5), (2, 7), (3, 7)])
def test_a_kernel_ends_where_a_part_of_what_it_shares_fails(threads: int, status: int) -> None:
    loaded = kernel_that_shares()
    shares = ctypes.cast(native("anyshape_share", ctypes.c_int32), ctypes.c_void_p).value or 0
    table, scratch = np.zeros(AREA + 1, np.int64), np.zeros(64, np.int64)
    with working_pool() as pool:
        pool.ensure(3)
        of_caller = np.array([0, 0, shares, pool.address, threads], np.int64)
        table[0] = of_caller.ctypes.data
        scalars = table.ctypes.data + 8 * AREA
        assert KERNEL(loaded.address("kernel"))(scalars, 0, scratch.ctypes.data, 0, 1) == status
        table[0] = 0
        assert KERNEL(loaded.address("kernel"))(scalars, 0, scratch.ctypes.data, 0, 1) == 5, "nobody to ask"


def test_pieces() -> None:
    """Few rows are one piece, and more of them no fewer than there were."""
    n, first, count = symbol("n", 0, None), symbol("first", 0, None), symbol("count", 0, None)
    rows = BlockOfRows(first, count, n)
    few = [evaluate(pieces_of(rows, True), {n: k}) for k in range(1, 12)]
    assert few == [1] * FEW_ROWS + [5, 6, 7, 8, 9, 10, 11]
    assert [evaluate(pieces_of(rows, False), {n: k}) for k in range(1, 12)] == [*range(1, 12)]
