"""(written next)"""

from __future__ import annotations

from anyshape_gen.model import OpSpec
from anyshape_gen.source import Findings


def check_completeness(spec: OpSpec, findings: Findings) -> None:
    """..."""


def check_meaning(spec: OpSpec, kinds: object, ops: set[str], findings: Findings) -> None:
    """..."""
