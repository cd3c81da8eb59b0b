"""Memory of calls with integers near the ends of i64: what they may take at most, and what becomes of those that ask for more."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyshape.properties import Case
from anyshape_testing.calls.call import Call, Recipe, build_call
from anyshape_testing.calls.packages import register
from anyshape_testing.laws import extremes
from anyshape_testing.laws.extremes import MEMORY, right_or_refused
from anyshape_testing.process.memory_limit import memory_limit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone counts what a process maps")


@pytest.fixture
def taken() -> Iterator[Callable[[], int]]:
    """Tells the most bytes that the process has held since the test began, more than then."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    yield lambda: _status("VmHWM") - before


def _status(word: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(word))


def test_more_is_refused_and_less_is_not() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_limit(1 << 26):
        assert np.ones(1 << 24, np.uint8).all()
        with pytest.raises(MemoryError):
            np.ones(1 << 27, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert np.ones(1 << 27, np.uint8).all()


def test_a_limit_inside_another_is_not_above_it() -> None:
    with memory_limit(1 << 26), memory_limit(1 << 40), pytest.raises(MemoryError):
        np.ones(1 << 27, np.uint8)


def pooled(kernel: int) -> Call:
    """A call that pads what it reads by its kernel."""
    params = {"kernel": (2,), "strides": (2,), "dilations": None, "pads": None, "auto_pad": "SAME_LOWER"}
    recipe = Recipe(
        Case({"x": (1, 1, 5)}, {**params, "ceil_mode": False, "column_major": False}), {"T": "f64"}, 0, "plain"
    )
    c = build_call(register("anyshape_ops")["max_pool"], recipe)
    return replace(c, params={**c.params, "kernel": (kernel,)})


def test_a_call_that_needs_more_is_refused_by_all_and_takes_nothing(taken: Callable[[], int]) -> None:
    assert not right_or_refused(pooled(1 << 28))
    assert taken() < MEMORY


def test_one_that_needs_less_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extremes, "SECONDS", 20)
    assert right_or_refused(pooled(1 << 8))
