"""The methods of the Open Inference Protocol over gRPC.

In: a service. Out: a handler that a server of grpcio takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import grpc

from anyshape.code_version import VERSION
from anyshape.dtypes import DType, from_numpy
from anyshape.serving.datatypes import DATATYPES
from anyshape.serving.grpc_messages import MESSAGES, METHODS, SERVICE
from anyshape.serving.http import EXTENSIONS
from anyshape.serving.model import metadata
from anyshape.serving.refusal import RefusedRequest
from anyshape.serving.request import Array, InferRequest, RequestedOutput
from anyshape.serving.service import Service
from anyshape.serving.tensors import dtype_of, from_bytes, from_elements, shape_of, to_bytes

LOG = logging.getLogger("anyshape.serving")
RemoteMethod = Callable[[Any, Any], Awaitable[Any]]

CODES = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    HTTPStatus.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
}

_CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}
"""The field of a tensor's elements; those of other datatypes are raw"""


def handler(service: Service) -> Any:
    """The methods of a service."""
    calls = _RemoteCalls(service)
    methods: Mapping[str, RemoteMethod] = {
        "ServerLive": calls.server_live,
        "ServerReady": calls.server_ready,
        "ModelReady": calls.model_ready,
        "ServerMetadata": calls.server_metadata,
        "ModelMetadata": calls.model_metadata,
        "ModelInfer": calls.model_infer,
    }
    return grpc.method_handlers_generic_handler(SERVICE, {name: _unary(name, methods[name]) for name in METHODS})


def _unary(name: str, method: RemoteMethod) -> Any:
    """A method as grpcio calls it: what is refused becomes a status."""

    async def call(request: Any, context: Any) -> Any:
        try:
            return await method(request, context)
        except RefusedRequest as e:
            await context.abort(CODES.get(e.status, grpc.StatusCode.UNKNOWN), str(e)[:4000])
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception as e:
            LOG.exception("a request failed")
            await context.abort(grpc.StatusCode.INTERNAL, type(e).__name__)

    request, response = MESSAGES[f"{name}Request"], MESSAGES[f"{name}Response"]
    return grpc.unary_unary_rpc_method_handler(call, request.FromString, response.SerializeToString)


class _RemoteCalls:
    """The methods."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def server_live(self, request: Any, context: Any) -> Any:
        return MESSAGES["ServerLiveResponse"](live=True)

    async def server_ready(self, request: Any, context: Any) -> Any:
        return MESSAGES["ServerReadyResponse"](ready=self.service.is_ready)

    async def model_ready(self, request: Any, context: Any) -> Any:
        self.service.model(request.name, request.version)
        return MESSAGES["ModelReadyResponse"](ready=self.service.is_ready)

    async def server_metadata(self, request: Any, context: Any) -> Any:
        return MESSAGES["ServerMetadataResponse"](name="anyshape", version=VERSION, extensions=EXTENSIONS)

    async def model_metadata(self, request: Any, context: Any) -> Any:
        known = metadata(self.service.model(request.name, request.version))
        for described in (known, *known["inputs"], *known["outputs"]):
            described["parameters"] = {
                k: MESSAGES["InferParameter"](string_param=v) for k, v in described["parameters"].items()
            }
        for side in ("inputs", "outputs"):
            known[side] = [MESSAGES["TensorMetadata"](**t) for t in known[side]]
        return MESSAGES["ModelMetadataResponse"](**known)

    async def model_infer(self, request: Any, context: Any) -> Any:
        name, version = request.model_name, request.model_version
        with self.service.counted(name), self.service.holding() as held:
            held.take(request.ByteSize())
            self.service.model(name, version)
            left = context.time_remaining()
            limit = self.service.options.timeout
            call = _decoded(request)
            outputs = await self.service.infer(name, version, call, limit if left is None else min(limit, left))
            return _encoded(name, call, outputs)


def _decoded(request: Any) -> InferRequest:
    raw: Sequence[bytes] = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RefusedRequest(f"there are {len(request.inputs)} inputs, but raw contents of {len(raw)}")
    inputs: dict[str, Array] = {}
    for k, tensor in enumerate(request.inputs):
        where = f"input {tensor.name[:100]}"
        if tensor.name in inputs:
            raise RefusedRequest(f"the {where} is in the request twice")
        dtype, shape = dtype_of(where, tensor.datatype), shape_of(where, list(tensor.shape))
        inputs[tensor.name] = (
            from_bytes(where, raw[k], dtype, shape) if raw else _contents(where, tensor.contents, dtype, shape)
        )
    requested = [RequestedOutput(name=o.name, is_binary=True) for o in request.outputs]
    return InferRequest(id=request.id, inputs=inputs, requested=requested or None, binary=True)


def _contents(where: str, contents: Any, dtype: DType, shape: tuple[int, ...]) -> Array:
    field = _CONTENTS.get(DATATYPES[dtype])
    if field is None:
        raise RefusedRequest(f"{where}: elements of {DATATYPES[dtype]} must be in raw_input_contents")
    return from_elements(where, list(getattr(contents, field)), dtype, shape)


def _encoded(model: str, request: InferRequest, outputs: Mapping[str, Array]) -> Any:
    tensors = [
        MESSAGES["InferOutputTensor"](name=n, datatype=DATATYPES[from_numpy(a.dtype)], shape=a.shape)
        for n, a in outputs.items()
    ]
    return MESSAGES["ModelInferResponse"](
        model_name=model,
        model_version="1",
        id=request.id,
        outputs=tensors,
        raw_output_contents=[to_bytes(a) for a in outputs.values()],
    )
