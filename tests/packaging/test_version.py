"""One version, said by the code, by the project files and by the list of changes."""

import re
import tomllib
from pathlib import Path

import anyshape

ROOT = Path(__file__).parents[2]


def test_the_code_has_the_version_of_the_projects() -> None:
    for folder in (".", "generator", "testing"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        assert anyshape.__version__ == project["version"], folder
        pins = re.findall(r"anyshape(?:\[\w+\])?==([\w.]+)", " ".join(project["dependencies"]))
        assert set(pins) <= {anyshape.__version__}, folder


def test_the_list_of_changes_begins_with_the_version_of_the_code() -> None:
    assert re.findall(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == anyshape.__version__
