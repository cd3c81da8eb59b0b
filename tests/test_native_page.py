"""docs/native-runtime.md names every module and every function of the interface of the native run time, and every policy."""

from __future__ import annotations

import re
from pathlib import Path

from anyshape.vm import native
from anyshape.vm.run.policies import Policy

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/native-runtime.md").read_text()
ROOM = ROOT / "runtime/anyshape/vm/native"


def spelled(page: str) -> set[str]:
    """What stands in backquotes, a function without its arguments."""
    return {name.partition("(")[0] for name in re.findall(r"`([^`\n]+)`", page)}


def missing(page: str) -> set[str]:
    modules = {path.name for path in ROOM.glob("*.py")} - {"__init__.py"}
    return (modules | set(native.__all__) | set(Policy)) - spelled(page)


def test_the_page_names_every_module_function_and_policy() -> None:
    assert missing(PAGE) == set()


def test_the_page_names_no_module_that_is_not_there() -> None:
    named = {name for name in spelled(PAGE) if re.fullmatch(r"\w+\.py", name)}
    assert named <= {path.name for path in ROOM.glob("*.py")}


def test_a_module_that_is_left_out_would_be_found() -> None:
    assert missing(PAGE.replace("`ahead.py`", "")) == {"ahead.py"}
    assert missing("") > {"verify.py", "new_executor", "affinity"}
