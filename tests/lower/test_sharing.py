"""Groups of one form share a kernel, with their own tensors and constants; any difference in form is a kernel of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape.dims import symbol
from anyshape.equations.functions import wrap
from anyshape.lower import Group, Lowering, Packed, host_target, lower_group
from tests.lower.groups import Builder, K, M, N


def layer(seed: int, width: int = 24, axis: int = -1, scale: float = 2.0, dtype: str = "f32", **names: Any) -> Group:
    """A product with a constant, a map, a softmax."""
    b = Builder(f"layer{seed}")
    x, w = b.input([N, width], dtype), b.input([width, 40], dtype)
    h = b.map(lambda v: v * scale, b.matmul(x, w))
    b.output(b.softmax(h, axis))
    weight = np.random.default_rng(seed).standard_normal((width, 40)).astype(w.dtype.numpy)
    return replace(b.group(), constants={w: weight}, **names)


def test_one_kernel_for_equal_layers() -> None:
    lowering = Lowering(host_target())
    for seed in range(3):
        group = layer(seed)
        shared, alone = lowering.lower(group), lower_group(group, host_target())
        assert (shared.text, shared.scalars, shared.scratch) == (alone.text, alone.scalars, alone.scratch)
        assert shared.outputs == group.outputs
        for got, wanted in zip(shared.inputs, alone.inputs, strict=True):
            if isinstance(got, Packed) and isinstance(wanted, Packed):
                assert got.tensor is wanted.tensor and got.layout == wanted.layout
                np.testing.assert_array_equal(got.array, wanted.array)
            else:
                assert got is wanted
    assert len(lowering._known) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda: layer(1, width=32), lambda: layer(1, axis=0), lambda: layer(1, scale=-2.0), lambda: layer(1, dtype="f64"),
        lambda: replace(layer(1), constants={}), lambda: layer(1, scale=2),
    ],
)  # fmt: skip
def test_other_forms_are_lowered(other: Callable[[], Group]) -> None:
    lowering = Lowering(host_target())
    lowering.lower(layer(0))
    group = other()
    kernel = lowering.lower(group)
    assert kernel.text == lower_group(group, host_target()).text
    assert len(lowering._known) == 2


def test_other_dims_are_another_form() -> None:
    lowering = Lowering(host_target())
    for n in (N, M, symbol("n", 1)):
        b = Builder("double")
        b.output(b.map(lambda v: v + v, b.input([n, K])))
        kernel = lowering.lower(b.group())
        assert n in kernel.scalars or any(n in getattr(s, "symbols", ()) or str(n) in str(s) for s in kernel.scalars)
    assert len(lowering._known) == 3


def test_kernels_with_messages_are_not_shared() -> None:
    lowering = Lowering(host_target())
    for name in ("first", "second"):
        b = Builder(name)
        x, i = b.input([N]), b.input([K], "i64")
        y = b.tensor([K])
        k = b.eqs.index("k", K)
        b.eqs.define(y[k], x[wrap(i[k], N)])
        b.output(y)
        kernel = lowering.lower(b.group())
        assert [e for e in kernel.errors if e.template(()).startswith(name)] == list(kernel.errors) != []


def test_what_becomes_a_literal_is_part_of_the_form() -> None:
    lowering = Lowering(host_target())
    for value in (2.0, 3.0, 2.0):
        b = Builder("scaled")
        x, c = b.input([N]), b.input([])
        b.output(b.map(lambda p, q: p * q, x, c))
        group = replace(b.group(), constants={c: np.array(value, np.float32)})
        assert lowering.lower(group).text == lower_group(group, host_target()).text
    assert len(lowering._known) == 2
