"""Starts the protocols of a service, and ends them on a signal.

SIGTERM and SIGINT drain: readiness and new requests are refused at once, what was accepted is answered, then the process ends. A second
signal, or the end of the time for draining, ends it at once.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence

import grpc.aio
from aiohttp import web

from anyshape.batching import BatchDim
from anyshape.errors import AnyshapeError
from anyshape.serving.grpc_calls import handler
from anyshape.serving.http import application
from anyshape.serving.model import Model
from anyshape.serving.options import ServeOptions
from anyshape.serving.service import Service

LOG = logging.getLogger("anyshape.serving")
Say = Callable[[str], None]


def serve(models: Sequence[Model], options: ServeOptions, say: Say) -> None:
    """Serves models until a signal. Raises AnyshapeError if an address cannot be had. `say` gets the lines that people read."""
    asyncio.run(_Server(models, options, say).run())


class _Server:
    """One server, and the state of its shutdown."""

    def __init__(self, models: Sequence[Model], options: ServeOptions, say: Say) -> None:
        self.models, self.options, self.say = models, options, say
        self.signals = 0
        self.signalled: asyncio.Event

    async def run(self) -> None:
        self.signalled = asyncio.Event()
        service = Service(self.models, self.options)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal)
        runner = web.AppRunner(application(service), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        rpc = grpc.aio.server(
            options=[("grpc.max_receive_message_length", self.options.max_body), ("grpc.so_reuseport", 0)]
        )
        workers = [asyncio.create_task(q.run()) for q in service.queues.values()]
        try:
            await self._listen(runner, rpc, service)
            await self.signalled.wait()
            await self._drain(service)
        finally:
            await rpc.stop(0)
            await runner.cleanup()
            for worker in workers:
                worker.cancel()

    def _signal(self) -> None:
        self.signals += 1
        self.signalled.set()

    async def _listen(self, runner: web.AppRunner, rpc: grpc.aio.Server, service: Service) -> None:
        host = self.options.host
        for m in self.models:
            b = m.batching
            how = (
                f"requests are joined along {b}" if isinstance(b, BatchDim) else f"requests run one after another: {b}"
            )
            self.say(f"model {m.name}: {how}")
        if self.options.port is not None:
            await runner.setup()
            site = web.TCPSite(runner, host, self.options.port)
            try:
                await site.start()
            except OSError as e:
                raise AnyshapeError(f"{host}:{self.options.port}: {e.strerror or e}") from None
            self.say(f"HTTP at {_address(runner.addresses[0])}")
        if self.options.grpc_port is not None:
            rpc.add_generic_rpc_handlers((handler(service),))
            try:
                port = rpc.add_insecure_port(f"{host}:{self.options.grpc_port}")
            except RuntimeError as e:
                raise AnyshapeError(f"{host}:{self.options.grpc_port}: {e}") from None
            await rpc.start()
            self.say(f"gRPC at {host}:{port}")
        self.say("ready")

    async def _drain(self, service: Service) -> None:
        """Waits until all accepted requests are answered."""
        service.is_draining = True
        self.say(f"draining, {service.pending} requests are not answered yet")
        end = time.monotonic() + self.options.drain
        while service.pending and time.monotonic() < end and self.signals < 2:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)  # what is answered is on its way to the sockets
        self.say("stopped" if not service.pending else f"stopped, {service.pending} requests are not answered")


def _address(address: object) -> str:
    return ":".join(map(str, address[:2])) if isinstance(address, tuple) else str(address)
