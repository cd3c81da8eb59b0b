"""The table of `benchmarks.op_audit` (`op_cases.yaml`): every operator that the importer takes has a case or a reason why not, and its
cases are models that compile; the audit itself reports a wrong answer and an engine that cannot run a case."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

import anyshape
from anyshape.frontends.onnx.functions import has_body
from anyshape.frontends.onnx.mappings import all_mappings
from benchmarks import op_audit, op_cases, performance_page
from benchmarks.op_cases import Value, cases, choices, exempt, filled, of_entry

SOFTMAX = {
    "operators": ["Softmax"],
    "node": "y = $op<axis=$axis>(x)",
    "each": {"axis": [0, -1]},
    "in": {"x": "f32[n, 4]"},
    "at": {"n": [1, 2, 3]},
}


def taken() -> set[str]:
    """Operators that the importer takes: by a mapping, or by the body that ONNX declares."""
    declared = [s for s in onnx.defs.get_all_schemas() if not s.deprecated]
    bodies = {s for s in declared if has_body(s) or s.has_context_dependent_function}
    return set(all_mappings()) | {f"{s.domain}:{s.name}" if s.domain else s.name for s in bodies}


def gaps(have: set[str], want: set[str]) -> tuple[list[str], list[str]]:
    return sorted(want - have), sorted(have - want)


def test_every_operator_has_cases_or_a_reason() -> None:
    measured = {c.operator for c in cases()}
    assert not measured & set(exempt())
    assert gaps(measured | set(exempt()), taken()) == ([], [])


def test_a_missing_and_an_unknown_operator_are_noticed() -> None:
    measured = {c.operator for c in cases()} | set(exempt())
    assert gaps(measured - {"Conv"}, taken()) == (["Conv"], [])
    assert gaps(measured | {"Convolve"}, taken()) == ([], ["Convolve"])


def test_what_is_said_to_have_no_kernel_has_none() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    kernels = {f"{k.domain}:{k.op_name}" for k in get_all_opkernel_def() if k.provider == "CPUExecutionProvider"}
    assert "com.microsoft:QLinearAdd" in kernels
    without = op_cases.without_kernel()
    assert without and not kernels & set(without)


def test_names_are_unique_and_every_case_has_three_sizes_or_more() -> None:
    names = Counter((c.operator, c.name) for c in cases())
    assert [n for n, count in names.items() if count > 1] == []
    assert min(len(c.at) for c in cases()) == 3


def one_of_each() -> list[op_cases.Case]:
    return list({c.operator: c for c in reversed(cases())}.values())


@pytest.mark.parametrize("case", one_of_each(), ids=lambda c: c.operator)
def test_a_case_of_every_operator_compiles_and_runs_at_its_least_size(case: op_cases.Case) -> None:
    results = anyshape.compile(case.model(), threads=1).run(case.arrays(case.at[0]))
    assert len(results) == len(case.outputs)


def test_alternatives_are_combined_and_filled_in() -> None:
    assert list(choices({"t": ["f32", "f16"], "k, p": [[1, 0], [3, 1]]})) == [
        {"t": t, "k": k, "p": p} for t in ("f32", "f16") for k, p in ((1, 0), (3, 1))
    ]
    assert filled({"w": "$t[$k, ${k // 2}]", "s": [1, "$k"]}, {"t": "f32", "k": 5}) == {"w": "f32[5, 2]", "s": [1, "5"]}
    assert [(c.name, c.at[2]) for c in of_entry(SOFTMAX)] == [("axis=0", {"n": 3}), ("axis=-1", {"n": 3})]


@pytest.mark.parametrize("entry", [
    {**SOFTMAX, "operators": ["Relu"], "node": "y = Softmax(x)"}, {**SOFTMAX, "size": [1]}, {**SOFTMAX, "in": {"x": "f32[n"}},
    {**SOFTMAX, "at": {"n": [1, 2, 3], "m": [1]}},
])  # fmt: skip
def test_an_entry_that_is_written_wrongly_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        list(of_entry(entry))


def test_contents_are_drawn_as_the_table_says() -> None:
    assert Value.read("i64 = [2, n]").array({"n": 5}, 0).tolist() == [2, 5]
    places = Value.read("i64[m, 3] of n").array({"m": 4, "n": 9}, 0)
    assert places.shape == (4, 3) and len(set(places[:, 0])) == 4 and (places == places[:, :1]).all()
    drawn = Value.read("f32[1000] in 2..3").array({}, 0)
    assert drawn.dtype == np.float32 and 2 <= drawn.min() < drawn.max() <= 3
    assert Value.read("f32[1000] by 0.01").array({}, 0).std() < 0.02
    assert {0, 1} == set(Value.read("bool[99]").array({}, 0).tolist())


def row(ratio: float | None, **more: Any) -> dict[str, Any]:
    return {
        "operator": "Softmax", "case": "f32", "size": "n=8", "threads": 1, "ratio": ratio, "best": "onnxruntime", "refused": {},
        "differences": {}, "seconds": {}, **more,
    }  # fmt: skip


def test_a_wrong_answer_and_a_refusal_are_reported() -> None:
    (case, _) = of_entry(SOFTMAX)
    right = [np.array([0.25, 0.75], np.float32)]
    assert op_audit.difference(case, right, right) == "" and "by 8" in op_audit.difference(
        case, right, [right[0][::-1] * 2]
    )
    assert "float64" in op_audit.difference(case, right, [right[0].astype(np.float64)])
    rows = [row(2.0, refused={"openvino": "no"}, differences={"onnxruntime": "y: by 1"}), row(None), row(0.5)]
    assert op_audit.remarks(rows, "refused") == ["openvino cannot run Softmax f32: no"]
    assert op_audit.remarks(rows, "differences") == ["Softmax f32, n=8: results differ from onnxruntime's: y: by 1"]
    assert (
        op_audit.summary(rows) == "3 rows, 2 beside a peer: geometric mean 1.00; 1 below 0.8, 1 below 0.9, 1 below 1.0"
    )


def test_slow_rows_are_measured_again_with_all_of_their_case() -> None:
    rows = [
        row(1.2),
        row(0.7, size="n=128"),
        row(0.99, case="f16"),
        row(None, case="i8"),
        row(0.7, case="f64", threads=2),
    ]
    assert op_audit.cases_below(rows, 0.9, 1) == {("Softmax", "f32")}
    assert op_audit.cases_below(rows, 1.0, 1) == {("Softmax", "f32"), ("Softmax", "f16")}
    assert op_audit.cases_below(rows, 1.0, 2) == {("Softmax", "f64")}


def test_one_peer_that_differs_from_another_is_odd_itself() -> None:
    both = {"anyshape": 1.0, "onnxruntime": 1.0, "openvino": 1.0}
    assert not op_audit.alone(row(1.0, seconds=both, differences={"openvino": "y: by 1"})) and not op_audit.alone(
        row(1.0)
    )
    assert op_audit.alone(row(1.0, seconds=both, differences={"openvino": "y: by 1", "onnxruntime": "y: by 1"}))


def test_integers_may_differ_by_the_steps_that_the_table_allows() -> None:
    (exact, _), (loose, _) = of_entry(SOFTMAX), of_entry({**SOFTMAX, "steps": 1})
    a, b = [np.array([1, 2], np.uint8)], [np.array([1, 3], np.uint8)]
    assert op_audit.difference(exact, a, b) and not op_audit.difference(loose, a, b)


def test_the_audit_runs_and_keeps_what_is_not_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.json"
    for words in (["--operator", "not"], ["--operator", "trilu", "--cases", "f32.*=0", "--keep"]):
        monkeypatch.setattr(
            "sys.argv", ["op_audit", *words, "--quick", "--engines", "onnxruntime", "--json", str(file)]
        )
        assert op_audit.main() == 0
    rows = json.loads(file.read_text())
    assert [(r["operator"], r["case"]) for r in rows] == [("Not", "")] * 3 + [("Trilu", "f32 upper=0")] * 3
    assert all(
        r["ratio"] > 0 and set(r["seconds"]) == {"anyshape", "onnxruntime"} and not r["differences"] for r in rows
    )


def test_another_checkout_takes_the_place_of_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, here = tmp_path / "rows.json", str(Path(__file__).parents[1])
    words = ["op_audit", "--operator", "not", "--quick", "--json", str(file), "--other"]
    monkeypatch.setattr("sys.argv", [*words, here])
    assert op_audit.main() == 0
    assert all(
        r["seconds"].keys() == {"anyshape", "other"} and r["best"] == "other" for r in json.loads(file.read_text())
    )
    monkeypatch.setattr("sys.argv", [*words, str(tmp_path)])
    with pytest.raises(SystemExit):
        op_audit.main()


def test_an_engine_that_cannot_run_a_case_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = op_audit.Engines(["anyshape", "nobody"], 1)
    try:
        (first, *_) = op_audit.measure(next(of_entry(SOFTMAX)), engines, 1)
    finally:
        engines.end_all()
    assert first["refused"].keys() == {"nobody"} and first["ratio"] is None and first["seconds"].keys() == {"anyshape"}


def test_the_page_lists_what_is_slow_and_replaces_only_its_section() -> None:
    rows = [row(0.5), row(0.95, case="f16"), row(None, differences={"onnxruntime": "y: by 1"})]
    text = performance_page.audit(rows)
    assert "Softmax f32: n=8: 0.50 (onnxruntime)" in text and "f16" not in text
    assert "results differ from onnxruntime's" in text
    page = "# P\n\n## A\n\na\n\n## Every operator, 1 thread\n\nold\n\n## B\n\nb\n"
    again = performance_page.with_section(page, text)
    assert again == page.replace("## Every operator, 1 thread\n\nold\n", text.strip() + "\n")
    assert performance_page.with_section("# P\n\n## A\n\na\n", text) == "# P\n\n## A\n\na\n\n" + text.strip() + "\n"


def test_a_peer_that_computes_something_else_counts_only_if_all_do() -> None:
    medians = {"onnxruntime": 2.0, "openvino": 1.0}
    assert op_audit.best_of(medians, {}) == "openvino"
    assert op_audit.best_of(medians, {"openvino": "y: by 7e-7"}) == "onnxruntime"
    assert op_audit.best_of(medians, {"openvino": "y: by 7e-7", "onnxruntime": "y: by 1"}) == "openvino"
    assert op_audit.best_of({}, {}) is None
