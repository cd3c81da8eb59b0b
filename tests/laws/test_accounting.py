"""A law holds of what it was tried on: too few calls fail, equal calls count once, and a spec's reason may not be stale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshape.properties import Property
from anyshape_gen.parse.keys import LAWS as NUMBERS
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.draw.corpus import _corpora as corpora
from anyshape_testing.draw.corpus import corpus
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.draw_report import draws_of, reason
from anyshape_testing.execution.interpreter import run_equations
from anyshape_testing.law_page import MARKER, with_counts
from anyshape_testing.laws.catalogue import LAWS, SPEAKS_OF, silences, stale
from anyshape_testing.process import time_budget
from anyshape_testing.process.profile import LEAST, load_profile, usual
from anyshape_testing.quick import Check, Verdict, run
from anyshape_testing.running.accounting import Tally, WeakLaw, different_calls, required_calls, settle
from anyshape_testing.running.counts import by_law, keep, read, summary
from anyshape_testing.running.random_calls import on_random_calls, one_in
from anyshape_testing.running.trying import Body, has_zeros_alone

LAW = "1a interpreter == reference"


@pytest.fixture(autouse=True)
def few_calls() -> Iterator[None]:
    register("anyshape_ops")
    load_profile(20)
    yield
    time_budget.begin()
    corpora.clear()  # one that time cut short is kept for the laws of the same turn
    load_profile(usual())


def tried(body: Body, op: str = "add", **options: Any) -> dict[str, Any]:
    said: dict[str, Any] = {}
    on_random_calls(op, LAW, said.__setitem__, body, **options)
    return said


def test_a_third_of_the_other_dtypes_and_of_other_ops_others() -> None:
    def seen(**options: int) -> set[str]:
        dtypes: set[str] = set()
        tried(lambda c: bool(dtypes.add(str(c.dtypes["T"])) or True), **options)
        return dtypes

    common, some, all_ = seen(), seen(dtypes=3), seen(dtypes=1)
    assert common < some < all_ and len(some - common) == pytest.approx(len(all_ - common) / 3, abs=1)
    calls = corpus(PROPERTIES["add"], 20).further_dtypes
    by_op = {tuple(map(id, one_in(3, calls, op))) for op in PROPERTIES}
    assert len(by_op) == 3 and {k for some in by_op for k in some} == {id(c) for c in calls}
    assert one_in(3, calls[:1], "add") == calls[:1] and one_in(3, (), "add") == ()


def declared(monkeypatch: pytest.MonkeyPatch, op: str, **weak: str) -> Property:
    p = replace(PROPERTIES[op], weak=weak)
    monkeypatch.setitem(PROPERTIES._sources, op, {op: p})
    return p


def test_a_reason_for_a_law_of_a_list_is_stale_at_the_first_call() -> None:
    """A reason for any other law is stale only once it was allowed enough calls to tell."""
    reasons, nowhere = {"13": "no time"}, lambda name, value: None
    settle(Tally("13 x", "add", 0, 0, 1, listed=True), reasons, nowhere)
    settle(Tally("13 x", "add", 1, 1, 1), reasons, nowhere)
    with pytest.raises(WeakLaw, match="13 x of add is not weak"):
        settle(Tally("13 x", "add", 1, 1, 1, listed=True), reasons, nowhere)


# --- too few calls


def test_a_law_that_speaks_of_ten_calls_holds() -> None:
    assert tried(lambda c: True)["accepted"] == 20


def test_a_law_that_speaks_of_no_call_is_weak() -> None:
    with pytest.raises(WeakLaw, match=r"law 1a .* of add \(specs/.* is weak: 0 calls of \d+ drawn, required 10"):
        tried(lambda c: False)


def test_more_calls_are_drawn_where_few_are_spoken_of() -> None:
    """One call in eight of twenty is not ten; of two hundred it is."""
    seen: list[Call] = []

    def body(c: Call) -> bool:
        seen.append(c)
        return len(seen) % 8 == 0

    said = tried(body)
    assert said["accepted"] == LEAST and said["drawn"] > 20 and len({c.identity for c in seen}) == len(seen)


def test_calls_whose_results_are_zeros_come_last() -> None:
    """Such calls are compiled for a law that has enough others, only if they are among the first twenty."""
    seen: list[Call] = []

    def body(c: Call) -> bool:
        seen.append(c)
        return not has_zeros_alone(c)

    tried(body, op="count_grams")
    assert any(map(has_zeros_alone, seen[:20])) and not any(map(has_zeros_alone, seen[20:]))


def test_a_law_that_takes_only_zeros_holds() -> None:
    assert tried(has_zeros_alone, op="mul")["accepted"] >= LEAST


def test_zeros_alone() -> None:
    calls = corpus(PROPERTIES["add"], 60).valid
    zeros = [c for c in calls if not any(np.any(r) for r in run_equations(c, valid_node(c)))]
    assert zeros and zeros == [c for c in calls if has_zeros_alone(c)]


def test_a_law_may_need_fewer() -> None:
    once = iter([True])
    assert tried(lambda c: next(once, False), least=1)["accepted"] == 1


def test_equal_calls_count_once() -> None:
    first = corpus(PROPERTIES["add"], 20).valid[0]
    with pytest.raises(WeakLaw, match="1 calls"):
        tried(lambda c: True, make=lambda p, draw: first)


def test_the_calls_of_an_op_are_different() -> None:
    for op in ("logical_not", "pair_votes"):
        valid = corpus(PROPERTIES[op], 60).valid
        assert len({c.identity for c in valid}) == len(valid) == 60


@pytest.mark.parametrize(
    ("allowed", "possible", "least", "want"), [(20, 1e9, 10, 10), (5, 1e9, 10, 5), (20, 3, 10, 3), (20, 1e9, 1, 1)]
)
def test_how_many_are_required(allowed: int, possible: float, least: int, want: int) -> None:
    assert required_calls(allowed, possible, least) == want


def test_an_op_without_inputs_has_as_many_calls_as_its_lists_say() -> None:
    seed = variants("fresh_seed")[0]
    assert different_calls(replace(seed, inputs=(), params=(), dtypes={})) == 1
    assert different_calls(replace(seed, inputs=(), params=(), dtypes={"T": ("f32", "f64")})) == 2
    assert different_calls(variants("add")[0]) > 1e9
    assert different_calls(variants("zeros")[0]) > 1e9


# --- what the spec says


def test_a_reason_in_the_spec_excuses(monkeypatch: pytest.MonkeyPatch) -> None:
    declared(monkeypatch, "add", **{"1a": "nothing to add"})
    assert tried(lambda c: False)["weak"] == "nothing to add"


def test_a_reason_for_another_law_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    declared(monkeypatch, "add", **{"1b": "nothing to add"})
    with pytest.raises(WeakLaw, match="is weak"):
        tried(lambda c: False)


def test_a_reason_for_a_law_that_is_not_weak_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    declared(monkeypatch, "add", **{"1a": "nothing to add"})
    with pytest.raises(WeakLaw, match=r"is not weak: 20 calls .* its spec says that it is: nothing to add"):
        tried(lambda c: True)


def test_a_reason_for_a_law_that_does_not_apply_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stale(declared(monkeypatch, "reshape", **{"1a": "x"})) is None
    said = stale(declared(monkeypatch, "reshape", **{"7b": "a view"}))
    assert said is not None and "names a law that does not apply, 7b: it has no kernel of its own" in said


def test_reasons_of_the_specs_are_not_stale() -> None:
    assert [said for p in PROPERTIES.values() if (said := stale(p))] == []


# --- time


def test_without_time_a_law_is_short_and_does_not_hold() -> None:
    time_budget.begin(0)
    check = Check("law", (("", lambda record: on_random_calls("add", LAW, record, lambda c: True)),))
    verdict, line = run(check)
    assert verdict is Verdict.SHORT and line.split()[0] == "short" and "1 calls of" in line


def test_patience_is_for_ten_calls() -> None:
    time_budget.begin(0, 60)
    assert tried(lambda c: True)["accepted"] == LEAST


def test_a_weak_law_is_reported_as_such() -> None:
    verdict, line = run(Check("law", (("", lambda record: on_random_calls("add", LAW, record, lambda c: False)),)))
    assert verdict is Verdict.FAILS and line.split()[0] == "WEAK"
    verdict, line = run(Check("law", (("", lambda record: on_random_calls("add", LAW, record, lambda c: True)),)))
    assert verdict is Verdict.HOLDS and line.split()[0] == "holds" and "20 calls of" in line


# --- the catalogue


def test_the_generator_knows_the_laws() -> None:
    assert tuple(law.number for law in LAWS) == NUMBERS


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_laws_are_called_what_the_catalogue_says(law: Any) -> None:
    load_profile(10)
    op = next(
        n for n in ("concat", "add", "reshape", "linear_attention", *PROPERTIES) if law.silent(PROPERTIES[n]) is None
    )
    said: dict[str, Any] = {}
    law.function(op, said.__setitem__)
    assert said["law"] == str(law) and said["op"] == op


def test_who_has_one_kernel_and_who_has_a_gradient() -> None:
    """Decided from the spec: by a form of equations, and by whether the adjoint of an example is stated, not by calls."""
    whole, smooth = SPEAKS_OF["whole_op"], SPEAKS_OF["smooth_op"]
    for op in ("add", "softmax", "conv", "gather", "scatter_elements", "cumsum"):
        assert whole(PROPERTIES[op]) is None
    for op, why in {"reshape": "no kernel", "nonzero": "finds sizes", "sort": "another kernel"}.items():
        assert why in str(whole(PROPERTIES[op]))
    for op in ("mul", "softmax", "conv", "gather", "max", "sort", "prod", "scatter_elements", "lstm", "unique"):
        assert smooth(PROPERTIES[op]) is None
    refused = {"align_planes": "procedure", "linear_attention": "loop", "argmax": "no f64", "fresh_seed": "random"}
    for op, why in refused.items():
        assert why in str(smooth(PROPERTIES[op]))


def test_what_is_refused_is_reported_by_the_rule() -> None:
    never = {n for n, p in PROPERTIES.items() if not p.refuses}
    assert {"abs", "exp", "shape_of"} <= never and not {"add", "stack", "softmax", "reshape"} & never
    for n in never:
        assert not PROPERTIES[n].asserts and not any(e.error for e in PROPERTIES[n].examples)


def test_silences_are_reported_with_their_reason() -> None:
    assert silences(PROPERTIES["abs"])["6a"] == "no call is refused for its shapes or parameters"
    assert "1a" not in silences(PROPERTIES["abs"])


# --- counts


def test_counts_are_kept_by_law_and_op(tmp_path: Any) -> None:
    path = tmp_path / "counts.json"
    records = [
        {"law": "1a x", "op": "add", "accepted": 12, "drawn": 20},
        {"law": "1a x", "op": "abs", "accepted": 3, "drawn": 4},
    ]
    keep(path, by_law(records))
    keep(path, by_law([{"law": "1a x", "op": "abs", "accepted": 5, "drawn": 5}]))
    assert read(path) == {"1a x": {"abs": (5, 5), "add": (12, 20)}}
    assert list(summary(by_law(records))) == ["1a x: 2 ops, 15 random calls of 24 drawn; at least 3 (abs)"]
    assert read(tmp_path / "none.json") == {}


def test_settle_says_what_it_records() -> None:
    said: dict[str, Any] = {}
    settle(Tally(LAW, "add", 30, 12, 10), {}, said.__setitem__)
    assert said == {"law": LAW, "op": "add", "drawn": 30, "accepted": 12, "required": 10}
    settle(Tally(LAW, "add", 3, 2, 10, cut_short=True), {}, said.__setitem__)


# --- draws in vain


def test_the_report_names_the_assert_that_refuses() -> None:
    p = PROPERTIES["split"]
    assert reason(p, "static.split: sizes [1, 2] must sum to 5").endswith("sizes … must sum to …")
    assert reason(p, "static.split: x must have rank 2, got rank 5") == "x must have rank …, got rank …"
    d = draws_of(p, 20)
    assert d.valid == 20 and d.draws == 20 + sum(d.refused.values()) and 0 <= d.share < 0.6
    assert valid_node(corpus(p, 20).valid[0])


def test_the_page_has_the_counts_below_its_text() -> None:
    counts = {
        "1a interpreter == reference": {"add": (12, 20), "reshape": (7, 9)},
        "7b one part == many": {"add": (30, 31)},
    }
    chosen = {n: PROPERTIES[n] for n in ("add", "gather_nd", "reshape")}
    page = with_counts(f"text\n{MARKER}\nold", counts, chosen)
    assert page.startswith(f"text\n{MARKER}\n") and "old" not in page
    assert "| 1a | interpreter == reference | 2 | 0 | 0 | 19 | 29 | 7, reshape |" in page
    rows = {line.split("]")[0][3:]: line.split(" | ") for line in page.splitlines() if line.startswith("| [")}
    place = [law.number for law in LAWS].index
    assert rows["add"][1 + place("7b")] == "30" and rows["reshape"][1 + place("7b")] == "–"
    assert rows["gather_nd"][1 + place("7b")] == ""
    with pytest.raises(ValueError, match="has no line"):
        with_counts("text", counts, chosen)


def test_the_page_of_the_docs_has_its_marker() -> None:
    page = (Path(__file__).parents[2] / "docs/laws.md").read_text()
    assert with_counts(page, {}, {}).startswith(page.split(MARKER)[0])
