"""Every node that uses a weight in a way of the table of narrow nodes: what is written computes with what the codes stand for, here and
in onnxruntime; what is used in another way stays, with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import anyshape
from anyshape.errors import ArgumentError, ModelError
from anyshape.quantisation.narrow_nodes import FORMATS
from tests.frontends.models import model, node, tensor
from tests.quantise.quantised_models import (
    CONTRIB,
    apart_from,
    decoded,
    drawn,
    in_onnxruntime,
    initializers,
    one_product,
    operators,
    versioned,
)

X = tensor("x", ["a", "b", 40])
ROWS = tensor("x", ["rows", 40])
IDS = tensor("ids", ["a", "b"], onnx.TensorProto.INT64)
W, BIAS = drawn(40, 24), drawn(24)
FORMS: dict[str, Any] = {
    "MatMul": ([node("MatMul", "x w", "y")], X, {"w": W}, lambda x, w: x @ w),
    "MatMul of a transposed weight": (
        [node("Transpose", "v", "w", perm=[1, 0]), node("MatMul", "x w", "y")], X, {"v": W.T.copy()}, lambda x, w: x @ w),
    "Gemm": ([node("Gemm", "x w c", "y")], ROWS, {"w": W, "c": BIAS}, lambda x, w: x @ w + BIAS),
    "Gemm with factors": (
        [node("Gemm", "x w c", "y", alpha=0.5, beta=3.0, transB=1)], ROWS, {"w": W.T.copy(), "c": BIAS[None]},
        lambda x, w: x @ w + 3 * BIAS),  # alpha is in the scales
    "Gemm with one number": (
        [node("Gemm", "x w c", "y", beta=2.0)], ROWS, {"w": W, "c": np.array([3], np.float32)}, lambda x, w: x @ w + 6),
    "Gemm of one row": (
        [node("Gemm", "x w c", "y")], tensor("x", [1, 40]), {"w": W, "c": BIAS[None]}, lambda x, w: x @ w + BIAS),
    "Einsum": ([node("Einsum", "x w", "y", equation="abk,kn->abn")], X, {"w": W}, lambda x, w: x @ w),
    "Einsum to heads": (
        [node("Einsum", "x w", "y", equation="abk,hkn->abhn")], X, {"w": drawn(3, 40, 8)},
        lambda x, w: (x @ w).reshape(2, 3, 3, 8)),
    "Einsum from heads": (
        [node("Einsum", "x w", "y", equation="abk,nk->abn")], X, {"w": drawn(24, 40)}, lambda x, w: x @ w),
    "FusedMatMul": (
        [node("FusedMatMul", "x w", "y", domain=CONTRIB, transB=1, alpha=2.0)], X, {"w": W.T.copy()}, lambda x, w: x @ w),
}  # fmt: skip


@pytest.mark.parametrize("weights", ["int4", "int8"])
@pytest.mark.parametrize("name", FORMS)
def test_products_compute_with_what_the_codes_stand_for(name: str, weights: str) -> None:
    nodes, x, constants, meaning = FORMS[name]
    proto = versioned(model(nodes, [x], "y", constants, domains=[CONTRIB]))
    symmetric = weights == "int8"
    narrow, report = anyshape.quantise(proto, weights, group=16, symmetric=symmetric, least=0)
    assert "MatMulNBits" in operators(narrow) and not {"MatMul", "Gemm", "Einsum", "Transpose"} & {*operators(narrow)}
    assert len(report.narrowed) == 1 and not report.kept and report.narrowed[0].decodes
    assert {"w", "v"}.isdisjoint(initializers(narrow)), "a weight that nothing reads any more is left out"
    feed = {"x": drawn(*([2, 3, 40] if x is X else [5 if x is ROWS else 1, 40]))}
    weight = decoded(narrow, "w", FORMATS[weights].bits, 40).T
    (here,), (there,) = anyshape.compile(narrow).run(feed), in_onnxruntime(narrow, feed)
    assert apart_from(meaning(feed["x"], weight), here) < 1e-5
    assert apart_from(there, here) < 1e-5
    before = anyshape.compile(proto).run(feed)[0]
    assert apart_from(before, here) < {"int4": 0.15, "int8": 0.01}[weights]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_products_of_bytes_round_as_onnxruntime_does(weights: str, symmetric: bool) -> None:
    """Rows of 40 elements are three blocks of 16, the last of which is padded; groups of columns are all 24."""
    options: dict[str, Any] = {"group": 16, "symmetric": symmetric, "least": 0}
    narrow, report = anyshape.quantise(one_product(), weights, activations="int8", **options)
    exact, of_floats = anyshape.quantise(one_product(), weights, **options)
    levels = [{a.name: a.i for a in p.graph.node[0].attribute}.get("accuracy_level") for p in (narrow, exact)]
    assert levels == [4, None]
    assert "activations in 8 bits" in str(report) and "activations" not in str(of_floats)
    for rows in (1, 2, 5, 19):
        feed = {"x": drawn(rows, 40)}
        (here,), (there,), (floats,) = (
            anyshape.compile(narrow).run(feed), in_onnxruntime(narrow, feed), anyshape.compile(exact).run(feed)
        )  # fmt: skip
        assert apart_from(there, here) < 1e-5
        assert 1e-4 < apart_from(floats, here) < 0.02, "rows are rounded to bytes, and no further"


@pytest.mark.parametrize(("size", "weights"), [(64, "int4"), (40, "int4"), (7, "int8")])
def test_lookups_compute_with_what_the_codes_stand_for(size: int, weights: str) -> None:
    table = drawn(11, size)
    proto = versioned(model([node("Gather", "t ids", "y")], [IDS], "y", {"t": table}))
    narrow, report = anyshape.quantise(proto, weights, least=0)
    assert operators(narrow)[-1] == "GatherBlockQuantized" and report.narrowed[0].decodes
    feed = {"ids": np.array([[0, 10, -1], [3, 3, -11]])}
    (here,), (there,) = anyshape.compile(narrow).run(feed), in_onnxruntime(narrow, feed)
    assert apart_from(decoded(narrow, "t", FORMATS[weights].bits, size)[feed["ids"]], here) < 1e-6
    np.testing.assert_array_equal(here, there)


def test_halves_have_scales_of_halves() -> None:
    proto = one_product(dtype=np.float16)
    narrow, _ = anyshape.quantise(proto, "int8", least=0)
    assert initializers(narrow)["w_scales"].dtype == np.float16
    feed = {"x": drawn(5, 40, dtype=np.float16)}
    here = anyshape.compile(narrow).run(feed)[0]
    assert here.dtype == np.float16
    assert apart_from(feed["x"].astype(np.float32) @ decoded(narrow, "w", 8, 40).T, here) < 2e-3
    assert apart_from(in_onnxruntime(narrow, feed)[0], here) < 4e-3


CONVOLUTION = model(
    [node("Conv", "x w b", "y", group=2)],
    [tensor("x", [1, 4, "h", "w"])],
    "y",
    {"w": drawn(6, 2, 3, 3), "b": drawn(6)},
    19,
)


@pytest.mark.parametrize(("proto", "shape", "weights"), [
    (CONVOLUTION, (1, 4, 5, 6), "int8"), (CONVOLUTION, (1, 4, 5, 6), "f8e4m3"), (one_product(), (5, 40), "f8e4m3"),
])  # fmt: skip
def test_other_contractions_read_weights_of_8_bits_that_are_dequantised(proto: Any, shape: Any, weights: str) -> None:
    proto = versioned(onnx.ModelProto.FromString(proto.SerializeToString()))
    proto.opset_import[0].version = 19
    feed = {"x": drawn(*shape)}
    narrow, report = anyshape.quantise(proto, weights, least=0, inputs=feed)
    assert operators(narrow)[0] == "DequantizeLinear" and not report.narrowed[0].decodes
    assert "narrow in the file" in str(report)
    here, there = anyshape.compile(narrow).run(feed)[0], in_onnxruntime(narrow, feed)[0]
    assert apart_from(there, here) < 1e-5
    before = anyshape.compile(proto).run(feed)[0]
    assert 1e-4 < apart_from(before, here) < 0.05
    # each channel has a scale of its own
    assert initializers(narrow)["w_scales"].shape == (
        proto.graph.initializer[0].dims[0 if "conv" in str(proto).lower() else 1],
    )


THERE = "and no node takes a weight of int4 there: --weights int8 or f8e4m3"
KEPT = {
    "the left factor": (
        [node("MatMul", "w x", "y")], [tensor("x", [24, "n"])], {"w": W}, "int4", f"it does not multiply rows by one matrix, {THERE}"),
    "a batch of matrices": (
        [node("MatMul", "x w", "y")], [tensor("x", [2, "n", 40])], {"w": drawn(2, 40, 24)}, "int4", "does not multiply rows by one"),
    "a vector times a matrix": ([node("MatMul", "x w", "y")], [tensor("x", [40])], {"w": W}, "int4", "not one contraction"),
    "what is added is computed": (
        [node("Gemm", "x w c", "y")], [ROWS, tensor("c", [24])], {"w": W}, "int4", "what it adds to its product is computed"),
    "an unknown rank": ([node("MatMul", "x w", "y")], [tensor("x", None)], {"w": W}, "int4", "the rank of an operand is not known"),
    "no product": ([node("Mul", "x w", "y")], [tensor("x", [40, 24])], {"w": W}, "int4", "not one contraction"),
    "f64": ([node("MatMul", "x w", "y")], [tensor("x", ["n", 40], 11)], {"w": W.astype(np.float64)}, "int4", "it is of f64; f32 and f16"),
    "a window in 4 bits": ([node("Conv", "x w", "y")], [tensor("x", [1, 2, 5, 5])], {"w": drawn(3, 2, 3, 3)}, "int4", THERE),
    "a table in floats": (
        [node("Gather", "w ids", "y")], [IDS], {"w": W}, "f8e4m3", "no node takes f8e4m3 for it: --weights int4 or int8"),
    "rows of half a byte": ([node("Gather", "w ids", "y")], [IDS], {"w": drawn(4, 7)}, "int4", "rows of 7 elements of 4 bits"),
    "columns of a table": ([node("Gather", "w ids", "y", axis=1)], [IDS], {"w": W}, "int4", "not one contraction"),
    "an old opset": (
        [node("Conv", "x w", "y")], [tensor("x", [1, 2, 5, 5])], {"w": drawn(3, 2, 3, 3)}, "f8e4m3",
        "from opset 19 on, and the model has 17"),
    "an infinite factor": (
        [node("Gemm", "x w", "y", alpha=float("inf"))], [ROWS], {"w": W}, "int4", "not only scaled, by a finite number"),
    "a procedure": (
        [node("LSTM", "x w r", "- y", hidden_size=4)], [tensor("x", ["t", 1, 3])], {"w": drawn(1, 16, 3), "r": drawn(1, 16, 4)}, "int4",
        "its node has several results"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_has_no_narrow_form_stays_and_says_why(name: str) -> None:
    nodes, inputs, constants, weights, reason = KEPT[name]
    proto = versioned(model(nodes, inputs, "y", constants))
    narrow, report = anyshape.quantise(proto, weights, least=0)
    assert not report.narrowed and report.kept[0].weight == "w" and reason in report.kept[0].reason, report
    assert f"kept: w of {report.kept[0].node}" in str(report)
    assert operators(narrow) == operators(proto) and report.before == report.after


def test_a_weight_that_may_be_overridden_is_no_constant() -> None:
    proto = one_product()
    proto.graph.input.append(tensor("w", [40, 24]))
    narrow, report = anyshape.quantise(proto, least=0)
    assert operators(narrow) == ["MatMul"] and not report.narrowed


def test_sizes_of_one_are_sizes_like_all() -> None:
    nodes = [
        node("MatMul", "x w", "a"),
        node("MatMul", "x v", "b"),
        node("Gather", "t i", "c"),
        node("Einsum", "x u", "d", equation="abk,hkn->abhn"),
    ]
    inputs = [tensor("x", [1, 1, 40]), tensor("i", [], onnx.TensorProto.INT32)]
    constants = {"w": W, "v": drawn(40, 1), "t": drawn(1, 64), "u": drawn(1, 40, 8)}
    narrow, report = anyshape.quantise(versioned(model(nodes, inputs, "a b c d", constants)), least=0)
    assert len(report.narrowed) == 4 and not report.kept
    feed = {"x": drawn(1, 1, 40), "i": np.array(-1, np.int32)}
    for here, there in zip(anyshape.compile(narrow).run(feed), in_onnxruntime(narrow, feed)):
        assert apart_from(there, here) < 1e-5


SIZES = [(1, 3, 16), (20, 2, 32), (33, 5, 16), (256, 1, 256), (7, 9, 32)]


@pytest.mark.parametrize(("k", "n", "group"), SIZES)
def test_any_sizes_are_padded_to_groups(k: int, n: int, group: int) -> None:
    """Odd sizes, one row, and groups longer than a column, of which the shortest that holds it is taken."""
    proto = one_product(k, n)
    for weights in ("int4", "int8"):
        narrow, _ = anyshape.quantise(proto, weights, group=group, least=0)
        (size,) = {a.i for a in narrow.graph.node[0].attribute if a.name == "block_size"}
        assert size <= group and (size == 16 or size < 2 * k)
        feed = {"x": drawn(2, k)}
        here = anyshape.compile(narrow).run(feed)[0]
        assert apart_from(feed["x"] @ decoded(narrow, "w", FORMATS[weights].bits, k).T, here) < 1e-5
        assert apart_from(in_onnxruntime(narrow, feed)[0], here) < 1e-5


@pytest.mark.parametrize(("value", "count"), [(np.nan, 1), (np.inf, 2)])
def test_elements_that_are_not_finite_are_refused_by_name(value: float, count: int) -> None:
    proto = one_product()
    weight = drawn(40, 24)
    weight.reshape(-1)[:count] = value
    proto.graph.initializer[0].raw_data = weight.tobytes()
    with pytest.raises(
        ModelError, match=rf"MatMul 'dense': weight 'w' has {count} NaN or infinite of 960 .* --keep 'w'"
    ):
        anyshape.quantise(proto, least=0)
    _, report = anyshape.quantise(proto, least=0, keep=["w"])
    assert "matches the pattern 'w'" in report.kept[0].reason


def test_a_factor_beyond_all_floats_is_refused_by_name() -> None:
    for alpha, refused in ((1e38, True), (1e3, False)):
        proto = versioned(model([node("Gemm", "x w", "y", alpha=alpha)], [ROWS], "y", {"w": W * np.float32(100)}))
        if refused:
            with pytest.raises(ModelError, match=r"weight 'w' \(times 1e\+38\) has \d+ NaN or infinite"):
                anyshape.quantise(proto, least=0)
        else:
            assert anyshape.quantise(proto, least=0)[1].narrowed


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"weights": "int3"}, "must be one of int4, int8, f8e4m3, got 'int3'"), ({"group": 24}, "one of 16, 32, 64, 128, 256"),
    ({"group": 0}, "one of 16, 32"), ({"method": "gptq"}, "must be one of rtn, mse"), ({"least": -1}, "number of bytes, got -1"),
    ({"keep": "w"}, "list of patterns"), ({"keep": ["w", "v*"]}, "'v\\*' matches no weight of at least 0 bytes.*weights are w"),
    ({"weights": "f8e4m3", "group": 32}, "leave group, symmetric and method out, or use int4 or int8"),
    ({"weights": "f8e4m3", "method": "mse"}, "leave group"), ({"activations": "int4"}, "must be one of float, int8, got 'int4'"),
    ({"weights": "f8e4m3", "activations": "int8"}, "leave activations out, or use int4 or int8"),
    ({"group": "32"}, "group must be int"), ({"weights": 4}, "must be str"),
    ({"inputs": {"x": drawn(2, 41)}}, "41"), ({"inputs": {"z": drawn(2, 40)}}, "z"), ({"inputs": {}}, "x"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(anyshape.AnyshapeError, match=message):
        anyshape.quantise(one_product(), **{"least": 0, **options})


def test_options_that_can_be_are_taken() -> None:
    for options in (
        {"group": np.int64(16)},
        {"keep": ("dens*",)},
        {"weights": "int8", "symmetric": True},
        {"method": "mse"},
        {"activations": "int8"},
    ):
        anyshape.quantise(one_product(), least=0, **options)
    with pytest.raises(ArgumentError):
        anyshape.quantise(one_product(), least=0, unknown=1)  # type: ignore[call-arg]
