"""Make the zoo's graphs of tables again: `python -m benchmarks.models.zoo.export_tables [NAME ...]`.

It needs skl2onnx, onnxmltools, xgboost and lightgbm. Estimators fitted to seeded numbers, as skl2onnx and onnxmltools write them, for any
number of rows: columns of texts beside numbers, neighbours, a Gaussian process, support vectors, and ensembles of trees of three
libraries.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import onnx
import onnxmltools
import onnxruntime
import skl2onnx
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as Numbers
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from benchmarks.models import structure

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 6)).astype(np.float32)
TARGET = X[:, 0] - X[:, 1] * X[:, 2]
CLASSES = np.digitize(TARGET, [-0.7, 0.7])


def _by_skl2onnx(model: Any, name: str = "x", options: dict[str, bool] | None = None) -> onnx.ModelProto:
    chosen = {id(model): options} if options else None
    inputs = [(name, FloatTensorType([None, X.shape[1]]))]
    return skl2onnx.convert_sklearn(model, initial_types=inputs, target_opset={"": 18, "ai.onnx.ml": 3}, options=chosen)


def columns_of_texts() -> onnx.ModelProto:
    """Gaps are filled and numbers scaled, colours become columns, and trees vote."""
    colours = RNG.choice(["red", "green", "blue"], (80, 1))
    columns = [
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1, 2]),
        ("colours", OneHotEncoder(handle_unknown="ignore"), [3]),
    ]
    model = make_pipeline(
        ColumnTransformer(columns), GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    )
    model.fit(np.concatenate([X[:, :3].astype(object), colours.astype(object)], 1), CLASSES)
    inputs = [("numbers", FloatTensorType([None, 3])), ("colour", StringTensorType([None, 1]))]
    options = {id(model): {"zipmap": False}}
    return skl2onnx.convert_sklearn(
        model, initial_types=inputs, target_opset={"": 18, "ai.onnx.ml": 3}, options=options
    )


def neighbours() -> onnx.ModelProto:
    """The mean of the nearest rows, by distances that a Scan computes."""
    return _by_skl2onnx(make_pipeline(PCA(4), KNeighborsRegressor(3)).fit(X[:40], TARGET[:40]))


def gaussian_process() -> onnx.ModelProto:
    model = GaussianProcessRegressor(ConstantKernel() * RBF(), alpha=0.1, optimizer=None).fit(X[:30], TARGET[:30])
    return _by_skl2onnx(model, options={"return_std": True})


def support_vectors() -> onnx.ModelProto:
    model = SVC(probability=True, random_state=0).fit(X[:40], CLASSES[:40])
    return _by_skl2onnx(model, options={"zipmap": False})


def xgboost_classes() -> onnx.ModelProto:
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, random_state=0).fit(X, CLASSES)
    return onnxmltools.convert_xgboost(model, initial_types=[("x", Numbers([None, X.shape[1]]))], target_opset=15)


def lightgbm_numbers() -> onnx.ModelProto:
    model = lightgbm.LGBMRegressor(n_estimators=5, num_leaves=7, random_state=0, verbose=-1).fit(X, TARGET)
    return onnxmltools.convert_lightgbm(model, initial_types=[("x", Numbers([None, X.shape[1]]))], target_opset=15)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "sklearn_columns": columns_of_texts,
    "sklearn_neighbours": neighbours,
    "sklearn_gaussian_process": gaussian_process,
    "sklearn_support_vectors": support_vectors,
    "xgboost": xgboost_classes,
    "lightgbm": lightgbm_numbers,
}


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names or MODELS:
        model = MODELS[name]()
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        bare = structure.renamed(model)
        bare.graph.name = name  # the converters draw one
        structure.keep(bare, name)


if __name__ == "__main__":
    main(sys.argv[1:])
