"""Small cases of operators that ONNX's suite has none of: one node each, with what its declaration wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from onnx import helper

Made = TypeVar("Made")
ML = "ai.onnx.ml"
X = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -1.0]], np.float32)
CODES = np.array([[1, 3], [2, 9]], np.int64)


def own_bases(make: Callable[[str, Any, tuple[np.ndarray | None, ...]], Made]) -> Iterator[Made]:
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
}  # fmt: skip
