"""What the prover has no terms for is not proved, and said so; a mistake of the prover's own is no verdict."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.bounds import functions
from anyshape_gen.bounds.check_op import How, verdicts
from anyshape_gen.bounds.safety import prove_indices
from anyshape_gen.bounds.signature import OpNames
from anyshape_gen.bounds.terms import NO_TERMS, NotModelled, Run
from anyshape_gen.memo import Memo
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.functions import FUNCTIONS
from anyshape_gen.model.source import Findings

TWO_EQUATIONS = """ops:
  an_op:
    summary: An op.
    reference: x
    inputs: {x: "T[n]"}
    outputs: {y: "T[n]", z: "T[n]"}
    kernel: |
      y[i] = x[abs(i)]
      z[i] = x[i]
"""


def op(text: str) -> OpAnalysis:
    return analyse({"specs/m.yaml": text}, complete=False).op("an_op")


def in_steps(first: str, step: str, steps: int, last: str) -> str:
    """An op whose rule computes a size in so many steps, each from the one before."""
    rule = [f"s0 = {first}", *(f"s{k + 1} = {step.format(f's{k}')}" for k in range(steps)), f"m = s{steps}"]
    return TWO_EQUATIONS.replace('"T[n]", z: "T[n]"}', last).replace(
        "    kernel:", "    shape: |\n" + "".join(f"      {line}\n" for line in rule) + "    kernel:"
    )


def sizes(steps: int) -> str:
    return in_steps("n", "({} * 3 + 1) // 2", steps, '"T[m]", z: "T[m]"}')


def vectors(steps: int) -> str:
    text = in_steps("d", "{} + d", steps, '"T[*m]", z: "T[*m]"}')
    return text.replace("T[n]", "T[*d]").replace("[i]", "[*i]").replace("[abs(i)]", "[*abs(i)]")


def calls(steps: int) -> str:
    defined = ["def step0(a):", "    return a"]
    defined += [line for k in range(steps) for line in (f"def step{k + 1}(a):", f"    return step{k}(a) * 1")]
    return (
        "define: |\n" + "".join(f"  {line}\n" for line in defined) + TWO_EQUATIONS.replace("abs(i)", f"step{steps}(i)")
    )


DEEP: dict[str, tuple[Callable[[int], str], int, str]] = {
    "sizes": (sizes, 62, "more than 64 operations within one another"),
    "vectors": (vectors, 90, "more than 100 vectors"),
    "calls of functions": (calls, 30, "more than 100 expressions"),
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_deep_for_terms_is_not_proved_and_said_so(name: str) -> None:
    text, most, words = DEEP[name]
    assert not any(words in v.why for v in verdicts(op(text(most))))
    for steps in (most + 20, most + 200):
        proofs = verdicts(op(text(steps)))
        assert [v.how for v in proofs if words in v.why], proofs
        assert all(v.how is How.UNKNOWN or v.obligation.tensor == "z" or name == "calls of functions" for v in proofs)


def test_nothing_is_claimed_of_an_equation_without_terms_and_all_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terms(*args: Any) -> None:
        raise NotModelled("no terms for abs")

    assert {v.how for v in verdicts(op(TWO_EQUATIONS))} <= {How.STRUCTURAL, How.LINEAR, How.CASES}
    monkeypatch.setitem(functions.FUNCTIONS, "abs", no_terms)
    proofs = verdicts(op(TWO_EQUATIONS))
    assert [(v.how, v.obligation.access, v.why) for v in proofs[:2]] == [
        (How.UNKNOWN, 0, "within its dim: no terms for abs"),
        (How.UNKNOWN, 1, "within its dim: no terms for abs"),
    ]
    assert proofs[2:] and {v.how for v in proofs[2:]} == {How.STRUCTURAL}
    analysis, safe = prove_indices(analyse({"specs/m.yaml": TWO_EQUATIONS}, complete=False), {}, Findings(), Memo())
    assert analysis.op("an_op").unproved == {0, 1} and safe["an_op"].counts == {"structural": 2, "unknown": 2}


@pytest.mark.parametrize("mistake", [TypeError, AttributeError, KeyError, IndexError, ValueError, RecursionError])
def test_a_mistake_of_the_prover_is_no_verdict(mistake: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*args: Any) -> None:
        raise mistake("a mistake")

    monkeypatch.setitem(functions.FUNCTIONS, "abs", mistaken)
    with pytest.raises(mistake, match="a mistake"):
        verdicts(op(TWO_EQUATIONS))


def values(names: OpNames) -> list[Any]:
    """A value of each sort that an argument can be."""
    context = names.context
    length = context.fresh("n", 0)
    reals = Run(length, lambda p: context.opaque_value("real", p))
    return [
        context.fresh("i"),
        2,
        context.run("v", length),
        context.run("v", 2),
        reals,
        context.opaque_value("real"),
        context.undecided("c"),
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_a_value_or_no_terms_whatever_its_arguments_are(name: str) -> None:
    analysis, takes = op(TWO_EQUATIONS), FUNCTIONS[name]
    for count in range(takes.least, (takes.most or takes.least + 1) + 1):
        for picked in itertools.product(range(7), repeat=count):
            names = OpNames(analysis)
            arguments = [values(names)[k] for k in picked]
            try:
                value = functions.apply(names.state, name, arguments)
                if isinstance(value, Run):
                    value.at(names.context.position())
            except NO_TERMS:
                continue
            assert value is not None


def test_every_function_that_has_terms_is_one_of_the_language() -> None:
    """`place` and `drop` are those that signatures with axes are made of."""
    assert set(functions.FUNCTIONS) <= {*FUNCTIONS, "place", "drop"}
