"""What docs/spec-language.md shows is accepted, complete, and names every function of the language."""

from __future__ import annotations

import re
from pathlib import Path

from anyshape_gen.analysis import analyse
from anyshape_gen.functions import FUNCTIONS
from anyshape_gen.keys import OP_KEYS
from anyshape_gen.parse_signature import KINDS

PAGE = (Path(__file__).parents[2] / "docs/spec-language.md").read_text()
INTERNAL = {"drop", "place"}
"""written by the analysis only"""


def test_example_is_complete() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(analyse({"page.yaml": block}).ops) == 1


def test_everything_is_mentioned() -> None:
    words = set(re.findall(r"\w+", PAGE))
    missing = (set(FUNCTIONS) - INTERNAL | set(KINDS) | {key.name for key in OP_KEYS}) - words
    assert not missing
