"""Random programs of branches and loops within one another, over vectors whose lengths change: every executor agrees with plain Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.graph.verify import verify
from tests.control.random_code import Language

FORMS: tuple[dict[str, Any], ...] = ({}, {"loop": "python"}, {"fuse": False})


def _plain(kind: str, a: Any, b: Any) -> Any:
    if kind == "concat":
        return np.concatenate([a, b])[:12]
    if kind == "scale":
        return a * np.float32(0.5) + np.float32(1)
    if kind == "drop":
        return a[1:]
    if kind == "total":
        return np.concatenate([b, a.sum(keepdims=True)])[:12]
    return a + b.sum(keepdims=True) * np.float32(0.01)


def _simple(kind: str, a: Any, b: Any) -> Any:
    def total(v: Any) -> Any:
        return ops.sum(v, axes=(0,), keepdims=True)

    if kind == "concat":
        return ops.slice(ops.concat([a, b], axis=0), [0], [12])
    if kind == "scale":
        return ops.add(ops.mul(a, 0.5), 1.0)
    if kind == "drop":
        return ops.slice(a, [1], [2**62])
    if kind == "total":
        return ops.slice(ops.concat([b, total(a)], axis=0), [0], [12])
    return ops.add(a, ops.mul(total(b), 0.01))


VECTORS = Language(
    kinds=("concat", "scale", "drop", "total", "shift"),
    most=3,
    limits=(0, 6),
    nesting=1,
    plain=_plain,
    plain_joined=lambda p, q: np.concatenate([p, q]),
    node=_simple,
    node_joined=lambda p, q: ops.concat([p, q], axis=0),
    length=lambda v: ops.gather(ops.shape_of(v), 0),
)


def agrees(seed: int) -> None:
    r = random.Random(seed)
    code = VECTORS.block(r, 2, 2)
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    limits = anyshape.input("limits", "i64[4]")
    values = VECTORS.build(code, [x, y], limits)
    f = anyshape.function([x, y, limits], values[2:])
    verify(f)
    verify(anyshape.passes.optimise(f))
    counts = np.array([0, 1, 2, 3])
    for form in FORMS:
        exe = anyshape.compile(f, **form)
        for n, m in ((3, 2), (0, 4), (7, 1)):
            a, b = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32) + 1
            expected = VECTORS.run(code, [a, b])[2:]
            got = exe(a, b, counts)
            for g, w in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-4, err_msg=f"seed {seed}, {form}, n={n}, m={m}")


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    agrees(seed)
