"""What random calls draw: mostly what is wanted, rarely not; too large ones again smaller; contents that ops tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from ml_dtypes import finfo

from anyshape.dtypes import parse_dtype
from anyshape.properties import BrokenReference, Case, Property
from anyshape.rules import Vec
from anyshape_testing.calls.call import MANY, Call, _largest
from anyshape_testing.calls.contents import CONSTANT, RISING, SORTED, STYLES, TIES, contents
from anyshape_testing.calls.packages import register
from anyshape_testing.draw import validity
from anyshape_testing.draw.choices import LARGE, MOST_ELEMENTS, SIZES, TINY, Choosing, HypothesisDraw
from anyshape_testing.draw.corpus import Corpus, corpus
from anyshape_testing.draw.random_call import MOST_ITEMS, MOST_STEPPED, random_call
from anyshape_testing.draw.validity import OUT_OF_RANGE, valid_node
from anyshape_testing.process.profile import load_profile, usual

PROPERTIES = register("anyshape_ops")
F32, I32, I64 = parse_dtype("f32"), parse_dtype("i32"), parse_dtype("i64")


def drawn(draw: Callable[[HypothesisDraw], Any], count: int = 200) -> list[Any]:
    """What it gives, so many times."""
    values: list[Any] = []

    @settings(max_examples=count, database=None, derandomize=True, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        values.append(draw(HypothesisDraw(Choosing(data.draw))))

    run()
    return values


def share(values: list[Any], holds: Callable[[Any], bool]) -> float:
    return sum(map(holds, values)) / len(values)


@pytest.mark.parametrize(
    ("draw", "holds"),
    [
        (lambda d: d.between(2, 9), lambda v: 2 <= v <= 9),
        (lambda d: d.each_between(3, 0, (1, 5, 9)), lambda v: all(0 <= x <= h for x, h in zip(v, (1, 5, 9)))),
        (lambda d: d.like((3, 4), (-1,)), lambda v: len(v) == 2 and all(a in (n, -1) for a, n in zip(v, (3, 4)))),
        (lambda d: d.divisor(12), lambda v: v > 0 and 12 % v == 0),
        (lambda d: d.multiple(3), lambda v: v % 3 == 0),
        (lambda d: d.each_of((2, 6), 3), lambda v: len(v) == 3 and set(v) <= {2, 6}),
        (lambda d: d.broadcast_of((1, 4)), lambda v: len(v) >= 2 and v[-1] == 4),
        (lambda d: d.positives(3), lambda v: min(v) > 0),
        (lambda d: d.sizes(3), lambda v: min(v) >= 0),
    ],
)
def test_mostly_what_is_wanted_and_rarely_not(draw: Any, holds: Any) -> None:
    values = drawn(draw)
    assert 0.7 < share(values, holds) < 1 and len(set(values)) > 1


def test_bounds_without_an_end() -> None:
    assert all(v >= 5 for v in drawn(lambda d: d.between(5, None), 50))
    assert all(v <= 5 for v in drawn(lambda d: d.between(None, 5), 50))
    assert {0, 9} <= set(drawn(lambda d: d.between(0, 9)))  # the ends, more often than what lies between


def test_one_item_in_place_of_another() -> None:
    d = HypothesisDraw(lambda strategy: (0, 0))
    assert d.with_item((1, 2, 3), 1, 7) == Vec((1, 7, 3)) and d.with_item((), 0, 7) == Vec(())


def test_sizes_around_vectors_and_blocks_are_drawn() -> None:
    sizes = drawn(lambda d: d.dim("n"), 1500)
    assert {7, 8, 9, 15, 16, 17, 31, 33, 0, 1} <= set(sizes)
    assert 0 < share(sizes, lambda n: n in LARGE) < 0.1
    assert set(sizes) <= {*SIZES, *LARGE}


def of(case: Callable[[Any], Case], stepped: bool = False) -> Property:
    return Property("add", case, lambda a, b: a + b, (), stepped=stepped)


def calls_of(p: Property, count: int = 30) -> list[Any]:
    calls: list[Any] = []

    @settings(max_examples=count, database=None, derandomize=True, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        calls.append(random_call(p, data.draw))

    run()
    return calls


@pytest.mark.parametrize("stepped", [False, True])
def test_a_call_that_is_too_large_is_drawn_smaller(stepped: bool) -> None:
    def cube(d: Any) -> Case:
        shape = Vec(d.dim("n") for _ in range(5))
        return Case({"a": shape, "b": shape}, {})

    calls = calls_of(of(cube, stepped))
    most = MOST_STEPPED if stepped else MOST_ELEMENTS
    assert len(calls) == 30 and all(sum(a.size for a in c.flat_inputs()) <= most for c in calls)
    assert any(set(c.inputs["a"].shape) <= {*TINY} for c in calls)


def test_an_index_has_something_to_name() -> None:
    def indexed(d: Any) -> Case:
        n = d.dim("n")
        return Case({"a": Vec((n,)), "b": Vec((2,))}, {}, ranges={"b": (0, n)})

    assert all(c.inputs["a"].size for c in calls_of(of(indexed)))


def test_a_negative_size_and_a_long_parameter_are_no_call() -> None:
    def wrong(d: Any) -> Case:
        n = d.length(20) - 3
        return Case({"a": Vec((max(n, -1),)), "b": Vec((1,))}, {"sizes": (1,) * max(n, 0)})

    for c in calls_of(of(wrong)):
        assert len(c.params["sizes"]) <= MOST_ITEMS


@pytest.mark.parametrize(
    "op",
    [
        "hide_keys",
        "random_uniform",
        "gemm",
        "lstm",
        "col2im",
        "ensure_shape",
        "scaled_size",
        "pair_votes",
        "max_unpool",
    ],
)
def test_asserts_are_met_by_construction(op: str) -> None:
    """Three draws in four and more of these ops were refused: equalities of runs, of params and of dims, and bounds of vectors."""
    load_profile(25)
    calls = corpus(PROPERTIES[op], 25)
    load_profile(usual())
    assert len(calls.valid) == 25 and meets_asserts(calls), calls.refused


def meets_asserts(calls: Corpus) -> bool:
    """Whether asserts refuse few draws. Elements that are indices of an op in a body are not drawn to be in range, and no assert says that
    they must be: draws that they spoil are left out."""
    return calls.draws - calls.refused[OUT_OF_RANGE] < 2.5 * len(calls.valid)


def unpooled(index: int, kernel: int = 2) -> Call:
    inputs = {"x": np.ones((1, 1, 2), np.float32), "indices": np.array([[[0, index]]])}
    return Call(PROPERTIES["max_unpool"], inputs, {"kernel": (kernel,)})


@pytest.mark.parametrize(
    ("call", "is_left_out"),
    [(unpooled(7), True), (unpooled(-9), True), (unpooled(7, kernel=0), False), (unpooled(0, kernel=-1), False)],
)
def test_draws_with_an_index_out_of_range_in_a_body_are_left_out_and_those_that_an_assert_refuses_are_not(
    call: Call, is_left_out: bool
) -> None:
    with pytest.raises(UnsatisfiedAssumption) as refused:
        valid_node(call)
    valid = unpooled(2)
    assert valid_node(valid)
    calls = Corpus(call.property, (), ((valid, 90), (valid, 1)), Counter({str(refused.value): 89}))
    assert meets_asserts(calls) == is_left_out


def test_an_index_out_of_range_of_an_op_without_a_body_is_not_left_out() -> None:
    x, at = np.ones((2, 3), np.float32), np.array([5])
    assert valid_node(Call(PROPERTIES["gather"], {"x": x, "indices": at}, {}))


def test_a_reference_that_fails_otherwise_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(c: Call, node: Any) -> Any:
        raise BrokenReference("max_unpool") from ValueError("not an index")

    monkeypatch.setattr(validity, "run_reference", failing)
    with pytest.raises(BrokenReference):
        valid_node(unpooled(2))


# --- contents


def some(style: str, dtype: Any = F32, shape: tuple[int, ...] = (6, 9), **more: Any) -> list[np.ndarray]:
    return [contents(shape, dtype, seed, style, **more) for seed in range(12)]


def test_ties_have_equal_elements_equal_rows_and_zeros_of_both_signs() -> None:
    arrays = some(TIES)
    assert all(len(np.unique(a)) <= 5 for a in arrays)
    assert any(len(np.unique(a, axis=0)) < len(a) for a in arrays)
    zeros = np.concatenate([a[a == 0] for a in arrays])
    assert np.signbit(zeros).any() and not np.signbit(zeros).all()
    assert all(len(np.unique(a)) <= 4 for a in some(TIES, I32))


def test_plain_contents_have_none_of_it() -> None:
    for a in some("plain"):
        assert len(np.unique(a)) == a.size and np.isfinite(a).all() and (a != 0).all()


def test_extreme_floats_reach_the_ends_of_the_dtype() -> None:
    drawn_ones = np.concatenate([a.ravel() for a in some("extreme")])
    info = finfo(np.float32)
    assert {float(v) for v in (info.max, info.min, info.tiny, -info.tiny)} <= set(drawn_ones.tolist())
    bounded = contents((200,), F32, 0, "extreme", most=1e12)
    assert np.float32(1e12) in bounded and float(info.max) not in bounded


def test_the_largest_numbers_of_several_operands_fit_in_their_product() -> None:
    most, f64 = float(finfo(np.float32).max), parse_dtype("f64")
    assert _largest([F32]) == _largest([F32, I64]) == most / MANY
    assert _largest([F32, F32]) ** 3 <= most * (1 + 1e-12) < _largest([F32, F32]) ** 4
    assert _largest([F32, f64]) == _largest([F32, F32]) < _largest([f64, f64])


def test_rows_in_order() -> None:
    directions = {bool((np.diff(a) >= 0).all()) for a in some(SORTED)}
    assert directions == {True, False}
    assert all((np.diff(a) >= 0).all() or (np.diff(a) <= 0).all() for a in some(SORTED))
    assert all((np.diff(a) >= 0).all() for a in some(RISING, I64))
    assert all(len(np.unique(a)) == 1 for a in some(CONSTANT))


def test_indices_lie_in_their_range_and_at_its_ends() -> None:
    for style in STYLES:
        assert all(a.min() >= -3 and a.max() < 3 for a in some(style, I64, bounds=(-3, 3)))
    assert all(set(a.ravel()) <= {-3, 2} for a in some("extreme", I64, bounds=(-3, 3)))


def test_first_and_last_element() -> None:
    for a in some(RISING, I64, (7,), bounds=(0, 50), ends=(0, 12)):
        assert a[0] == 0 and a[-1] == 12 and (np.diff(a) >= 0).all()
    assert contents((0,), I64, 0, RISING, ends=(0, 5)).size == 0


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (3, 0), (2, 3, 4)])
def test_all_styles_of_all_shapes(style: str, shape: tuple[int, ...]) -> None:
    for name in ("f32", "f16", "bf16", "i8", "u8", "i64", "bool"):
        a, b = (contents(shape, parse_dtype(name), 5, style) for _ in range(2))
        assert a.shape == shape and a.dtype == parse_dtype(name).numpy and a.tobytes() == b.tobytes()
