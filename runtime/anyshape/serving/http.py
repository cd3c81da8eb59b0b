"""The routes of the Open Inference Protocol over HTTP, and /metrics.

aiohttp reads bodies piece by piece, so that one that is too large is refused before it is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web

from anyshape.code_version import VERSION
from anyshape.serving.http_bodies import decoded, encoded, error_text
from anyshape.serving.model import metadata
from anyshape.serving.refusal import RefusedRequest
from anyshape.serving.service import Holding, Service

LOG = logging.getLogger("anyshape.serving")
HEADER_LENGTH = "Inference-Header-Content-Length"
EXTENSIONS = ("binary_tensor_data", "parameters")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(service: Service) -> web.Application:
    """The routes of a service."""
    routes = _Routes(service)
    app = web.Application(middlewares=[web.middleware(_errors_as_json)])
    app.router.add_get("/v2", routes.server)
    app.router.add_get("/v2/health/live", routes.live)
    app.router.add_get("/v2/health/ready", routes.ready)
    app.router.add_get("/metrics", routes.metrics)
    for model in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        app.router.add_get(model, routes.model)
        app.router.add_get(f"{model}/ready", routes.model_ready)
        app.router.add_post(f"{model}/infer", routes.infer)
    return app


async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers what is refused, and defects of ours, as JSON."""
    try:
        return await handler(request)
    except RefusedRequest as e:
        return _refusal(e, e.status)
    except web.HTTPException as e:
        return _refusal(Exception(f"{request.method} {request.path[:200]}: {e.reason}"), HTTPStatus(e.status))
    except (asyncio.CancelledError, ConnectionError):
        raise
    except Exception as e:
        LOG.exception("a request failed")
        return _refusal(Exception(type(e).__name__), HTTPStatus.INTERNAL_SERVER_ERROR)


def _refusal(e: Exception, status: HTTPStatus) -> web.Response:
    response = web.Response(text=error_text(e), status=status, content_type="application/json")
    if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        response.force_close()  # the rest of the body is not read
    return response


class _Routes:
    """Handlers of the routes."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def server(self, request: web.Request) -> web.Response:
        return web.json_response({"name": "anyshape", "version": VERSION, "extensions": EXTENSIONS})

    async def live(self, request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def ready(self, request: web.Request) -> web.Response:
        return self._readiness({"ready": self.service.is_ready})

    async def model_ready(self, request: web.Request) -> web.Response:
        model = self.service.model(*_named(request))
        return self._readiness({"name": model.name, "ready": self.service.is_ready})

    def _readiness(self, said: dict[str, Any]) -> web.Response:
        status = HTTPStatus.OK if self.service.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response(said, status=status)

    async def model(self, request: web.Request) -> web.Response:
        return web.json_response(metadata(self.service.model(*_named(request))))

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            body=self.service.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def infer(self, request: web.Request) -> web.Response:
        name, version = _named(request)
        with self.service.counted(name), self.service.holding() as held:
            self.service.model(name, version)
            body = await _timely_body(request, held, self.service.options.timeout)
            call = decoded(body, request.headers.get(HEADER_LENGTH))
            outputs = await self.service.infer(name, version, call, self.service.options.timeout)
            answer, length = encoded(name, call, outputs)
            if length is None:
                return web.Response(body=answer, content_type="application/json")
            headers = {HEADER_LENGTH: str(length), "Content-Type": "application/octet-stream"}
            return web.Response(body=answer, headers=headers)


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["model"], request.match_info.get("version", "")


async def _timely_body(request: web.Request, held: Holding, seconds: float) -> bytes:
    """The body. Raises RefusedRequest if it does not arrive in time."""
    try:
        async with asyncio.timeout(seconds):
            return await _body(request, held)
    except TimeoutError:
        raise RefusedRequest("the body did not arrive in time", HTTPStatus.REQUEST_TIMEOUT) from None


async def _body(request: web.Request, held: Holding) -> bytes:
    """The body, whose bytes are counted before it is kept."""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise RefusedRequest("compressed bodies are not accepted", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    if request.content_length is not None:
        held.take(request.content_length)
        body: bytes = await request.content.read()
        return body
    pieces: list[bytes] = []
    async for piece in request.content.iter_any():
        held.take(len(piece))
        pieces.append(piece)
    return b"".join(pieces)
