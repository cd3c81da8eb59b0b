"""The engines of `benchmarks.op_audit` and `single_ops`, each in a process of its own, which is stopped while others are measured.

In: the name of an engine and a number of threads; then a model, and arrays for it. Out: seconds of calls, and results.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from benchmarks.checkouts import path_of
from benchmarks.engines import onnxruntime_options
from benchmarks.lines import Array, placed
from benchmarks.workers import Stopped, serve

Call = Callable[[], object]
Arrays = Mapping[str, Array]
Compiled = tuple[Callable[[Arrays], Sequence[Array]], Callable[[Arrays, Arrays], Call]]
"""A call on arrays, and one that is bound to arrays and to places for results"""
WARM_SECONDS = 0.003
"""Seconds of calls at the beginning of a turn, at least: longer than threads need to wake, and caches to fill."""
WARM_PASSES, PASS_BYTES = 10, 30e9
"""The time that a large working set is warmed up, as passes over it and bytes a second: a last cache that the process before has filled
changes hands slowly. The first calls of 33 MB took 1470 to 1120 us, and 650 once it had."""
BATCH_SECONDS = 4e-4
TURN_SECONDS = 0.01
"""Seconds of batches in a turn."""
LIMIT = 120.0
"""Seconds after which an engine that does not answer is given up: some loop for ever on what they cannot compile."""


class OpWorker(Stopped):
    """An engine, which has one model at a time."""

    def __init__(
        self, name: str, threads: int, checkout: Path | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """`checkout`: a folder whose anyshape it is, by whatever name; `options`: what anyshape compiles with."""
        engine, path = (name, None) if checkout is None else ("anyshape", path_of(checkout))
        arguments = (engine, threads, dict(options or {}) if engine == "anyshape" else {})
        super().__init__(name, "benchmarks.op_engines", arguments, path, limit=LIMIT)

    def compile(self, model: bytes) -> None:
        self.ask("compile", model)

    def take(self, inputs: Arrays, outputs: Sequence[str], new: bool) -> list[Array]:
        """Binds the model to arrays; returns the results."""
        results: list[Array] = self.ask("take", inputs, outputs, new)
        return results

    def turn(self) -> list[float]:
        """Seconds of a call, by batches of equal calls."""
        seconds: list[float] = self.ask("turn")
        return seconds


# what runs in a process of its own


def anyshape_(model: bytes, threads: int, **options: Any) -> Compiled:
    import anyshape

    executable = anyshape.compile(model, threads=threads, **options)
    return executable.run, lambda inputs, outputs: lambda: executable.run(inputs, outputs)


def onnxruntime_(model: bytes, threads: int) -> Compiled:
    import onnxruntime

    options = onnxruntime_options(threads)
    options.log_severity_level = 4
    options.add_session_config_entry(
        "session.qdq_matmulnbits_accuracy_level", "1"
    )  # f32, as the model says; not rows of 8 bits
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def bound(inputs: Arrays, outputs: Arrays) -> Call:
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, place in outputs.items():
            binding.bind_output(name, "cpu", 0, place.dtype, place.shape, place.ctypes.data)
        return lambda: session.run_with_iobinding(binding)

    return lambda inputs: session.run(None, dict(inputs)), bound


def openvino_(model: bytes, threads: int) -> Compiled:
    import openvino

    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,  # f32, as the model says; not rows of 8 bits
    }
    core = openvino.Core()
    free, held = (core.compile_model(core.read_model(model), "CPU", hints) for _ in range(2))
    """One for calls with places for results, and one for others: without a place of its own, a call that follows one with places writes
    where these were, however small (OpenVINO 2026.4; the process ends soon)."""

    def run(inputs: Arrays) -> list[Array]:
        return [np.array(a) for a in free.create_infer_request().infer(dict(inputs)).values()]

    def bound(inputs: Arrays, outputs: Arrays) -> Call:
        request = held.create_infer_request()
        for name, array in inputs.items():
            request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
        for k, place in enumerate(outputs.values()):
            request.set_output_tensor(k, openvino.Tensor(place, shared_memory=True))
        return lambda: request.infer(share_outputs=True)

    return run, bound


def iree_(model: bytes, _threads: int) -> Compiled:
    """Makes calls of IREE, whose results lie where it likes."""
    from benchmarks.iree_engine import compiled, on_device, to_host

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(model)
        names, invoke = compiled(path)

    def bound(inputs: Arrays, _outputs: Arrays) -> Call:
        arguments = [on_device(inputs[n]) for n in names]
        return lambda: invoke(arguments)

    return lambda inputs: [to_host(y) for y in invoke([on_device(inputs[n]) for n in names])], bound


def ncnn_(model: bytes, threads: int) -> Compiled:
    from benchmarks import ncnn_engine

    return _where_it_likes(ncnn_engine.compiled(ModelProto.FromString(model), threads), ncnn_engine.arrays)


def litert_(model: bytes, threads: int) -> Compiled:
    from benchmarks import litert_engine

    return _where_it_likes(litert_engine.compiled(ModelProto.FromString(model), threads), litert_engine.arrays)


def _where_it_likes(bind: Callable[[Arrays], Call], arrays: Callable[[Any], list[Array]]) -> Compiled:
    """Calls of an engine whose results lie where it likes."""
    return lambda inputs: arrays(bind(inputs)()), lambda inputs, _: bind(inputs)


ENGINES: dict[str, Callable[..., Compiled]] = {
    "anyshape": anyshape_, "onnxruntime": onnxruntime_, "openvino": openvino_, "iree": iree_, "ncnn": ncnn_, "litert": litert_,
}  # fmt: skip


class _Engine:
    def __init__(self, name: str, threads: int, options: Mapping[str, Any]) -> None:
        self._name, self._threads, self._options = name, threads, options

    def compile(self, model: bytes) -> None:
        self._run, self._bound = ENGINES[self._name](model, self._threads, **self._options)

    def take(self, inputs: Arrays, outputs: Sequence[str], new: bool) -> list[Array]:
        self._inputs = {n: placed(a) for n, a in inputs.items()}
        self._outputs = dict(zip(outputs, map(_copied, self._run(self._inputs)), strict=True))
        """Copies of outputs, of which engines keep addresses only."""
        moved = sum(a.nbytes for a in (*self._inputs.values(), *self._outputs.values()))
        self._warm = max(WARM_SECONDS, WARM_PASSES * moved / PASS_BYTES)
        if new:
            self._call: Call = lambda: self._run(self._inputs)
            return list(self._outputs.values())
        self._call = self._bound(self._inputs, self._outputs)
        self._call()
        return list(self._outputs.values())

    def turn(self) -> list[float]:
        last = _timed(self._call, 1)
        end = time.perf_counter() + self._warm
        while time.perf_counter() < end:
            last = _timed(self._call, 1)
        repeats = max(1, int(BATCH_SECONDS / last))
        seconds: list[float] = []
        end = time.perf_counter() + TURN_SECONDS
        while len(seconds) < 3 or time.perf_counter() < end:
            seconds.append(_timed(self._call, repeats))
        return seconds


def _copied(result: Any) -> Array:
    return placed(np.ascontiguousarray(result)).reshape(np.shape(result))


def _timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), lambda name, threads, options: (_Engine(name, threads, options), None))
