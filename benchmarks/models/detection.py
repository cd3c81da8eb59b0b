"""detection: what comes after a detector's network, for `batch * length` boxes; opset 17.

Comes in: nothing, there are no weights. Goes out: an ONNX file of some 2 kB. Scores above a threshold are found by NonZero and gathered
by GatherND, the best of them by TopK, and NonMaxSuppression keeps those that do not overlap better ones: four sizes that only data decides.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.models import Arrays

THRESHOLD, BEST, OVERLAP, KEPT = 0.25, 1000, 0.5, 300
IMAGE = 640.0
SHAPES = [(1, 100), (1, 300), (1, 1000), (1, 3000), (1, 8400)]

NODES = [
    ("Sigmoid", "logits", "scores"),
    ("Greater", "scores threshold", "likely"),
    ("NonZero", "likely", "places"),
    ("Transpose", "places", "index"),
    ("GatherND", "scores index", "likely_scores"),
    ("GatherND", "boxes index", "likely_boxes"),
    ("Shape", "likely_scores", "count"),
    ("Min", "count best", "most"),
    ("TopK", "likely_scores most", "top_scores order"),
    ("Gather", "likely_boxes order", "top_boxes"),
    ("Unsqueeze", "top_boxes axis", "all_boxes"),
    ("Unsqueeze", "top_scores axes", "all_scores"),
    ("NonMaxSuppression", "all_boxes all_scores kept overlap", "rows"),
    ("Gather", "rows two", "numbers"),
    ("Gather", "top_boxes numbers", "kept_boxes"),
    ("Gather", "top_scores numbers", "kept_scores"),
]
AXES = {"numbers": 1}
CONSTANTS = {
    "threshold": np.float32(THRESHOLD),
    "best": np.array([BEST]),
    "axis": np.array([0]),
    "axes": np.array([0, 1]),
    "kept": np.array([KEPT]),
    "overlap": np.array([OVERLAP], np.float32),
    "two": np.array(2),
}


def build(path: Path) -> Path:
    """Write the model."""
    nodes = [
        helper.make_node(op, inputs.split(), outputs.split(), **({"axis": AXES[outputs]} if outputs in AXES else {}))
        for op, inputs, outputs in NODES
    ]
    graph = helper.make_graph(
        nodes,
        "detection",
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["n", 4]),
        ],
        [
            helper.make_tensor_value_info("kept_boxes", TensorProto.FLOAT, ["kept", 4]),
            helper.make_tensor_value_info("kept_scores", TensorProto.FLOAT, ["kept"]),
        ],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in CONSTANTS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Logits [n] that are apart by more than any engine's rounding, boxes [n, 4] of corners; n is batch * length."""
    rng, n = np.random.default_rng([seed, batch, length]), batch * length
    centres, sizes = rng.uniform(0, IMAGE, (n, 2)), rng.uniform(20, 120, (n, 2))
    boxes = np.concatenate([centres - sizes / 2, centres + sizes / 2], 1).astype(np.float32)
    return {"logits": rng.permutation(np.linspace(-4, 4, n)).astype(np.float32), "boxes": boxes}
