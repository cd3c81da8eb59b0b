"""One chain over rows of symbolic length, with a kernel per node: the bytes that its plan prints are those of a bound by live ranges."""

from __future__ import annotations

import re

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.graph.function import Function
from anyshape.vm.executable.memory_text import memory_text

LINE = 64


def chain() -> Function:
    x = anyshape.input("x", "f32[n, 33]")
    first = ops.exp(x)
    wide = ops.exp(ops.concat([first, first], axis=1))
    again = ops.cast(ops.cast(wide, to="f16"), to="f32")
    total = ops.sum(again, axes=(-1,), keepdims=True)
    return anyshape.function([x], ops.exp(ops.add(again, total)))


def bound(f: Function, n: int) -> int:
    """The most that is alive at once, by the nodes in order: a value from its node to the last that reads it. An elementwise node
    writes over an operand of its own size that nobody reads later. The caller's memory, arguments and results, does not count."""
    lines = {}
    for node in f.nodes:
        (v,) = node.outputs
        shape = [d if isinstance(d, int) else n for d in v.type.shape or ()]
        lines[v] = -(-int(np.prod(shape)) * v.type.dtype.itemsize // LINE) * LINE
    last = {v: k for k, node in enumerate(f.nodes) for v in node.inputs if v in lines}
    most = 0
    for k, node in enumerate(f.nodes):
        (result,) = node.outputs
        alive = {v for v in last if f.nodes.index(v.node) < k <= last[v]}
        dying = [
            v
            for v in node.inputs
            if v in alive and last[v] == k and lines[v] == lines[result] and node.op.name != "sum"
        ]
        mine = 0 if dying or result in f.results else lines[result]
        most = max(most, sum(lines[v] for v in alive) + mine)
    return most


@pytest.mark.parametrize("n", [1, 5, 16, 64, 1000])
def test_the_plan_is_as_small_as_live_ranges_allow(n: int) -> None:
    f = chain()
    exe = anyshape.compile(f, fuse=False, kernels="native")
    exe(np.zeros((n, 33), np.float32))
    text = memory_text(exe, {"n": n})
    print(text)
    match = re.search(r"in .* = ([\d,]+) bytes", text)
    assert match is not None
    assert int(match.group(1).replace(",", "")) == bound(f, n)
