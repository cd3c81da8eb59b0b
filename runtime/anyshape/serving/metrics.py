"""Counters of a server, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """What is counted of one server."""

    def __init__(self) -> None:
        r = self.registry = CollectorRegistry()
        self.answers = Counter("anyshape_requests", "Requests by model and status.", ["model", "status"], registry=r)
        self.seconds = Histogram(
            "anyshape_request_seconds", "From the whole body to the answer.", ["model"], buckets=_SECONDS, registry=r
        )
        self.calls = Histogram("anyshape_call_seconds", "Calls of the model.", ["model"], buckets=_SECONDS, registry=r)
        self.joined = Histogram(
            "anyshape_call_requests", "Requests joined in a call.", ["model"], buckets=_COUNTS, registry=r
        )
        self.rows = Histogram("anyshape_call_rows", "Rows of a call.", ["model"], buckets=_COUNTS, registry=r)
        self.bytes = Gauge("anyshape_pending_bytes", "Bytes of bodies that are not answered yet.", registry=r)
        self.waiting = Gauge("anyshape_queue_length", "Requests that wait for a call.", ["model"], registry=r)

    def called(self, model: str, requests: int, rows: int, seconds: float) -> None:
        self.calls.labels(model).observe(seconds)
        self.joined.labels(model).observe(requests)
        self.rows.labels(model).observe(rows)

    def answered(self, model: str, status: int, seconds: float) -> None:
        self.answers.labels(model, str(status)).inc()
        self.seconds.labels(model).observe(seconds)

    def watch(self, model: str, length: Callable[[], float]) -> None:
        """Reads the length of a model's queue whenever it is asked for."""
        self.waiting.labels(model).set_function(length)

    def text(self) -> bytes:
        text: bytes = generate_latest(self.registry)
        return text
