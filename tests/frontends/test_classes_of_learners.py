"""Operators of ai.onnx.ml that name classes: support vector machines, strings as classes and keys, and scores of two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import anyshape
from anyshape.errors import AnyshapeError, UnsupportedError
from tests.frontends.test_learners import THREE, TREES, TWO, leaves, modes

RNG = np.random.default_rng(11)
KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "s": TensorProto.STRING}
FOREST = {**TREES, **modes("LEQ", "LT", "GT"), **leaves("target", TWO), "n_targets": 2}
ONE_SUPPORT = {"coefficients": [1.0], "rho": [0.0], "n_supports": 1, "support_vectors": [1.0, 1.0, 1.0]}
WORDS = np.array([["b", "a", "é"], ["", "ab", "a"], ["c", "b", "ab"]], object)


def model_of(op: str, dtype: str, kinds: str, opset: int, **attributes: Any) -> onnx.ModelProto:
    """One node, of a matrix of unknown size; kinds of input and results: f is float, i is int64, s is string."""
    names = [f"y{k}" for k in range(len(kinds))]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml" if opset else "")
    kinds_of = onnx.defs.get_schema(op, opset or 17, "ai.onnx.ml" if opset else "").attributes
    node.attribute.extend(helper.make_attribute(k, v, attr_type=kinds_of[k].type.value) for k, v in attributes.items())
    x = helper.make_tensor_value_info("x", KINDS[dtype], [None, None])
    results = [helper.make_tensor_value_info(y, KINDS[k], None) for y, k in zip(names, kinds, strict=True)]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset or 1)]
    return helper.make_model(helper.make_graph([node], "g", [x], results), opset_imports=imports, ir_version=10)


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    if want.dtype.kind in "OU":
        assert got.tolist() == want.tolist()
    else:
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def check(proto: onnx.ModelProto, feeds: list[np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = anyshape.compile(proto)
    for x in (*feeds, feeds[0]):
        for got, want in zip(ours.run({"x": x}), session.run(None, {"x": x}), strict=True):
            same(got, want)


def machine(classes: int, kernel: str, likely: bool, **more: Any) -> dict[str, Any]:
    """Attributes of a machine of three columns, its supports and weights as they happen to be drawn."""
    counts = [2, 1, 3, 2][:classes]
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 2.0],
        "vectors_per_class": counts,
        "support_vectors": RNG.normal(size=sum(counts) * 3).tolist(),
        "coefficients": RNG.normal(size=sum(counts) * (classes - 1)).tolist(),
        "rho": (RNG.normal(size=pairs) / 2).tolist(),
    }
    if likely:
        attributes |= {"prob_a": (-1 - RNG.random(pairs)).tolist(), "prob_b": (RNG.normal(size=pairs) / 4).tolist()}
    return attributes | (more or {"classlabels_ints": [4, 2, 9, 7][:classes]})


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize(("classes", "likely"), [(2, False), (2, True), (3, False), (4, True)])
def test_support_vector_machines_agree(kernel: str, classes: int, likely: bool) -> None:
    proto = model_of("SVMClassifier", "f", "if", 1, **machine(classes, kernel, likely))
    check(proto, [RNG.normal(size=(rows, 3)).astype(np.float32) for rows in (7, 1, 40)])


def test_machines_name_classes_by_strings() -> None:
    proto = model_of("SVMClassifier", "f", "sf", 1, **machine(3, "RBF", True, classlabels_strings=["a", "bc", "é"]))
    check(proto, [RNG.normal(size=(9, 3)).astype(np.float32)])


def test_machines_that_are_refused() -> None:
    attributes = machine(2, "RBF", False)
    with pytest.raises(UnsupportedError, match="with a post_transform"):
        anyshape.compile(model_of("SVMClassifier", "f", "if", 1, **attributes, post_transform="SOFTMAX"))
    without = {k: v for k, v in attributes.items() if k not in ("support_vectors", "vectors_per_class")}
    with pytest.raises(UnsupportedError, match="without supports"):
        anyshape.compile(model_of("SVMClassifier", "f", "if", 1, **without))


GRAMS = {
    "min_gram_length": 1,
    "max_gram_length": 2,
    "ngram_counts": [0, 2],
    "ngram_indexes": [0, 2, 1],
    "max_skip_count": 1,
}


@pytest.mark.parametrize(
    ("op", "opset", "dtype", "kinds", "attributes"),
    [
        ("LabelEncoder", 2, "s", "i", {"keys_strings": ["a", "", "é"], "values_int64s": [5, 6, 7]}),
        ("LabelEncoder", 2, "s", "f", {"keys_strings": ["a", "b"], "values_floats": [0.5, 2.0], "default_float": 9.0}),
        ("LabelEncoder", 2, "s", "s", {"keys_strings": ["a", "b"], "values_strings": ["é!", "long"]}),
        ("LabelEncoder", 2, "i", "s", {"keys_int64s": [0, 2], "values_strings": ["no", "two"], "default_string": ""}),
        ("CategoryMapper", 1, "s", "i", {"cats_strings": ["a", "b", "ab"], "cats_int64s": [3, 1, 2]}),
        ("CategoryMapper", 1, "i", "s", {"cats_strings": ["a", "b", "ab"], "cats_int64s": [3, 1, 2]}),
        ("OneHotEncoder", 1, "s", "f", {"cats_strings": ["ab", "a", ""]}),
        ("TfIdfVectorizer", 0, "s", "f", {**GRAMS, "mode": "TF", "pool_strings": ["a", "b", "b", "a"]}),
        ("TfIdfVectorizer", 0, "s", "f", {**GRAMS, "mode": "IDF", "pool_strings": ["a", "b", "", "ab"], "weights": [2.0, 3.0, 4.0]}),
    ],
)  # fmt: skip
def test_strings_agree(op: str, opset: int, dtype: str, kinds: str, attributes: dict[str, Any]) -> None:
    numbers = [RNG.integers(0, 4, (rows, 3)) for rows in (4, 1)]
    check(model_of(op, dtype, kinds, opset, **attributes), [WORDS, WORDS[:1]] if dtype == "s" else numbers)


@pytest.mark.parametrize("base", [None, [0.5, -0.25]])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_two_classes_with_weights_of_both_are_as_the_standard_says(base: list[float] | None, transform: str) -> None:
    """onnxruntime adds the second base value to the first class's score, and gives its negative as the other; then labels are 0 and 1."""
    attributes = {**TREES, **modes("LEQ", "LT", "GT"), **leaves("class", TWO), "classlabels_int64s": [4, 2]}
    more: dict[str, Any] = {"base_values": base} if base else {}
    proto = model_of("TreeEnsembleClassifier", "f", "if", 1, **attributes, **more, post_transform=transform)
    x = (RNG.normal(size=(20, 3)) * 2).astype(np.float32)
    label, score = anyshape.compile(proto).run({"x": x})
    wanted_label, wanted_score = ReferenceEvaluator(proto).run(None, {"x": x})
    same(score, wanted_score.astype(np.float32))
    same(label, wanted_label)


