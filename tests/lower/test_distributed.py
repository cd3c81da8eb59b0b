"""Scales of blocks of weights are multiplied once for each block where there are few rows; codes of four bits are looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import F32, I32
from anyshape.equations.expr import Expr
from anyshape.equations.functions import bit_and, cast, reduce_, shift_right
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.ir.dag import Dag, Load, Operation, Reduction, walk
from anyshape.lower.schedule.distributed import MOST_TOGETHER, distributed
from anyshape.lower.schedule.kernel_schedule import schedule_group
from anyshape.lower.schedule.products import Product
from tests.lower.groups import Builder, M, N
from tests.lower.native import check

PERMUTES = "llvm.x86.avx512.permvar.sf.512"
TARGET = host_target()
WIDE = TARGET.scalef
BLOCKS, BLOCK = 3, 8
SIZES = [
    {N: n, M: m} for n, m in ((1, 16), (2, 64), (1, 77), (0, 5), (3, 40), (1, 0), (4, 33), (7, 16), (8, 80), (9, 21))
]


def weighted(kind: str, bits: int = 4) -> Group:
    """y[i, j] = sum(a[i, q, r] * weight(codes[q, r, j]) * scale[q, j]), the weights of blocks of codes; `kind` says what else there is."""
    b = Builder(kind)
    a, codes = b.input([N, BLOCKS, BLOCK]), b.input([BLOCKS, BLOCK, M], "u8")
    scale = b.input([BLOCKS, BLOCK, M] if kind == "a scale each" else [BLOCKS, M])
    zero = b.input([BLOCKS, M]) if kind == "zero points" else None
    y = b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)

    def term(q: Any, r: Any) -> Expr:
        code = cast(codes[q, r, j], I32)
        if kind == "high bits":
            code = shift_right(code, 4)
        if bits < 8:
            code = bit_and(code, (1 << bits) - 1)
        weight = cast(code, F32) - (8.0 if zero is None else zero[q, j])
        if kind == "two codes":
            weight = weight * cast(bit_and(cast(codes[q, r, 0], I32), 15), F32)
        factor = scale[q, r, j] if kind == "a scale each" else scale[q, j]
        return a[i, q, r] * (weight + factor if kind == "a sum" else weight * factor)

    b.eqs.define(y[i, j], reduce_("sum", [BLOCKS, BLOCK], term))
    b.output(y)
    return b.group()


def product(group: Group) -> Product:
    (p,) = (s for s in schedule_group(group).steps if isinstance(s, Product))
    return p


@pytest.mark.parametrize(
    ("kind", "takes_out"),
    [("scales", True), ("zero points", True), ("high bits", True), ("a scale each", False), ("a sum", False)],
)
def test_scales_of_blocks_are_taken_out_of_their_sums(kind: str, takes_out: bool) -> None:
    few = product(weighted(kind)).few
    assert (few is not None) is takes_out
    if few is not None:
        inner, outer = (n for n in walk([few.value]) if isinstance(n, Reduction))
        assert [v.extent for v in inner.variables] == [BLOCK] and [v.extent for v in outer.variables] == [BLOCKS]
        assert not any(n is inner.body for n in walk([outer.body], stop=inner))


def test_sums_of_integers_and_other_reductions_stay() -> None:
    dag = Dag()
    block, place = dag.variable(3), dag.variable(8)
    for dtype, kind in ((I32, "sum"), (F32, "max"), (F32, "sum")):
        terms = [dag.op("cast", dtype, dag.var(v, I32)) for v in (block, place)]
        total = dag.red(kind, (block, place), dag.op("mul", dtype, *terms), dtype)
        assert isinstance(total, Reduction)
        store = product(weighted("scales")).stores[0]
        stores = (type(store)(store.access, total, store.variables),)
        assert (distributed(dag, stores, total, product(weighted("scales")).m) is not None) is (
            dtype is F32 and kind == "sum"
        )


def test_a_factor_that_no_summed_variable_has_is_outside_of_all_sums() -> None:
    dag = Dag()
    row, place = dag.variable(dims.symbol("rows", 1)), dag.variable(8)
    of_row, of_place = (dag.op("cast", F32, dag.var(v, I32)) for v in (row, place))
    total = dag.red("sum", (place,), dag.op("mul", F32, of_place, of_row), F32)
    assert isinstance(total, Reduction)
    store = product(weighted("scales")).stores[0]
    few = distributed(dag, (type(store)(store.access, total, store.variables),), total, row)
    assert few is not None and few.stores[0].value is few.value
    assert isinstance(few.value, Operation) and few.value.name == "mul"
    assert {n.domain for n in walk([few.value]) if isinstance(n, Reduction)} == {frozenset()}


def test_few_rows_share_what_they_are_multiplied_with() -> None:
    """The weights of one of several rows are nodes of the others too, and each row stores its own results."""
    few = product(weighted("scales")).few
    assert few is not None
    assert [len(stores) for stores in few.together] == [*range(2, MOST_TOGETHER + 1)]
    first, second = (s.value for s in few.together[0])
    shared = {*walk([first])} & {*walk([second])}
    assert sum(isinstance(n, Load) for n in shared) == 2  # of codes and of scales, and not of rows
    assert len({s.access.address.offset for s in few.together[-1]}) == MOST_TOGETHER


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("kind", ["scales", "zero points", "high bits", "a scale each", "two codes"])
def test_results(kind: str, level: str) -> None:
    check(weighted(kind), SIZES, target=host_target().limited(level))


@pytest.mark.parametrize(("scale", "a"), [(np.inf, 0.0), (-np.inf, 1.0), (np.nan, 1.0), (1e-30, 3e38), (0.0, np.inf)])
def test_what_is_no_number_is_summed_as_it_is_written(scale: float, a: float) -> None:
    """An infinite scale times a zero is NaN, also where other products of the block are not zero; and a sum of 8 products may overflow
    where the sum of their products with the scale does not."""
    group = weighted("scales")
    rng = np.random.default_rng(0)
    arrays = {
        group.inputs[0]: np.full((2, BLOCKS, BLOCK), 1.0, np.float32),
        group.inputs[1]: rng.integers(0, 256, (BLOCKS, BLOCK, 80)).astype(np.uint8),
        group.inputs[2]: rng.random((BLOCKS, 80)).astype(np.float32),
    }
    arrays[group.inputs[0]][1, 1, : 1 if a > 1e38 else 4] = a
    arrays[group.inputs[2]][1, :: 1 if a > 1e38 else 7] = scale
    check(group, [{N: 2, M: 80}], fixed=arrays)


@pytest.mark.skipif(not WIDE, reason="the processor permutes no vectors of 16")
@pytest.mark.parametrize(
    ("kind", "bits", "looks_up"),
    [("scales", 4, True), ("high bits", 4, True), ("scales", 3, False), ("scales", 8, False), ("zero points", 4, True)],
)
def test_what_is_looked_up(kind: str, bits: int, looks_up: bool) -> None:
    """The lowest four bits of a lane alone pick: three would need a mask, and eight bits more vectors. Of a code with a zero point that
    varies, its conversion is looked up."""
    assert (PERMUTES in lower_group(weighted(kind, bits), TARGET).text) is looks_up
    assert PERMUTES not in lower_group(weighted(kind, bits), TARGET.limited("avx2")).text


def test_all_bytes() -> None:
    group = weighted("high bits")
    codes = np.resize(np.arange(256, dtype=np.uint8), (BLOCKS, BLOCK, 77))
    check(group, [{N: 1, M: 77}], fixed={group.inputs[1]: codes})
