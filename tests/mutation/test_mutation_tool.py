"""The tool that tries mutants: a mutant that must be killed is, a weak spec is reported, and declarations do not drift."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.emit.bodies import kernels
from anyshape_gen.mutants import mutants
from anyshape_testing.calls.packages import PACKAGES, PROPERTIES, register
from anyshape_testing.mutation import trying
from anyshape_testing.mutation.__main__ import changed, declarations, trial_of
from anyshape_testing.mutation.making import GeneratorFault, load
from anyshape_testing.mutation.results import day_of, json_text, kept, page, read, score, untried
from anyshape_testing.mutation.running import Trial, undeclared
from anyshape_testing.mutation.trying import Killers, TooLong, time_limit
from anyshape_testing.process.profile import load_profile, usual

ROOT = Path(__file__).parents[2]
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.yaml"
CALLERS = ROOT / "tests" / "library_functions.yaml"
SPEC = """
ops:
  weak_head:
    summary: The first n elements, twice.
    inputs: {x: "F[m]"}
    params:
      n: {kind: int, default: 2, dyn: operand}
    outputs: {y: "F[n]"}
    shape: |
      assert 0 <= n and n <= m, "there are not {n} of {m}"
    kernel: "y[i] = 2 * x[i]"
    reference: 2 * x[:n]
    examples:
      - {x: [5], n: 3, y: [3]}
      - {x: [5], n: 6, error: there are not}
"""
FIRM = """      - {x: {value: [1.0, 2.0, 3.0]}, y: {value: [2.0, 4.0]}}
      - {x: [2], n: 2, y: [2]}
      - {x: [2], n: 0, y: [0]}
      - {x: [2], n: -1, error: there are not}
"""
WEAK = "weak_head"


@pytest.fixture(scope="module", autouse=True)
def without_shrinking() -> Iterator[None]:
    """Shrinks no counterexample; takes the ops of this file's own specs out of those under test, which other tests go through."""
    register("anyshape_ops")
    known = set(PROPERTIES)
    load_profile(100, shrink=False)
    yield
    load_profile(usual())
    for op in set(PROPERTIES) - known:
        del PROPERTIES[op]
        PACKAGES.pop(op, None)


@pytest.fixture(scope="module")
def specs() -> Trial:
    return trial_of(ROOT / "specs", CALLERS, "anyshape_ops")


def survivors(text: str) -> set[str]:
    trial = Trial(analyse({"weak.yaml": text}), "weak")
    return {t.label for t in trial.run(WEAK).tried if t.survives}


def test_what_is_changed() -> None:
    (op,) = analyse({"weak.yaml": SPEC}).ops
    labels = [m.label for m in mutants(op.spec)]
    assert labels == [
        "params: n by default 2 >> n by default 3",
        "params: n by default 2 >> n by default 1",
        "shape: assert 0 <= n and n <= m >> nothing",
        "shape: 0 <= n and n <= m >> 0 <= n or n <= m",
        "shape: 0 <= n and n <= m >> 0 <= n",
        "shape: 0 <= n and n <= m >> n <= m",
        "shape: 0 <= n >> 0 < n",
        "shape: 0 <= n >> 0 >= n",
        "shape: 0 <= n >> 1 <= n",
        "shape: 0 <= n >> -1 <= n",
        "shape: n <= m >> n < m",
        "shape: n <= m >> n >= m",
        "kernel: 2 * x[i] >> 2 + x[i]",
        "kernel: 2 * x[i] >> 3 * x[i]",
        "kernel: 2 * x[i] >> 1 * x[i]",
    ]


def test_a_place_outlives_the_text_around_it() -> None:
    renamed = SPEC.replace("F[m]", "F[size]").replace("n <= m", "n <= size").replace("{m}", "{size}")
    places = [[m.place for m in mutants(analyse({"weak.yaml": text}).ops[0].spec)] for text in (SPEC, renamed)]
    assert (
        places[0]
        == places[1]
        == [
            "params n: 2 to 3",
            "params n: 2 to 1",
            "shape: assert dropped",
            "shape: and to or",
            "shape: condition dropped of and",
            "shape: condition dropped of and (no. 2)",
            "shape: <= to <",
            "shape: <= to >=",
            "shape: 0 to 1",
            "shape: 0 to -1",
            "shape: <= to < (no. 2)",
            "shape: <= to >= (no. 2)",
            "kernel y: * to +",
            "kernel y: 2 to 3",
            "kernel y: 2 to 1",
        ]
    )


