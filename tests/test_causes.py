"""Why something stayed dynamic: causes in reports, in `explain`, and in what executor="graph" refuses."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import compile, ops
from anyshape.cli.explain import explanation
from anyshape.errors import UnsupportedError


def _from_nonzero() -> anyshape.Function:
    x, w, t = anyshape.input("x", "f32[n]"), anyshape.input("w", "f32[m]"), anyshape.input("t", "i64[1]")
    places = ops.nonzero(x, source="find")
    size = ops.slice(ops.shape_of(places, source="size"), [1], [2], [0], source="take")
    y = ops.dyn.reshape(w, size, source="form")
    z = ops.dyn.reshape(w, t, source="by hand")
    return anyshape.function([x, w, t], [ops.exp(y, source="after"), z])


def test_the_shortest_way_to_what_the_data_decides() -> None:
    report = compile(_from_nonzero()).report
    first, second = report.still_dynamic
    assert first.startswith(
        "dyn.reshape (form) stays dyn: newshape comes from nonzero (find), whose size its data decides"
    )
    assert first.endswith("through shape_of (size), static.slice (take)")
    assert second == "dyn.reshape (by hand) stays dyn: newshape comes from the input t"
    assert "a size of nonzero (find), which its data decides" in report.unknown_dims
    assert "element 0 of the input t" in report.unknown_dims
    assert "  element 0 of the input t" in str(report).splitlines()


def test_unknown_ranks_have_a_cause() -> None:
    x, t = anyshape.input("x", "f32[n]"), anyshape.input("t", "i64[k]")
    report = compile(anyshape.function([x, t], ops.dyn.reshape(x, t, source="form"))).report
    assert report.unknown_dims == ["the rank of dyn.reshape (form), from the input t"]


def test_the_graph_executor_lists_all_that_is_dynamic() -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile(_from_nonzero(), executor="graph", dims={"m": 6})
    text = str(caught.value)
    assert "dims={...} puts numbers in the place of named dims" in text
    assert "input x: f32[n] is not static" in text and "input w" not in text
    assert "nonzero (find): its dims come from a size of nonzero (find), which its data decides" in text
    assert "dyn.reshape (form) stays dyn" in text and "dyn.reshape (by hand) stays dyn" in text
    assert "exp (after): its dims come from a size of nonzero (find), which its data decides" in text


def test_the_graph_executor_has_a_plan_of_constants() -> None:
    x = anyshape.input("x", "f32[n, m]")
    y = ops.softmax(ops.reshape(ops.matmul(x, x), ops.shape_of(x)), axis=0)
    f = anyshape.function([x], ops.matmul(ops.softmax(y, axis=1), y))
    exe = compile(f, dims={"n": 4, "m": 4}, executor="graph")
    text = exe.disassemble()
    assert " + " not in text and " max " not in text and "*" not in text, text
    assert exe(np.ones((4, 4), np.float32)).shape == (4, 4)


def test_explain_names_the_causes_of_the_outputs_dims() -> None:
    text = explanation(compile(_from_nonzero()))
    assert "data-dependent dims of the outputs:" in text
    assert ": a size of nonzero (find), which its data decides" in text
