"""Errors by the names that onnxruntime has for them, as AnyshapeErrors, and the classes that programs look up here.

`error` makes one with the number and word of its status, as onnxruntime prints them. Where onnxruntime raises an error of Python's own, the
class here is one too: TypeError for arguments of a wrong kind, RuntimeError for what a value does not have.
"""

from __future__ import annotations

from typing import Any

from anyshape.errors import AnyshapeError, ArgumentError, ModelError, UnsupportedError


class Fail(AnyshapeError):
    """A node fails for these inputs, or a model for all."""


class InvalidArgument(ArgumentError):
    """An input or output does not exist, or an argument does not fit the type of its input."""


class NoSuchFile(ModelError):
    """Raised where there is no model at the path."""


class NoModel(ModelError):
    """Raised where no model is loaded."""


class EngineError(AnyshapeError):
    """A name of onnxruntime's, never raised here."""


class RuntimeException(AnyshapeError, RuntimeError):
    """A call ended for another reason than its arguments, such as memory."""


class InvalidProtobuf(ModelError):
    """The file or the bytes are no model."""


class ModelLoaded(ModelError):
    """A name of onnxruntime's, never raised here."""


class NotImplemented(UnsupportedError, NotImplementedError):
    """The model, or what was called, is not supported."""


class InvalidGraph(ModelError):
    """The model has an operator that its opsets do not have."""


class EPFail(AnyshapeError):
    """A name of onnxruntime's, never raised here."""


class ModelLoadCanceled(AnyshapeError):
    """A name of onnxruntime's, never raised here."""


class ModelRequiresCompilation(AnyshapeError):
    """A name of onnxruntime's, never raised here."""


class NotFound(AnyshapeError):
    """A name of onnxruntime's, never raised here."""


class DeviceReset(AnyshapeError):
    """A name of onnxruntime's, never raised here."""


class WrongKind(ArgumentError, TypeError):
    """An argument is of another kind than the signature says."""


class NoValue(AnyshapeError, RuntimeError):
    """A value, a binding or a session does not have what was asked for."""


STATUS: dict[type[AnyshapeError], tuple[int, str]] = {
    Fail: (1, "FAIL"), InvalidArgument: (2, "INVALID_ARGUMENT"), NoSuchFile: (3, "NO_SUCHFILE"), RuntimeException: (6, "RUNTIME_EXCEPTION"),
    InvalidProtobuf: (7, "INVALID_PROTOBUF"), NotImplemented: (9, "NOT_IMPLEMENTED"), InvalidGraph: (10, "INVALID_GRAPH"),
}  # fmt: skip
"""Number and word of each status that is raised here, of onnxruntime's include/onnxruntime/core/common/status.h"""


def error(kind: type[AnyshapeError], text: object) -> AnyshapeError:
    """Makes an error of a status with the words that onnxruntime prints before its message."""
    number, word = STATUS[kind]
    return kind(f"[ONNXRuntimeError] : {number} : {word} : {text}")


def __getattr__(name: str) -> Any:
    """Looks a name that is not here up in `anyshape.onnxruntime`."""
    from anyshape import onnxruntime

    return getattr(onnxruntime, name)
