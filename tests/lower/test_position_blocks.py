"""What recurrences read of blocks of positions: products with inputs, computed for some positions at a time.

Native code is compared with the interpreter; the tensor of all positions has no memory, and its weights are there once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import dims, ops
from anyshape.dtypes import F32
from anyshape.equations import Equations, Tensor
from anyshape.equations.dependencies import reads
from anyshape.equations.functions import cast, reduce_, tanh
from anyshape.kernel_model.position_blocks import block_products, read_by_steps
from anyshape.lower import Group
from anyshape.lower.ir.clamped import Along
from anyshape.lower.schedule.kernel_schedule import schedule_group
from anyshape.lower.schedule.products import GatheredRows, InMemory, Product
from anyshape.lower.schedule.recurrence import Recurrence
from tests.lower.native import check

T, B = dims.symbol("t"), dims.symbol("b")
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
RNG = np.random.default_rng(7)


def drawn(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 0.05).astype(np.float32)


def network(cell: str, direction: str, hidden: int, read: int = 12, lens: bool = False) -> Any:
    gates, directions = GATES[cell] * hidden, 2 if direction == "bidirectional" else 1
    x = anyshape.input("x", f"f32[s, b, {read}]")
    lengths = [anyshape.input("lens", "i32[b]")] if lens else []
    weights = drawn(directions, gates, read), drawn(directions, gates, hidden), drawn(directions, 2 * gates)
    results = getattr(ops, cell)(x, *weights, *lengths, direction=direction)
    return anyshape.function([x, *lengths], [*results][:2])


SHAPES = ((1, 1), (70, 1), (131, 3), (9, 40), (3, 70), (0, 3), (3, 0))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("hidden", [17, 160])
def test_cells_compute_their_inputs_products_in_blocks(cell: str, direction: str, hidden: int) -> None:
    """Several blocks, one, and one of a single position; some rows for each thread, and all; products of a step that threads share."""
    f = network(cell, direction, hidden)
    plain = anyshape.compile(f, kernels="interpret")
    one, two = (anyshape.compile(f, threads=n) for n in (1, 2))
    for s, b in SHAPES:
        x = drawn(s, b, 12)
        for expected, alone, shared in zip(plain(x), one(x), two(x), strict=True):
            np.testing.assert_allclose(alone, expected, rtol=0, atol=2e-6)
            np.testing.assert_array_equal(alone, shared)


@pytest.mark.parametrize("cell", ["lstm", "rnn"])
def test_weights_are_packed_once(cell: str) -> None:
    exe = anyshape.compile(network(cell, "forward", 64, 48), threads=2)
    (program,) = exe.plan.programs[:1]
    bytes_ = sum(c.nbytes for c in program.constants)
    assert bytes_ <= 1.1 * 4 * GATES[cell] * 64 * (48 + 64 + 2)


def test_positions_in_an_order_of_the_data_are_computed_before() -> None:
    """A reversed sequence ends where the data says."""
    for direction in ("forward", "reverse", "bidirectional"):
        f = network("gru", direction, 16, lens=True)
        exe = anyshape.compile(f, threads=1)
        x, lens = drawn(90, 3, 12), np.array([90, 1, 64], np.int32)
        for got, expected in zip(exe(x, lens), anyshape.compile(f, kernels="interpret")(x, lens), strict=True):
            np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6)


LARGEST = Tensor("largest", F32, (T, B))


def recurrence(at: Any, ahead: Any = None) -> tuple[Equations, Tensor, Tensor, Tensor]:
    """y[s, n] from y[s - 1] and z[at(s), n], with z a product of x and weights."""
    x, w, y = Tensor("x", F32, (T, B, 5)), Tensor("w", F32, (5, 7)), Tensor("y", F32, (T + 1, B, 7))
    r, z, eqs = Tensor("r", F32, (7, 7)), Tensor("z", F32, (T, B, 7)), Equations("recurrence", {}, {})
    s, n, j = eqs.index("s", T), eqs.index("n", B), eqs.index("j", 7)
    eqs.define(z[s, n, j], reduce_("sum", [5], lambda k: x[s, n, k] * w[k, j]) if ahead is None else ahead(x, s, n, j))
    eqs.define(LARGEST[s, n], reduce_("max", [5], lambda k: x[s, n, k]))
    eqs.define(y[0, n, j], cast(0, F32))
    before = reduce_("sum", [7], lambda k: y[s, n, k] * r[k, j])
    eqs.step(y[s + 1, n, j], tanh(at(z, s, n, j) + before), s)
    return eqs, x, w, z


READS: dict[str, tuple[Any, bool]] = {
    "own": (lambda z, s, n, j: z[s, n, j], True),
    "from the end": (lambda z, s, n, j: z[T - 1 - s, n, j], True),
    "two positions": (lambda z, s, n, j: z[s, n, j] + z[T - 1 - s, n, j], False),
    "the first one": (lambda z, s, n, j: z[0, n, j], False),
    "by the row": (lambda z, s, n, j: z[s, n, j] * z[s, 0, j], True),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_read_by_steps(name: str) -> None:
    at, fits = READS[name]
    eqs, _, w, z = recurrence(at)
    assert set(read_by_steps(eqs.equations)) == ({z} if fits else set())
    assert block_products(eqs.equations, {w}) == ({z} if fits else set())
    assert not block_products(eqs.equations, ())
    group = group_of(eqs, w)
    r = next(t for t in group.inputs if t.name == "r")
    sizes = [{T: t, B: b} for t, b in ((150, 2), (1, 1), (70, 1), (0, 2), (3, 70))]
    native = check(group, sizes, fixed={**group.constants, r: drawn(7, 7)})
    scratch = [dims.evaluate(native.kernel.scratch, {T: t, B: 3}) for t in (100_000, 200_000)]
    assert (scratch[0] == scratch[1]) is (name != "two positions"), "memory for all positions"


def group_of(eqs: Equations, w: Tensor) -> Group:
    """The kernel of a recurrence, of which the weights are a constant."""
    tensors = {t.name: t for q in eqs.equations for t in (q.target, *reads(q))}
    inputs = tuple(tensors[name] for name in ("x", "r", "w"))
    return Group("recurrence", tuple(eqs.equations), inputs, outputs=(tensors["y"],), constants={w: drawn(5, 7)})


def test_rows_that_are_not_a_steps_own_are_computed_by_each_part() -> None:
    """A thread has some rows for itself, of which the steps read the first one of all."""
    eqs, _, w, _ = recurrence(READS["by the row"][0])
    (recurrent,) = [p for p in schedule_group(group_of(eqs, w)).phases if isinstance(p, Recurrence)]
    assert recurrent.ahead is not None and not recurrent.ahead.of_rows
    eqs, _, w, _ = recurrence(READS["own"][0])
    (recurrent,) = [p for p in schedule_group(group_of(eqs, w)).phases if isinstance(p, Recurrence)]
    assert recurrent.ahead is not None
    (whole,), (gathered,) = recurrent.ahead.whole, recurrent.ahead.of_rows
    assert isinstance(whole, Product) and isinstance(whole.a, InMemory)
    assert isinstance(gathered, Product) and isinstance(gathered.a, GatheredRows)


def test_what_is_more_than_products_is_computed_whole_by_each_part() -> None:
    """A product, and the largest element of each row: a thread that has some rows computes all of both."""
    eqs, _, w, z = recurrence(lambda z, s, n, j: z[s, n, j] + LARGEST[s, n])
    assert set(read_by_steps(eqs.equations)) == {z, LARGEST}
    group = group_of(eqs, w)
    (recurrent,) = [p for p in schedule_group(group).phases if isinstance(p, Recurrence)]
    assert recurrent.ahead is not None and len(recurrent.ahead.whole) == 2 and not recurrent.ahead.of_rows
    r = next(t for t in group.inputs if t.name == "r")
    check(group, [{T: 70, B: b} for b in (1, 2, 5)], fixed={**group.constants, r: drawn(7, 7)})


def test_what_no_constant_is_multiplied_with_is_computed_before() -> None:
    eqs, _, w, z = recurrence(READS["own"][0], lambda x, s, n, j: reduce_("sum", [5], lambda k: x[s, n, k]))
    assert set(read_by_steps(eqs.equations)) == {z} and not block_products(eqs.equations, {w})


def test_ends_of_what_is_linear_in_the_position() -> None:
    s = dims.fresh("position")
    along = Along(s, T)
    assert along.ends(s * 2 + 1) == [1, 2 * T - 1]
    assert along.ends(s * (T - s)) == [s * (T - s)]
