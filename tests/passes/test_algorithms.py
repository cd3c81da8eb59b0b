"""Algorithms in place of ops: when they are chosen, that results stay, the bound of errors, and sizes that only the run tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ArgumentError, ShapeError
from anyshape.graph.registry import all_ops
from anyshape.passes import algorithms, optimise
from anyshape.passes.algorithms import Algorithms, Vectors, by_size
from anyshape.vm.compiling.options import Options

RNG = np.random.default_rng(7)
VECTORS = Vectors(lanes=16, multiply_adds=2, second_cache=1 << 20, last_cache=24 << 20)
CHANNELS = 32
ALL = 200.0
"""The growth of errors by which every algorithm may be chosen."""


def weights(channels: int = CHANNELS, taps: int = 3, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=(channels, channels, taps, taps)).astype(dtype) / channels


def layers(shape: str, w: Any, **params: Any) -> Any:
    """Two convolutions with pads that keep the size, and maps between and behind them."""
    x, v = anyshape.input("x", shape), weights(len(w), dtype=w.dtype)
    bias = RNG.normal(size=len(w)).astype(w.dtype)
    y = ops.relu(ops.conv(x, w, bias, pads=(1, 1, 1, 1), **params))
    return anyshape.function([x], ops.relu(ops.add(ops.conv(y, v, pads=(1, 1, 1, 1)), y)))


def names(f: Any) -> list[str]:
    return [n.op.name for n in f.all_nodes()]


def chosen(f: Any, growth: float = ALL) -> Any:
    return by_size(optimise(f), lambda g, rule: optimise(g, None, rule), VECTORS, growth)


def test_a_convolution_of_known_size_takes_fewer_products() -> None:
    after = names(chosen(layers("f32[b, 32, 56, 56]", weights())))
    assert after.count("tile_products") == 2 and "conv" not in after
    assert "tile_weights" not in after, "the transform of constants is one"


@pytest.mark.parametrize(
    ("shape", "w", "params"),
    [
        ("f32[b, 32, 56, 56]", weights(), {"strides": (3, 3)}),
        ("f32[b, 32, 56, 56]", weights(), {"strides": (1, 2)}),
        ("f32[b, 32, 56, 56]", weights(), {"dilations": (2, 2)}),
        ("f32[b, 32, 56, 56]", weights(taps=5), {}),
        ("f32[b, 32, 56, 56]", weights(), {"groups": 1, "auto_pad": "VALID"}),
    ],
    ids=["strides", "two strides", "dilations", "taps", "without pads"],
)
def test_conditions_of_algorithms(shape: str, w: Any, params: Any) -> None:
    x = anyshape.input("x", shape)
    f = anyshape.function([x], ops.conv(x, w, **params))
    assert ("tile_products" in names(chosen(f))) == ("auto_pad" in params)


def test_other_dtypes_and_weights_that_are_no_constants() -> None:
    x, w = anyshape.input("x", "bf16[b, 32, 56, 56]"), anyshape.input("w", "f32[32, 32, 3, 3]")
    y = anyshape.input("y", "f32[b, 32, 56, 56]")
    for f in (
        anyshape.function([x], ops.conv(x, weights().astype(ml_dtypes.bfloat16))),
        anyshape.function([y, w], ops.conv(y, w)),
    ):
        assert names(chosen(f)) == ["conv"]


def test_halves_are_transformed_and_summed_as_floats() -> None:
    x, w = RNG.uniform(-1, 1, (1, 64, 28, 28)).astype(np.float16), weights(64, dtype=np.float16)
    v = anyshape.input("x", "f16[b, 64, h, w]")
    f = anyshape.function([v], ops.conv(v, w, pads=(1, 1, 1, 1)))
    products = [o for n in chosen(f).all_nodes() if n.op.name == "tile_products" for o in n.outputs]
    assert {o.type.dtype.name for o in products} == {"f32"}
    got, sums = (anyshape.compile(f, growth=growth)(x).astype(np.float32) for growth in (16.0, 0.0))
    assert (got != sums).mean() < 0.01
    np.testing.assert_allclose(got, sums, rtol=2 * np.finfo(np.float16).eps, atol=1e-4)


def test_parameters_that_only_the_run_tells() -> None:
    x, groups = anyshape.input("x", "f32[b, 32, h, w]"), anyshape.input("groups", "i64[]")
    f = anyshape.function([x, groups], ops.conv(x, weights(), pads=(1, 1, 1, 1), groups=groups))
    assert "conv" in names(chosen(f))
    got = anyshape.compile(f)(np.ones((1, 32, 5, 5), np.float32), np.int64(1))
    assert got.shape == (1, 32, 5, 5)


@pytest.mark.parametrize("groups, faster", [(1, True), (2, True), (16, False)])
def test_transforms_of_groups_cost_more(groups: int, faster: bool) -> None:
    """Channels of several groups do not lie side by side, and small groups have few products."""
    x, w = anyshape.input("x", "f32[1, 256, 28, 28]"), np.ones((256, 256 // groups, 3, 3), np.float32)
    f = anyshape.function([x], ops.conv(x, w, groups=groups, pads=(1, 1, 1, 1)))
    assert ("conv" not in names(chosen(f))) is faster


def test_few_products_stay_as_they_are() -> None:
    """Transforms of one place take longer than the sums."""
    x = anyshape.input("x", "f32[1, 32, 3, 3]")
    assert names(chosen(anyshape.function([x], ops.conv(x, weights())))) == ["conv"]


@pytest.mark.parametrize(
    ("taps", "stride", "algorithm", "products"),
    [
        (3, 1, "conv_run_by_4", 6),
        (5, 1, "conv_run_of_5", 6),
        (3, 1, "conv_run_by_2", 4),
        (7, 1, "", 0),
        (3, 2, "conv_run_halved_by_3", 7),
        (3, 3, "", 0),
        (2, 1, "conv_run_of_2", 4),
    ],
)
def test_rows_of_few_taps_take_fewer_products(taps: int, stride: int, algorithm: str, products: int) -> None:
    growths = {a.op: a.growth for a in all_ops()["static.conv"].algorithms} | {"": ALL}
    w = RNG.normal(size=(128, 128, taps)).astype(np.float32)

    def f(length: Any) -> Any:
        x = anyshape.input("x", f"f32[b, 128, {length}]")
        return anyshape.function([x], ops.conv(x, w, pads=(taps // 2, taps // 2), strides=(stride,)))

    nodes = [n for n in chosen(f(200), growths[algorithm]).nodes if n.op.name == "run_products"]
    shapes = [n.inputs[0].type.shape for n in nodes if n.inputs[0] is not None]
    assert [shape[0] for shape in shapes if shape] == ([products] if products else [])
    exe, sums = (anyshape.compile(f("t"), growth=growth) for growth in (growths[algorithm], 0.0))
    for shape in ((1, 128, 1), (2, 128, 50), (1, 128, 333)):
        v = RNG.normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(exe(v), sums(v), rtol=1e-4, atol=5e-4)


def test_the_bound_of_errors_decides() -> None:
    growths = {a.op: a.growth for a in all_ops()["static.conv"].algorithms}
    assert 1 < growths["conv_by_2"] <= Options().growth < growths["conv_by_4"] < ALL
    assert (
        growths["conv_by_2"] == growths["conv_run_by_2"] ** 2 and growths["conv_by_4"] == growths["conv_run_by_4"] ** 2
    )
    f = layers("f32[1, 64, 28, 28]", weights(64))
    products = [n for n in chosen(f, growths["conv_by_2"]).nodes if n.op.name == "tile_products"]
    assert {n.inputs[0].type.shape[0] for n in products if n.inputs[0] is not None and n.inputs[0].type.shape} == {4}
    assert names(chosen(f, growths["conv_by_2"] - 0.1)).count("conv") == 2
    assert names(chosen(f, 0.0)).count("conv") == 2


def test_pictures_by_2_take_fewer_products_where_they_are_large() -> None:
    w = weights(128)
    for size, algorithm in ((56, ["tile_products"]), (7, ["conv"])):
        x = anyshape.input("x", f"f32[1, 128, {size}, {size}]")
        after = names(chosen(anyshape.function([x], ops.conv(x, w, strides=(2, 2), pads=(1, 1, 1, 1)))))
        assert [n for n in after if n in ("conv", "tile_products")] == algorithm


@pytest.mark.parametrize("size, faster", [(28, True), (112, True), (160, False)])
def test_transforms_beyond_the_caches_cost_more(size: int, faster: bool) -> None:
    """What 64 channels of 160 x 160 places are transformed to comes from memory, and takes longer than the products that are saved."""
    x, growth = anyshape.input("x", f"f32[1, 64, {size}, {size}]"), 16.0
    f = anyshape.function([x], ops.conv(x, weights(64), pads=(1, 1, 1, 1)))
    assert ("tile_products" in names(chosen(f, growth))) is faster


def test_small_pictures_have_sums_where_larger_ones_have_none() -> None:
    """Few products for each weight of an algorithm take longer than the sums; the last of the sides that are compared decides."""
    x = anyshape.input("x", "f32[b, 128, h, w]")
    f = chosen(anyshape.function([x], ops.conv(x, weights(128), strides=(2, 2), pads=(1, 1, 1, 1))))
    assert names(f).count("if") == 1 and {"conv", "tile_products"} <= set(names(f))


def test_phases_of_a_transposed_convolution_take_fewer_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "SMALLER", (48,))
    x, w = anyshape.input("x", "f32[b, 256, h, w]"), RNG.normal(size=(256, 128, 4, 4)).astype(np.float32)
    f = chosen(anyshape.function([x], ops.conv_transpose(x, w, strides=(2, 2), pads=(1, 1, 1, 1))))
    assert "tile_products" in names(f) and "conv" not in names(f)


def test_errors_are_within_the_bound() -> None:
    """Errors on numbers of at most 1 are within the bound of the sum itself, and `growth` times that."""
    x = RNG.uniform(-1, 1, (1, 64, 12, 12)).astype(np.float32)
    for a in all_ops()["static.conv"].algorithms:
        if "run" in a.op:
            continue  # of rows
        v, wide = anyshape.input("x", "f32[1, 64, 12, 12]"), anyshape.input("x", "f64[1, 64, 12, 12]")
        taps, strides = 2 if "of_2" in a.op else 3, (2, 2) if "halved" in a.op else (1, 1)
        w = RNG.uniform(-1, 1, (8, 64, taps, taps)).astype(np.float32)
        exact = anyshape.compile(anyshape.function([wide], ops.conv(wide, w.astype(np.float64), strides=strides)))
        got = anyshape.compile(anyshape.function([v], getattr(ops, a.op)(v, w)))(x)
        error = np.abs(got - exact(x.astype(np.float64))).max()
        assert 0 < error <= 64 * taps**2 * np.finfo(np.float32).eps * a.growth


@pytest.mark.parametrize(
    ("shape", "lengths"),
    [("[b, 1, t]", {"t"}), ("[b, t]", {"t"}), ("[b, 3, h, w]", set()), ("[b, 3, s, s]", set()), ("[n]", set())],
)
def test_signals_of_one_dim_are_long(shape: str, lengths: set[str]) -> None:
    x = anyshape.input("x", f"f32{shape}")
    assert {str(d) for d in algorithms._lengths(anyshape.function([x], ops.relu(x)))} == lengths


def test_long_signals_take_fewer_products() -> None:
    """The length of a signal, in samples, is a multiple of that of what its first layers make of it."""
    x, w = anyshape.input("x", "f32[b, 1, t]"), RNG.normal(size=(128, 1, 10)).astype(np.float32)
    v = RNG.normal(size=(128, 128, 3)).astype(np.float32)
    f = anyshape.function([x], ops.conv(ops.conv(x, w, strides=(5,)), v, strides=(2,)))
    assert {"run_products", "if"} <= set(names(chosen(f)))


def test_sizes_that_only_the_run_tells_become_a_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "SMALLER", (2,))
    f = chosen(layers("f32[b, 128, h, w]", weights(128)))
    assert names(f).count("if") == 1
    assert {"conv", "tile_products"} <= set(names(f))


def test_no_branch_where_one_way_is_best_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "SMALLER", (48,))
    f = chosen(layers("f32[b, 128, h, w]", weights(128)))
    assert "if" not in names(f) and "tile_products" in names(f)


def test_a_check_of_sizes_stays_at_the_entry() -> None:
    """A picture without pads has at least three rows and columns, which is asked once."""
    x = anyshape.input("x", "f32[b, 32, h, w]")
    f = chosen(anyshape.function([x], ops.conv(x, weights())))
    assert "tile_products" in names(f) and "tile_weights" not in names(f)
    assert f.checks and not any(n.checks for n in f.nodes)
    with pytest.raises(ShapeError, match="is larger than"):
        anyshape.compile(f)(np.zeros((1, 32, 2, 9), np.float32))


def test_what_a_region_computes_keeps_its_ops() -> None:
    """How often a loop runs, and on what, is not known."""
    assert Algorithms(VECTORS, ALL).inside().growth == 0


@pytest.fixture(scope="module")
def compiled() -> Iterator[tuple[Any, Any]]:
    f = layers("f32[b, 64, h, w]", weights(64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithms, "SMALLER", (2,))
        yield anyshape.compile(f, growth=ALL), anyshape.compile(f, growth=0.0)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1),
        (2, 3, 5),
        (1, 16, 16),
        (1, 17, 30),
        (3, 40, 37),
        (1, 100, 61),
        (1, 48, 224),
        (0, 8, 8),
        (2, 64, 64),
    ],
)
def test_results_at_all_sizes(compiled: tuple[Any, Any], shape: tuple[int, int, int]) -> None:
    b, h, w = shape
    x = RNG.normal(size=(b, 64, h, w)).astype(np.float32)
    got, want = (exe(x) for exe in compiled)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_a_saved_file(compiled: tuple[Any, Any], threads: int, tmp_path: Any) -> None:
    x = RNG.normal(size=(2, 64, 50, 43)).astype(np.float32)
    want = compiled[0](x)
    assert compiled[0].by(threads=threads)(x).tobytes() == want.tobytes()
    compiled[0].save(tmp_path / "f.anyshape")
    loaded = anyshape.load(tmp_path / "f.anyshape")
    assert loaded(x).tobytes() == want.tobytes() and loaded.options.growth == compiled[0].options.growth


def test_the_option() -> None:
    f = layers("f32[1, 64, 28, 28]", weights(64))
    for wrong in ("none", [1], -1.0, float("nan")):
        with pytest.raises(ArgumentError, match="growth must be"):
            anyshape.compile(f, growth=wrong)
    x = RNG.normal(size=(1, 64, 28, 28)).astype(np.float32)
    exact = anyshape.compile(f, kernels="interpret")(x)
    assert anyshape.compile(f, kernels="interpret", growth=0.0)(x).tobytes() == exact.tobytes()
    by_growth = [anyshape.compile(f, growth=growth)(x).tobytes() for growth in (0.0, 16.0, ALL)]
    assert anyshape.compile(f)(x).tobytes() == by_growth[1] and len({*by_growth}) == 3
