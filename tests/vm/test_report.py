"""What a compile reports: variants, causes, phases; and the switches that the environment sets."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import ADD, DYN_SUM, MUL, RESHAPE, SHAPE_OF, call

import anyshape
from anyshape import ops
from anyshape.errors import ArgumentError
from anyshape.vm import compile
from anyshape.vm.compiling.options import from_environment


def test_variants_and_causes() -> None:
    x, s = anyshape.input("x", "f32[n, m]"), anyshape.input("s", "i64[2]")
    static = call(DYN_SUM, x, anyshape.constant(np.array([1])), source="node 1")
    transposed = anyshape.input("turned", "f32[m, n]")
    symbolic = call(RESHAPE, x, call(SHAPE_OF, transposed), source="node 2")
    dynamic = call(RESHAPE, x, call(MUL, s, s, source="node 3"), source="node 4")
    report = compile(anyshape.function([x, transposed, s], [static, symbolic, call(ADD, dynamic, dynamic)])).report
    assert (report.imported_dyn, report.became_static, report.dyn_symbolic) == (3, 1, 1)
    assert report.still_dynamic == [
        "dyn.reshape (node 4) stays dyn: newshape comes from the input s, through mul (node 3)"
    ]
    assert {"import", "optimise", "fuse", "generate"} <= set(report.phases)
    assert "3 dyn ops in the model: 1 became static" in str(report)


def test_phases_do_not_count_what_is_inside_twice() -> None:
    from anyshape.vm.report.summary import Report

    report = Report()
    with report.phase("outer"), report.phase("inner"):
        sum(range(200_000))
    assert report.phases["outer"] < report.phases["inner"]


def test_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHAPE_DUMP", "graph,soup")
    with pytest.raises(ArgumentError, match="cannot dump soup; stages are graph, schedule"):
        from_environment()
    monkeypatch.setenv("ANYSHAPE_DUMP", "graph")
    monkeypatch.setenv("ANYSHAPE_VERIFY", "1")
    assert from_environment().verify and from_environment().dump == {"graph"}


def test_a_schedule_names_what_kernels_of_one_node_make_for_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sort is two kernels: one makes the order, which is no result of the node."""
    monkeypatch.setenv("ANYSHAPE_DUMP", "schedule")
    x = anyshape.input("x", "f64[n]")
    anyshape.compile(anyshape.function([x], ops.sort(x)))
    assert "%order: i64[n] = kernel sort(%x)" in "".join(capsys.readouterr())
