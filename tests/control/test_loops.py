"""`loop` and `scan`: shapes that change from turn to turn, no turns, conditions, what is collected, memory over many turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from anyshape.graph.verify import verify
from anyshape.vm.compiling.executors import PythonExecutor
from anyshape.vm.compiling.plans import ProgramPlan
from anyshape.vm.program.table import Op
from anyshape.vm.run import interpreter
from tests.in_threads import in_threads

X = np.arange(3, dtype=np.float32)


def growing() -> anyshape.Function:
    x, n = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")
    a, b = control.loop(
        n, lambda i, acc: [ops.concat([acc, x], axis=0), ops.mul(x, ops.cast(i, "f32"))], [x], collects=1
    )
    return anyshape.function([x, n], [a, b])


def scanned(rows: str, state: str, **options: Any) -> anyshape.Executable:
    """A state to which rows are added, whose length is an expression of dims that no operand of the loop has alone."""
    x, s = anyshape.input("x", rows), anyshape.input("s", state)
    (last,) = control.scan(lambda kept, row: [ops.add(kept, row)], [s], [ops.reshape(x, [3, -1])], 0)
    return anyshape.compile(anyshape.function([x, s], [last]), **options)


@pytest.mark.parametrize(
    "types, dims",
    [(("f32[n, m]", "f32[k]"), None), (("f32[n, m]", "f32[k]"), {"n": 3}), (("f32[...]", "f32[...]"), None)],
)
def test_what_a_body_checks_follows_the_dims_around_it(types: tuple[str, str], dims: dict[str, int] | None) -> None:
    f = scanned(*types, dims=dims)
    np.testing.assert_array_equal(f(np.ones((3, 4), np.float32), np.zeros(1, np.float32)), [3, 3, 3, 3])
    with pytest.raises(ShapeError, match="do not broadcast"):
        f(np.ones((3, 4), np.float32), np.zeros(3, np.float32))


TEXT = """\
function main(%x: f32[n], %k: i64[]) {
  %0: f32[?0], %1: f32[max(k[0], 0), n] = loop(%x, %x, %k, none, carried=1) {
    body(%iteration: i64[], %carried0: f32[?1], %x: f32[n]) {
      const %c0: bool[] = true
      %0: f32[?1 + n] = concat(%carried0, %x, axis=0)
      %1: f32[] = cast(%iteration, to=f32, saturate=true)
      %2: f32[n] = mul(%x, %1)
      return output0=%c0, output1=%0, output2=%2
    }
  }
  return output0=%0, output1=%1
}"""


def test_text_and_back() -> None:
    f = growing()
    assert str(f) == TEXT
    assert str(anyshape.parse(TEXT)) == TEXT
    verify(f)
    verify(anyshape.passes.optimise(f))


@pytest.mark.parametrize("iterations", [0, 1, 2, 9, -3])
def test_a_dim_that_grows(options: dict[str, Any], iterations: int) -> None:
    exe = anyshape.compile(growing(), **options)
    for size in (3, 1, 0):
        a, b = exe(X[:size], np.array(iterations))
        n = max(iterations, 0)
        np.testing.assert_array_equal(a, np.concatenate([X[:size]] * (n + 1)))
        np.testing.assert_array_equal(b, np.array([X[:size] * i for i in range(n)]).reshape(n, size))


def test_a_condition_ends_it(options: dict[str, Any]) -> None:
    """Halves until the sum is small; the condition is data. What is collected has a count that nobody knew."""
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")

    def body(i: Any, v: Any) -> Any:
        half = ops.mul(v, 0.5)
        return [ops.greater(ops.sum(half, axes=(0,)), 1.0), half, v]

    last, seen = control.loop(None, body, [x], cond=c, collects=1)
    assert str(last.type) == "f32[n]"
    exe = anyshape.compile(anyshape.function([x, c], [last, seen]), **options)
    a, b = exe(np.full(4, 8, np.float32), np.array(True))
    np.testing.assert_array_equal(a, np.full(4, 0.25, np.float32))
    assert b.shape == (5, 4) and b[:, 0].tolist() == [8, 4, 2, 1, 0.5]
    a, b = exe(np.full(4, 8, np.float32), np.array(False))
    assert a[0] == 8 and b.shape == (0, 4)


def test_a_carried_condition_is_both_read_and_handed_on(options: dict[str, Any]) -> None:
    n = anyshape.input("n", "i64[]")
    flag, number = control.loop(
        10, lambda i, b, k: [ops.less(i, n), ops.less(i, n), ops.add(k, 1)], [np.array(True), np.int64(0)], cond=True
    )
    exe = anyshape.compile(anyshape.function([n], [flag, number]), **options)
    assert [r.tolist() for r in exe(np.array(3))] == [False, 4]
    assert [r.tolist() for r in exe(np.array(30))] == [True, 10]


def test_carried_values_may_change_places(options: dict[str, Any]) -> None:
    x, y, n = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]"), anyshape.input("k", "i64[]")
    p, q = control.loop(n, lambda i, a, b: [b, a], [x, y])
    exe = anyshape.compile(anyshape.function([x, y, n], [p, q]), **options)
    for iterations in range(4):
        a, b = exe(X, X[:2], np.array(iterations))
        assert (len(a), len(b)) == ((3, 2) if iterations % 2 == 0 else (2, 3))


def test_numbers_that_are_sizes_in_the_next_iteration(options: dict[str, Any]) -> None:
    """A carried count decides a shape inside: its element is a symbol of the turn."""
    n = anyshape.input("n", "i64[]")

    def body(i: Any, size: Any, total: Any) -> Any:
        row = ops.full(1.0, ops.concat([ops.static.reshape(size, newshape=(1,))], axis=0))
        return [ops.add(size, 2), ops.add(total, ops.sum(row, axes=(0,)))]

    size, total = control.loop(n, body, [np.int64(1), np.float32(0)])
    exe = anyshape.compile(anyshape.function([n], [size, total]), **options)
    assert [r.tolist() for r in exe(np.array(4))] == [9, 1 + 3 + 5 + 7]


def test_loops_and_branches_within_loops(options: dict[str, Any]) -> None:
    x, n = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")

    def outer(i: Any, v: Any) -> Any:
        (w,) = control.loop(i, lambda j, z: [ops.concat([z, v], axis=0)], [v])
        (s,) = control.if_(ops.greater(i, 1), lambda: ops.sum(w, axes=(0,)), lambda: np.float32(0.5))
        return [ops.add(v, s), s]

    last, sums = control.loop(n, outer, [x], collects=1)
    exe = anyshape.compile(anyshape.function([x, n], [last, sums]), **options)
    v, want = X, []
    for i in range(4):
        s = np.concatenate([v] * (i + 1)).sum() if i > 1 else np.float32(0.5)
        v = v + s
        want.append(s)
    got = exe(X, np.array(4))
    np.testing.assert_allclose(got[0], v, rtol=1e-5)
    np.testing.assert_allclose(got[1], want, rtol=1e-5)


def test_checks_are_made_every_iteration(options: dict[str, Any]) -> None:
    x, n = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")
    (y,) = control.loop(n, lambda i, v: [ops.concat([ops.add(v, x), np.zeros(1, np.float32)], axis=0)], [x])
    exe = anyshape.compile(anyshape.function([x, n], y), **options)
    assert exe(X, np.array(1)).shape == (4,)
    with pytest.raises(ShapeError):
        exe(X, np.array(2))


def test_collected_values_must_have_one_shape(options: dict[str, Any]) -> None:
    x, n = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")
    _, y = control.loop(n, lambda i, v: [ops.concat([v, x], axis=0), v], [x], collects=1)
    exe = anyshape.compile(anyshape.function([x, n], y), **options)
    assert exe(X, np.array(1)).shape == (1, 3)
    assert exe(X, np.array(0)).shape == (0, 3)
    with pytest.raises(ShapeError, match="what iteration 1 collects is 6, and was 3 before"):
        exe(X, np.array(2))


def test_ten_thousand_iterations_do_not_grow_memory() -> None:
    x, n = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")

    def body(i: Any, v: Any) -> Any:
        (w,) = control.if_(ops.less(i, 7), lambda: ops.concat([v, v], axis=0), lambda: ops.exp(v))
        return [ops.add(ops.mul(v, 0.5), ops.mul(ops.sum(w, axes=(0,)), 1e-3))]

    (y,) = control.loop(n, body, [x])
    exe = anyshape.compile(anyshape.function([x, n], y))
    exe(X, np.array(10))
    before = exe.memory
    exe(X, np.array(10_000))
    assert exe.memory == before < 2000


def test_a_iteration_takes_few_instructions() -> None:
    """An iteration takes few instructions of the table, whatever walks it; `python -m benchmarks.control_flow` has the time."""
    (y,) = control.loop(anyshape.input("k", "i64[]"), lambda i, c: [ops.add(c, 1)], [np.int64(0)])
    exe = anyshape.compile(anyshape.function([y.node.inputs[-2]], y))
    assert exe(np.array(20_000)) == 20_000
    assert isinstance(exe.plan, ProgramPlan)
    program = exe.plan.program

    def instructions(iterations: int) -> int:
        done: list[Op] = []
        context = PythonExecutor(program).context()
        interpreter.run(program, [np.array(iterations)], context, lambda p, at, op, operands, words: done.append(op))
        return len(done)

    one, many = instructions(1), instructions(101)
    assert 0 < many - one <= 100 * 11


def test_growing_caches_are_moved_seldom() -> None:
    """A result that is a row longer each turn: memory stays within a small multiple of it."""
    x, n = anyshape.input("x", "f32[1, 64]"), anyshape.input("k", "i64[]")
    start = anyshape.input("start", "f32[t, 64]")
    (y,) = control.loop(n, lambda i, v: [ops.concat([v, x], axis=0)], [start])
    exe = anyshape.compile(anyshape.function([x, start, n], y))
    row = np.ones((1, 64), np.float32)
    got = exe(row, row[:0], np.array(1000))
    assert got.shape == (1000, 64) and got.all()
    assert exe.memory < 4 * got.nbytes


def test_no_iteration_leaves_no_loop() -> None:
    x = anyshape.input("x", "f32[n]")
    (y,) = control.loop(0, lambda i, v: [ops.exp(v)], [x])
    assert anyshape.passes.optimise(anyshape.function([x], y)).results == (x,)


def test_constants_and_operands_inside_become_static() -> None:
    x, n = anyshape.input("x", "f32[n, 4]"), anyshape.input("k", "i64[]")
    s = ops.concat([np.array([-1]), np.array([2])], axis=0)
    (y,) = control.loop(n, lambda i, v: [ops.dyn.reshape(ops.dyn.reshape(v, s), ops.shape_of(x))], [x])
    g = anyshape.passes.dyn_to_static(anyshape.function([x, n], y))
    verify(g)
    assert str(y.type) == "f32[n, 4]"
    assert [node.op.variant for node in g.all_nodes()].count("static") == 2


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (
            lambda i, v: [ops.cast(v, to="f64")],
            DtypeError,
            r"carried value carried0 is f32\[n\], and f64\[n\] after an iteration",
        ),
        (lambda i, v: [v, v], ArgumentError, "1 carried and 0 collected"),
    ],
)
def test_wrong_bodies(body: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        control.loop(3, body, [anyshape.input("x", "f32[n]")])


def test_scan_in_both_directions(options: dict[str, Any]) -> None:
    x, h = anyshape.input("x", "f32[t, n]"), anyshape.input("h", "f32[n]")
    for back in (False, True):
        last, seen = control.scan(
            lambda s, row: [ops.add(ops.mul(s, 0.5), row), s], [h], [x], collects=1, backwards=[back]
        )
        exe = anyshape.compile(anyshape.function([x, h], [last, seen]), **options)
        a = np.arange(12, dtype=np.float32).reshape(4, 3)
        s, want = X, []
        for row in a[::-1] if back else a:
            want.append(s)
            s = s * np.float32(0.5) + row
        got = exe(a, X)
        np.testing.assert_allclose(got[0], s)
        np.testing.assert_allclose(got[1], want)


def test_unknown_ranks_around_a_loop(options: dict[str, Any]) -> None:
    x, n = anyshape.input("x", "f32[...]"), anyshape.input("k", "i64[]")
    (y,) = control.loop(n, lambda i, v: [ops.add(v, x)], [x])
    exe = anyshape.compile(anyshape.function([x, n], y), **options)
    for shape in ((2,), (2, 3), ()):
        a = np.ones(shape, np.float32)
        np.testing.assert_array_equal(exe(a, np.array(3)), 4 * a)


def test_a_rank_that_each_iteration_decides_is_refused() -> None:
    x, n = anyshape.input("x", "f32[1, m]"), anyshape.input("k", "i64[]")

    def body(i: Any, v: Any) -> Any:
        total = ops.sum(ops.squeeze(v))
        return [ops.concat([v, ops.static.reshape(total, newshape=(1, 1))], axis=0)]

    (y,) = control.loop(n, body, [x])
    with pytest.raises(UnsupportedError, match="may differ between iterations"):
        anyshape.compile(anyshape.function([x, n], y))(np.ones((1, 1), np.float32), np.array(3))


def test_threads_do_not_share_iterations() -> None:
    exe = anyshape.compile(growing())
    wrong: list[tuple[int, int]] = []

    def work(size: int) -> None:
        x = np.arange(size, dtype=np.float32)
        for iterations in range(60):
            a, b = exe(x, np.array(iterations % 7))
            if not (a.reshape(-1, size) == x).all() or b.shape != (iterations % 7, size):
                wrong.append((size, iterations))

    in_threads(work, (1, 3, 50, 1000))
    assert not wrong


def test_saved_and_loaded(tmp_path: Any) -> None:
    exe = anyshape.compile(growing())
    exe.save(tmp_path / "m")
    again = anyshape.load(tmp_path / "m")
    for iterations in (0, 3):
        for a, b in zip(again(X, np.array(iterations)), exe(X, np.array(iterations)), strict=True):
            np.testing.assert_array_equal(a, b)
    assert str(again.function) == TEXT


def test_calls_are_put_in_place() -> None:
    x = anyshape.input("x", "f32[n]")
    f = anyshape.function([x], ops.exp(ops.add(x, x)))
    y = anyshape.input("y", "f32[m, 2]")
    with pytest.raises(ArgumentError, match="takes 1"):
        control.call(f, [])
    (z,) = control.call(f, {"x": ops.sum(y, axes=(1,))})
    assert str(z.type) == "f32[m]"


def test_dims_that_are_known_to_be_equal_are_no_change(options: dict[str, Any]) -> None:
    """The product says that b is b2; a turn then makes [b, c] of [b2, c], and what no turn collects has those dims all the same."""
    x, y = anyshape.input("x", "f32[a, b]"), anyshape.input("y", "f32[b2, c]")
    trip, cond = anyshape.input("trip", "i64[]"), anyshape.input("cond", "bool[]")

    def body(_: Any, v: Any) -> Any:
        return [ops.neg(v), ops.neg(v)]

    product = ops.matmul(x, y)
    last, every = control.loop(trip, body, [y], collects=1)
    (chosen,) = control.if_(
        cond, lambda: ops.transpose(x, axes=(1, 0)), lambda: ops.gather(y, ops.arange(0, 2, 1), axis=1)
    )
    exe = anyshape.compile(anyshape.function([x, y, trip, cond], [product, last, every, chosen]), **options)
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    for iterations in (0, 2):
        _, last, every, chosen = exe(a, b, np.array(iterations), np.array(True))
        assert last.shape == (3, 4) and every.shape == (iterations, 3, 4) and chosen.shape == (3, 2)
