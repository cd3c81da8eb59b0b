"""A spec of a few lines, and everything that is generated from it; `--update-golden` writes what the emitters say now."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse
from anyshape_gen.cli import main
from anyshape_gen.emit.package import emit_package
from anyshape_gen.emit.pages.docs import pages
from anyshape_gen.model.source import Findings
from anyshape_testing.process.profile import LONG

HERE = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
SPEC = HERE / "tiny.yaml"
PACKAGE = "tiny_ops"


def emitted() -> dict[str, str]:
    analysis = analyse({"specs/tiny.yaml": SPEC.read_text()})
    findings = Findings()
    files = emit_package(analysis, PACKAGE, findings)
    findings.raise_if_any()
    return files | {f"docs/{path}": text for path, text in pages(analysis).items()}


def test_golden(request: pytest.FixtureRequest) -> None:
    """One expected file per emitter; indexes hold nothing of their own."""
    files = {p.removeprefix(f"{PACKAGE}/"): text for p, text in emitted().items() if "tiny.py" in p or "/take" in p}
    files["api.py"] = emitted()[f"{PACKAGE}/api.py"]
    for path, text in files.items():
        expected = HERE / "expected" / f"{path}.txt"
        if request.config.getoption("--update-golden"):
            expected.parent.mkdir(parents=True, exist_ok=True)
            expected.write_text(text)
        assert expected.read_text() == text, f"{path} differs; if that is right, run pytest with --update-golden"
    kept = {str(p.relative_to(HERE / "expected")).removesuffix(".txt") for p in (HERE / "expected").rglob("*.txt")}
    assert kept == set(files)


@pytest.mark.in_every_sample
def test_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    """Beside records that are made apart: of proofs, so that they are not all made anew (but in the long tests), and of mutants."""
    outputs = []
    records = {"docs": ROOT / "docs" / "mutation.json"}
    if not LONG:
        records["anyshape_ops/code"] = ROOT / "generated" / "anyshape_ops" / "index_safety.json"
    for seed in ("1", "2"):
        out = tmp_path / seed
        for folder, record in records.items():
            (out / folder).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(record, (out / folder).parent)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "runtime:generator"}
        command = [sys.executable, "-m", "anyshape_gen", "--out", str(out), "--docs", str(out / "docs")]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
        (out / "mutation.json").unlink()
        outputs.append({p.relative_to(out): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()})
    assert outputs[0] == outputs[1]
    for path, content in outputs[0].items():
        committed = (
            ROOT
            / ("docs/ops" if path.parts[0] == "docs" else "generated")
            / Path(*path.parts[path.parts[0] == "docs" :])
        )
        assert committed.read_bytes() == content, f"{path} is not what specs/ say; run `make gen`"


def generate(tmp_path: Path, *more: str) -> int:
    (tmp_path / "specs").mkdir(exist_ok=True)
    (tmp_path / "specs" / "tiny.yaml").write_text(SPEC.read_text())
    out = str(tmp_path / "out")
    return main(["--specs", str(tmp_path / "specs"), "--package", PACKAGE, "--out", out, *more])


def test_check_notices_tampering_and_orphans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate(tmp_path) == 0
    assert generate(tmp_path, "--check") == 0
    kernel = tmp_path / "out" / PACKAGE / "kernels" / "tiny.py"
    good = kernel.read_text()
    kernel.write_text(good.replace("x[*a, k, *b]", "x[*a, 0, *b]"))
    (tmp_path / "out" / PACKAGE / "old.py").write_text("")
    assert generate(tmp_path, "--check") == 1
    said = capsys.readouterr().out
    assert "changed: " in said and "kernels/tiny.py" in said and "orphan: " in said and "old.py" in said
    assert generate(tmp_path) == 0
    assert kernel.read_text() == good and not (tmp_path / "out" / PACKAGE / "old.py").exists()


def test_unchanged_files_are_not_written(tmp_path: Path) -> None:
    generate(tmp_path)
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}
    generate(tmp_path)
    assert files == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}


def test_what_has_no_code_is_reported_at_once() -> None:
    spec = """
ops:
  first:
    summary: The first of the elements in front of which a larger one stands.
    inputs: {x: "F[n]"}
    outputs: {y: "F[n]"}
    kernel: |
      y[i] = first(x[k] for k in n for l in range(k) if x[l] > x[k])
    reference: x
    examples: [{x: [3], y: [3]}]
  second:
    summary: The last of the elements in front of which a larger one stands.
    inputs: {x: "F[n]"}
    outputs: {y: "F[n]"}
    kernel: |
      y[i] = last(x[k] for k in n for l in range(k) if x[l] > x[k])
    reference: x
    examples: [{x: [3], y: [3]}]
"""
    findings = Findings({"specs/later.yaml": spec.splitlines()})
    emit_package(analyse({"specs/later.yaml": spec}), PACKAGE, findings)
    with pytest.raises(SpecError) as caught:
        findings.raise_if_any()
    assert "specs/later.yaml:8:" in str(caught.value) and "specs/later.yaml:16:" in str(caught.value)
    assert "is not in the language" in str(caught.value)


def test_one_number_where_a_vector_is_required() -> None:
    spec = """
ops:
  spread:
    summary: Elements by their places in a matrix.
    inputs: {x: "T[a, b]", at: "i64[n]"}
    outputs: {y: "T[n]"}
    shape: d = [a, b]
    kernel: |
      y[i] = x[*unravel(d, at[i])]
    reference: x.ravel()[at]
    examples: [{x: [2, 3], at: {value: [1]}, y: [1]}]
"""
    findings = Findings({"specs/later.yaml": spec.splitlines()})
    emit_package(analyse({"specs/later.yaml": spec}), PACKAGE, findings)
    with pytest.raises(SpecError) as caught:
        findings.raise_if_any()
    assert "specs/later.yaml:9:28: this is one number, but a vector is required here" in str(caught.value)


def test_only_operands_of_a_pattern_are_finite() -> None:
    spec = """
ops:
  times:
    summary: Every element times a number.
    inputs: {x: "F[n]", w: "F[]"}
    params: {by: {kind: float, default: 1.0}}
    outputs: {y: "F[n]"}
    kernel: "y[i] = x[i] * w[()] * F(by)"
    rewrites:
      - "times(x, w, by=b) >> x if finite(w) and w[()] == 1 and b == 1"
      - "times(x, w, by=b) >> x if finite(b)"
    reference: x * w * x.dtype.type(by)
    examples: [{x: [3], w: [], y: [3]}]
"""
    findings = Findings({"specs/later.yaml": spec.splitlines()})
    emit_package(analyse({"specs/later.yaml": spec}), PACKAGE, findings)
    with pytest.raises(SpecError) as caught:
        findings.raise_if_any()
    assert "specs/later.yaml:11:36: `finite` takes an operand of the pattern" in str(caught.value)
    assert "specs/later.yaml:10:" not in str(caught.value)


def test_dims_of_an_optional_input_that_nobody_reads() -> None:
    spec = """
ops:
  perhaps:
    summary: x, whatever stands beside it.
    inputs: {x: "T[n]", more: "T[*w] = 0"}
    outputs: {y: "T[n]"}
    kernel: "y[i] = x[i] + more[*fill(rank(more), 0)] * 0"
    reference: x
    examples: [{x: [2], y: [2]}]
"""
    findings = Findings({"specs/later.yaml": spec.splitlines()})
    files = emit_package(analyse({"specs/later.yaml": spec}), PACKAGE, findings)
    findings.raise_if_any()
    for text in files.values():
        compile(text, "<generated>", "exec")
