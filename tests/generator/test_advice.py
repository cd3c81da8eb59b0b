"""Warnings of the generator: an op whose examples show no values gets one, every other none, and nothing fails for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyshape_gen.analysis import analyse, read_specs
from anyshape_gen.check.advice import advice
from anyshape_gen.cli import main
from tests.specs import all_specs

SHAPES = """ops:
  tried:
    summary: Every element twice.
    inputs: {x: "F[*d]", n: "F[*e] = 0"}
    outputs: {y: "F[*d]"}
    shape: |
      assert broadcasts(e, d), "n {e} does not broadcast to {d}"
    kernel: "y[*i] = x[*i] + x[*i] + n[*i]"
    reference: x + x + n
    examples:
      - {x: [2, 3], y: [2, 3]}
      - {x: {value: [1.0]}, y: [1]}
      - {x: {value: [1.0]}, n: {value: [1.0, 2.0]}, error: does not broadcast}
"""
VALUES = SHAPES + "      - {x: {value: [-1.0]}, y: {value: [-2.0]}}\n"
FAMILY = """families:
  shown:
    inputs: {x: "F[*d]"}
    outputs: {y: "F[*d]"}
    examples: [{x: {value: [1.0]}, y: {value: [2.0]}}]
ops:
  taken_over:
    family: shown
    summary: Every element twice.
    kernel: "y[*i] = x[*i] + x[*i]"
    reference: x + x
  replaced:
    family: shown
    summary: One more than an element.
    kernel: "y[*i] = x[*i] + 1"
    reference: x + x.dtype.type(1)
    examples: [{x: [2], y: [2]}]
"""
RANDOM = """ops:
  drawn:
    summary: A number that no other call has.
    outputs: {y: "i64[]"}
    traits: [random]
    kernel: "y[()] = entropy()"
    reference: np.random.randint(0, 2 ** 63 - 1, dtype=np.int64)
    examples:
      - {y: []}
"""


def said(folder: Path, text: str) -> list[str]:
    (folder / "mine.yaml").write_text(text)
    return [f"{f.span}: warning: {f.text}" for f in advice(analyse(read_specs([folder / "mine.yaml"], folder)))]


def test_shapes_alone_are_warned_of(tmp_path: Path) -> None:
    """An example has values only if some come out: values of inputs are none, nor are those of a refused call."""
    (line,) = said(tmp_path, SHAPES)
    assert line.startswith("mine.yaml:2:3: warning: no example of op 'tried' has values")
    assert "`- {x: {value: …}, n: {value: …}, y: {value: …}}`" in line


def test_examples_of_its_own_hide_those_of_the_family(tmp_path: Path) -> None:
    (line,) = said(tmp_path, FAMILY)
    assert "'replaced'" in line


@pytest.mark.parametrize("text", [VALUES, RANDOM])
def test_values_and_random_results_are_not_warned_of(tmp_path: Path, text: str) -> None:
    assert not said(tmp_path, text)


def test_every_spec_of_ours_has_values() -> None:
    assert not advice(all_specs())


def test_it_is_said_after_the_files_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Advice is on standard error; `--check` says nothing of it, and neither does an op with values, as the skeleton of `new-op` is."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("specs")
    (tmp_path / "specs/mine.yaml").write_text(SHAPES)
    place = ["--package", "mine", "--out", "out"]
    assert main(place) == 0
    written = capsys.readouterr()
    assert "generated files are current" in written.out and "specs/mine.yaml:2:3: warning" in written.err
    assert main(["--check", *place]) == 0
    checked = capsys.readouterr()
    assert "warning" not in checked.out + checked.err
    (tmp_path / "specs/mine.yaml").write_text(VALUES)
    assert main(["new-op", "as_it_is", "--file", "mine"]) == 0
    assert main(place) == 0
    assert "warning" not in capsys.readouterr().err
