"""Groups of one form share a kernel, with their own tensors, dims and constants; any difference in form is a kernel of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import Size, symbol
from anyshape.equations.functions import wrap
from anyshape.lower import Group, Kernel, Lowering, Origin, PackedConstant, host_target, lower_group
from anyshape.lower.sharing import SharedKernels
from tests.lower.groups import Builder, K, N


def layer(seed: int, width: int = 24, axis: int = -1, scale: float = 2.0, dtype: str = "f32", **names: Any) -> Group:
    """A product with a constant, a map, a softmax."""
    b = Builder(f"layer{seed}")
    x, w = b.input([N, width], dtype), b.input([width, 40], dtype)
    h = b.map(lambda v: v * scale, b.matmul(x, w))
    b.output(b.softmax(h, axis))
    weight = np.random.default_rng(seed).standard_normal((width, 40)).astype(w.dtype.numpy)
    return replace(b.group(), constants={w: weight}, **names)


def test_one_kernel_for_equal_layers() -> None:
    forms = SharedKernels()
    lowering = Lowering(host_target(), forms)
    for seed in range(3):
        group = layer(seed)
        shared, alone = lowering.lower(group), lower_group(group, host_target())
        assert (shared.text, shared.scalars, shared.scratch) == (alone.text, alone.scalars, alone.scratch)
        assert shared.outputs == group.outputs
        for got, expected in zip(shared.inputs, alone.inputs, strict=True):
            if isinstance(got, PackedConstant) and isinstance(expected, PackedConstant):
                assert got.tensor is expected.tensor and got.layout == expected.layout
                np.testing.assert_array_equal(got.array, expected.array)
            else:
                assert got is expected
    assert len(forms) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda: layer(1, width=32), lambda: layer(1, axis=0), lambda: layer(1, scale=-2.0), lambda: layer(1, dtype="f64"),
        lambda: replace(layer(1), constants={}), lambda: layer(1, scale=2),
    ],
)  # fmt: skip
def test_other_forms_are_lowered(other: Callable[[], Group]) -> None:
    forms = SharedKernels()
    lowering = Lowering(host_target(), forms)
    lowering.lower(layer(0))
    group = other()
    kernel = lowering.lower(group)
    assert kernel.text == lower_group(group, host_target()).text
    assert len(forms) == 2


def doubled(n: Size, k: Size = K) -> Group:
    b = Builder("double")
    b.output(b.map(lambda v: v + v, b.input([n, k])))
    return b.group()


def assert_equal_kernels(shared: Kernel, alone: Kernel) -> None:
    """All but tensors of constants, which are arrays."""
    for name in (
        "text",
        "scalars",
        "scratch",
        "work",
        "pieces",
        "inputs",
        "outputs",
        "reusable",
        "schedule",
        "imports",
    ):
        assert getattr(shared, name) == getattr(alone, name), name
    assert messages(shared) == messages(alone)


def messages(kernel: Kernel) -> list[str]:
    return [e.template(kernel.scalars) for e in kernel.errors]


A, B, C = (symbol(name, 1) for name in ("a", "b", "c"))


@pytest.mark.parametrize(
    ("one", "other", "forms"),
    [
        (doubled(A, B), doubled(A, C), 1),
        (doubled(A, A), doubled(C, C), 1),
        (doubled(A, A + B), doubled(B, B + C), 1),
        (doubled(A, A // 2 * B), doubled(B, B // 2 * C), 1),
        (doubled(A, B), doubled(B, A), 2),  # another order of names, which is that of terms
        (doubled(A, B), doubled(A, A), 2),
        (doubled(A, A + B), doubled(A, A + 2 * B), 2),
        (doubled(A, A // 2), doubled(A, A // 3), 2),
        (doubled(A, B), doubled(A, symbol("b", 0)), 2),
        (doubled(A, B), doubled(A, symbol("b", 1, 64)), 2),
        (doubled(A, 3), doubled(A, 4), 2),
    ],
)  # fmt: skip
def test_dims_are_alike_but_for_names_and_bounds_count(one: Group, other: Group, forms: int) -> None:
    known = SharedKernels()
    lowering = Lowering(host_target(), known)
    lowering.lower(one)
    assert_equal_kernels(lowering.lower(other), lower_group(other, host_target()))
    assert len(known) == forms


def picked(name: str, n: Size, source: str = "", table: str = "x") -> Group:
    b = Builder(name)
    x, i = b.input([n, 3]), b.input([K], "i64")
    y = b.tensor([K, 3])
    k, m = b.eqs.index("k", K), b.eqs.index("m", 3)
    b.eqs.define(y[k, m], x[wrap(i[k], n), m])
    b.output(y)
    origin = Origin("pick", source, {x: table, i: "index", y: "y"})
    return replace(b.group(), origins=dict.fromkeys(b.group().equations, origin))


@pytest.mark.parametrize(
    "other", [picked("first", B), picked("other", A), picked("first", A, "node7"), picked("first", A, table="data")]
)
def test_what_is_reported_is_of_the_own_group(other: Group) -> None:
    forms = SharedKernels()
    lowering = Lowering(host_target(), forms)
    assert lowering.lower(picked("first", A)).errors
    assert_equal_kernels(lowering.lower(other), lower_group(other, host_target()))


def test_memory_of_forms_is_bounded_and_keeps_what_was_used_last() -> None:
    size = len(lower_group(doubled(A, 3), host_target()).text)
    forms = SharedKernels(limit=5 * size // 2)
    lowering = Lowering(host_target(), forms)
    first = lowering.lower(doubled(A, 3))
    for k in (5, 3, 7, 3):
        lowering.lower(doubled(A, k))
        assert len(forms) <= 2
    assert lowering.lower(doubled(B, 3)).text is first.text


def test_no_weights_are_kept() -> None:
    forms = SharedKernels()
    group = layer(0)
    Lowering(host_target(), forms).lower(group)
    (known,) = (forms.find(form) for form in list(forms._known))
    assert known is not None
    assert sum(i.array.nbytes for i in known.kernel.inputs if isinstance(i, PackedConstant)) == 0


def test_a_constant_of_several_groups_is_packed_once() -> None:
    group, alike, other = layer(0), layer(0), layer(0)
    (weight,), (of_alike,) = group.constants.values(), alike.constants
    alike = replace(alike, constants={of_alike: weight})
    lowering = Lowering(host_target(), SharedKernels())
    packed = [
        next(i.array for i in lowering.lower(g).inputs if isinstance(i, PackedConstant))
        for g in (group, alike, other, alike)
    ]
    assert packed[0] is packed[1] is packed[3] is not packed[2]


def convolutions(*channels: int) -> int:
    """How many kernels convolutions of so many channels are, with what stores their operands and results in another order."""
    xs = [anyshape.input(f"x{c}", f"f32[b, {c}, h, w]") for c in channels]
    ys = [ops.conv(x, np.ones((c, c, 3, 3), np.float32), pads=[1] * 4) for x, c in zip(xs, channels)]
    return anyshape.compile(anyshape.function(xs, ys), growth=0).report.kernels


def test_layers_that_differ_in_numbers_of_channels_share_a_long_kernel() -> None:
    """Layers share the kernel of the product, also where one has channels that fill no whole vectors, but not with one whose weights are
    larger than the second cache; what transposes a layer's values is a kernel of its own."""
    assert convolutions(64, 96, 128) == 3 * convolutions(64) - 2
    assert convolutions(64, 72) == 2 * convolutions(64) - 1
    assert convolutions(64, 128, 512) == 3 * convolutions(64) - 1


def test_what_becomes_a_literal_is_part_of_the_form() -> None:
    forms = SharedKernels()
    lowering = Lowering(host_target(), forms)
    for value in (2.0, 3.0, 2.0):
        b = Builder("scaled")
        x, c = b.input([N]), b.input([])
        b.output(b.map(lambda p, q: p * q, x, c))
        group = replace(b.group(), constants={c: np.array(value, np.float32)})
        assert lowering.lower(group).text == lower_group(group, host_target()).text
    assert len(forms) == 2
