"""Calls for which laws failed in a long run, with their draws: each holds now, for the reason that is told."""

from __future__ import annotations

from typing import Any

import pytest

from anyshape_testing.running.random_calls import rerun

REFERENCE, NATIVE = "test_interpreter_is_reference", "test_kernel_is_interpreter"
ATTENTION = (
    "linear_attention",
    {"query": (5, 5, 20), "key": (5, 5, 5), "value": (5, 5, 1), "state": None, "decay": None, "beta": (5, 5, 1)},
    {"groups": 1, "shared": 4, "scale": 0.0},
    {"dtypes": {"F": "f64", "S": "f64"}, "seed": 250, "style": "extreme"},
)
ONCE_FAILED = {
    "8 ** -2.7e-17 is 1 or the f64 below, by the library": (
        NATIVE,
        "pow",
        {"a": (7, 15, 1), "b": (1, 15, 7)},
        {},
        {"dtypes": {"T": "i64", "U": "f32"}, "seed": 1033, "style": "extreme"},
    ),
    "263169 equal terms, each rounded to one side": (
        NATIVE,
        "contract",
        {"a": (1, 1, 513), "b": (513, 1)},
        {"left": (2, 2, 1), "right": (0, -100), "result": (-100,)},
        {"dtypes": {"T": "f64"}, "seed": 3358, "style": "constant"},
    ),
    "the state of a loop overflows, and infinities meet by its order": (REFERENCE, *ATTENTION),
    "the same natively": (NATIVE, *ATTENTION),
}


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_it_holds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    law, op, shapes, params, contents = ONCE_FAILED[name]
    drawn: dict[str, Any] = contents
    rerun(f"anyshape_testing.laws.agreement:{law}", "anyshape_ops", op, shapes, params, **drawn)
    assert "holds for this call" in capsys.readouterr().out
