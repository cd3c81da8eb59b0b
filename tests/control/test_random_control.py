"""Random programs of branches and loops within one another, over vectors whose lengths change: every executor agrees with plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.graph.verify import verify

Code = tuple[Any, ...]
FORMS: tuple[dict[str, Any], ...] = ({}, {"loop": "python", "walk": True}, {"fuse": False})


def random_block(r: random.Random, vectors: int, depth: int) -> list[Code]:
    """Statements; each adds a vector to those that are there, by number."""
    code: list[Code] = []
    for _ in range(r.randint(1, 3)):
        a, b = r.randrange(vectors), r.randrange(vectors)
        kinds = ["concat", "scale", "drop", "total", "shift"] + ["if", "loop"] * (depth > 0)
        kind = r.choice(kinds)
        if kind == "if":
            code.append(
                ("if", r.randint(0, 6), a, random_block(r, vectors, depth - 1), random_block(r, vectors, depth - 1))
            )
        elif kind == "loop":
            body = random_block(r, vectors + 2, depth - 1)
            code.append(("loop", r.randint(0, 3), a, b, body))
        else:
            code.append((kind, a, b))
        vectors += 1
    return code


def run_numpy(code: Sequence[Code], given: Sequence[Any]) -> list[Any]:
    values = list(given)
    for kind, *rest in code:
        if kind == "if":
            limit, a, then, other = rest
            values.append(run_numpy(then if len(values[a]) > limit else other, values)[-1])
        elif kind == "loop":
            turns, a, b, body = rest
            p, q = values[a], values[b]
            for _ in range(turns):
                p, q = q, run_numpy(body, [*values, p, q])[-1]
            values.append(np.concatenate([p, q]))
        else:
            values.append(_plain(kind, *(values[k] for k in rest)))
    return values


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


def build(code: Sequence[Code], given: Sequence[Any], limits: Any) -> list[Any]:
    values = list(given)
    for kind, *rest in code:
        if kind == "if":
            limit, a, then, other = rest
            longer = ops.greater(ops.gather(ops.shape_of(values[a]), 0), limit)
            here = tuple(values)
            (made,) = control.if_(
                longer,
                lambda t=then, h=here: build(t, h, limits)[-1],  # type: ignore[misc]
                lambda o=other, h=here: build(o, h, limits)[-1],  # type: ignore[misc]
            )
            values.append(made)
        elif kind == "loop":
            turns, a, b, body = rest
            here = tuple(values)
            p, q = control.loop(
                ops.gather(limits, turns),
                lambda i, x, y, c=body, h=here: [y, build(c, [*h, x, y], limits)[-1]],  # type: ignore[misc]
                [values[a], values[b]],
            )
            values.append(ops.concat([p, q], axis=0))
        else:
            a, b = (values[k] for k in rest)
            values.append(_simple(kind, a, b))
    return values


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


def agrees(seed: int) -> None:
    r = random.Random(seed)
    code = random_block(r, 2, 2)
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    limits = anyshape.input("limits", "i64[4]")
    made = build(code, [x, y], limits)
    f = anyshape.function([x, y, limits], made[2:])
    verify(f)
    verify(anyshape.passes.optimise(f))
    counts = np.array([0, 1, 2, 3])
    for form in FORMS:
        exe = anyshape.compile(f, **form)
        for n, m in ((3, 2), (0, 4), (7, 1)):
            a, b = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32) + 1
            wanted = run_numpy(code, [a, b])[2:]
            got = exe(a, b, counts)
            for g, w in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-4, err_msg=f"seed {seed}, {form}, n={n}, m={m}")


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    agrees(seed)