def test_declarations_are_by_place(tmp_path: Path) -> None:
    trial = Trial(analyse({"weak.yaml": SPEC}), "weak")
    path = tmp_path / "equivalent.yaml"
    path.write_text(
        f'{WEAK}:\n  "shape: and to or": a reason\n  "shape: * to /": another\nnone: {{"kernel y: 2 to 3": no op}}\n'
    )
    declared, wrong = declarations(path, trial)
    assert declared[WEAK] == {"shape: 0 <= n and n <= m >> 0 <= n or n <= m": "a reason"}
    assert wrong == [f"{WEAK}: there is no mutant at 'shape: * to /'", "none: there is no mutant at 'kernel y: 2 to 3'"]
    assert declarations(tmp_path / "absent.yaml", trial) == ({}, [])


def test_a_weak_spec_is_reported() -> None:
    left = survivors(SPEC)
    assert "params: n by default 2 >> n by default 3" in left
    assert {"shape: n <= m >> n < m", "shape: 0 <= n >> 0 < n"} <= left
    assert "kernel: 2 * x[i] >> 2 + x[i]" not in left


def test_examples_of_the_bounds_make_it_firm() -> None:
    assert survivors(SPEC + FIRM) == set()


@pytest.mark.parametrize("op", ["sub", "trilu"])
def test_the_tests_of_an_op_kill_its_mutants(op: str, specs: Trial) -> None:
    outcome = specs.run(op)
    assert len(outcome.tried) > 5
    assert {t.label for t in outcome.tried if t.survives} == set()


def test_calls_whose_elements_the_op_refuses_are_left_out(specs: Trial) -> None:
    labels = [m.label for m in mutants(specs.workshop.specs["tensor_scatter"])]
    assert len(specs.run("tensor_scatter", labels[::6]).tried) > 5


def test_declarations_name_mutants_that_there_are(specs: Trial) -> None:
    declared, wrong = declarations(EQUIVALENT, specs)
    assert undeclared(declared, specs) == wrong == []


def test_a_declaration_of_no_mutant_is_an_error(specs: Trial) -> None:
    errors = undeclared({"sub": {"kernel: a >> b": "why"}, "nothing": {"kernel: c >> d": "why"}}, specs)
    assert errors == ["sub: there is no mutant 'kernel: a >> b'", "nothing: there is no mutant 'kernel: c >> d'"]


def test_a_mutant_that_does_not_end_is_stopped() -> None:
    with pytest.raises(TooLong), time_limit(0.05):
        while True:
            pass


def test_a_generator_that_writes_no_python_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(analyse({"weak.yaml": SPEC}), "weak")

    def broken(*_: object) -> None:
        raise SyntaxError("invalid syntax")

    monkeypatch.setattr(kernels, "kernel", broken)
    with pytest.raises(GeneratorFault, match="weak_head: what the generator wrote is no Python: invalid syntax"):
        trial.distinct(WEAK)


def test_results_are_read_as_they_were_written(specs: Trial, tmp_path: Path) -> None:
    results = {"sub": kept(specs.run("sub"), specs.workshop.specs["sub"])}
    (tmp_path / "mutation.json").write_text(json_text(results, {}, "2026-11-25"))
    again = read(tmp_path / "mutation.json")
    assert page(again, {}, "") == page(results, {}, "")
    assert day_of(tmp_path / "mutation.json") == "2026-11-25"
    assert score(again, {}).killed == results["sub"].killed


@pytest.mark.in_every_sample
def test_the_page_is_what_the_stored_results_say(specs: Trial) -> None:
    results = read(ROOT / "docs" / "mutation.json")
    declared, _ = declarations(EQUIVALENT, specs)
    assert (ROOT / "docs" / "mutation.md").read_text() == page(
        results, declared, day_of(ROOT / "docs" / "mutation.json")
    )
    assert score(results, declared).enough, score(results, declared)


def test_after_an_example_more_only_survivors_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("SECONDS", "LONGER"):
        monkeypatch.setattr(trying, limit, math.inf)  # else how busy the machine is decides which calls are kept
    weak, firm = (Trial(analyse({"weak.yaml": text}), "weak") for text in (SPEC, SPEC + FIRM))
    before = kept(weak.run(WEAK), weak.workshop.specs[WEAK])
    spec = firm.workshop.specs[WEAK]
    assert before.covers(untried(spec)) and not kept(weak.run(WEAK), spec).covers(before)
    again = kept(firm.run(WEAK, before.survivors), spec, before)
    assert (again.mutants, again.killed, again.survivors) == (before.mutants, before.mutants, ())
    whole = kept(firm.run(WEAK), spec)
    assert replace(again, laws=whole.laws) == whole
    # A mutant that the new example kills gets no further calls, by which a law may have killed it before.
    assert again.laws >= whole.laws


