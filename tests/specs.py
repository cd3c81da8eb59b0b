"""All specs as the generator reads them, once in a process: what it remembers of them on disk serves tests too."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from anyshape_gen.analysis import analyse, read_specs
from anyshape_gen.memo import Memo
from anyshape_gen.model.analysis import Analysis

ROOT = Path(__file__).parents[1]


@cache
def all_specs() -> Analysis:
    return analyse(read_specs((ROOT / "specs").glob("*.yaml"), ROOT), memo=Memo.standard())
