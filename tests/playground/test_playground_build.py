"""What the playground is built of: said where it is missing, fetched once, packed the same each time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from website.playground import build


def test_pyodide_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(build.Missing, match="npm is missing, which fetches Pyodide"):
        build.fetch_pyodide(tmp_path)
    (tmp_path / "version.json").write_text(json.dumps("pyodide@0"))
    with pytest.raises(build.Missing, match="npm is missing"):
        build.fetch_pyodide(tmp_path)
    (tmp_path / "version.json").write_text(json.dumps(build.PYODIDE))
    build.fetch_pyodide(tmp_path)  # it is there already


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [place for _, place in build.files()]
    assert {
        "yaml/__init__.py",
        "jinja2/__init__.py",
        "markupsafe/__init__.py",
        "numpy/__init__.py",
        "library.yaml",
    } <= {*places}
    assert {f"licences/{package}.txt" for package in build.PACKAGES} <= {*places}
    assert len({*places}) == len(places)
    assert not [p for p in places if p.startswith(("anyshape/torch", "anyshape_ops/strategies")) or p.endswith(".so")]
    monkeypatch.setitem(build.PACKAGES, "anyshape-no-such", "no_such")
    with pytest.raises(build.Missing, match="anyshape-no-such is missing; install it, as by pip install"):
        list(build.files())


def test_an_archive_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner/file.py").write_text("x = 1")
        build.pack(tmp_path / name, tmp_path / f"{name}.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
