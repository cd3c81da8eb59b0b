"""Kernels whose outer loops have one iteration, as for a single signal: the loop inside of them is shared out over the parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.equations.functions import pad, reduce_
from anyshape.lower import Group
from anyshape.lower.emit.values.context import Parts, Range
from anyshape.lower.llvm.types import I64, Val, const
from tests.lower.groups import B, Builder
from tests.lower.native import Native, check

W = dims.symbol("w")
CHANNELS = 128
SIZES = [{B: 1, W: 96}, {B: 1, W: 3}, {B: 3, W: 40}, {B: 1, W: 0}, {B: 0, W: 9}]


def depthwise() -> Group:
    """Taps of each channel."""
    b = Builder("depthwise")
    x, w, y = b.input([B, W, CHANNELS]), b.input([3, CHANNELS]), b.tensor([B, W, CHANNELS])
    n, i, c = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, c], reduce_("sum", [3], lambda t: pad(x, 0)[n, i + t - 1, c] * w[t, c]))
    b.output(y)
    return b.group()


def windows() -> Group:
    """Windows times a constant matrix, which is written out."""
    b = Builder("windows")
    x, t, y = b.input([B, 2 * W + 2, CHANNELS]), b.input([4, 4]), b.tensor([4, B, W, CHANNELS])
    u, n, p, c = b.eqs.indices("i", y.shape)
    b.eqs.define(y[u, n, p, c], reduce_("sum", [4], lambda q: x[n, 2 * p + q, c] * t[u, q]))
    b.output(y)
    matrix = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]], np.float32)
    return replace(b.group(), constants={t: matrix})


def sums_of_columns() -> Group:
    """A sum for each place, of which vectors are side by side."""
    b = Builder("sums")
    x, y = b.input([B, 8, CHANNELS * W]), b.tensor([B, CHANNELS * W])
    n, i = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i], reduce_("sum", [8], lambda k: x[n, k, i]))
    b.output(y)
    return b.group()


GROUPS = {f.__name__: f for f in (depthwise, windows, sums_of_columns)}


def written(group: Group, values: dict[Any, int], ran: int) -> float:
    """The share of the results that the first of two parts write, of which so many are run."""
    native = Native(group, anew=True)
    rng = np.random.default_rng(0)
    arrays = {
        t: rng.normal(size=[int(dims.evaluate(n, values)) for n in t.shape]).astype(np.float32) for t in group.inputs
    }
    status, (got,) = native.run({**arrays, **group.constants}, values, parts=2, ran=ran)
    assert status == 0
    return float((got.view(np.uint8).reshape(-1, 4) != 0x5A).any(-1).mean())


@pytest.mark.parametrize("name", GROUPS)
def test_each_part_has_half_of_one_signal(name: str) -> None:
    group = GROUPS[name]()
    assert written(group, SIZES[0], 1) == pytest.approx(0.5, abs=0.05)
    assert written(group, SIZES[0], 2) == 1.0


@pytest.mark.parametrize("name", GROUPS)
def test_any_number_of_parts_gives_the_same(name: str) -> None:
    group = GROUPS[name]()
    check(group, SIZES, fixed=group.constants, parts=(1, 2, 3, 7))


def test_a_part_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outer loops that are shared out alone leave one part with everything."""

    def outer_alone(self: Parts, outer: Val, inner: Val, block: int = 1) -> tuple[Range, Range]:
        return self.share(outer), (const(I64, 0), inner)

    monkeypatch.setattr(Parts, "share_either", outer_alone)
    assert written(depthwise(), SIZES[0], 1) in (0.0, 1.0)
