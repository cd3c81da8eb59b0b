"""Small cases of operators that ONNX's suite has none of: one node each, with what its declaration wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

Base = TypeVar("Base")
ML = "ai.onnx.ml"
X = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -1.0]], np.float32)
CODES = np.array([[1, 3], [2, 9]], np.int64)
WORDS = np.array([["a", "z"], ["b", ""]], object)


def tensor(values: list[float], dtype: Any = np.float64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype))


MACHINE: dict[str, Any] = {
    "coefficients": [0.5, -1.0], "support_vectors": [1.0, 0.0, 1.0, 0.0, 1.0, 0.0], "vectors_per_class": [1, 1], "rho": [0.25],
    "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0],
}  # fmt: skip
TREES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 1, 1, 1], "nodes_nodeids": [0, 1, 2, 0, 1, 2], "nodes_featureids": [0, 0, 0, 2, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
}  # fmt: skip
SPLITS, LEAVES = [2.0, 0.0, 0.0, -0.5, 0.0, 0.0], [1.0, -1.0, 0.5, 2.0]
HITS: dict[str, Any] = {"nodes_hitrates": [1.0] * 6, "nodes_missing_value_tracks_true": [0, 0, 0, 1, 0, 0]}
TARGETS: dict[str, Any] = {
    "target_treeids": [0, 0, 0, 0, 1, 1, 1, 1], "target_nodeids": [1, 1, 2, 2, 1, 1, 2, 2], "target_ids": [0, 1, 0, 1, 0, 1, 0, 1],
}  # fmt: skip
WEIGHTS = [1.0, -1.0, 0.5, 2.0, -0.5, 0.25, 3.0, -2.0]
CLASSES: dict[str, Any] = {"class_treeids": [0, 0, 1, 1], "class_nodeids": [1, 2, 1, 2], "class_ids": [0, 1, 0, 2]}


def own_bases(make: Callable[[str, Any, tuple[np.ndarray | None, ...]], Base]) -> Iterator[Base]:
    for name, (op, domain, feeds, attributes, outputs) in TABLE.items():
        node = helper.make_node(op, [f"x{k}" for k in range(len(feeds))], outputs, domain=domain, **attributes)
        yield make(name, node, feeds)


TABLE: dict[str, tuple[str, str, tuple[np.ndarray, ...], dict[str, Any], list[str]]] = {
    "scatter_along": (
        "Scatter", "", (X, np.array([[1, 0, 1]]), X[:1]), {"axis": 0}, ["y"]),
    "upsample_by": (
        "Upsample", "", (np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2), np.array([1, 1, 2, 3], np.float32)),
        {"mode": "nearest"}, ["y"]),
    "cast_by_name": ("Cast", "", (X,), {"to": "INT32"}, ["y"]),
    "global_lp": ("GlobalLpPool", "", (np.stack([X, -X])[None],), {"p": 2}, ["y"]),
    "roi": (
        "MaxRoiPool", "", (np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4), np.array([[0, 0, 0, 3, 3], [0, 1, 1, 2, 2]], np.float32)),
        {"pooled_shape": [2, 2], "spatial_scale": 1.0}, ["y"]),
    "vectors_of_features": ("FeatureVectorizer", ML, (X, X[:, :1]), {"inputdimensions": [3, 1]}, ["y"]),
    "features_of_one_row": ("FeatureVectorizer", ML, (X[0], X[1]), {"inputdimensions": [3, 3]}, ["y"]),
    "imputed": ("Imputer", ML, (X,), {"imputed_value_floats": [7.0], "replaced_value_float": 0.0}, ["y"]),
    "normalised": ("Normalizer", ML, (X,), {"norm": "L2"}, ["y"]),
    "scaled": ("Scaler", ML, (X,), {"offset": [1.0, 2.0, 3.0], "scale": [2.0, 1.0, 0.5]}, ["y"]),
    "one_hot_of_codes": ("OneHotEncoder", ML, (CODES,), {"cats_int64s": [1, 2, 3], "zeros": 1}, ["y"]),
    "codes_by_category": (
        "CategoryMapper", ML, (CODES,), {"cats_int64s": [1, 2, 3], "cats_strings": ["a", "b", "c"], "default_string": "?"}, ["y"]),
    "linear": ("LinearRegressor", ML, (X,), {"coefficients": [0.5, -1.0, 2.0], "intercepts": [0.25], "targets": 1}, ["y"]),
    "linear_classes": (
        "LinearClassifier", ML, (X,),
        {"coefficients": [0.5, -1.0, 2.0, 1.0, 0.0, -1.0], "intercepts": [0.25, 0.0], "classlabels_ints": [3, 5], "multi_class": 0,
         "post_transform": "NONE"}, ["y", "z"]),
    "supports": (
        "SVMRegressor", ML, (X,),
        {"coefficients": [0.5, -1.0], "support_vectors": [1.0, 0.0, 1.0, 0.0, 1.0, 0.0], "rho": [0.25], "n_supports": 2,
         "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}, ["y"]),
    "one_tree": (
        "TreeEnsembleRegressor", ML, (X,),
        {"n_targets": 1, "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
         "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [2.0, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
         "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
         "target_weights": [1.0, -1.0]}, ["y"]),
    "one_tree_of_classes": (
        "TreeEnsembleClassifier", ML, (X,),
        {"classlabels_int64s": [0, 1], "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
         "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [2.0, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
         "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0, 0, 0, 0], "class_nodeids": [1, 1, 2, 2], "class_ids": [0, 1, 0, 1],
         "class_weights": [1.0, 0.0, 0.0, 1.0]}, ["y", "z"]),
    "codes_of_words": (
        "CategoryMapper", ML, (WORDS,), {"cats_int64s": [1, 2, 3], "cats_strings": ["a", "b", "c"], "default_int64": 7}, ["y"]),
    "one_hot_of_words": ("OneHotEncoder", ML, (WORDS,), {"cats_strings": ["a", "b"], "zeros": 1}, ["y"]),
    "imputed_integers": ("Imputer", ML, (CODES,), {"imputed_value_int64s": [7, 8], "replaced_value_int64": 3}, ["y"]),
    "labels_of_codes": (
        "LabelEncoder", ML, (CODES,),
        {"classes_strings": ["p", "q", "r", "s"], "keys_int64s": [1, 2, 3], "values_strings": ["a", "b", "c"], "default_string": "?"},
        ["y"]),
    "labels_of_floats": (
        "LabelEncoder", ML, (X,),
        {"keys_floats": [1.5, 0.0, -1.0], "values_floats": [2.0, 3.0, 4.0], "default_float": 9.0}, ["y"]),
    "labels_of_words": (
        "LabelEncoder", ML, (WORDS,),
        {"classes_strings": ["a", "b", "c"], "keys_strings": ["a", "b", "c"], "values_int64s": [5, 6, 7], "default_int64": 9}, ["y"]),
    "labels_by_tensors": (
        "LabelEncoder", ML, (CODES,),
        {"keys_tensor": tensor([1, 2, 3], np.int64), "values_tensor": tensor([5, 6, 7], np.int64),
         "default_tensor": tensor([9], np.int64)}, ["y"]),
    "linear_squashed": (
        "LinearRegressor", ML, (X,),
        {"coefficients": [0.5, -1.0, 2.0, 1.0, 0.0, -1.0], "intercepts": [0.25, -1.0], "targets": 2, "post_transform": "LOGISTIC"}, ["y"]),
    "linear_classes_of_words": (
        "LinearClassifier", ML, (X,),
        {"coefficients": [0.5, -1.0, 2.0, 1.0, 0.0, -1.0, 0.0, 0.0, 1.0], "intercepts": [0.25, 0.0, -1.0],
         "classlabels_strings": ["a", "b", "c"], "multi_class": 1, "post_transform": "SOFTMAX"}, ["y", "z"]),
    "linear_score": (
        "LinearClassifier", ML, (X,),
        {"coefficients": [0.5, -1.0, 2.0], "intercepts": [0.25], "classlabels_ints": [3, 5], "post_transform": "LOGISTIC"}, ["y", "z"]),
    "one_class": (
        "SVMRegressor", ML, (X,),
        {"coefficients": [0.5, -1.0], "support_vectors": [1.0, 0.0, 1.0, 0.0, 1.0, 0.0], "rho": [0.25], "n_supports": 2,
         "kernel_type": "LINEAR", "kernel_params": [0.5, 0.0, 3.0], "one_class": 1, "post_transform": "NONE"}, ["y"]),
    "supports_of_classes": (
        "SVMClassifier", ML, (X,),
        {**MACHINE, "classlabels_ints": [3, 5], "prob_a": [-0.5], "prob_b": [0.25], "post_transform": "NONE"}, ["y", "z"]),
    "supports_of_words": ("SVMClassifier", ML, (X,), {**MACHINE, "classlabels_strings": ["a", "b"]}, ["y", "z"]),
    "two_trees": (
        "TreeEnsembleRegressor", ML, (X,),
        {**TREES, **HITS, "nodes_values": SPLITS, **TARGETS, "n_targets": 2, "target_weights": WEIGHTS, "base_values": [0.5, -1.0],
         "aggregate_function": "AVERAGE", "post_transform": "LOGISTIC"}, ["y"]),
    "leaves_of_one_target_each": (
        "TreeEnsembleRegressor", ML, (X,),
        {"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3, "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
         "nodes_values": [2.0, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
         "target_nodeids": [1, 2], "target_ids": [0, 1], "n_targets": 2, "target_weights": [1.0, -1.0], "base_values": [0.5, -1.0]}, ["y"]),
    "two_trees_of_doubles": (
        "TreeEnsembleRegressor", ML, (X.astype(np.float64),),
        {**TREES, **TARGETS, "n_targets": 2, "nodes_values_as_tensor": tensor(SPLITS), "nodes_hitrates_as_tensor": tensor([1.0] * 6),
         "target_weights_as_tensor": tensor(WEIGHTS), "base_values_as_tensor": tensor([0.5, -1.0])}, ["y"]),
    "two_trees_of_words": (
        "TreeEnsembleClassifier", ML, (X,),
        {**TREES, **HITS, "nodes_values": SPLITS, **CLASSES, "class_weights": LEAVES, "classlabels_strings": ["a", "b", "c"],
         "base_values": [0.5, -1.0, 0.0], "post_transform": "LOGISTIC"}, ["y", "z"]),
    "two_trees_of_double_classes": (
        "TreeEnsembleClassifier", ML, (X.astype(np.float64),),
        {**TREES, **CLASSES, "classlabels_int64s": [0, 4, 1], "nodes_values_as_tensor": tensor(SPLITS),
         "nodes_hitrates_as_tensor": tensor([1.0] * 6), "class_weights_as_tensor": tensor(LEAVES),
         "base_values_as_tensor": tensor([0.5, -1.0, 0.0])}, ["y", "z"]),
    "trees_that_miss": (
        "TreeEnsemble", ML, (X,),
        {"nodes_featureids": [0], "nodes_splits": tensor([2.0], np.float32), "nodes_modes": tensor([0], np.uint8),
         "nodes_truenodeids": [0], "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1],
         "nodes_hitrates": tensor([1.0], np.float32), "nodes_missing_value_tracks_true": [1], "tree_roots": [0],
         "leaf_targetids": [0, 0], "leaf_weights": tensor([1.0, -1.0], np.float32), "n_targets": 1, "aggregate_function": 1,
         "post_transform": 0}, ["y"]),
}  # fmt: skip
