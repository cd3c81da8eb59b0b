"""What a rule says and leaves behind: messages, checks, facts, Undetermined, and that decided things leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anyshape import dims, rules
from anyshape.dims import symbol
from anyshape.errors import OverflowedError, ShapeError
from anyshape.rules import Rule, Undetermined, Vec

n, m, b = symbol("n"), symbol("m"), symbol("b", 1)
MESSAGES: list[tuple[Callable[[Rule], Any], str]] = [
    (lambda r: r.axis("axis", 3, 2, of="x"), "op: axis 3 is out of range for x of rank 2"),
    (lambda r: r.axis("axis", -3, 2, of="x"), "op: axis -3 is out of range for x of rank 2"),
    (lambda r: r.axes("axes", Vec((0, 3)), 2, of="x"), "op: axis 3 is out of range for x of rank 2"),
    (lambda r: r.axes("axes", Vec((0, -2)), 2), "op: repeated axis in axes = [0, -2]"),
    (lambda r: r.floordiv(7, 0), "op: division by zero: 7 // 0"),
    (lambda r: r.mod(n + 1, 0), "op: division by zero: (n + 1) % 0"),
    (lambda r: r.exact_div(7, 2), "op: 7 is not a multiple of 2"),
    (lambda r: r.infer_size((-1, 2, -1), 6), "op: only one size may be -1, got [-1, 2, -1]"),
    (lambda r: r.infer_size((-1, 4), 6), "op: 6 is not a multiple of 4"),
    (lambda r: r.infer_size((0, -1), 0), "op: division by zero: 0 is not a multiple of 0 with one answer"),
    (lambda r: r.infer_size((2, 2), 6), "op: cannot view 6 elements as [2, 2]"),
    (lambda r: r.infer_size((-1, -2), 6), "op: sizes are at least -1, got [-1, -2]"),
    (lambda r: r.item(Vec((1, 2)), 2), "op: index 2 is out of range for [1, 2], which has 2 items"),
    (lambda r: r.wrap(5, 5), "op: index 5 is out of range for 5 items"),
    (lambda r: r.min(Vec(())), "op: min of nothing"),
    (lambda r: r.zip((1, 2), (1,)), "op: vectors of different lengths are combined: [1, 2] and [1]"),
    (lambda r: r.broadcast((2, 3), (4, 3)), "op: [2, 3] and [4, 3] do not broadcast: 2 against 4"),
    (lambda r: r.equal(3, 4, "dim k of b"), "op: dim k of b: expected 3, got 4"),
    (lambda r: r.equal((3, n), (3,), "shape"), "op: shape: expected [3, n], got [3]"),
    (lambda r: r.require(dims.ge(-n - 1, 0), lambda: f"bad {n}"), "op: bad n"),
]


@pytest.mark.parametrize(("call", "says"), MESSAGES, ids=[says for _, says in MESSAGES])
def test_messages_name_op_wanted_and_got(call: Callable[[Rule], Any], says: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call(Rule("op"))
    assert str(caught.value) == says


def test_the_place_is_named() -> None:
    with pytest.raises(ShapeError, match=r"add \(node #3\): "):
        Rule("add", "node #3").equal(1, 2, "n")


def test_a_check_formats_with_the_values_of_a_run() -> None:
    r = Rule("op", "node #3")
    r.require(dims.eq(n, m * 2), lambda: f"wanted {m * 2} in {Vec((n, m))}")
    (check,) = r.checks
    assert check.message == "wanted 2*m in [n, m]"
    assert check.format({n: 3, m: 2}) == "op (node #3): wanted 4 in [3, 2]"


def test_a_learned_equality_needs_no_second_check() -> None:
    r = Rule("op")
    assert r.equal(n, m, "k") in (n, m)
    r.equal(n * 2, m * 2, "twice")
    assert len(r.checks) == 1
    bound = r.bind({"y": Vec((n, m))})
    assert bound.outputs["y"][0] is bound.outputs["y"][1]


def test_the_better_known_side_is_returned() -> None:
    assert Rule("op").equal(n, 4, "k") == 4
    assert Rule("op").equal(4, n, "k") == 4
    assert Rule("op").equal(n + 0, n, "k") is n


def test_facts_outlive_the_rule() -> None:
    facts = dims.Facts()
    Rule("first", facts=facts).equal(n, m, "k")
    second = Rule("second", facts=facts)
    assert second.broadcast((n, 3), (m, 3)) == Vec((facts.canonical(n), 3))
    assert second.checks == []


def test_open_broadcasts_stay_open() -> None:
    r = Rule("add")
    (dim,) = r.broadcast((n,), (m,))
    assert dim.kind == "bcast" and len(r.checks) == 1
    for x, y, fits in ((3, 3, True), (1, 3, True), (3, 1, True), (0, 1, True), (2, 3, False)):
        assert dims.evaluate(r.checks[0].cond, {n: x, m: y}) is fits


def test_a_known_side_settles_a_broadcast() -> None:
    r = Rule("add")
    assert r.broadcast((n, 768), (768,)) == (n, 768)
    assert r.checks == []
    assert r.broadcast((5,), (m,)) == (5,)
    assert str(r.checks[0].cond) in ("m == 5 or m == 1", "m == 1 or m == 5")


def test_an_impossible_branch_is_dropped_and_checked() -> None:
    r = Rule("op")
    size = r.where(dims.eq(n, 0), lambda: r.item(Vec(()), 0), lambda: n)
    assert size is n
    (check,) = r.checks
    assert str(check.cond) == "n != 0"


def test_two_impossible_branches_fail_at_once() -> None:
    r = Rule("op")
    with pytest.raises(ShapeError, match="out of range"):
        r.where(dims.eq(n, 0), lambda: r.item(Vec(()), 0), lambda: r.item(Vec(()), 1))


def test_branches_know_their_condition() -> None:
    r = Rule("op")
    size = r.where(dims.ge(n, 2), lambda: r.exact_div(6 * n, n), lambda: 0)
    assert r.checks == [] and str(size) == "select(n >= 2, 6, 0)"


def test_assumptions_hold() -> None:
    r = Rule("op", assume=[dims.ge(n, 1)])
    assert r.where(dims.eq(n, 0), lambda: 7, lambda: n) is n


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.axis("axis", n, 2),
        lambda r: rules.keep(Vec((1, 2)), [dims.eq(n, 1), True]),
        lambda r: rules.fill(n, 0),
        lambda r: rules.range_(n),
        lambda r: rules.unique(Vec((n, m))),
        lambda r: rules.index(Vec((n, m)), 3),
        lambda r: rules.put(Vec((1, 2)), n, 3),
        lambda r: r.where(dims.eq(n, 0), lambda: Vec((1,)), lambda: Vec((1, 2))),
    ],
)
def test_what_needs_a_value_is_undetermined(call: Callable[[Rule], Any]) -> None:
    with pytest.raises(Undetermined, match=r"not known|depends"):
        call(Rule("op"))


def test_unbacked_sizes_carry_their_bounds() -> None:
    r = Rule("nonzero")
    k = r.unbacked("k", 0, n * m)
    assert r.decide(dims.le(k, n * m)) is True and r.decide(dims.ge(k, 0)) is True
    assert dims.bounds(r.unbacked("k", 0, 9)) == (0, 9)


def test_vectors() -> None:
    v = Vec((2, 3, 4))
    assert v + 1 == (3, 4, 5) and 1 - v == (-1, -2, -3) and v * v == (4, 9, 16) and -v == (-2, -3, -4)
    assert v[1:] == (3, 4) and isinstance(v[1:], Vec) and v[Vec((2, 0))] == (4, 2) and v[-1] == 4
    assert rules.enumerate_(Vec((7, 8))) == ((0, 7), (1, 8)) and rules.fill(2, 5) == (5, 5)
    assert rules.put(v, Vec((0, -1)), Vec((9, 8))) == (9, 3, 8)
    assert rules.range_(5, 1, -2) == (5, 3) and rules.fill(2, 7) == (7, 7) and rules.range_(2**63 - 1, 0) == ()
    for long in (lambda: rules.range_(2**63 - 1), lambda: rules.range_(0, -(2**31), -1), lambda: rules.fill(2**31, 0)):
        with pytest.raises(ShapeError, match="longer than any"):
            long()
    assert rules.sorted_((2, 0, 1)) == rules.range_(3) and rules.unique((1, 2, 1)) == (1, 2)
    assert rules.ravel((1, 2), (3, 4)) == 6 and rules.unravel(6, (3, 4)) == (1, 2) and rules.index(v, 4) == 2
    assert rules.eq(v, (2, 3)) is False and rules.eq("a", "a") is True and rules.eq(None, 3) is False
    assert rules.lt(0.5, 1) is True and rules.eq(True, 1) is True
    with pytest.raises(ShapeError, match="out of range"):
        v[3]
    with pytest.raises(ShapeError, match="different length"):
        v + Vec((1, 2))
    with pytest.raises(OverflowedError, match="64-bit"):
        rules.prod((1 << 40, 1 << 40))


def test_bound_lists_its_names_when_asked_for_another() -> None:
    bound = Rule("op").bind({"y": Vec((n,))}, d=Vec((n,)), k=3)
    assert bound.k == 3 and bound.d == (n,) and bound.outputs["y"] == (n,)
    with pytest.raises(AttributeError, match="binds no name 'q'"):
        bound.q  # noqa: B018, the read raises
