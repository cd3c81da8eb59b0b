"""Every file of bad_specs/ is refused with exactly the message at its end: place, words, line, caret, scope, suggestion.

A file that begins with `# complete` is also checked for what it lacks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse

FOLDER = Path(__file__).parent / "bad_specs"
MARK = "# error:\n"


def split_file(content: str) -> tuple[str, str]:
    """(the spec, the message it must give)."""
    spec, _, block = content.partition(MARK)
    return spec, "\n".join(line.removeprefix("#").removeprefix(" ") for line in block.splitlines())


def reported(name: str, spec: str) -> str:
    try:
        analyse({name: spec}, complete=spec.startswith("# complete"))
    except SpecError as error:
        return str(error)
    return "(accepted)"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_message(path: Path) -> None:
    spec, expected = split_file(path.read_text())
    assert expected, "the file has no `# error:` block"
    assert "(accepted)" not in expected
    got = "\n".join(line.rstrip() for line in reported(path.name, spec).splitlines())
    assert got == expected


def test_there_are_enough() -> None:
    assert len(list(FOLDER.glob("*.yaml"))) >= 25
