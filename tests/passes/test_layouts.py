"""Channels last: networks of convolutions, drawn from a table, with values stored as transposes and without."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import parse_dtype
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Value
from anyshape.lower.emit.windowed import taps as emitted_taps
from anyshape.passes import layouts
from anyshape.passes.fuse import fuse
from anyshape.passes.group_equations import GroupEquations
from anyshape.passes.pipeline import optimise
from anyshape.passes.steps import KernelStep

TOLERANCE = {"f32": 1e-4, "f64": 1e-9, "f16": 4e-2, "bf16": 0.2}
"""Tolerances as shares of the largest result; sums of narrow floats are f32, and what is rounded between kernels differs by fusion."""


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores all channels last, however few they are and whatever that costs."""
    monkeypatch.setattr(layouts, "LEAST", 1)
    monkeypatch.setattr(layouts._ValueUses, "pays", lambda self, group: True)


class Network:
    """A chain of layers over `rank` spatial dims."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), np.random.RandomState(seed)
        self.dtype = self.random.choice(["f32", "f32", "f64", "f16", "bf16"])
        self.rank = self.random.choice([1, 2, 2, 2, 3])
        self.channels = self.random.choice([1, 2, 3, 5, 8, 16, 17, 33])
        dims = ", ".join(("h", "w", "d")[: self.rank])
        self.x: Value = anyshape.input("x", f"{self.dtype}[b, {self.channels}, {dims}]")
        self.h = self.x
        self.values: list[Value] = []
        for _ in range(self.random.randint(2, 6)):
            self.h = LAYERS[self.random.choice(list(LAYERS))](self)
            self.values.append(self.h)

    def function(self) -> Function:
        also = [self.random.choice(self.values)] if self.random.random() < 0.3 else []
        return anyshape.function([self.x], [self.h, *also])

    def weights(self, *shape: int) -> Value:
        array = self.numbers.randn(*shape) / max(1, np.prod(shape[1:])) ** 0.5
        return anyshape.constant(array.astype(parse_dtype(self.dtype).numpy))

    def each(self, choices: list[int]) -> list[int]:
        return [self.random.choice(choices) for _ in range(self.rank)]

    def convolution(self, strides: list[int]) -> Value:
        before, self.channels = self.channels, self.random.choice([1, 2, 4, 16, 18, 32, 35])
        kernel, dilations = self.each([1, 2, 3]), self.each([1, 1, 2])
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        pads = [max(n, (r + 1) // 2) for n, r in zip(self.each([0, 1, 2]), reach, strict=True)]
        bias = [self.weights(self.channels)] if self.random.random() < 0.5 else []
        w = self.weights(self.channels, before, *kernel)
        return ops.conv(self.h, w, *bias, pads=[*pads, *pads], dilations=dilations, strides=strides)

    def depthwise(self) -> Value:
        before, each = self.channels, self.random.choice([1, 1, 2])
        self.channels *= each
        kernel = self.each([1, 2, 3, 5])
        pads = [*(k // 2 for k in kernel), *(k - k // 2 for k in kernel)]
        w = self.weights(self.channels, 1, *kernel)
        return ops.conv(self.h, w, pads=pads, groups=before, strides=self.each([1, 2]))

    def grouped(self) -> Value:
        if self.channels % 2:
            return self.h
        before, self.channels = self.channels, 2 * self.random.choice([1, 3, 16])
        return ops.conv(self.h, self.weights(self.channels, before // 2, *[1] * self.rank), groups=2)

    def joined(self) -> Value:
        self.channels *= 2
        return ops.concat([self.h, ops.relu(self.h)], axis=1)

    def cut(self) -> Value:
        if self.channels == 1:
            return self.h
        self.channels -= 1
        return ops.slice(self.h, starts=[1], ends=[2**40], axes=[1])

    def scaled(self) -> Value:
        ones = [1] * self.rank
        return self.h * self.weights(self.channels, *ones) + self.weights(self.channels, *ones)

    def pooled(self, name: str, size: int) -> Value:
        pads = [1] * 2 * self.rank
        if name == "max":
            return ops.max_pool(self.h, kernel=[size] * self.rank, pads=pads, strides=self.each([1, 2]))[0]
        return ops.average_pool(
            self.h, kernel=[size] * self.rank, pads=pads, count_include_pad=self.random.random() < 0.5
        )

    def gated(self) -> Value:
        axes = list(range(2, 2 + self.rank))
        return self.h * ops.sigmoid(ops.mean(self.h, axes, keepdims=True))

    def argument(self, number: int) -> Any:
        numbers = np.random.RandomState(number)
        sizes = [int(numbers.choice([0, 1, 2, 3, 5, 9, 16, 17])) for _ in range(self.rank)]
        shape = (int(numbers.choice([1, 2, 3])), int(self.x.type.shape[1]), *sizes)
        x = numbers.randn(*shape).astype(parse_dtype(self.dtype).numpy)
        if x.size and numbers.rand() < 0.3:
            x.reshape(-1)[numbers.randint(x.size)] = np.inf
        return x


LAYERS: dict[str, Callable[[Network], Value]] = {
    "convolution": lambda n: n.convolution([1] * n.rank),
    "pointwise": lambda n: n.convolution([1] * n.rank),
    "strided": lambda n: n.convolution(n.each([1, 2, 3])),
    "depthwise": Network.depthwise,
    "grouped": Network.grouped,
    "map": lambda n: ops.relu(n.h),
    "residual": lambda n: ops.relu(n.h) + n.h,
    "silu": lambda n: n.h * ops.sigmoid(n.h),
    "affine": Network.scaled,
    "max pool": lambda n: n.pooled("max", 2),
    "average pool": lambda n: n.pooled("average", 3),
    "concat": Network.joined,
    "slice": Network.cut,
    "squeeze and excite": Network.gated,
}


def outcome(exe: Any, x: Any) -> Any:
    try:
        return [np.asarray(y, np.float64) for y in exe(x)]
    except anyshape.AnyshapeError as e:
        return type(e)


def agree(a: Any, b: Any, tolerance: float) -> bool:
    if not isinstance(a, list) or not isinstance(b, list):
        return bool(a == b)
    for p, q in zip(a, b, strict=True):
        finite = np.isfinite(p) & np.isfinite(q)
        if p.shape != q.shape or not np.array_equal(p[~finite], q[~finite], equal_nan=True):
            return False
        if finite.any() and np.abs(p[finite] - q[finite]).max() > tolerance * (1 + np.abs(q[finite]).max()):
            return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_networks_are_what_they_are_without_layouts(seed: int, always: None) -> None:
    network = Network(seed)
    f = network.function()
    stored, plain = anyshape.compile(f, threads=1 + seed % 2), anyshape.compile(f, fuse=False)
    for number in range(4):
        x = network.argument(10 * seed + number)
        assert agree(outcome(stored, x), outcome(plain, x), TOLERANCE[network.dtype]), (network.dtype, x.shape)


def test_a_wrong_layout_is_noticed(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    order = layouts._order
    monkeypatch.setattr(
        layouts, "_order", lambda axis, rank: [0, *reversed(order(axis, rank)[1:])] if rank == 4 else order(axis, rank)
    )
    network, x = chain(16, 16), np.random.RandomState(0).randn(1, 16, 3, 4).astype(np.float32)
    with pytest.raises((AssertionError, anyshape.AnyshapeError)):
        assert agree(outcome(anyshape.compile(network), x), outcome(anyshape.compile(network, fuse=False), x), 1e-4)


def chain(*channels: int, kernel: int = 3, groups: int = 1) -> Function:
    """Convolutions of the same places, one after the other."""
    numbers = np.random.RandomState(0)
    x = h = anyshape.input("x", f"f32[b, {channels[0]}, h, w]")
    for c, m in itertools.pairwise(channels):
        w = numbers.randn(m, c // groups, kernel, kernel).astype(np.float32) / np.float32(kernel * c**0.5)
        h = ops.relu(ops.conv(h, anyshape.constant(w), pads=[kernel // 2] * 4, groups=groups))
    return anyshape.function([x], h)


def kernels(f: Function) -> list[str]:
    return ["+".join(n.op.name for n in s.nodes) for s in fuse(optimise(f)).steps if isinstance(s, KernelStep)]


def test_layouts_begin_and_end_with_a_transpose() -> None:
    assert kernels(chain(256, 256, 256)) == ["transpose", "conv+relu", "conv+relu", "transpose"]


@pytest.mark.parametrize(("groups", "pays"), [(2, True), (4, True), (8, False)])
def test_groups_of_enough_channels_have_them_last(groups: int, pays: bool) -> None:
    network, x = chain(128, 128, 128, groups=groups), np.random.RandomState(0).randn(2, 128, 5, 4).astype(np.float32)
    assert ("transpose" in kernels(network)) is pays
    np.testing.assert_allclose(
        anyshape.compile(network)(x), anyshape.compile(network, kernels="interpret")(x), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    ("channels", "pays"), [((8, 8), False), ((3, 16), False), ((16, 16), False), ((16, 16, 16), True)]
)
def test_transposes_have_to_pay(channels: tuple[int, ...], pays: bool) -> None:
    assert ("transpose" in kernels(chain(*channels))) is pays


def test_columns_that_fill_no_vectors_are_lost() -> None:
    """24 channels take as long as 32 where they lie last."""
    assert "transpose" in kernels(chain(32, 32, 32))
    assert "transpose" not in kernels(chain(24, 24, 24))


@pytest.mark.parametrize(("results", "pays"), [(128, True), (32, True), (24, False)])
def test_windows_of_products_have_them_last_where_each_is_a_product_of_enough_columns(results: int, pays: bool) -> None:
    """A transposed convolution whose windows are no multiple of the stride: products, whose windows are added up, and interleaved."""
    numbers = np.random.RandomState(0)
    x = anyshape.input("x", "f32[b, 64, h, w]")
    w, bias = (numbers.randn(*shape).astype(np.float32) for shape in ((64, results, 3, 3), (results,)))
    params: dict[str, Any] = {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}
    network = anyshape.function([x], ops.conv_transpose(x, anyshape.constant(w), anyshape.constant(bias), **params))
    names = kernels(network)
    assert (names[0] == "transpose") is pays
    assert ("transpose" in names[names.index("phase_sums") + 2 :]) is pays
    for shape in ((2, 64, 5, 4), (1, 64, 1, 1)):
        argument = numbers.randn(*shape).astype(np.float32)
        plain = anyshape.compile(network, kernels="interpret")(argument)
        np.testing.assert_allclose(anyshape.compile(network)(argument), plain, rtol=0, atol=2e-4)


@pytest.mark.parametrize(("taps", "terms"), [(1, 0), (2, 4)])
def test_sums_whose_terms_lie_apart(taps: int, terms: int) -> None:
    """Each phase has some; what is added up of one plane has none."""
    x = anyshape.input("x", f"f32[b, 32, {2 * taps}, {2 * taps}, h, w]")
    f = anyshape.function([x], ops.phase_sums(x, strides=[2, 2], count=[4, 4]))
    plane = anyshape.input("x", "f32[b, 32, h, w]")
    pooled = anyshape.function([plane], ops.average_pool(plane, kernel=[3, 3]))
    assert terms_apart(f) == terms
    assert terms_apart(pooled) == 0


def terms_apart(f: Function) -> int:
    stated = GroupEquations()
    (node,) = (n for n in f.nodes if not n.op.view)
    operands, results = tensors_of(node, stated.tensors)
    stated.equations[node] = [*equations_of(node, operands, results).equations]
    return layouts._Layouts(f, stated).terms_apart(node)


def test_few_channels_are_gathered_from_where_they_are() -> None:
    assert kernels(chain(3, 256, 256, 256)) == ["conv+relu", "conv+relu", "conv+relu", "transpose"]


def stack(taps: int, layers: int, channels: int = 32, **params: Any) -> Function:
    """Depthwise convolutions, of which none sums over channels."""
    h = x = anyshape.input("x", f"f32[b, {channels}, h, w]")
    for seed in range(layers):
        w = np.random.RandomState(seed).randn(channels, 1, taps, taps).astype(np.float32) / taps
        h = ops.conv(h, w, pads=[taps // 2] * 4, groups=channels, **params)
    return anyshape.function([x], h)


@pytest.mark.parametrize(
    "taps, layers, pays", [(7, 1, False), (7, 2, True), (5, 1, False), (3, 1, False), (3, 6, True)]
)
def test_windows_of_each_channel_pay_where_they_have_many_taps(taps: int, layers: int, pays: bool) -> None:
    assert ("transpose" in kernels(stack(taps, layers))) is pays


def test_what_follows_windows_along_channels_needs_no_transpose() -> None:
    x = anyshape.input("x", "f32[b, 32, h, w]")
    h = ops.conv(x, np.ones((32, 1, 7, 7), np.float32), pads=[3] * 4, groups=32)
    rows = ops.softmax(ops.transpose(h, [0, 2, 3, 1]), axis=-1)
    assert kernels(anyshape.function([x], rows)) == ["transpose", "conv", "transpose+softmax"]


@pytest.mark.parametrize("params", [{}, {"strides": [2, 2]}, {"strides": [3, 1]}, {"dilations": [2, 1]}], ids=str)
@pytest.mark.parametrize("taps", [5, 7])
def test_places_together_are_what_they_are_alone(taps: int, params: dict[str, Any], always: None) -> None:
    """Results agree at sizes that are no multiple of eight places, and less than a window."""
    f = stack(taps, 1, 24, **params)
    exe, alone = anyshape.compile(f, threads=1), anyshape.compile(f, kernels="interpret")
    for shape in ((1, 24, 7, 8), (2, 24, 9, 17), (1, 24, 7, 3), (1, 24, 14, 31)):
        x = np.random.RandomState(0).randn(*shape).astype(np.float32)
        np.testing.assert_allclose(exe(x), alone(x), rtol=1e-4, atol=1e-4)


def test_a_wrong_tap_of_places_together_is_noticed(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has channels that no other test has, which would be given the wrong one."""
    monkeypatch.setattr(emitted_taps, "_step", lambda red, fixed, place: 2)
    f = stack(5, 1, 29)
    x = np.random.RandomState(0).randn(1, 29, 20, 20).astype(np.float32)
    assert not np.allclose(anyshape.compile(f, threads=1)(x), anyshape.compile(f, kernels="interpret")(x), atol=1e-2)


def test_a_saved_network(tmp_path: Path) -> None:
    exe, x = anyshape.compile(chain(128, 128, 128)), np.random.RandomState(0).randn(2, 128, 5, 3).astype(np.float32)
    exe.save(tmp_path / "network.anyshape")
    np.testing.assert_array_equal(anyshape.load(tmp_path / "network.anyshape")(x), exe(x))


def test_results_do_not_depend_on_threads() -> None:
    f, x = chain(64, 256, 256, 64), np.random.RandomState(0).randn(1, 64, 13, 11).astype(np.float32)
    np.testing.assert_array_equal(anyshape.compile(f, threads=1)(x), anyshape.compile(f, threads=2)(x))


def test_factors_of_each_channel_are_distinguished_from_a_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias of each channel beside the sum is no factor."""
    asked, original = dict[str, bool](), layouts._Layouts.has_weights

    def recorded(self: layouts._Layouts, node: Any, channels: int) -> bool:
        asked[node.op.name] = original(self, node, channels)
        return asked[node.op.name]

    monkeypatch.setattr(layouts._Layouts, "has_weights", recorded)
    anyshape.compile(chain(64, 64, 64))
    anyshape.compile(stack(3, 2))
    assert asked["conv"] and not asked["tile_results"]
