"""The engines that benchmarks run side by side, each behind the same few words.

In: the path of an ONNX model and a number of threads. Out: `Engine`s: `run` takes a dict of arrays and gives a list of arrays. An engine
that is not installed is left out, and said so.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.models import Arrays

Run = Callable[[Arrays], Sequence[Any]]

PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@dataclass(frozen=True)
class Engine:
    """A model made ready. `seconds`: what that took. `late`: kernels compiled since, for who tells."""

    name: str
    run: Run
    seconds: float
    late: Callable[[], int | None]


def anyshape_(path: Path, threads: int) -> tuple[Run, Callable[[], int | None]]:
    import anyshape

    executable = anyshape.compile(path, threads=threads)
    return executable.run, lambda: executable.compiled_after_first_call


def onnxruntime_options(threads: int) -> Any:
    """Each thread has a processor of its own, the caller's too: a scheduler that packs threads would leave two of them on one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    if 1 < threads <= len(PROCESSORS):
        os.sched_setaffinity(0, PROCESSORS[:1])
        places = ";".join(str(cpu + 1) for cpu in PROCESSORS[1:threads])
        options.add_session_config_entry("session.intra_op_thread_affinities", places)
    return options


def onnxruntime_(path: Path, threads: int) -> tuple[Run, Callable[[], int | None]]:
    import onnxruntime

    options = onnxruntime_options(threads)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda arguments: session.run(None, arguments), lambda: None


def openvino_(path: Path, threads: int) -> tuple[Run, Callable[[], int | None]]:
    import openvino

    core = openvino.Core()
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(str(path), "CPU", config).create_infer_request()

    def run(arguments: Arrays) -> list[Any]:
        return list(request.infer(arguments, share_inputs=True, share_outputs=True).values())

    return run, lambda: None


def iree_(path: Path, threads: int) -> tuple[Run, Callable[[], int | None]]:
    from benchmarks.iree_engine import compiled, to_host

    if threads != 1:
        raise ValueError("IREE is measured on the calling thread only")
    names, invoke = compiled(path)
    return lambda arguments: [to_host(y) for y in invoke([arguments[n] for n in names])], lambda: None


def ncnn_(path: Path, threads: int) -> tuple[Run, Callable[[], int | None]]:
    from benchmarks import ncnn_engine

    return _bound_each_time(ncnn_engine.compiled(onnx_model(path), threads), ncnn_engine.arrays)


def litert_(path: Path, threads: int) -> tuple[Run, Callable[[], int | None]]:
    from benchmarks import litert_engine

    return _bound_each_time(litert_engine.compiled(onnx_model(path), threads), litert_engine.arrays)


def onnx_model(path: Path) -> Any:
    import onnx

    return onnx.load(path)


def _bound_each_time(
    bind: Callable[[Arrays], Callable[[], list[Any]]], arrays: Callable[[list[Any]], list[Any]]
) -> tuple[Run, Callable[[], int | None]]:
    return lambda arguments: arrays(bind(arguments)()), lambda: None


MAKERS: dict[str, Callable[[Path, int], tuple[Run, Callable[[], int | None]]]] = {
    "anyshape": anyshape_, "onnxruntime": onnxruntime_, "openvino": openvino_, "iree": iree_, "ncnn": ncnn_, "litert": litert_,
}  # fmt: skip


MODULES = {"iree": "iree.compiler", "litert": "ai_edge_litert"}
"""Modules that are not called as their engines"""


def available(names: Sequence[str] = tuple(MAKERS)) -> list[str]:
    """The engines among these names that are installed."""
    present = [n for n in names if installed(n)]
    for name in names:
        if name not in present:
            print(f"{name} is not installed and is left out", file=sys.stderr)
    return present


def installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(MODULES.get(name, name)) is not None
    except ModuleNotFoundError:
        return False


def prepare(name: str, path: Path, threads: int) -> Engine:
    started = time.perf_counter()
    run, late = MAKERS[name](path, threads)
    return Engine(name, run, time.perf_counter() - started, late)
