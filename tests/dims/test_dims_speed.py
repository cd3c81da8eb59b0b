"""Dims are cheap: the shape work of a 12-layer BERT with symbolic dims is a few ten thousand calls, which nobody would notice."""

from __future__ import annotations

import pytest

from anyshape.dims import fresh
from benchmarks.dims_speed import bert
from tests.counting import calls

WORK = 150_000
"""Calls of functions for 12 layers, about twice what they are now."""


@pytest.mark.parametrize("low", [0, 1])
def test_the_shapes_of_a_bert_take_little_work(low: int) -> None:
    """The shapes take as many steps for each layer, and few."""

    def work(layers: int) -> int:
        return calls(lambda: bert(layers, fresh("batch", low), fresh("length", low)))

    work(1)
    assert work(12) < 1.3 * 3 * work(4)
    assert work(12) < WORK
