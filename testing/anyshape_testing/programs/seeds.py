"""Draws a program from a seed: the same on every machine with the same ops and the same version of hypothesis."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyshape_testing.programs.drawing import Drawn, draw_program
from anyshape_testing.programs.laws import holds
from anyshape_testing.programs.tally import Tally

BYTES = 1 << 14
"""The most random bytes that one program's choices take"""
_task: list[tuple[Sequence[str], list[Drawn | None]]] = []


@settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def _draw(data: st.DataObject) -> None:
    ops, programs = _task[-1]
    programs.append(draw_program(data.draw, ops))


_fuzz: Any = _draw.hypothesis.fuzz_one_input  # type: ignore[attr-defined]  # which `given` adds


def drawn_from(seed: int, ops: Sequence[str]) -> Drawn | None:
    """Draws the program of a seed; None where it has none."""
    programs: list[Drawn | None] = []
    _task.append((ops, programs))
    try:
        _fuzz(random.Random(seed).randbytes(BYTES))
    finally:
        _task.pop()
    return programs[0] if programs else None


def run_seed(seed: int, ops: Sequence[str], tally: Tally) -> None:
    """Tests the program of a seed by all laws. Raises the error of a law that fails, with the program and a command that runs it again."""
    d = drawn_from(seed, ops)
    tally.drawn += 1
    if d is None:
        return
    try:
        tally.add(d, holds(d))
    except Exception as e:
        again = f"again: python -m anyshape_testing.programs --seed {seed}"
        e.add_note(f"{d.program}\n{again}")
        raise
