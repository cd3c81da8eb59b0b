"""The engines of `benchmarks.single_ops`, each in a process of its own, which is stopped while others are measured (`workers.py`).

In: the name of an engine and a number of threads; then cases by their place in `single_cases.cases`. Out: seconds and results.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.engines import onnxruntime_options
from benchmarks.lines import placed
from benchmarks.single_cases import Array, cases
from benchmarks.workers import Stopped, serve

Call = Callable[[], object]
WARM_SECONDS = 0.003
"""Seconds of calls at the beginning of a turn, at least: longer than threads need to wake, and caches to fill."""
WARM_PASSES, PASS_BYTES = 10, 30e9
"""Where the working set is large, as long as so many passes over it take at so many bytes a second: a last cache that the process before
has filled changes hands slowly. The first calls of 33 MB took 1470 to 1120 us, and 650 once it had."""
BATCH_SECONDS = 4e-4
TURN_SECONDS = 0.01
"""Seconds of batches in a turn."""


class SingleWorker(Stopped):
    """One engine, which has one case at a time."""

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name, "benchmarks.single_engines", (name, threads))

    def take(self, place: int) -> None:
        self.ask("take", place)

    def turn(self) -> list[float]:
        """Seconds of a call, by batches of equal calls."""
        found: list[float] = self.ask("turn")
        return found

    def result(self) -> Array:
        found: Array = self.ask("result")
        return found


# what runs in a process of its own


def anyshape_(model: bytes, inputs: dict[str, Array], y: Array, threads: int) -> Call:
    import anyshape

    executable = anyshape.compile(model, threads=threads)
    return lambda: executable.run(inputs, {"y": y})


def onnxruntime_(model: bytes, inputs: dict[str, Array], y: Array, threads: int) -> Call:
    import onnxruntime

    session = onnxruntime.InferenceSession(model, onnxruntime_options(threads), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def openvino_(model: bytes, inputs: dict[str, Array], y: Array, threads: int) -> Call:
    import openvino

    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(model), "CPU", hints).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    request.set_output_tensor(0, openvino.Tensor(y, shared_memory=True))
    return lambda: request.infer(share_outputs=True)


def iree_(model: bytes, inputs: dict[str, Array], y: Array, _threads: int) -> Call:
    """Makes a call of IREE, whose results lie where it likes; they are copied to `y` once, before anything is timed."""
    from benchmarks.iree_engine import compiled, on_device, to_host

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(model)
        names, invoke = compiled(path)
    arguments = [on_device(inputs[n]) for n in names]
    y[...] = to_host(invoke(arguments)[0])
    return lambda: invoke(arguments)


ENGINES = {"anyshape": anyshape_, "onnxruntime": onnxruntime_, "openvino": openvino_, "iree": iree_}


class _Engine:
    def __init__(self, name: str, threads: int) -> None:
        self._make, self._threads, self._cases = ENGINES[name], threads, cases()

    def take(self, place: int) -> None:
        case = self._cases[place]
        self._y = placed(np.zeros(case.shape, case.dtype))
        self._warm = max(WARM_SECONDS, WARM_PASSES * case.moved / PASS_BYTES)
        self._held = case.model().SerializeToString(), {n: placed(a) for n, a in case.inputs.items()}
        """Engines keep addresses of it only."""
        self._call = self._make(*self._held, self._y, self._threads)
        self._call()

    def turn(self) -> list[float]:
        last = _timed(self._call, 1)
        end = time.perf_counter() + self._warm
        while time.perf_counter() < end:
            last = _timed(self._call, 1)
        repeats = max(1, int(BATCH_SECONDS / last))
        found: list[float] = []
        end = time.perf_counter() + TURN_SECONDS
        while len(found) < 3 or time.perf_counter() < end:
            found.append(_timed(self._call, repeats))
        return found

    def result(self) -> Array:
        return self._y


def _timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), lambda name, threads: (_Engine(name, threads), None))
