"""The law of narrowed contractions holds, of a sample of ops where time is limited, and finds what it is meant to find."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape.precision import CHUNKED, NARROW, Narrow
from anyshape.vm.compiling.options import TargetName
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.examples import shown
from anyshape_testing.calls.nodes import equations_below, static_node
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.execution.native import program
from anyshape_testing.laws import narrowing
from anyshape_testing.process.profile import LONG
from tests.precision.test_pairs_of_f16 import in_f16

register("anyshape_ops")
SAMPLED = ["matmul", "conv"]
OPS = [op for op, p in PROPERTIES.items() if LONG and narrowing.has_contractions(p)] or SAMPLED


@pytest.mark.parametrize("precision", NARROW)
@pytest.mark.parametrize("op", OPS)
def test_contractions_are_narrowed(op: str, precision: Narrow, record_property: Any) -> None:
    narrowing.contractions_are_narrowed(op, record_property, 1 if LONG else 4, op in SAMPLED, precision)


@pytest.mark.parametrize("precision", NARROW)
def test_what_is_not_narrowed_is_found(precision: Narrow, monkeypatch: Any, record_property: Any) -> None:
    def exact(c: Call, precision: Narrow, level: TargetName) -> anyshape.Executable:
        return anyshape.compile(program(c, static=True))

    monkeypatch.setattr(narrowing, "narrow", exact)
    narrowing._compiled._known.clear()
    with pytest.raises(AssertionError, match=f"in {precision}"):
        narrowing.contractions_are_narrowed("matmul", record_property, precision=precision)
    narrowing._compiled._known.clear()


@in_f16
@pytest.mark.parametrize("op", OPS)
def test_contractions_have_sums_of_f16(op: str, record_property: Any) -> None:
    narrowing.contractions_are_narrowed(op, record_property, 1 if LONG else 4, op in SAMPLED, CHUNKED, "fp16")


@in_f16
def test_sums_of_f16_that_are_not_near_are_found(monkeypatch: Any, record_property: Any) -> None:
    """A sixteenth is more than 34 roundings to f16 lose together."""
    run = narrowing.run_alike
    monkeypatch.setattr(narrowing, "run_alike", lambda *call: [a * a.dtype.type(17 / 16) for a in run(*call)])
    with pytest.raises(AssertionError, match=r"with sums of f16, of .*matmul"):
        narrowing.contractions_are_narrowed("matmul", record_property, precision=CHUNKED, level="fp16")


def test_what_sums_of_f16_may_lose() -> None:
    """Two terms are added up apart, four in two sums; beyond a chunk there are no more additions in f16."""
    want, sizes = np.zeros(1, np.float32), np.ones(1)
    for terms, additions in ((1, 3), (2, 3), (4, 4), (64, 34), (1000, 34)):
        at, above = (np.array([factor * 2.0**-11 * additions], np.float32) for factor in (0.99, 1.1))
        assert narrowing.within_sums_of_f16(at, want, sizes, np.array([float(terms)]))
        assert not narrowing.within_sums_of_f16(above, want, sizes, np.array([float(terms)]))


def test_ops_with_contractions() -> None:
    assert all(narrowing.has_contractions(PROPERTIES[op]) for op in SAMPLED)
    assert not any(narrowing.has_contractions(PROPERTIES[op]) for op in ("softmax", "sum", "add", "matmul_integer"))


def test_factors_of_operands_and_computed_ones() -> None:
    def of(op: str) -> bool:
        return any(narrowing.are_of_operands(equations_below(node)) for node in shown(PROPERTIES[op]))

    assert of("matmul") and of("conv") and not of("attention")


def test_another_neighbour_is_let_through_and_no_more() -> None:
    want = np.array([1.0, -4.0, np.inf, np.nan], np.float32)
    near = np.array([1.0 + 2.0**-5, -4.0, np.inf, np.nan], np.float32)
    far = np.array([1.0 + 2.0**-3, -4.0, np.inf, np.nan], np.float32)

    def within(got: Any, want: Any) -> bool:
        return narrowing.within_neighbours(got, want, narrowing.NEIGHBOURS["bf16"])

    assert within(near, want) and not within(far, want)
    assert not narrowing.within_neighbours(near, want, narrowing.NEIGHBOURS["f16"])
    assert not within(np.where(np.isnan(want), 0, want).astype(np.float32), want) and not within(want[:3], want)
    subnormal, normal = np.array([0.0, 1.3e-42], np.float32), np.array([0.0, 1.3e-37], np.float32)
    assert within(np.zeros(2, np.float32), subnormal) and not within(np.zeros(2, np.float32), normal)
    bf16 = np.array([1.0, 1.0 + 2.0**-7, 1.0 + 2.0**-6], ml_dtypes.bfloat16)
    assert narrowing.within_neighbours(bf16[:1], bf16[1:2], narrowing.NEIGHBOURS["f16"])
    assert not narrowing.within_neighbours(bf16[:1], bf16[2:], narrowing.NEIGHBOURS["f16"])
    assert within(np.array([3]), np.array([3])) and not within(np.array([4]), np.array([3]))


def test_steps_of_recurrences_are_counted() -> None:
    """A factor that one step rounds to another neighbour changes all steps after it."""
    x = {
        "x": np.zeros((17, 2, 3), np.float32),
        "w": np.zeros((1, 12, 3), np.float32),
        "r": np.zeros((1, 12, 4), np.float32),
    }
    gru = Call(PROPERTIES["gru"], {**x, "bias": None, "lens": None, "h0": None}, {})
    a = Call(PROPERTIES["matmul"], {"a": np.zeros((17, 3), np.float32), "b": np.zeros((3, 4), np.float32)}, {})
    assert [narrowing.steps_in_a_row(static_node(c)) for c in (gru, a)] == [18, 1]  # with the initial state