def test_trees_name_classes_by_strings() -> None:
    attributes = {**TREES, **modes("LEQ", "LT", "GT"), **leaves("class", THREE), "classlabels_strings": ["x", "yz", ""]}
    check(model_of("TreeEnsembleClassifier", "f", "sf", 1, **attributes), [RNG.normal(size=(9, 3)).astype(np.float32)])
    line = {
        "coefficients": RNG.normal(size=6).tolist(),
        "intercepts": [0.5, -0.5],
        "classlabels_strings": ["no", "yes"],
    }
    check(model_of("LinearClassifier", "f", "sf", 1, **line), [RNG.normal(size=(9, 3)).astype(np.float32)])


@pytest.mark.parametrize("columns", [None, 3])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize(("scores", "classes"), [(1, 2), (2, 2), (3, 3)])
def test_scores_without_intercepts_are_those_with_intercepts_of_zero(
    scores: int, classes: int, transform: str, columns: int | None
) -> None:
    rows = np.array([[1, 2, -1], [-2, 0.5, 1], [0, 0, 0], [np.inf, 1, 1], [np.nan, 0, 1]], np.float32)
    line = {"coefficients": RNG.normal(size=3 * scores).tolist(), "classlabels_ints": [4, 2, 9][:classes]}
    with_zeros, *without = (
        model_of("LinearClassifier", "f", "if", 1, **line, **more, post_transform=transform)
        for more in ({"intercepts": [0.0] * scores}, {}, {"intercepts": []})
    )
    for proto in without:
        if columns is not None:
            proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = columns
        exe = anyshape.compile(proto)
        for got, want in zip(exe.run({"x": rows}), anyshape.compile(with_zeros).run({"x": rows}), strict=True):
            same(got, want)
    check(with_zeros, [rows[:3]])


def test_scores_that_no_class_has_are_refused() -> None:
    line = {"coefficients": [1.0] * 9, "classlabels_ints": [4, 2]}
    with pytest.raises(AnyshapeError):
        anyshape.compile(model_of("LinearClassifier", "f", "if", 1, **line)).run({"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize(
    ("op", "kinds", "word", "attributes"),
    [
        ("Normalizer", "f", "norm", {}),
        ("SVMClassifier", "if", "kernel_type", machine(2, "RBF", False)),
        ("SVMRegressor", "f", "kernel_type", ONE_SUPPORT),
        ("TreeEnsembleRegressor", "f", "aggregate_function", FOREST),
        ("LinearRegressor", "f", "post_transform", {"coefficients": [1.0, 2.0, 3.0]}),
    ],
)  # fmt: skip
def test_a_word_that_is_none_is_refused_and_an_empty_one_is_no_choice(
    op: str, kinds: str, word: str, attributes: dict[str, Any]
) -> None:
    rest = {k: v for k, v in attributes.items() if k != word}
    with pytest.raises(UnsupportedError, match=f"another {word}"):
        anyshape.compile(model_of(op, "f", kinds, 1, **rest, **{word: "no such word"}))
    x = {"x": RNG.normal(size=(5, 3)).astype(np.float32)}
    for got, want in zip(
        anyshape.compile(model_of(op, "f", kinds, 1, **rest, **{word: ""})).run(x),
        anyshape.compile(model_of(op, "f", kinds, 1, **rest)).run(x), strict=True,
    ):  # fmt: skip
        same(got, want)


def test_a_label_encoder_of_no_classes_gives_its_default() -> None:
    proto = model_of("LabelEncoder", "i", "s", 1, default_string="?", classes_strings=[])
    assert anyshape.compile(proto).run({"x": np.array([[0, 3]])})[0].tolist() == [["?", "?"]]
