"""Limits of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Addresses and limits. A port of None is not served, 0 is any free one. `max_delay` is how long a request waits for others to be
    joined with while nothing runs, `timeout` how long one may take in all, `drain` how long accepted ones may after SIGTERM, in seconds.
    `max_pending` bounds the bytes of the bodies of all requests that are not answered yet, `max_queue` their number for each model."""

    host: str = "127.0.0.1"
    port: int | None = 8080
    grpc_port: int | None = 8081
    max_batch: int = 32
    max_delay: float = 0.0
    max_body: int = 64 << 20
    max_pending: int = 512 << 20
    max_queue: int = 256
    timeout: float = 30.0
    drain: float = 30.0
