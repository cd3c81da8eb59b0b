"""A memory, in a process or on disk, changes nothing but how much is made again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from anyshape.disk_cache import DiskCache
from anyshape_gen import analysis, memo
from anyshape_gen.arguments import arguments
from anyshape_gen.generation import Generated, generated
from anyshape_gen.memo import Memo
from anyshape_gen.model.spec import OpSpec
from tests.generator.watching import ROOT, scratch

NAMES = "shapes", "movement", "elementwise", "reduction", "trigonometry"


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    scratch(tmp_path / "scratch", [ROOT / "specs" / f"{name}.yaml" for name in NAMES])
    place = tmp_path / "scratch"
    return arguments().parse_args(["--specs", str(place / "specs"), "--docs", str(place / "docs")])


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the ops that are analysed."""
    names: list[str] = []
    inner = analysis.analyse_op

    def noted(spec: OpSpec, *rest: Any) -> Any:
        names.append(spec.name)
        return inner(spec, *rest)

    monkeypatch.setattr(analysis, "analyse_op", noted)
    return names


def say_other_words(options: argparse.Namespace) -> None:
    """Rewrites the summaries of one file, and moves its ops, too."""
    path = options.specs / "reduction.yaml"
    path.write_text("\nops:\n".join(path.read_text().replace("summary: ", "summary: Here, ").split("ops:\n")))


def afresh(options: argparse.Namespace) -> Generated:
    return generated(options, Memo())


def test_a_memory_changes_nothing(options: argparse.Namespace) -> None:
    known = Memo()
    generated(options, known)
    say_other_words(options)
    assert generated(options, known).files == afresh(options).files


def test_what_is_read_from_disk_is_what_was_made(
    options: argparse.Namespace, tmp_path: Path, analysed: list[str]
) -> None:
    disk = DiskCache(tmp_path / "cache")
    first = generated(options, Memo(disk))
    assert set(analysed) == set(first.ops)
    analysed.clear()
    assert generated(options, Memo(disk)).files == first.files and not analysed
    say_other_words(options)
    again = generated(options, Memo(disk))
    assert {"sum", "mean"} <= set(analysed) and not {"reshape", "sin"} & set(analysed)
    analysed.clear()
    known = Memo(disk)
    assert generated(options, known).files == again.files and not analysed
    (options.specs / "reduction.yaml").write_text((ROOT / "specs/reduction.yaml").read_text())
    assert generated(options, known).files == first.files and not analysed, "what was undone is known"


def test_a_new_op_concerns_those_that_name_it(options: argparse.Namespace, tmp_path: Path, analysed: list[str]) -> None:
    known = Memo(DiskCache(tmp_path / "cache"))
    generated(options, known)
    analysed.clear()
    path = options.specs / "mine.yaml"
    path.write_text((ROOT / "specs/bits.yaml").read_text())
    assert "bitwise_and" in generated(options, known).ops
    assert "bitwise_and" in analysed and not {"reshape", "sin", "sum"} & set(analysed)


def test_another_generator_makes_all_again(
    options: argparse.Namespace, tmp_path: Path, analysed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = DiskCache(tmp_path / "cache")
    first = generated(options, Memo(disk))
    analysed.clear()
    monkeypatch.setattr(memo, "generator_version", lambda: "another")
    assert generated(options, Memo(disk)).files == first.files
    assert set(analysed) == set(first.ops)


def test_what_is_damaged_is_made_again(options: argparse.Namespace, tmp_path: Path, analysed: list[str]) -> None:
    disk = DiskCache(tmp_path / "cache")
    first = generated(options, Memo(disk))
    analysed.clear()
    for k, path in enumerate(sorted((tmp_path / "cache").glob("*.aso"))):
        path.write_bytes(path.read_bytes()[: 100 * k])
    assert generated(options, Memo(disk)).files == first.files
    assert set(analysed) == set(first.ops)
