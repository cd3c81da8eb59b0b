"""Parses a model from bytes, a path or a ModelProto; nodes are not looked at.

Out: a checked ModelProto, and the folder that external data may come from. A file that cannot be parsed is a ModelError that names it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyshape.errors import ModelError, UnsupportedError
from anyshape.files import SAVED, open_plain
from anyshape.frontends.onnx.legible import check_text
from anyshape.frontends.onnx.mappings import UPDATE
from anyshape.frontends.onnx.wire import strip_weights


@dataclass(frozen=True)
class Source:
    """A parsed model: what to call it in messages, and where its external data lives (None: nowhere)."""

    model: Any
    name: str
    folder: Path | None
    weights: Mapping[int, memoryview] = field(default_factory=dict)
    """raw data of initializers by their position, where it stayed in the mapped file"""

    @property
    def model_proto(self) -> Any:
        """The model under the name by which `compile` takes it, as that of an ONNXProgram of PyTorch."""
        return self.model


def read_model(source: Any) -> Source:
    """Parses a model; `source` as in `load`, or parsed already. Raises ModelError where the file cannot be read or is not an ONNX model."""
    import onnx

    if isinstance(source, Source):
        return source
    source = getattr(source, "model_proto", source)  # torch.onnx.ONNXProgram
    if isinstance(source, onnx.ModelProto):
        read = Source(source, "model", None)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        read = _source(memoryview(source).cast("B"), "model", None)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(os.fspath(source))
        read = _source(_contents(path), str(path), path.parent)
    else:
        raise ModelError(f"a model is a path, bytes or an onnx.ModelProto, got {type(source).__name__}")
    _check_frame(read)
    return read


def _contents(path: Path) -> memoryview:
    """Maps a file into memory."""
    try:
        with open_plain(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as e:
        raise ModelError(f"{path}: cannot be read: {getattr(e, 'strerror', None) or e}") from None


def _source(data: memoryview, name: str, folder: Path | None) -> Source:
    if data[: len(SAVED)] == SAVED:
        raise ModelError(f"{name}: it is a saved model; pass the ONNX model from which it was compiled")
    stripped = strip_weights(data)
    if stripped is None:
        return Source(parse(bytes(data), name), name, folder)
    return Source(parse(stripped.data, name), name, folder, stripped.taken)


def parse(data: bytes, name: str) -> Any:
    """Parses serialised bytes to a ModelProto. Raises ModelError for bytes that are none."""
    import onnx
    from google.protobuf.message import DecodeError

    if not data:
        raise ModelError(f"{name}: the file is empty")
    try:
        return onnx.ModelProto.FromString(data)
    except (DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        raise ModelError(
            f"{name}: not an ONNX model, or a truncated or damaged one: {len(data)} bytes do not parse as protobuf"
        ) from None


def _check_frame(read: Source) -> None:
    model = read.model
    if not model.HasField("graph"):
        raise ModelError(f"{read.name}: it has no graph; the file is truncated, or not an ONNX model")
    if not model.opset_import:
        raise ModelError(f"{read.name}: it imports no opset; the file is truncated, or not an ONNX model")
    if model.ir_version > _newest_ir():
        raise UnsupportedError(
            f"{read.name}: its IR version is {model.ir_version}, and the newest that the installed onnx reads is {_newest_ir()}; {UPDATE}"
        )
    check_text(model, read.name)


def _newest_ir() -> int:
    """The newest version of the file format that the installed onnx knows: of later ones protobuf leaves out what is new."""
    import onnx

    return int(onnx.IR_VERSION)
