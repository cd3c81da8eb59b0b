"""What both protocols do: which models there are, how much may be pending, and what is refused before a model sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from anyshape.serving.datatypes import DATATYPES
from anyshape.serving.metrics import Metrics
from anyshape.serving.model import Model
from anyshape.serving.options import ServeOptions
from anyshape.serving.queue import ModelQueue
from anyshape.serving.refusal import RefusedRequest
from anyshape.serving.request import Array, InferRequest

UNKNOWN = "unknown"
"""The model in counters of requests for models that there are not: names of callers would be counters without end"""


class Service:
    """The models of a server. `is_draining`: no new requests are accepted."""

    def __init__(self, models: Sequence[Model], options: ServeOptions) -> None:
        self.options, self.metrics = options, Metrics()
        self.queues: Mapping[str, ModelQueue] = {m.name: ModelQueue(m, options, self.metrics) for m in models}
        self.is_draining = False
        self.pending = 0
        self._bytes = 0
        for name, q in self.queues.items():
            self.metrics.watch(name, q.__len__)

    @property
    def is_ready(self) -> bool:
        return not self.is_draining

    def model(self, name: str, version: str = "") -> Model:
        """The model of a name. Raises RefusedRequest for another one or another version."""
        return self._queue(name, version).model

    def _queue(self, name: str, version: str) -> ModelQueue:
        if name not in self.queues:
            raise RefusedRequest(
                f"there is no model {name[:100]!r}; there is {', '.join(self.queues)}", HTTPStatus.NOT_FOUND
            )
        if version not in ("", "1"):
            raise RefusedRequest(f"{name} has the version 1, and no {version[:100]!r}", HTTPStatus.NOT_FOUND)
        return self.queues[name]

    def accept(self) -> None:
        """Raises RefusedRequest while no requests are accepted."""
        if self.is_draining:
            raise RefusedRequest("the server is shutting down", HTTPStatus.SERVICE_UNAVAILABLE)

    @contextmanager
    def holding(self) -> Iterator[Holding]:
        """Counts a request and the bytes of its body until it is answered."""
        self.accept()
        held = Holding(self)
        self.pending += 1
        try:
            yield held
        finally:
            self.pending -= 1
            held.release()

    def take(self, size: int) -> None:
        if self._bytes + size > self.options.max_pending:
            raise RefusedRequest("too many bytes of requests wait already", HTTPStatus.SERVICE_UNAVAILABLE)
        self._bytes += size
        self.metrics.bytes.set(self._bytes)

    def give_back(self, size: int) -> None:
        self._bytes -= size
        self.metrics.bytes.set(self._bytes)

    async def infer(self, name: str, version: str, request: InferRequest, seconds: float) -> dict[str, Array]:
        """The outputs by name. Raises RefusedRequest."""
        queue = self._queue(name, version)
        _demand_inputs(queue.model, request.inputs)
        requested = None if request.requested is None else [w.name for w in request.requested]
        unknown = sorted(set(requested or ()) - set(queue.model.outputs))
        if unknown:
            raise RefusedRequest(
                f"{name} has no output {', '.join(unknown)[:200]}; it has {', '.join(queue.model.outputs)}"
            )
        results = dict(zip(queue.model.outputs, await queue.answer(request.inputs, seconds)))
        return results if requested is None else {n: results[n] for n in requested}

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Counts the outcome of a request."""
        start, status = time.monotonic(), HTTPStatus.INTERNAL_SERVER_ERROR.value
        try:
            yield
            status = HTTPStatus.OK.value
        except RefusedRequest as e:
            status = e.status.value
            raise
        except asyncio.CancelledError:
            status = 499  # the caller went away
            raise
        finally:
            self.metrics.answered(name if name in self.queues else UNKNOWN, status, time.monotonic() - start)


class Holding:
    """The bytes that one request holds."""

    def __init__(self, service: Service) -> None:
        self._service, self._size = service, 0

    def take(self, size: int) -> None:
        """Counts more bytes. Raises RefusedRequest for a body that is too large, and where the server holds too many already."""
        most = self._service.options.max_body
        if self._size + size > most:
            raise RefusedRequest(f"the body is larger than {most} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._service.take(size)
        self._size += size

    def release(self) -> None:
        self._service.give_back(self._size)
        self._size = 0


def _demand_inputs(model: Model, inputs: Mapping[str, Array]) -> None:
    """Raises RefusedRequest for other inputs than the model's, or of another dtype or rank; sizes are checked by the model."""
    missing, unknown = sorted(set(model.inputs) - set(inputs)), sorted(set(inputs) - set(model.inputs))
    if missing or unknown:
        wrong = f"is given no {', '.join(missing)}" if missing else f"has no input {', '.join(unknown)[:200]}"
        raise RefusedRequest(f"{model.name} {wrong}; its inputs are {', '.join(model.inputs)}")
    for name, a in inputs.items():
        t = model.inputs[name]
        if a.dtype != t.dtype.numpy:
            raise RefusedRequest(f"{model.name}: the input {name} is {DATATYPES[t.dtype]} and not {a.dtype}")
        if t.rank is not None and a.ndim != t.rank:
            raise RefusedRequest(f"{model.name}: the input {name} is {t}, and not of rank {a.ndim}")
