"""Writes a ModelProto to a file, with its tensors in a second file where protobuf could not hold them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyshape.errors import AnyshapeError
from anyshape.files import demand_replaceable, write_plain

MOST = 1_900_000_000
"""The most bytes of tensors inside the model; protobuf ends at 2 GiB"""


def write_model(model: Any, path: str | os.PathLike[str], most: int = MOST) -> None:
    """Writes a model atomically; `model` keeps its tensors. Raises AnyshapeError if it cannot be written."""
    import onnx

    target = Path(path)
    try:
        if sum(len(t.raw_data) for t in model.graph.initializer) <= most:
            write_plain(target, model.SerializeToString())
            return
        beside = target.with_name(target.name + ".data")
        for place in (target, beside):
            demand_replaceable(place)
        with TemporaryDirectory(prefix=".new-", dir=target.parent) as folder:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            onnx.save_model(copy, f"{folder}/model", save_as_external_data=True, location=beside.name)
            os.replace(Path(folder) / beside.name, beside)
            os.replace(f"{folder}/model", target)
    except OSError as e:
        raise AnyshapeError(f"{target}: cannot be written: {e.strerror or e}") from None
