"""Programs of several ops at random, over all ops of specs/."""

import os
from typing import Any

import pytest

from anyshape.testing.laws import record_property
from anyshape.testing.programs import check_programs
from anyshape.testing.running import register

LONG = os.environ.get("ANYSHAPE_LONG", "0") not in ("", "0")
OPS = list(register("anyshape_ops"))
__all__ = ["record_property"]


@pytest.mark.parametrize("part", range(4))
def test_programs(part: int, record_property: Any, request: Any) -> None:
    if request.config.getoption("--op"):
        pytest.skip("one op only")
    check_programs(OPS[part:] + OPS[:part], 400 if LONG else 15, record_property)
