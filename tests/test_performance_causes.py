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
from benchmarks.performance_page import (
    SECTIONS,
    TABLE_SECTIONS,
    audit,
    cause_of,
    causes,
    networks,
    slower_models,
    slower_ops,
    with_figures,
)
from benchmarks.suite import performance


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


def _slower() -> list[str]:
    return [*slower_models(STREAMS).splitlines(), *slower_ops(SINGLES[::2], SINGLES[1::2]).splitlines()]


def test_every_entry_tells_the_cause_of_some_row() -> None:
    on_two = [{**r, "threads": 2} for r in AUDIT]
    lines = [*_slower(), *audit(AUDIT).splitlines(), *audit(on_two).splitlines()]
    for _, cause in causes():
        assert f"- {cause[:1].upper()}{cause[1:]}:" in lines, cause


def test_every_row_below_one_is_printed_and_no_other() -> None:
    lines = [line for line in _slower() if line.startswith("  - ")]
    assert sum(line.count("thread(s)") for line in lines) == len(SINGLES) + sum(len(s["rows"]) for s in STREAMS)


def test_every_slow_row_of_the_audit_is_printed() -> None:
    assert audit(AUDIT).count(": 0.50 (onnxruntime)") == len(AUDIT)


def test_all_that_is_measured_for_the_page_is_written() -> None:
    measured = {p.name for p in performance(quick=False) if "--json" in p.arguments}
    assert {"networks", "op_audit_all_threads"} <= measured
    assert measured <= {name for names, _ in (*SECTIONS, *TABLE_SECTIONS) for name in names}


def test_networks_have_a_row_for_each_size() -> None:
    row = {
        "operator": "unet",
        "case": "",
        "size": "b=1 h=64",
        "threads": 2,
        "ratio": 1.5,
        "seconds": {"anyshape": 0.002, "openvino": 0.003},
    }
    page = networks([row, {**row, "size": "b=1 h=128"}]).splitlines()
    assert page[0] == "## Networks, 2 threads, beside openvino" and len(page) == page.index("|---|---|---|---|---|") + 3
    assert page[-1] == "| unet | b=1 h=128 | 2 | 3 | 1.50 |"


def test_a_row_without_a_cause_says_so() -> None:
    odd = {"group": "unheard of", "name": "1x1", "threads": 1, "ratio": 0.2, "best": "openvino"}
    assert cause_of("unheard of 1x1, 1 thread(s): 0.20 (openvino)") is None
    assert slower_ops([odd]).endswith("- **cause not known**:\n  - unheard of 1x1: 1 thread(s): 0.20 (openvino)")
    assert slower_ops([]).endswith("Nowhere in this run.")


def test_only_sections_of_parts_with_figures_are_written_anew() -> None:
    sections = ((("one",), lambda a: f"## One, beside b\n\n{a}"), (("one", "two"), lambda a, b: f"## Both\n\n{a + b}"))
    page = "# P\n\n## One, beside a and b\n\nold\n\n## Both\n\nold\n\n## Two\n\nold\n"
    only_one = with_figures(page, sections, {"one": 1})
    assert only_one == page.replace("beside a and b\n\nold", "beside b\n\n1", 1)
    assert with_figures(page, sections, {"one": 1, "two": 2}) == only_one.replace("## Both\n\nold", "## Both\n\n3")
    assert with_figures(page, sections, {"two": 2}) == page
    assert with_figures(page, ((("one",), lambda a: ""),), {"one": 1}) == page
