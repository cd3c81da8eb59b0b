"""What laws say of wrong specs, and that they say nothing of right ones: small specs, generated in memory."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from anyshape_testing.laws import agreement, refusals
from anyshape_testing.matrix.making import make, under_test
from anyshape_testing.process.profile import load_profile, usual


def ignored(key: str, value: Any) -> None:
    """Records nothing."""


REVERSED = """
ops:
  wrong_reverse:
    summary: Reversed.
    inputs: {x: "i64[n]"}
    outputs: {y: "i64[n]"}
    kernel: "y[i] = x[n - 1 - i]"
    reference: REFERENCE
    examples: [{x: [3], y: [3]}]
"""
PICKED = """
ops:
  picked:
    summary: Elements by their places, and of each one more than there is.
    inputs: {x: "i64[n]", at: "i64[m]"}
    outputs: {y: "i64[m]"}
    shape: |
      assert all(0 <= at[k] and at[k] < n for k in m), "no such place"
    kernel: "y[k] = x[at[k]] + 1"
    reference: x[at]
    examples:
      - {x: [3], at: {value: [1, 2]}, y: [2]}
      - {x: [3], at: {value: [3]}, error: no such place}
"""
RAISING = """
ops:
  raising:
    summary: A reference that fails of vectors.
    inputs: {x: "f32[*d]"}
    outputs: {y: "f32[*d]"}
    kernel: "y[*i] = x[*i]"
    reference: REFERENCE
    examples: [{x: [], y: []}]
"""
TWO_ASSERTS = """
ops:
  two_asserts:
    summary: So many zeros as one operand says, on top of so many as there are elements.
    inputs: {x: "f32[n]"}
    params: {k: {kind: int, dyn: operand}}
    outputs: {y: "f32[n + k]"}
    shape: |
      assert k >= 0, "a negative number {k} of zeros"
      assert n > 0, "no elements, of {n}"
    kernel: "y[i] = f32(0)"
    reference: np.zeros(len(x) + k, np.float32)
    examples:
      - {x: [2], k: 1, y: [3]}
      - {x: [0], k: -1, error: a negative number}
      - {x: [0], k: 1, error: no elements}
"""


@pytest.fixture(autouse=True)
def few_calls() -> Iterator[None]:
    load_profile(40)
    yield
    load_profile(usual())


def test_a_wrong_op_on_integers_is_noticed() -> None:
    with under_test(make(REVERSED.replace("REFERENCE", "x[::-1]"), "wrong_reverse")):
        agreement.test_interpreter_is_reference("wrong_reverse", ignored)
    with under_test(make(REVERSED.replace("REFERENCE", "x"), "wrong_reverse")), pytest.raises(AssertionError) as failed:
        agreement.test_interpreter_is_reference("wrong_reverse", ignored)
    assert "interpreter against reference" in str(failed.value)


def test_the_smallest_call_fails_as_the_first_did() -> None:
    """Most calls that are drawn are refused by the assert, which is another failure, and none of the law."""
    with under_test(make(PICKED, "picked")):
        with pytest.raises(AssertionError, match="interpreter against reference") as failed:
            agreement.test_interpreter_is_reference("picked", ignored)
        (note,) = [n for n in failed.value.__notes__ if n.startswith("\nlaw ")]
        assert re.search(r"shapes \{'x': \((1|2),\), 'at': \(1,\)\}", note), f"not the smallest: {note}"
        with pytest.raises(AssertionError, match="interpreter against reference"):
            exec(textwrap.dedent(note.split("again:\n")[1]), {})


def test_a_reference_that_raises_is_named_with_its_line() -> None:
    with under_test(make(RAISING.replace("REFERENCE", "np.copy(x)"), "raising")):
        agreement.test_interpreter_is_reference("raising", ignored)
    with (
        under_test(make(RAISING.replace("REFERENCE", "x if x.ndim != 1 else x.nothing"), "raising")),
        pytest.raises(AssertionError, match=r"in the reference of raising, matrix.yaml:8: AttributeError: .*nothing"),
    ):
        agreement.test_interpreter_is_reference("raising", ignored)


def test_a_call_that_breaks_two_asserts_may_report_either() -> None:
    """What is known of sizes when the call begins is told before what an operand holds, whichever assert comes first in the spec."""
    with under_test(make(TWO_ASSERTS, "two_asserts")):
        refusals.test_asserts("two_asserts", ignored)
        refusals.test_refusals("two_asserts", ignored)
