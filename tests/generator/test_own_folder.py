"""A package is never made where its specs are: what a package does not own is removed from its folder."""

from pathlib import Path

import pytest

from anyshape_gen.cli import main


def test_specs_are_not_replaced_by_their_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = tmp_path / "my_ops"
    specs.mkdir()
    (specs / "mine.yaml").write_text("ops:\n")
    assert main(["--specs", str(specs), "--package", "my_ops", "--out", str(tmp_path)]) == 1
    assert "choose another --out" in capsys.readouterr().err
    assert [p.name for p in specs.iterdir()] == ["mine.yaml"]
