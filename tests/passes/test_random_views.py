"""Random programs of views, movement, pieces and maps: fused, on two threads, they give what one kernel per node gives interpreted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError
from anyshape.passes.fuse import fuse
from anyshape.passes.steps import KernelStep
from anyshape.vm import compile
from anyshape_testing.process.profile import LONG

SEEDS = range(5000, 5300 if LONG else 5010)
MAPS = (ops.neg, ops.abs, ops.relu)


def split(v: Any, r: random.Random) -> Any:
    """A dim that is a number becomes two."""
    shape = v.type.shape
    axes = [k for k, n in enumerate(shape) if isinstance(n, int) and n > 3]
    if not axes or len(shape) > 5:
        return v
    k = r.choice(axes)
    low = r.choice([d for d in range(1, shape[k]) if shape[k] % d == 0])
    open_ = sum(not isinstance(n, int) for n in shape[k + 1 :])
    return v if open_ else ops.reshape(v, [*[0] * k, low, shape[k] // low, *shape[k + 1 :]])


def merged(v: Any, r: random.Random) -> Any:
    """Two neighbours become one dim."""
    shape = v.type.shape
    k = r.randrange(max(1, len(shape) - 1))
    known = all(isinstance(n, int) for n in shape[k + 2 :])
    return ops.reshape(v, [*[0] * k, -1, *shape[k + 2 :]]) if known and len(shape) > 1 else v


def transposed(v: Any, r: random.Random) -> Any:
    axes = list(range(len(v.type.shape)))
    r.shuffle(axes)
    return ops.transpose(v, axes=axes)


def beside(v: Any, r: random.Random) -> Any:
    parts = [r.choice(MAPS)(v), v, ops.mul(v, v)][: r.choice((2, 3))]
    return ops.concat(parts, axis=r.randrange(len(v.type.shape)))


def part(v: Any, r: random.Random) -> Any:
    first, end = r.choice(((1, 2**62), (0, -1)))
    return ops.slice(v, [first], [end], [r.randrange(len(v.type.shape))])


def mapped(v: Any, r: random.Random) -> Any:
    return r.choice(MAPS)(v)


STEPS: tuple[Callable[[Any, random.Random], Any], ...] = (
    split,
    split,
    merged,
    merged,
    transposed,
    beside,
    beside,
    part,
    mapped,
)


def program(r: random.Random) -> Any:
    x = anyshape.input("x", "f32[b, n, 24]")
    values = [x, ops.neg(x)]
    for _ in range(r.randrange(4, 10)):
        try:
            values.append(r.choice(STEPS)(values[-1], r))
        except AnyshapeError:
            continue  # a slice of nothing
        same = [w for w in values[:-1] if w.type.shape == values[-1].type.shape and w is not values[-1]]
        if same and r.random() < 0.35:
            values.append(ops.add(values[-1], r.choice(same)))
    return anyshape.function([x], {"y": values[-1]})


def outcome(exe: Any, x: Any) -> Any:
    try:
        return exe.run({"x": x})[0]
    except AnyshapeError as e:
        return type(e)


def test_random_programs() -> None:
    nodes = kernels = 0
    for seed in SEEDS:
        f = program(random.Random(seed))
        steps = [s for s in fuse(f).steps if isinstance(s, KernelStep)]
        nodes, kernels = nodes + sum(len(s.nodes) for s in steps), kernels + len(steps)
        fused, slow = compile(f, threads=2), compile(f, kernels="interpret", fuse=False)
        for shape in ((1, 1, 24), (3, 2, 24), (2, 0, 24)):
            x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
            got, want = outcome(fused, x), outcome(slow, x)
            if isinstance(want, type):
                assert got is want, (seed, shape)
            else:
                np.testing.assert_array_equal(got, want, err_msg=f"{seed} {shape}")
    assert kernels < 0.6 * nodes
