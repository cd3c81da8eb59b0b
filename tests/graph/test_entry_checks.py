"""Which checks are made at the entry, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ShapeError


def test_what_dims_decide_of_a_check_is_told_before_what_follows_from_it() -> None:
    """The bias's assert reads `total`, which only the run tells; that its second dim fits is what an inner concat would say first."""
    types = {
        "q": "f32[1, 1, 1, 1]",
        "k": "f32[1, 1, 1, 1]",
        "v": "f32[1, 1, 1, 1]",
        "last": "i32[1]",
        "bias": "f32[n, 1, 1]",
        "total": "i64[]",
    }
    x = {name: anyshape.input(name, t) for name, t in types.items()}
    made = ops.grouped_query_attention(x["q"], x["k"], x["v"], x["last"], bias=x["bias"], total=x["total"], smooth=True)
    run = anyshape.compile(anyshape.function([*x.values()], made[0]))
    one = np.ones((1, 1, 1, 1), np.float32)
    given = {"q": one, "k": one, "v": one, "last": np.zeros(1, np.int32), "total": np.asarray(1)}
    assert run.run({**given, "bias": np.ones((1, 1, 1), np.float32)})[0].shape == (1, 1, 1, 1)
    with pytest.raises(ShapeError, match=r"bias \[2, 1, 1\] does not broadcast to \[1, 1, 1, total\]"):
        run.run({**given, "bias": np.ones((2, 1, 1), np.float32)})


def test_a_size_that_data_decides_has_no_number_of_its_own() -> None:
    """How many symbols there were before is nothing to tell, and the same program says the same the next time it is compiled."""
    x, slope = anyshape.input("x", "f32[a, b]"), anyshape.input("slope", "i64[n, 5]")
    found = ops.prelu(ops.nonzero(x), slope)
    given = {"x": np.ones((1, 5), np.float32), "slope": np.ones((0, 5), np.int64)}
    for _ in range(2):
        run = anyshape.compile(anyshape.function([x, slope], found))
        with pytest.raises(ShapeError, match=r"slope \[0, 5\] does not broadcast to \[\w+, k\]"):
            run.run(given)
