"""The examples of docs/control-flow.md, run."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "control-flow.md"


def test_examples() -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=options)
    assert tried > 20 and not failed
