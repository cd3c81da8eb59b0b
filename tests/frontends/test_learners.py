"""Operators of ai.onnx.ml beside onnxruntime's own, at several shapes of one compiled model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.errors import UnsupportedError

RNG = np.random.default_rng(7)
WEIGHTS = {"coefficients": [0.5, -1.0, 2.0, 0.25, 1.0, -0.5], "targets": 2}


def model_of(op: str, dtype: Any, extra: dict[str, np.ndarray], **attributes: Any) -> onnx.ModelProto:
    """One node, of a matrix of unknown height and three columns."""
    node = helper.make_node(op, ["x", *extra], ["y"], domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = helper.make_tensor_value_info("x", kind, [None, 3])
    out = kind if op in ("Binarizer", "ArrayFeatureExtractor") else TensorProto.FLOAT
    y = helper.make_tensor_value_info("y", out, None)
    constants = [onnx.numpy_helper.from_array(a, name) for name, a in extra.items()]
    graph = helper.make_graph([node], "g", [x], [y], constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize(
    ("op", "dtype", "extra", "attributes"),
    [
        ("ArrayFeatureExtractor", np.float32, {"at": np.array([2, 0, 2])}, {}),
        ("ArrayFeatureExtractor", np.int64, {"at": np.array([1])}, {}),
        ("Binarizer", np.float32, {}, {"threshold": 0.25}),
        ("Binarizer", np.float32, {}, {}),
        ("Normalizer", np.float32, {}, {"norm": "MAX"}),
        ("Normalizer", np.float32, {}, {"norm": "L1"}),
        ("Normalizer", np.int64, {}, {"norm": "L2"}),
        ("Scaler", np.float32, {}, {"offset": [1.0, 0.0, -2.0], "scale": [0.5, 3.0, 1.0]}),
        ("Scaler", np.int64, {}, {"offset": [1.0], "scale": [0.5]}),
        ("LinearRegressor", np.float32, {}, {**WEIGHTS, "intercepts": [1.0, -1.0]}),
        ("LinearRegressor", np.float32, {}, {**WEIGHTS, "post_transform": "LOGISTIC"}),
        ("LinearRegressor", np.float32, {}, {**WEIGHTS, "post_transform": "SOFTMAX"}),
    ],
)
def test_agrees(op: str, dtype: Any, extra: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    proto = model_of(op, dtype, extra, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = anyshape.compile(proto)
    for rows in (1, 4, 9, 1):
        x = (RNG.normal(size=(rows, 3)) * 3).astype(dtype)
        (got,), (want,) = ours.run({"x": x}), session.run(None, {"x": x})
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


TREES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1, 2],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 2, 1, 0],
    "nodes_featureids": [0, 2, 0, 0, 0, 1, 0, 0, 0],
    "nodes_values": [0.5, -1.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 2, 0, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 0, 1, 0, 0, 0],
    "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0, 0],
}
LEAVES = {"treeids": [2, 0, 0, 0, 1, 1], "nodeids": [0, 2, 3, 4, 1, 2], "weights": [0.25, 1.0, -2.0, 0.5, 3.0, -1.0]}


def modes(*branches: str) -> dict[str, list[str]]:
    names = ["LEAF"] * 9
    names[0], names[1], names[5] = (f"BRANCH_{b}" for b in branches)
    return {"nodes_modes": names}


def leaves(of: str, ids: list[int], sign: bool = False) -> dict[str, Any]:
    weights = [abs(w) for w in LEAVES["weights"]] if sign else LEAVES["weights"]
    return {
        f"{of}_treeids": LEAVES["treeids"],
        f"{of}_nodeids": LEAVES["nodeids"],
        f"{of}_ids": ids,
        f"{of}_weights": weights,
    }


ONE, TWO, THREE = [0] * 6, [0, 1, 0, 1, 1, 0], [0, 1, 2, 2, 1, 0]
LINE = {"coefficients": [0.5, -1.0, 2.0, 0.25, 1.0, -0.5], "intercepts": [0.5, -0.5]}
SUPPORTS = {"kernel_params": [0.5, 0.25, 2.0], "rho": [0.75], "n_supports": 2, "support_vectors": LINE["coefficients"]}
GRAMS = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 2,
    "ngram_counts": [0, 2],
    "pool_int64s": [1, 3, 1, 2, 2, 3],
}


@pytest.mark.parametrize(
    ("op", "opset", "dtype", "kinds", "attributes"),
    [
        ("LabelEncoder", 2, np.int64, "f", {"keys_int64s": [1, -2, 1], "values_floats": [0.5, 2.0, 3.0]}),
        ("LabelEncoder", 2, np.float32, "i", {"keys_floats": [1.0, 2.0], "values_int64s": [7, 8], "default_int64": 3}),
        ("LabelEncoder", 4, np.float32, "f", {"keys_floats": [1.0, float("nan")], "values_floats": [7.0, 8.0]}),
        (
            "Imputer",
            1,
            np.float32,
            "f",
            {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")},
        ),
        ("Imputer", 1, np.int64, "i", {"imputed_value_int64s": [7], "replaced_value_int64": 1}),
        ("FeatureVectorizer", 1, np.float32, "f", {"inputdimensions": [3]}),
        ("OneHotEncoder", 1, np.int64, "f", {"cats_int64s": [1, 0, -2]}),
        ("LinearClassifier", 1, np.float32, "if", {**LINE, "classlabels_ints": [4, 9]}),
        ("LinearClassifier", 1, np.float32, "if", {**LINE, "classlabels_ints": [4, 9], "post_transform": "SOFTMAX"}),
        (
            "LinearClassifier",
            1,
            np.int64,
            "if",
            {"coefficients": [1.0, -1.0, 0.5], "intercepts": [0.1], "classlabels_ints": [4, 9]},
        ),
        (
            "LinearClassifier",
            1,
            np.float32,
            "if",
            {
                "coefficients": [1.0, -1.0, 0.5],
                "intercepts": [0.1],
                "classlabels_ints": [4, 9],
                "post_transform": "LOGISTIC",
            },
        ),
        ("SVMRegressor", 1, np.float32, "f", {**SUPPORTS, "coefficients": [1.0, -0.5], "kernel_type": "RBF"}),
        ("SVMRegressor", 1, np.float32, "f", {**SUPPORTS, "coefficients": [1.0, -0.5], "kernel_type": "POLY"}),
        ("SVMRegressor", 1, np.float32, "f", {**SUPPORTS, "coefficients": [1.0, -0.5], "kernel_type": "SIGMOID"}),
        (
            "SVMRegressor",
            1,
            np.float32,
            "f",
            {**SUPPORTS, "coefficients": [1.0, -0.5], "kernel_type": "LINEAR", "one_class": 1},
        ),
        (
            "SVMRegressor",
            1,
            np.float32,
            "f",
            {"kernel_params": [0.5, 0.0, 3.0], "rho": [0.75], "coefficients": [1.0, 2.0, -1.0]},
        ),
        (
            "TreeEnsembleRegressor",
            1,
            np.float32,
            "f",
            {**TREES, **modes("LEQ", "LT", "GT"), **leaves("target", ONE), "n_targets": 1},
        ),
        (
            "TreeEnsembleRegressor",
            1,
            np.float32,
            "f",
            {**TREES, **modes("GTE", "EQ", "NEQ"), **leaves("target", TWO), "n_targets": 2, "base_values": [1.0, 2.0]},
        ),
        (
            "TreeEnsembleRegressor",
            1,
            np.float64,
            "f",
            {
                **TREES,
                **modes("LEQ", "LEQ", "LEQ"),
                **leaves("target", ONE),
                "n_targets": 1,
                "aggregate_function": "AVERAGE",
            },
        ),
        (
            "TreeEnsembleRegressor",
            1,
            np.float32,
            "f",
            {
                **TREES,
                **modes("LEQ", "LEQ", "LEQ"),
                **leaves("target", ONE),
                "n_targets": 1,
                "aggregate_function": "MIN",
            },
        ),
        (
            "TreeEnsembleRegressor",
            1,
            np.float32,
            "f",
            {
                **TREES,
                **modes("LEQ", "LEQ", "LEQ"),
                **leaves("target", ONE),
                "n_targets": 1,
                "aggregate_function": "MAX",
            },
        ),
        (
            "TreeEnsembleClassifier",
            1,
            np.float32,
            "if",
            {**TREES, **modes("LEQ", "LT", "GT"), **leaves("class", THREE, True), "classlabels_int64s": [4, 2, 9]},
        ),
        (
            "TreeEnsembleClassifier",
            1,
            np.float32,
            "if",
            {
                **TREES,
                **modes("LEQ", "LT", "GT"),
                **leaves("class", THREE),
                "classlabels_int64s": [4, 2, 9],
                "post_transform": "SOFTMAX",
                "base_values": [0.5, 0.0, -1.0],
            },
        ),
        (
            "TreeEnsembleClassifier",
            1,
            np.float32,
            "if",
            {**TREES, **modes("LEQ", "LT", "GT"), **leaves("class", ONE), "classlabels_int64s": [4, 2]},
        ),
        (
            "TreeEnsembleClassifier",
            1,
            np.float32,
            "if",
            {**TREES, **modes("LEQ", "LT", "GT"), **leaves("class", ONE, True), "classlabels_int64s": [4, 2]},
        ),
        (
            "TreeEnsembleClassifier",
            1,
            np.float32,
            "if",
            {
                **TREES,
                **modes("LEQ", "LT", "GT"),
                **leaves("class", ONE),
                "classlabels_int64s": [4, 2],
                "post_transform": "LOGISTIC",
            },
        ),
        (
            "TreeEnsembleClassifier",
            1,
            np.float32,
            "if",
            {
                **TREES,
                **modes("LEQ", "LT", "GT"),
                **leaves("class", ONE, True),
                "classlabels_int64s": [4, 2],
                "base_values": [0.25],
            },
        ),
        ("TfIdfVectorizer", 0, np.int64, "f", {**GRAMS, "ngram_indexes": [0, 1, 2, 3], "max_skip_count": 1}),
        (
            "TfIdfVectorizer",
            0,
            np.int64,
            "f",
            {
                **GRAMS,
                "mode": "TFIDF",
                "ngram_indexes": [3, 1, 2, 0],
                "max_skip_count": 0,
                "weights": [0.5, 2.0, 3.0, 1.0],
            },
        ),
    ],
)
def test_classic_models_agree(op: str, opset: int, dtype: Any, kinds: str, attributes: dict[str, Any]) -> None:
    """Results by kind: f is float, i is int64."""
    names = [f"y{k}" for k in range(len(kinds))]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml" if opset else "", **attributes)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [None, 3])
    results = [
        helper.make_tensor_value_info(y, TensorProto.FLOAT if k == "f" else TensorProto.INT64, None)
        for y, k in zip(names, kinds, strict=True)
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset or 1)]
    proto = helper.make_model(helper.make_graph([node], "g", [x], results), opset_imports=imports, ir_version=10)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = anyshape.compile(proto)
    for rows in (1, 7, 40):
        a = (RNG.normal(size=(rows, 3)) * 2).astype(dtype)
        a.reshape(-1)[::5] = np.nan if np.dtype(dtype).kind == "f" and op in ("LabelEncoder", "Imputer") else 1
        for got, want in zip(ours.run({"x": a}), session.run(None, {"x": a}), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="another post_transform"):
        anyshape.compile(model_of("LinearRegressor", np.float32, {}, **WEIGHTS, post_transform="PROBIT"))
    with pytest.raises(UnsupportedError, match="without an offset"):
        anyshape.compile(model_of("Scaler", np.float32, {}, scale=[1.0]))


@pytest.mark.parametrize(
    ("classes", "attributes", "why"),
    [
        ([1], {}, "the second of two classes alone"),
        ([0], {"base_values": [0.5, 0.25]}, "two base values"),
        ([0], {"post_transform": "SOFTMAX"}, "a softmax"),
    ],
)
def test_two_classes_of_which_one_has_weights_have_one_meaning_only(
    classes: list[int], attributes: dict[str, Any], why: str
) -> None:
    trees = {**TREES, **modes("LEQ", "LT", "GT"), **leaves("class", [c + classes[0] for c in ONE])}
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["y", "s"],
        domain="ai.onnx.ml",
        classlabels_int64s=[4, 2],
        **trees,
        **attributes,
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", TensorProto.INT64, None)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    with pytest.raises(UnsupportedError, match=why):
        anyshape.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))
