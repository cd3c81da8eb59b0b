"""A check that is made at the entry of a region has the words in which the region's own nodes would have it."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ShapeError


def test_a_check_in_a_branch_is_reported_without_what_the_branch_excludes(tmp_path: object) -> None:
    """A saved copy infers the branch under its condition; what was compiled at once moves the check there."""
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    length = ops.gather(ops.shape_of(x), 0)
    (z,) = control.if_(ops.greater(length, 2), lambda: ops.add(x, y), lambda: x)
    exe = anyshape.compile(anyshape.function([x, y], z))
    exe.save(f"{tmp_path}/program")
    words = []
    for again in (exe, anyshape.load(f"{tmp_path}/program")):
        with pytest.raises(ShapeError, match=r"\((n == m|m == n) or m == 1 does not hold: ") as refused:
            again(np.ones(33, np.float32), np.ones(0, np.float32))
        words.append(str(refused.value))
    assert words[0] == words[1]
