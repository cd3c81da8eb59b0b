"""Bytes, a path or a ModelProto to a checked ModelProto and the folder its external data may come from.

Nothing in here looks at nodes. What a damaged file can do to the parser ends here, as a ModelError that names the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshape.errors import ModelError
from anyshape.frontends.onnx.legible import check_text

LARGEST = 2**31 - 1
"""Protobuf cannot hold more in one message; larger models keep their weights beside the file"""


@dataclass(frozen=True)
class Source:
    """A parsed model: what to call it in messages, and where its external data lives (None: nowhere)."""

    model: Any
    name: str
    folder: Path | None


def read_model(source: Any) -> Source:
    """Raises ModelError where the file cannot be read or is not an ONNX model; `source` as in `load`."""
    import onnx

    if isinstance(source, onnx.ModelProto):
        read = Source(source, "model", None)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        read = Source(parse(bytes(source), "model"), "model", None)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(os.fspath(source))
        read = Source(parse(_contents(path), str(path)), str(path), path.parent)
    else:
        raise ModelError(f"a model is a path, bytes or an onnx.ModelProto, got {type(source).__name__}")
    _check_frame(read)
    return read


def _contents(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise ModelError(
                f"{path}: {size} bytes are more than one ONNX file can hold; save the weights as external data"
            )
        return path.read_bytes()
    except OSError as e:
        raise ModelError(f"{path}: cannot be read: {e.strerror or e}") from None


def parse(data: bytes, name: str) -> Any:
    """A ModelProto of serialised bytes."""
    from google.protobuf.message import DecodeError

    import onnx

    if not data:
        raise ModelError(f"{name}: the file is empty")
    try:
        return onnx.ModelProto.FromString(data)
    except (DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise ModelError(
            f"{name}: not an ONNX model, or one that was cut or damaged: {len(data)} bytes do not parse as protobuf"
        ) from None


def _check_frame(read: Source) -> None:
    model = read.model
    if not model.HasField("graph"):
        raise ModelError(f"{read.name}: there is no graph in it; the file is cut, or not an ONNX model")
    if not model.opset_import:
        raise ModelError(f"{read.name}: it does not say which opset it uses; the file is cut, or not an ONNX model")
    check_text(model, read.name)
