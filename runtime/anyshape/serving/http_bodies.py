"""Bodies of inference over HTTP: JSON, with the tensors in it or behind it as binary data.

In: bytes of anybody. Out: an `InferRequest`; raises RefusedRequest for all else. And back: outputs as a body.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anyshape.dtypes import from_numpy
from anyshape.public import short
from anyshape.serving.datatypes import DATATYPES
from anyshape.serving.refusal import RefusedRequest
from anyshape.serving.request import Array, InferRequest, RequestedOutput
from anyshape.serving.tensors import dtype_of, elements, from_bytes, from_elements, shape_of, to_bytes


def decoded(body: bytes, header_length: str | None) -> InferRequest:
    """The request of a body. `header_length` is that of the JSON, where binary data follows."""
    binary = memoryview(body)[_length(header_length, len(body)) :]
    request = _object("the body", parsed(body[: len(body) - len(binary)]))
    data = _Binary(binary)
    inputs: dict[str, Array] = {}
    for item in _list("inputs", request.get("inputs")):
        tensor = _object("an input", item)
        name = _text("name of an input", tensor.get("name"))
        if name in inputs:
            raise RefusedRequest(f"the input {name[:100]} is in the body twice")
        inputs[name] = _tensor(f"input {name[:100]}", tensor, data)
    if data.left:
        raise RefusedRequest(f"{data.left} bytes of binary data are left over")
    parameters = _parameters("the request", request)
    outputs = request.get("outputs")
    binary_output = _flag("binary_data_output", parameters.get("binary_data_output", False))
    return InferRequest(
        id=_text("id", request.get("id", "")),
        inputs=inputs,
        requested=None if outputs is None else [_requested(o, binary_output) for o in _list("outputs", outputs)],
        binary=binary_output,
    )


def parsed(text: bytes) -> Any:
    """The value of JSON. Raises RefusedRequest for what is none, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise RefusedRequest("the JSON is nested too deeply") from None
    except (ValueError, MemoryError) as e:
        raise RefusedRequest(f"the body is no JSON: {e}") from None


def _length(header: str | None, size: int) -> int:
    if header is None:
        return size
    n = int(header) if header.isascii() and header.isdigit() and len(header) < 19 else -1
    if not 0 <= n <= size:
        raise RefusedRequest(f"Inference-Header-Content-Length must be from 0 to {size}, got {header[:100]!r}")
    return n


class _Binary:
    """The binary data of a body, which tensors take in their order."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, where: str, size: Any) -> memoryview:
        if type(size) is not int or not 0 <= size <= self.left:
            raise RefusedRequest(
                f"{where}: binary_data_size must be a number of at most the {self.left} bytes left, got {short(size)}"
            )
        self._at += size
        return self._data[self._at - size : self._at]


def _tensor(where: str, tensor: Mapping[str, Any], data: _Binary) -> Array:
    dtype, shape = dtype_of(where, tensor.get("datatype")), shape_of(where, tensor.get("shape"))
    parameters = _parameters(where, tensor)
    if "binary_data_size" in parameters:
        if "data" in tensor:
            raise RefusedRequest(f"{where}: it has data beside binary_data_size")
        return from_bytes(where, data.take(where, parameters["binary_data_size"]), dtype, shape)
    return from_elements(where, tensor.get("data"), dtype, shape)


def _requested(item: Any, binary: bool) -> RequestedOutput:
    output = _object("an output", item)
    parameters = _parameters("an output", output)
    if parameters.get("classification", 0):
        raise RefusedRequest("outputs as classifications are not supported")
    return RequestedOutput(
        name=_text("name of an output", output.get("name")),
        is_binary=_flag("binary_data", parameters.get("binary_data", binary)),
    )


def _parameters(where: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    return _object(f"parameters of {where}", value.get("parameters", {}))


def _object(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RefusedRequest(f"{where} must be a JSON object, got {short(value)}")
    return value


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise RefusedRequest(f"{where} must be a list, got {short(value)}")
    return value


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise RefusedRequest(f"{where} must be a text, got {short(value)}")
    return value


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RefusedRequest(f"{where} must be true or false, got {short(value)}")
    return value


def encoded(model: str, request: InferRequest, outputs: Mapping[str, Array]) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON if binary data follows."""
    is_binary = {w.name: w.is_binary for w in request.requested or ()}
    tensors: list[dict[str, Any]] = []
    data: list[bytes] = []
    for name, a in outputs.items():
        tensor: dict[str, Any] = {"name": name, "datatype": DATATYPES[from_numpy(a.dtype)], "shape": list(a.shape)}
        if is_binary.get(name, request.binary):
            data.append(to_bytes(a))
            tensor["parameters"] = {"binary_data_size": len(data[-1])}
        else:
            tensor["data"] = elements(a)
        tensors.append(tensor)
    answer = {"model_name": model, "model_version": "1", "id": request.id, "outputs": tensors}
    text = json.dumps(answer).encode()
    return (b"".join([text, *data]), len(text)) if data else (text, None)


def error_text(error: Exception) -> str:
    """The body of a refusal."""
    return json.dumps({"error": str(error)})
