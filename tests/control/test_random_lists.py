"""Random programs on lists within branches and loops: every executor agrees with Python's own lists, and releases all it made."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import lists, ops
from anyshape.graph.verify import verify
from tests.control.random_code import Language

FORMS: tuple[dict[str, Any], ...] = ({}, {"loop": "python"}, {"fuse": False})


def _plain(kind: str, a: list[Any], b: list[Any]) -> list[Any]:
    if kind == "append":
        return [*a, b[0]]
    if kind == "front":
        return [b[-1] * np.float32(0.5), *a]
    if kind == "replace":
        return [b[-1], *a[1:]]
    if kind == "sum":
        return [np.concatenate(a)[:6]]
    if kind == "join":
        return [*a[:-1], np.concatenate([a[-1], b[0]])[:5]]
    return a


def _simple(kind: str, a: Any, b: Any) -> Any:
    if kind == "append":
        return lists.append(a, lists.at(b, 0))
    if kind == "front":
        return lists.insert(a, ops.mul(lists.at(b, -1), 0.5), 0)
    if kind == "replace":
        return lists.insert(lists.erase(a, 0), lists.at(b, -1), 0)
    if kind == "sum":
        return lists.of([ops.slice(lists.concat(a), [0], [6])])
    if kind == "join":
        last = ops.slice(ops.concat([lists.at(a, -1), lists.at(b, 0)], axis=0), [0], [5])
        return lists.append(lists.erase(a), last)
    return a


LISTS = Language(
    kinds=("append", "front", "replace", "sum", "join", "same"),
    most=4,
    limits=(1, 5),
    nesting=2,
    plain=_plain,
    plain_joined=lambda p, q: [*p[:-1], q[-1]],
    node=_simple,
    node_joined=lambda p, q: lists.append(lists.erase(p), lists.at(q, -1)),
    length=lists.length,
)
"""The language of random code on lists, none of which is ever empty."""


def agrees(seed: int) -> None:
    r = random.Random(seed)
    code = LISTS.block(r, 2, 2)
    xs, ys = anyshape.input("xs", "list[f32[?]]"), anyshape.input("ys", "list[f32[?]]")
    iterations_of = anyshape.input("turns_of", "i64[4]")
    values = LISTS.build(code, [xs, ys], iterations_of)
    f = anyshape.function([xs, ys, iterations_of], values[2:])
    verify(f)
    verify(anyshape.passes.optimise(f))
    for form in FORMS:
        exe = anyshape.compile(f, **form)
        for n, m in ((1, 2), (4, 1)):
            a, b = ([np.arange(k + o, dtype=np.float32) + k for k in range(c)] for c, o in ((n, 0), (m, 1)))
            expected = LISTS.run(code, [a, b])[2:]
            got = exe(a, b, np.arange(4))
            for g, w in zip((got,) if len(expected) == 1 else got, expected, strict=True):
                assert len(g) == len(w), f"seed {seed}, {form}"
                for one, other in zip(g, w):
                    np.testing.assert_allclose(one, other, rtol=1e-5, err_msg=f"seed {seed}, {form}")


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    agrees(seed)
