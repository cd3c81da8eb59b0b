"""The requests of one model that are not answered yet, and the thread that runs them.

In: requests, in the event loop. Out: their results, in the order of arrival but that those joined with an earlier one go with it. One call
runs at a time, on as many threads as the model was compiled for; what arrives meanwhile is what the next call joins.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from anyshape.batching import BatchDim
from anyshape.batching.joining import joined, key_of, parted, rows_of
from anyshape.errors import AnyshapeError, DeadlineExceeded
from anyshape.serving.model import Model
from anyshape.serving.options import ServeOptions
from anyshape.serving.refusal import RefusedRequest
from anyshape.serving.request import Array

LOG = logging.getLogger("anyshape.serving")
CallOutcome = list[Array] | BaseException


@dataclass(eq=False, kw_only=True)
class Pending:
    """A request that waits. `key` is None for one that runs alone; times are of the monotonic clock."""

    inputs: Mapping[str, Array]
    key: Hashable
    rows: int
    arrived: float
    deadline: float
    answer: asyncio.Future[list[Array]]


class CallObserver(Protocol):
    """Told of each call: the numbers of requests and rows, and its seconds."""

    def called(self, model: str, requests: int, rows: int, seconds: float) -> None: ...


class ModelQueue:
    """The queue of one model; `run` is the task that serves it."""

    def __init__(self, model: Model, options: ServeOptions, observer: CallObserver) -> None:
        self.model, self.options, self.observer = model, options, observer
        self._waiting: list[Pending] = []
        self._arrival = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, f"anyshape-{model.name}")

    def __len__(self) -> int:
        return len(self._waiting)

    async def answer(self, inputs: Mapping[str, Array], seconds: float) -> list[Array]:
        """The outputs for the inputs. Raises RefusedRequest where the queue is full or the time over, else what the model raises."""
        if len(self._waiting) >= self.options.max_queue:
            raise RefusedRequest(
                f"{self.model.name}: {len(self._waiting)} requests wait already", HTTPStatus.TOO_MANY_REQUESTS
            )
        pending = self._pending(inputs, seconds)
        self._waiting.append(pending)
        self._arrival.set()
        try:
            async with asyncio.timeout(seconds):
                return await pending.answer
        except TimeoutError:
            raise self._late() from None
        finally:
            pending.answer.cancel()
            with suppress(ValueError):
                self._waiting.remove(pending)

    def _pending(self, inputs: Mapping[str, Array], seconds: float) -> Pending:
        dim, now = self.model.batching, time.monotonic()
        rows = rows_of(dim, inputs) if isinstance(dim, BatchDim) else None
        key = key_of(dim, inputs) if isinstance(dim, BatchDim) and rows is not None else None
        answer = asyncio.get_running_loop().create_future()
        return Pending(inputs=inputs, key=key, rows=rows or 1, arrived=now, deadline=now + seconds, answer=answer)

    def _late(self) -> RefusedRequest:
        return RefusedRequest(
            f"{self.model.name}: the answer took longer than the request allows", HTTPStatus.GATEWAY_TIMEOUT
        )

    async def run(self) -> None:
        """Runs calls until it is cancelled."""
        while True:
            batch = await self._next()
            outcomes = await asyncio.get_running_loop().run_in_executor(self._thread, self._call, batch)
            for pending, outcome in zip(batch, outcomes, strict=True):
                if pending.answer.done():
                    continue
                if isinstance(outcome, BaseException):
                    pending.answer.set_exception(outcome)
                else:
                    pending.answer.set_result(outcome)

    async def _next(self) -> list[Pending]:
        """Waits for requests, and takes the oldest with those that can be joined with it."""
        while True:
            self._arrival.clear()
            batch = self._joinable()
            if not batch:
                await self._arrival.wait()
                continue
            patience = batch[0].arrived + self.options.max_delay - time.monotonic()
            if batch[0].key is None or sum(p.rows for p in batch) >= self.options.max_batch or patience <= 0:
                self._waiting = [p for p in self._waiting if p not in batch]
                return batch
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._arrival.wait()

    def _joinable(self) -> list[Pending]:
        if not self._waiting:
            return []
        first, *later = self._waiting
        batch, rows = [first], first.rows
        for p in later:
            if first.key is not None and p.key == first.key and rows + p.rows <= self._most_rows():
                batch.append(p)
                rows += p.rows
        return batch

    def _most_rows(self) -> int:
        dim = self.model.batching
        most = dim.most if isinstance(dim, BatchDim) else None
        return self.options.max_batch if most is None else min(most, self.options.max_batch)

    # --- in the thread ---

    def _call(self, batch: Sequence[Pending]) -> list[CallOutcome]:
        """Runs one call for all; each alone if that fails, since one that does not fit must not harm the others."""
        dim = self.model.batching
        if len(batch) > 1 and isinstance(dim, BatchDim):
            try:
                results = self._timed(joined(dim, [p.inputs for p in batch]), batch)
                return list(parted(dim, results, [p.rows for p in batch]))
            except Exception as e:
                LOG.debug("%s: a joined call failed, its requests run alone: %s", self.model.name, e)
        return [self._alone(p) for p in batch]

    def _alone(self, pending: Pending) -> CallOutcome:
        try:
            return self._timed(pending.inputs, [pending])
        except DeadlineExceeded:
            return self._late()
        except AnyshapeError as e:
            return RefusedRequest(str(e))
        except Exception as e:
            LOG.exception("%s: a call failed", self.model.name)
            return RefusedRequest(f"{self.model.name}: {type(e).__name__}", HTTPStatus.INTERNAL_SERVER_ERROR)

    def _timed(self, inputs: Mapping[str, Array], batch: Sequence[Pending]) -> list[Array]:
        start = time.monotonic()
        results = self.model.run(inputs, max(0.0, max(p.deadline for p in batch) - start))
        self.observer.called(self.model.name, len(batch), sum(p.rows for p in batch), time.monotonic() - start)
        return results
