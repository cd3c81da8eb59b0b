"""The reshape rule on the plainest symbolic shapes; the sweep over all mixes is in test_reshape_rule.py."""

from __future__ import annotations

import pytest
from anyshape.dims import symbol
from anyshape.errors import ShapeError
from anyshape.rules import Rule, Vec

from tests.rules.reshape_rule import reshape


def test_merging_dims_of_at_least_one_infers_plainly() -> None:
    b, s = symbol("b", 1), symbol("s", 1)
    r = Rule("reshape")
    assert reshape(r, Vec((b, s, 256)), Vec((b * s, 256))).outputs["y"] == (b * s, 256)
    assert r.checks == []


def test_error_names_op_and_numbers() -> None:
    with pytest.raises(ShapeError, match="reshape: 6 is not a multiple of 4"):
        reshape(Rule("reshape"), Vec((2, 3)), Vec((4, -1)))
