"""Why a peer is faster (`benchmarks/performance_causes.yaml`): every entry is the first to fit some line that the page can have."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from benchmarks import op_cases, single_cases
from benchmarks.models import MODELS, load
from benchmarks.op_cases import spell_sizes
from benchmarks.performance_page import audit, cause_of, causes, losses


def singles() -> list[dict[str, Any]]:
    """A row far below 1 and one not so far for each case; no contents are drawn."""
    with mock.patch.object(single_cases, "normal", lambda *shape: np.broadcast_to(np.float32(0), shape)):
        cases = single_cases.cases()
    return [
        {"group": c.group, "name": c.name, "threads": 1, "ratio": ratio, "best": "onnxruntime"}
        for c in cases for ratio in (0.5, 0.98)
    ]  # fmt: skip


SINGLES = singles()
STREAMS = [
    {
        "model": m,
        "threads": 2,
        "rows": [{"batch": b, "length": n, "steady_ratio": 0.99, "shuffled_ratio": 1.5} for b, n in load(m).SHAPES],
    }
    for m in MODELS
]


AUDIT = [
    {
        "operator": c.operator, "case": c.name, "size": spell_sizes(sizes), "threads": 1, "ratio": 0.5, "best": "onnxruntime",
        "refused": {}, "differences": {},
    }
    for c in op_cases.cases() for sizes in c.at
]  # fmt: skip


def test_every_entry_tells_the_cause_of_some_row() -> None:
    lines = [*losses(STREAMS, SINGLES).splitlines(), *audit(AUDIT).splitlines()]
    for _, cause in causes():
        assert f"- {cause[:1].upper()}{cause[1:]}:" in lines, cause


def test_every_row_below_one_is_printed_and_no_other() -> None:
    lines = [line for line in losses(STREAMS, SINGLES).splitlines() if line.startswith("  - ")]
    assert sum(line.count("thread(s)") for line in lines) == len(SINGLES) + sum(len(s["rows"]) for s in STREAMS)


def test_every_slow_row_of_the_audit_is_printed() -> None:
    assert audit(AUDIT).count(": 0.50 (onnxruntime)") == len(AUDIT)


def test_a_row_without_a_cause_says_so() -> None:
    odd = {"group": "unheard of", "name": "1x1", "threads": 1, "ratio": 0.2, "best": "openvino"}
    assert cause_of("unheard of 1x1, 1 thread(s): 0.20 (openvino)") is None
    assert losses([], [odd]).endswith("- **cause not known**:\n  - unheard of 1x1: 1 thread(s): 0.20 (openvino)")
    assert losses([], []).endswith("Nowhere in this run.")
