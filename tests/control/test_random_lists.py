"""Random programs on lists within branches and loops: every executor agrees with Python's own lists, and releases all it made."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, lists, ops
from anyshape.graph.verify import verify

Code = tuple[Any, ...]
FORMS: tuple[dict[str, Any], ...] = ({}, {"loop": "python", "walk": True}, {"fuse": False})


def random_block(r: random.Random, there: int, depth: int) -> list[Code]:
    """Statements; each makes one more list of those that are there, by number. None of them is empty."""
    code: list[Code] = []
    for _ in range(r.randint(1, 4)):
        a, b = r.randrange(there), r.randrange(there)
        kind = r.choice(["append", "front", "replace", "sum", "join", "same"] + ["if", "loop"] * 2 * (depth > 0))
        if kind == "if":
            then, other = (random_block(r, there, depth - 1) for _ in range(2))
            code.append(("if", r.randint(1, 5), a, then, other))
        elif kind == "loop":
            code.append(("loop", r.randint(0, 3), a, b, random_block(r, there + 2, depth - 1)))
        else:
            code.append((kind, a, b))
        there += 1
    return code


def run_python(code: Sequence[Code], given: Sequence[list[Any]]) -> list[list[Any]]:
    values = list(given)
    for kind, *rest in code:
        if kind == "if":
            limit, a, then, other = rest
            values.append(run_python(then if len(values[a]) > limit else other, values)[-1])
        elif kind == "loop":
            turns, a, b, body = rest
            p, q = values[a], values[b]
            for _ in range(turns):
                p, q = q, run_python(body, [*values, p, q])[-1]
            values.append([*p[:-1], q[-1]])
        else:
            values.append(_plain(kind, *(values[k] for k in rest)))
    return values


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


def build(code: Sequence[Code], given: Sequence[Any], turns_of: Any) -> list[Any]:
    values = list(given)
    for kind, *rest in code:
        if kind == "if":
            limit, a, then, other = rest
            longer = ops.greater(lists.length(values[a]), limit)
            here = tuple(values)
            values += control.if_(
                longer,
                lambda t=then, h=here: build(t, h, turns_of)[-1],  # type: ignore[misc]
                lambda o=other, h=here: build(o, h, turns_of)[-1],  # type: ignore[misc]
            )
        elif kind == "loop":
            turns, a, b, body = rest
            here = tuple(values)
            p, q = control.loop(
                ops.gather(turns_of, turns),
                lambda i, x, y, c=body, h=here: [y, build(c, [*h, x, y], turns_of)[-1]],  # type: ignore[misc]
                [values[a], values[b]],
            )
            values.append(lists.append(lists.erase(p), lists.at(q, -1)))
        else:
            a, b = (values[k] for k in rest)
            values.append(_simple(kind, a, b))
    return values


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


def agrees(seed: int) -> None:
    r = random.Random(seed)
    code = random_block(r, 2, 2)
    xs, ys = anyshape.input("xs", "list[f32[?]]"), anyshape.input("ys", "list[f32[?]]")
    turns_of = anyshape.input("turns_of", "i64[4]")
    made = build(code, [xs, ys], turns_of)
    f = anyshape.function([xs, ys, turns_of], made[2:])
    verify(f)
    verify(anyshape.passes.optimise(f))
    for form in FORMS:
        exe = anyshape.compile(f, **form)
        for n, m in ((1, 2), (4, 1)):
            a, b = ([np.arange(k + o, dtype=np.float32) + k for k in range(c)] for c, o in ((n, 0), (m, 1)))
            wanted = run_python(code, [a, b])[2:]
            got = exe(a, b, np.arange(4))
            for g, w in zip((got,) if len(wanted) == 1 else got, wanted, strict=True):
                assert len(g) == len(w), f"seed {seed}, {form}"
                for one, other in zip(g, w):
                    np.testing.assert_allclose(one, other, rtol=1e-5, err_msg=f"seed {seed}, {form}")


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    agrees(seed)
