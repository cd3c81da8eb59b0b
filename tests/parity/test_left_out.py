"""Ops that Relay left without a dyn twin, without dyn-to-static, or without a rule: each runs with parameters that only the call
tells, becomes static where they are known, and gives the same either way."""

from __future__ import annotations

import numpy as np
import pytest
from parity_case import LOOPS, Case, agrees

import anyshape
from anyshape import ops
from anyshape.passes import dyn_to_static

X = (2, 3, 4)
UNKNOWN = "f32[?, ?, ?]"
CASES: dict[str, Case] = {
    "expand_dims": Case([UNKNOWN, "i64[2]"], ops.dyn.expand_dims, [X, [0, 2]], lambda x, _: x[None, :, None]),
    "arange": Case(
        ["i64[1]", "i64[1]", "i64[1]"], ops.dyn.arange, [[9], [1], [-3]], lambda a, b, s: np.arange(a[0], b[0], s[0])
    ),
    "split": Case(
        [UNKNOWN, "i64[2]"],
        lambda x, sizes: ops.dyn.split(x, sizes=sizes, axis=2),
        [X, [1, 3]],
        lambda x, _: tuple(np.split(x, [1], 2)),
    ),
    "axes of a reduction": Case(
        [UNKNOWN, "i64[2]"],
        lambda x, axes: ops.dyn.sum(x, axes, keepdims=True),
        [X, [0, -1]],
        lambda x, _: x.sum((0, 2), keepdims=True),
    ),
    "axes of a reduction that go": Case(
        [UNKNOWN, "i64[1]"],
        lambda x, axes: ops.dyn.max(x, axes, keepdims=False),
        [X, [1]],
        lambda x, _: x.max(1),
    ),
    "axes of a transpose": Case(
        [UNKNOWN, "i64[3]"], ops.dyn.transpose, [X, [2, 0, 1]], lambda x, axes: x.transpose(axes)
    ),
    "cumsum": Case([UNKNOWN, "i64[]"], ops.dyn.cumsum, [X, 1], lambda x, axis: x.cumsum(axis)),
    "repeat": Case(
        [UNKNOWN, "i64[]"], lambda x, n: ops.dyn.repeat(x, n, axis=1), [X, 3], lambda x, n: x.repeat(n, axis=1)
    ),
    "flip": Case([UNKNOWN, "i64[2]"], ops.dyn.flip, [X, [0, 2]], lambda x, axes: np.flip(x, axes)),
    "roll": Case(
        [UNKNOWN, "i64[1]"], lambda x, by: ops.dyn.roll(x, by, axes=(1,)), [X, [-1]], lambda x, by: np.roll(x, by, 1)
    ),
}
FOUND_IN_DATA: dict[str, Case] = {
    "nonzero": Case(["i64[?, ?]"], ops.nonzero, [[[0, 3], [2, 0]]], lambda x: np.stack(np.nonzero(x))),
    "argwhere": Case(["i64[?, ?]"], ops.argwhere, [[[0, 3], [2, 0]]], np.argwhere),
    "unique": Case(
        ["i64[?]"],
        ops.unique,
        [[3, 1, 3, 2]],
        lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_runs_and_becomes_static(name: str) -> None:
    case = CASES[name]
    case.check()
    f, args = case.function(), case.arguments()
    assert any(n.op.variant == "dyn" for n in f.nodes)
    floats = [k for k, t in enumerate(case.types) if t.startswith("f")]
    inputs = {k: anyshape.input(f"x{k}", case.types[k]) for k in floats}
    results = case.build(*(inputs.get(k, a) for k, a in enumerate(args)))
    static = dyn_to_static(
        anyshape.function(list(inputs.values()), results if isinstance(results, anyshape.Value) else [*results])
    )
    assert not [n.op.full_name for n in static.nodes if n.op.variant == "dyn"]
    for loop in LOOPS:
        agrees(anyshape.compile(static, loop=loop)(*(args[k] for k in floats)), case.reference(*args))


@pytest.mark.parametrize("name", FOUND_IN_DATA)
def test_sizes_that_only_data_tell_have_a_rule(name: str) -> None:
    case = FOUND_IN_DATA[name]
    case.check()
    types = [r.type for r in case.function().results]
    assert all(t.shape is not None for t in types), types