def test_another_rule_is_tried_whole() -> None:
    first, other = (
        analyse({"weak.yaml": text}).ops[0].spec for text in (SPEC, SPEC.replace("2 * x[i]", "x[i] + x[i]"))
    )
    assert not untried(first).covers(untried(other))


LIBRARY = """
library: |
  def twice(v): return v + v
  def four_times(v): return twice(twice(v))
  def of_nobody(v): return v
"""
CALLER = """
ops:
  quadruple:
    summary: Every element four times.
    inputs: {x: "F[*d]"}
    outputs: {y: "F[*d]"}
    dtypes: {F: [f32, f64]}
    kernel: "y[*i] = four_times(x[*i])"
    reference: 4 * x
    examples: [{x: {value: [1.0, 2.0]}, y: {value: [4.0, 8.0]}}]
"""


def test_functions_of_the_library_are_changed_by_themselves() -> None:
    trial = Trial(analyse({"library.yaml": LIBRARY, "op.yaml": CALLER}), "caller")
    assert [m.label for m in trial.mutants("library.twice")] == ["defines: v + v >> v - v"]
    assert list(trial.mutants("library.four_times")) == list(trial.mutants("quadruple")) == []
    assert trial.library["library.twice"].users == ("quadruple",) and trial.uncalled == ["of_nobody"]


def test_a_mutant_of_a_function_of_the_library_is_killed_by_an_op_that_calls_it() -> None:
    """The function itself is not."""
    trial = Trial(analyse({"library.yaml": LIBRARY, "op.yaml": CALLER}), "caller")
    (tried,) = trial.run("library.twice").tried
    assert tried.killers.example is not None and tried.killers.law is not None
    workshop = trial.workshop
    own = workshop.generate(workshop.specs["quadruple"])
    assert own is not None
    killers = trying.Tests(workshop.property_of("quadruple"), load(workshop.specs["quadruple"], own))
    assert killers.killers(load(workshop.specs["quadruple"], own), "defines") == Killers(None, None)


def test_ops_that_call_functions_for_tests_alone_are_not_changed(tmp_path: Path) -> None:
    for name, text in (("specs/library.yaml", LIBRARY), ("specs/op.yaml", SPEC), ("tests/callers.yaml", CALLER)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    trial = trial_of(tmp_path / "specs", tmp_path / "tests/callers.yaml", "caller")
    assert set(trial.specs) == {WEAK, "library.twice", "library.four_times"}
    alone = trial_of(tmp_path / "specs", tmp_path / "absent.yaml", "caller")
    assert set(alone.specs) == {WEAK} and alone.uncalled == ["twice", "four_times", "of_nobody"]


def test_anyshapes_own_library_is_tested_where_it_is() -> None:
    """A folder without a library of its own has those functions, and does not try their mutants."""
    trial = Trial(analyse({"op.yaml": CALLER.replace("four_times", "atan")}, complete=False), "caller")
    assert trial.library == {} and list(trial.mutants("quadruple")) == []


def test_every_function_of_the_library_is_tried(specs: Trial) -> None:
    results = read(ROOT / "docs" / "mutation.json")
    assert specs.uncalled == [] and {"library.atan2", "library.sign_bit", "library.logistic"} <= set(specs.library)
    stale = [name for name in specs.library if changed(results.get(name), specs.specs[name])]
    assert stale == [], f"python -m anyshape_testing.mutation --keep --op {','.join(stale)}"


def test_a_sign_that_is_wrong_at_minus_one_half_is_noticed(specs: Trial) -> None:
    """Drawn values miss the border of two forms; an op that calls the function has it in an example."""
    label = "defines: abs(v) <= 0.5 >> abs(v) < 0.5"
    (tried,) = specs.run("library.asin", [label]).tried
    assert tried.label == label and tried.killers.example is not None


def test_a_new_function_of_the_library_changes_no_other_op() -> None:
    """Results of ops that do not call it stay."""
    first, second = (
        analyse({"library.yaml": text, "op.yaml": CALLER}).ops[0].spec
        for text in (LIBRARY, LIBRARY + "  def another(v): return v - 1\n")
    )
    assert first.functions != second.functions and untried(first) == untried(second)
