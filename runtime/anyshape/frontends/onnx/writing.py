"""A ModelProto to a file; tensors go to a file beside it where protobuf could not hold them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anyshape.errors import AnyshapeError

MOST = 1_900_000_000
"""Bytes of tensors that stay inside; protobuf ends at 2 GiB"""


def write_model(model: Any, path: str | os.PathLike[str], most: int = MOST) -> None:
    """Raises AnyshapeError if it cannot be written. The file is there whole or not at all; `model` keeps its tensors."""
    import onnx

    target = Path(path)
    unfinished = target.with_name(target.name + ".part")
    try:
        if sum(len(t.raw_data) for t in model.graph.initializer) <= most:
            unfinished.write_bytes(model.SerializeToString())
        else:
            beside = target.name + ".data"
            (target.parent / beside).unlink(missing_ok=True)
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            onnx.save_model(copy, str(unfinished), save_as_external_data=True, location=beside)
        os.replace(unfinished, target)
    except OSError as e:
        raise AnyshapeError(f"{target}: cannot be written: {e.strerror or e}") from None
    finally:
        unfinished.unlink(missing_ok=True)
