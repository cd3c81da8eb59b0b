"""The queue of a model: which requests are one call, deadlines, a full queue, and requests that fail beside others that do not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.batching import BatchDim, RowAxis, Unbatched
from anyshape.batching.joining import joined, key_of, parted, rows_of
from anyshape.errors import ArgumentError, DeadlineExceeded, ShapeError, UnsupportedError
from anyshape.serving.model import CompiledModel, metadata, model_names
from anyshape.serving.options import ServeOptions
from anyshape.serving.queue import ModelQueue
from anyshape.serving.refusal import RefusedRequest
from anyshape.types import TensorType

DIM = BatchDim("n", (RowAxis("x", 0), RowAxis("w", None)), (RowAxis("y", 0),), None)


class Doubling:
    """A model that doubles, and notes the shapes of its calls. It refuses negative numbers, 1000 waits for the deadline, 13 is a defect."""

    name, platform = "doubling", "test"

    def __init__(self, batching: BatchDim | Unbatched = DIM) -> None:
        self.batching = batching
        self.inputs: dict[str, TensorType] = {}
        self.outputs = self.inputs
        self.shapes: list[tuple[int, ...]] = []
        self.gate = threading.Event()
        self.gate.set()

    def run(self, inputs: Mapping[str, Any], deadline: float) -> list[Any]:
        self.gate.wait(10)
        x = inputs["x"]
        self.shapes.append(x.shape)
        if (x == 1000).any():
            time.sleep(min(deadline, 5))
            raise DeadlineExceeded("late")
        if (x == 13).any():
            raise RuntimeError("a defect")
        if (x < 0).any():
            raise ShapeError("negative")
        return [2 * x]

    def called(self, model: str, requests: int, rows: int, seconds: float) -> None:
        pass


async def outcomes(model: Doubling, requests: list[Any], seconds: float = 5.0, **options: Any) -> list[Any]:
    """The results, or errors, of requests that arrive together while a call runs."""
    queue = ModelQueue(model, ServeOptions(**options), model)
    model.gate.clear()
    worker = asyncio.create_task(queue.run())
    w = np.ones(1)
    first = asyncio.create_task(queue.answer({"x": np.zeros((1, 1)), "w": w}, 5.0))
    await asyncio.sleep(0.01)
    tasks = [asyncio.create_task(queue.answer({"x": x, "w": w}, seconds)) for x in requests]
    await asyncio.sleep(0.01)
    model.gate.set()
    await first
    model.shapes.pop(0)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert len(queue) == 0
    worker.cancel()
    return done


def rows(n: int, width: int, value: float = 1.0) -> Any:
    return np.full((n, width), value)


def test_requests_of_one_length_are_one_call() -> None:
    model = Doubling()
    results = asyncio.run(outcomes(model, [rows(1, 3), rows(2, 4), rows(2, 3, 5.0), rows(1, 4)]))
    assert model.shapes == [(3, 3), (3, 4)]
    assert [r[0].shape for r in results] == [(1, 3), (2, 4), (2, 3), (1, 4)]
    assert results[2][0].tolist() == rows(2, 3, 10.0).tolist()


def test_calls_have_at_most_so_many_rows() -> None:
    model = Doubling()
    asyncio.run(outcomes(model, [rows(2, 3)] * 5, max_batch=4))
    assert model.shapes == [(4, 3), (4, 3), (2, 3)]
    model = Doubling(BatchDim("n", DIM.inputs, DIM.outputs, 3))
    asyncio.run(outcomes(model, [rows(1, 3)] * 4))
    assert model.shapes == [(3, 3), (1, 3)]


def test_without_a_batch_dim_each_is_a_call() -> None:
    model = Doubling(Unbatched({"n": "a softmax over it"}))
    asyncio.run(outcomes(model, [rows(1, 3)] * 3))
    assert model.shapes == [(1, 3)] * 3


def test_one_that_fails_does_not_harm_others() -> None:
    model = Doubling()
    good, bad, defect, also = asyncio.run(outcomes(model, [rows(1, 3), rows(1, 3, -1), rows(1, 3, 13), rows(2, 3)]))
    assert good[0].tolist() == [[2, 2, 2]] and also[0].shape == (2, 3)
    assert isinstance(bad, RefusedRequest) and bad.status == 400 and "negative" in str(bad)
    assert isinstance(defect, RefusedRequest) and defect.status == 500


def test_deadlines() -> None:
    late, soon = asyncio.run(outcomes(Doubling(), [rows(1, 3, 1000), rows(1, 4)], seconds=0.2))
    assert isinstance(late, RefusedRequest) and late.status == 504
    assert isinstance(soon, RefusedRequest) and soon.status == 504


def test_a_full_queue() -> None:
    results = asyncio.run(outcomes(Doubling(), [rows(1, k) for k in (1, 2, 3)], max_queue=2))
    assert [getattr(r, "status", None) for r in results] == [None, None, 429]


def test_what_is_joined_agrees_in_all_else() -> None:
    x, w = rows(2, 3), np.ones(2)
    key = key_of(DIM, {"x": x, "w": w})
    assert key == key_of(DIM, {"x": rows(5, 3), "w": w})
    assert key != key_of(DIM, {"x": rows(2, 4), "w": w})
    assert key != key_of(DIM, {"x": x, "w": 2 * w})
    assert rows_of(DIM, {"x": x, "w": w}) == 2
    assert rows_of(DIM, {"x": rows(0, 3), "w": w}) is None
    two = BatchDim("n", (RowAxis("x", 0), RowAxis("m", 1)), (RowAxis("y", 0),), None)
    assert rows_of(two, {"x": x, "m": rows(3, 1)}) is None


def test_parts_of_results_with_several_positions_for_each_row() -> None:
    requests = [{"x": rows(1, 2), "w": np.ones(1)}, {"x": rows(2, 2, 7), "w": np.ones(1)}]
    together = joined(DIM, requests)["x"]
    flat, fixed = np.repeat(together, 4, 0), np.arange(3)
    dim = BatchDim("n", DIM.inputs, (RowAxis("y", 0), RowAxis("z", None)), None)
    parts = parted(dim, [flat, fixed], [1, 2])
    assert [p[0].shape for p in parts] == [(4, 2), (8, 2)]
    assert (parts[1][0] == 7).all() and all((p[1] == fixed).all() for p in parts)


def test_metadata_of_a_compiled_model() -> None:
    x = anyshape.input("x", "f32[n, m]")
    model = CompiledModel("rows", anyshape.compile(anyshape.function([x], ops.softmax(x, axis=1))))
    said = metadata(model)
    assert said["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, -1], "parameters": {"dims": "n, m"}}]
    assert said["parameters"] == {"batch_dim": "n (axis 0 of x)"}
    model = CompiledModel("columns", anyshape.compile(anyshape.function([x], ops.add(x, ops.sum(x)))))
    assert "static.sum" in metadata(model)["parameters"]["unbatched"]
    text = anyshape.compile(anyshape.function([s := anyshape.input("s", "f8e4m3fn[n]")], ops.identity(s)))
    with pytest.raises(UnsupportedError, match="no datatype"):
        CompiledModel("text", text)


def test_names_of_models() -> None:
    assert model_names(["a/bert.onnx", "b=c.onnx"]) == {"bert": "a/bert.onnx", "b": "c.onnx"}
    for words in (["x/a.onnx", "y/a.onnx"], ["=a"], ["a="], ["a/b=c"]):
        with pytest.raises(ArgumentError):
            model_names(words)
