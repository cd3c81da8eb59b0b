"""The rules of fusion: each has a graph in which it joins nodes and one, nearly the same, in which it must not; the page lists them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.graph.function import Function
from anyshape.passes.fuse import MAX_NODES, fuse
from anyshape.passes.fusion_rules import RULES, table
from anyshape.passes.steps import KernelStep
from anyshape.vm import compile

ROOT = Path(__file__).parents[2]
Build = Any


def kernels(f: Function) -> list[KernelStep]:
    return [s for s in fuse(f).steps if isinstance(s, KernelStep)]


def joined_by(f: Function) -> Counter[str]:
    return Counter(name for step in kernels(f) for name in step.joined_by)


def x(shape: str = "n, 8", name: str = "x", dtype: str = "f32") -> Any:
    return anyshape.input(name, f"{dtype}[{shape}]")


def function(*results: Any) -> Function:
    """Makes a function of all the inputs that the results need."""
    seen: dict[Any, None] = {}
    left = list(results)
    while left:
        v = left.pop()
        if v.node is not None:
            left += [i for i in v.node.inputs if i is not None]
        elif v.constant is None:
            seen[v] = None
    return anyshape.function(list(seen), list(results))


def weights(*shape: int) -> Any:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def scores() -> Any:
    return ops.matmul(x("s, 8", "q"), x("8, s", "k"))


def transposed(v: Any) -> Any:
    return ops.transpose(v, axes=[1, 0])


def channels_first(v: Any) -> Any:
    return ops.transpose(v, axes=[0, 3, 1, 2])


def channels_last(v: Any) -> Any:
    return ops.transpose(v, axes=[0, 2, 3, 1])


def heads(v: Any) -> Any:
    return ops.transpose(ops.reshape(v, [0, 2, 4]), axes=[1, 0, 2])


def repeated(v: Any) -> Any:
    """Keys of 2 heads for 6."""
    return ops.reshape(ops.broadcast_to(ops.expand_dims(v, axes=[1]), (2, 3, 8, v.type.shape[2])), [6, 8, -1])


def reshaped(v: Any) -> Any:
    return ops.reshape(v, [0, 2, 4])


CASES: dict[str, tuple[Build, Build]] = {
    "rows between contractions": (
        lambda: [ops.matmul(ops.softmax(scores(), axis=-1), x("s, 8", "v"))],
        lambda: [p := ops.softmax(scores(), axis=-1), ops.matmul(p, x("s, 8", "v"))],
    ),
    "epilogue of a contraction": (
        lambda: [ops.relu(ops.matmul(x(), weights(8, 5)))],
        lambda: [ops.add(ops.matmul(x(), weights(8, 1)), x("n, 5", "y"))],
    ),
    "move behind a contraction": (
        lambda: [ops.flip(ops.matmul(x(), weights(8, 5)), axes=[0])],
        lambda: [s := ops.matmul(x(), weights(8, 5)), ops.flip(s, axes=[0])],
    ),
    "rows stored elsewhere": (
        lambda: [ops.transpose(ops.matmul(x("b, n, 8"), weights(8, 5)), axes=[1, 0, 2])],
        lambda: [ops.transpose(ops.matmul(x("b, n, 8"), weights(8, 5)), axes=[0, 2, 1])],
    ),
    "epilogue of rows": (
        lambda: [ops.exp(ops.sum(x(), axes=[1]))],
        lambda: [ops.sub(y := x(), ops.sum(y, axes=[1], keepdims=True))],
    ),
    "move behind rows": (
        lambda: [channels_last(ops.global_max_pool(channels_first(x("n, h, w, 8"))))],
        lambda: [channels_last(ops.global_max_pool(x("n, 8, h, w")))],
    ),
    "maps of one domain": (
        lambda: [y := ops.exp(x()), ops.neg(y)],
        lambda: [y := ops.exp(x("n, 1")), ops.add(y, x("n, 8", "z"))],
    ),
    "move before a contraction": (
        lambda: [ops.matmul(transposed(x("8, n")), weights(8, 5))],
        lambda: [y := transposed(x("8, n")), ops.matmul(y, weights(8, 5))],
    ),
    "widening before a contraction": (
        lambda: [ops.matmul(x(), ops.cast(transposed(x("5, 8", "w", "i8")), to="f32"))],
        lambda: [ops.matmul(ops.cast(transposed(x("8, n", "w", "i8")), to="f32"), weights(8, 5))],
    ),
    "prologue of rows": (
        lambda: [ops.sum(ops.exp(x()), axes=[1])],
        lambda: [y := ops.exp(x()), ops.sum(y, axes=[1])],
    ),
    "computed where it is read": (
        lambda: [ops.add(transposed(x("8, n")), x("n, 8", "z"))],
        lambda: [y := transposed(x("8, n")), ops.add(ops.softmax(y), x("n, 8", "z"))],
    ),
    "maps across views": (
        lambda: [ops.exp(reshaped(ops.neg(x())))],
        lambda: [y := ops.neg(x()), ops.exp(reshaped(y))],
    ),
    "move behind views": (
        lambda: [ops.matmul(x("6, n, 8", "q"), repeated(x("2, 8, n", "k")))],
        lambda: [k := repeated(x("2, 8, n", "k")), ops.matmul(x("6, n, 8", "q"), k)],
    ),
    "side by side": (
        lambda: [ops.matmul(y := x(), weights(8, 5)), ops.matmul(y, weights(8, 7))],
        lambda: [z := ops.matmul(y := x(), weights(8, 8)), ops.matmul(ops.softmax(z), weights(8, 7)), ops.exp(y)],
    ),
}  # fmt: skip


def pooled(v: Any) -> Any:
    return ops.average_pool(v, kernel=[3, 3], strides=[1, 1])


def test_a_map_is_computed_where_its_rows_are_put() -> None:
    """Each element is computed once, whatever it takes; where rows become columns it stays in memory, to be read in blocks."""
    image = x("n, 8, 9, 16")
    rows, columns = ([0, 2, 1, 3], [0, 3, 2, 1])
    assert joined_by(function(ops.transpose(ops.exp(image), axes=rows)))["computed where it is read"] == 1
    assert joined_by(function(ops.transpose(ops.exp(image), axes=columns)))["computed where it is read"] == 0


def test_what_takes_long_is_not_computed_again_at_every_tap() -> None:
    """A window of nine taps would repeat it nine times; what is cheap, or read once, is computed as it is read."""
    image = x("n, 8, 9, 9")
    assert joined_by(function(pooled(ops.exp(image))))["prologue of rows"] == 0
    assert joined_by(function(pooled(ops.relu(image))))["prologue of rows"] == 1
    assert joined_by(function(ops.global_average_pool(ops.exp(image))))["prologue of rows"] == 1


@pytest.mark.parametrize("rule", [r.name for r in RULES])
def test_a_rule_joins_what_it_says_and_nothing_like_it(rule: str) -> None:
    fits, does_not = (function(*build()) for build in CASES[rule])
    assert joined_by(fits)[rule] == 1, joined_by(fits)
    assert joined_by(does_not)[rule] == 0, joined_by(does_not)


@pytest.mark.parametrize(
    ("dtype", "between", "joined"),
    [
        ("f16", lambda v: v, 1),
        ("bf16", lambda v: v, 1),
        ("i8", lambda v: v, 1),
        ("u8", lambda v: v, 0),
        ("i16", lambda v: v, 0),
        ("i8", lambda v: ops.mul(v, np.float32(3)), 1),
        ("i8", lambda v: ops.mul(v, weights(8, 1)), 1),
        ("i8", lambda v: ops.mul(v, weights(8, 16)), 0),
        ("i8", lambda v: ops.mul(v, np.float32(np.inf)), 0),
        ("i8", lambda v: ops.mul(v, np.full((8, 1), np.nan, np.float32)), 0),
        ("i8", lambda v: ops.mul(v, x("", "s")), 0),
        ("i8", lambda v: ops.add(v, np.float32(3)), 0),
        ("u8", lambda v: ops.mul(v, np.float32(3)), 0),
    ],
)
def test_numbers_that_products_cannot_widen_are_widened_before(dtype: str, between: Build, joined: int) -> None:
    """Scales that are finite constants are factors of a sum, or of rows: along one axis, not of each element."""
    f = function(ops.matmul(x(), between(ops.cast(x("8, 16", "w", dtype), to="f32"))))
    assert joined_by(f)["widening before a contraction"] == joined


@pytest.mark.parametrize(
    ("keys", "values", "joined"), [("i8", "i8", 2), ("i8", "f32", 1), ("u8", "bf16", 1), ("f32", "f32", 0)]
)
def test_an_op_of_several_equations_widens_what_one_of_its_products_reads(keys: str, values: str, joined: int) -> None:
    k, v = (ops.cast(x("b, 2, t, 8", name, of), to="f32") for name, of in (("k", keys), ("v", values)))
    assert joined_by(function(ops.attention(x("b, 4, s, 8", "q"), k, v)))["widening before a contraction"] == joined
    assert joined_by(function(ops.attention(k, x("b, 2, s, 8", "q"), v)))["widening before a contraction"] == (
        values != "f32"
    )


@pytest.mark.parametrize(
    ("dtype", "between", "apart"),
    [
        ("i8", lambda v: v, 0),
        ("u8", lambda v: v, 1),
        ("i8", lambda v: ops.mul(v, np.float32(3)), 0),
        ("i8", lambda v: ops.mul(v, x("", "s")), 1),
    ],
)
def test_narrow_keys_repeated_for_the_heads_of_a_group_are_widened_as_they_are_read(
    dtype: str, between: Build, apart: int
) -> None:
    """What the product cannot widen is in memory before, once for all heads."""
    keys = repeated(between(ops.cast(x("2, 8, n", "k", dtype), to="f32")))
    f = function(ops.matmul(x("6, n, 8", "q"), keys))
    assert joined_by(f)["move behind views"] == 1
    before = [v.type for step in kernels(f)[:-1] for v in step.outputs]
    assert [str(t.shape) for t in before if t.dtype.is_float] == ["(2, 8, n)"] * apart
    codes = np.random.default_rng(2).integers(-9, 9 if dtype == "i8" else 200, (2, 8, 5)) % 128
    arrays = {"dim n": np.array([5]), "q": weights(6, 4, 8), "k": codes.astype(np.int8 if dtype == "i8" else np.uint8)}
    if any(p.name == "s" for p in f.params):
        arrays["s"] = np.array(0.3, np.float32)
    (got,), (want,) = (
        compile(function(ops.matmul(x("6, m, 8", "q"), keys)), **how).run(arrays)
        for how in ({}, {"kernels": "interpret", "fuse": False})
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "scale", "read_by", "narrow"),
    [
        ("i8", None, (), True),
        ("bf16", None, (), True),
        ("i8", 0.5, (), True),
        ("u8", None, (), False),
        ("i8", np.inf, (), False),
        ("i8", None, (ops.softmax,), False),
        ("i8", None, (ops.transpose,), False),
    ],
)
@pytest.mark.parametrize("joined", ["concat", "appended"])
def test_what_products_widen_is_joined_as_it_is(
    joined: str, dtype: str, scale: float | None, read_by: tuple[Build, ...], narrow: bool
) -> None:
    """Keys that are joined are in memory as they are, if the product can widen them, and nothing but it reads them widened."""
    past, new = x("b, 2, p, 8", "past", dtype), x("b, 2, m, 8", "new", dtype)
    both = ops.concat([past, new], axis=2)
    if joined == "appended":
        both = ops.append_at(past, new, anyshape.input("filled", "i64[b]"), size=64)
    keys = ops.cast(both, to="f32")
    if scale is not None:
        keys = ops.mul(keys, np.float32(scale))
    scores = ops.matmul(x("b, 2, s, 8", "q"), ops.transpose(keys, axes=[0, 1, 3, 2]))
    *before, product = kernels(function(scores, *(read(keys) for read in read_by)))[: 2 + len(read_by)]
    stored = {v.type.dtype.name for step in before for v in step.outputs}
    assert ("f32" not in stored) == narrow
    assert (dtype in {v.type.dtype.name for v in product.inputs}) == narrow


def convolved() -> Any:
    return ops.conv(x("4, 8, 8, 8"), weights(8, 8, 3, 3), pads=[1, 1, 1, 1])


@pytest.mark.parametrize(
    ("build", "joined"),
    [
        (lambda: ops.flip(convolved(), axes=[2]), 1),
        (lambda: ops.roll(ops.matmul(x("8, 8"), weights(8, 8)), shift=[3], axes=[0]), 1),
        (lambda: channels_last(convolved()), 0),
        (lambda: transposed(ops.matmul(x("n, 8"), x("8, n", "y"))), 0),
    ],
    ids=["along an axis", "around an axis", "to axes as long", "to axes of one size"],
)
def test_axes_as_long_as_those_of_a_contraction_are_not_its_axes(build: Build, joined: int) -> None:
    f = function(build())
    assert joined_by(f)["move behind a contraction"] == joined


def test_every_rule_has_a_name_and_a_line_of_its_own() -> None:
    assert len({r.name for r in RULES}) == len({r.description for r in RULES}) == len(RULES) == len(CASES)
    assert all("\n" not in r.description and r.description[0].islower() for r in RULES)


def test_the_page_lists_the_rules() -> None:
    page = (ROOT / "docs/lowering.md").read_text()
    assert table() in page
    assert table().replace("one loop", "two loops") not in page


def test_a_kernel_says_by_which_rules_it_came_together() -> None:
    q = x("s, 8", "q")
    y = ops.add(ops.matmul(ops.softmax(ops.div(ops.matmul(q, transposed(x("s, 8", "k"))), 3.0)), x("s, 8", "v")), q)
    (step,) = kernels(function(y))
    assert step.joined_by == (
        "move before a contraction", "epilogue of a contraction", "rows between contractions", "epilogue of a contraction"
    )  # fmt: skip


def test_what_data_picks_elements_of_is_laid_out_before_the_contraction() -> None:
    """The channels of an element are side by side then; the weights, which are read at places that loops count, stay as they are."""
    moved = ops.transpose(x("n, 8, h, w"), axes=[0, 2, 3, 1])
    taps = ops.transpose(anyshape.input("t", "f32[5, 8, 3, 3]"), axes=[2, 3, 1, 0])
    y = ops.deform_pixels(moved, taps, anyshape.input("o", "f32[n, 18, h, w]"), pads=[1, 1, 1, 1])
    before, product = kernels(function(y))
    assert [n.op.full_name for n in before.nodes] == ["static.transpose"]
    assert product.joined_by == ("move before a contraction",)


def test_scores_that_reach_the_values_by_another_way_stay_in_memory() -> None:
    """The chain and what reads the scores beside it would need each other."""
    s = scores()
    rows, columns = ops.softmax(ops.add(s, x("s, s", "mask")), axis=-1), ops.softmax(s, axis=0)
    f = function(ops.matmul(rows, columns))
    assert joined_by(f)["rows between contractions"] == 0
    arrays = {"q": weights(5, 8), "k": weights(8, 5), "mask": weights(5, 5)}
    (got,), (want,) = (compile(f, **how).run(arrays) for how in ({}, {"kernels": "interpret", "fuse": False}))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_kernel_has_so_many_nodes_and_no_more() -> None:
    v = start = x()
    for _ in range(MAX_NODES + 1):
        v = ops.exp(v)
    assert sorted(len(step.nodes) for step in kernels(anyshape.function([start], v))) == [1, MAX_NODES]


def test_an_element_that_decides_a_size_is_in_memory_first() -> None:
    count = anyshape.input("count", "i64[1]")
    doubled = ops.add(count, count)
    f = anyshape.function([count], ops.dyn.broadcast_to(np.float32(2), doubled))
    assert all(len(step.nodes) == 1 for step in kernels(f))
