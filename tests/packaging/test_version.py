"""One version, said by the code and by the project file."""

import tomllib
from pathlib import Path

import anyshape


def test_the_code_has_the_version_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert anyshape.__version__ == project["project"]["version"]
