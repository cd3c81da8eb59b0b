"""Single ops and short chains beside onnxruntime, OpenVINO and, for groups that name it, IREE: one thread, given outputs, in turns.

    PYTHONPATH=runtime:generated python -m benchmarks.single_ops [transpose concat ...] [--seconds 0.4] [--json out.json]

For each case the least seconds of many short batches, the best peer's over ours, and the part of the core's limits (multiply-adds, bytes
of a copy of that working set) that ours reaches; then the geometric mean of each group and its least. Words pick groups. A call goes
through each engine's Python interface, so the smallest cases measure that too.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from anyshape.lower.limits import measure_copy, measure_peak
from benchmarks.engines import available
from benchmarks.gemm_measure import aligned
from benchmarks.single_cases import Array, Case, cases

Call = Callable[[], object]
US = "anyshape"
BATCH_SECONDS = 4e-4
TOLERANCE = 1e-4


def anyshape_(model: bytes, inputs: dict[str, Array], y: Array) -> Call:
    import anyshape

    executable = anyshape.compile(model, threads=1)
    return lambda: executable.run(inputs, {"y": y})


def onnxruntime_(model: bytes, inputs: dict[str, Array], y: Array) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def openvino_(model: bytes, inputs: dict[str, Array], y: Array) -> Call:
    import openvino

    hints = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(model), "CPU", hints).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    request.set_output_tensor(0, openvino.Tensor(y, shared_memory=True))

    def call() -> None:
        request.start_async()
        request.wait()

    return call


def iree_(model: bytes, inputs: dict[str, Array], y: Array) -> Call:
    """Its results lie where it likes; they are copied to `y` once, before anything is timed."""
    from benchmarks.iree_engine import compiled, on_device, to_host

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(model)
        names, invoke = compiled(path)
    arguments = [on_device(inputs[n]) for n in names]
    y[...] = to_host(invoke(arguments)[0])
    return lambda: invoke(arguments)


ENGINES = {US: anyshape_, "onnxruntime": onnxruntime_, "openvino": openvino_, "iree": iree_}
NAMED = {"layer norm": ("iree",), "tanh(x*s+t)": ("iree",)}
"""Groups that have a peer of their own."""


def placed(a: Array) -> Array:
    if a.dtype != np.float32:
        return a
    place: Array = aligned(*a.shape)
    place[...] = a
    return place


def timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def measure(case: Case, names: list[str], limit: float) -> tuple[dict[str, float], float, float]:
    """(least seconds by engine, noise, difference from the first peer)."""
    model, inputs = case.model().SerializeToString(), {n: placed(a) for n, a in case.inputs.items()}
    results = {n: aligned(*case.shape) for n in names}
    calls = {n: ENGINES[n](model, inputs, results[n]) for n in names}
    repeats = {}
    for n, call in calls.items():
        call()
        repeats[n] = max(1, int(BATCH_SECONDS / timed(call, 1)))
    taken: dict[str, list[float]] = {n: [] for n in names}
    end = time.perf_counter() + limit
    while time.perf_counter() < end or len(taken[US]) < 3:
        for n, call in calls.items():
            taken[n].append(timed(call, repeats[n]))
    mine, other = results[names[0]], results[names[1]]
    size = max(1.0, float(np.abs(other).max(initial=0)))
    noise = max(statistics.median(t) / min(t) for t in taken.values())
    return {n: min(t) for n, t in taken.items()}, noise, float(np.abs(mine - other).max(initial=0)) / size


@functools.cache
def bandwidth(power: int) -> float:
    return measure_copy(1 << power)


def row(case: Case, names: list[str], limit: float, peak: float) -> dict[str, Any]:
    seconds, noise, difference = measure(case, names, limit)
    allowed = max(case.flops / peak / 1e9, case.moved / bandwidth(max(12, case.moved.bit_length())) / 1e9)
    peers = {n: s for n, s in seconds.items() if n != US}
    best = min(peers, key=lambda n: peers[n])
    return {
        "group": case.group, "name": case.name, "seconds": seconds, "best": best, "ratio": peers[best] / seconds[US],
        "reached": allowed / seconds[US], "flops": case.flops, "moved": case.moved, "noise": noise, "difference": difference,
    }  # fmt: skip


def told(r: dict[str, Any], names: list[str]) -> str:
    rate = r["flops"] / r["seconds"][US] / 1e9 if r["flops"] else r["moved"] / r["seconds"][US] / 1e9
    times = "".join(f"{r['seconds'][n] * 1e6:12.1f}" if n in r["seconds"] else " " * 12 for n in names)
    unit = "GFLOP/s" if r["flops"] else "GB/s"
    return f"{r['group'][:18]:18} {r['name'][:44]:44}{times} {r['ratio']:6.2f} {rate:8.1f} {unit:8} {r['reached']:5.0%}"


def geometric(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for r in rows:
        found.setdefault(r["group"], []).append(r)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help="beginnings of names of groups (all)")
    parser.add_argument("--seconds", type=float, default=0.4, help="of measuring a case (0.4)")
    parser.add_argument(
        "--engines", nargs="*", default=["onnxruntime", "openvino"], help="peers (onnxruntime openvino)"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    names, peak = available([US, *options.engines]), measure_peak()
    columns = list(dict.fromkeys((*names, *(n for more in NAMED.values() for n in more))))
    print(
        f"one core: {peak:.0f} GFLOP/s\n{'':63}"
        + "".join(f"{n[:11]:>12}" for n in columns)
        + "  ratio     rate           limits"
    )
    rows = []
    for case in cases():
        if not options.groups or case.group.startswith(tuple(options.groups)):
            peers = [*names, *available(NAMED.get(case.group, ()))]
            rows.append(row(case, peers, options.seconds, peak))
            print(told(rows[-1], columns), flush=True)
    for group, found in groups(rows).items():
        ratios = [r["ratio"] for r in found]
        print(f"{group}: mean {geometric(ratios):.2f}, least {min(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    wrong = [f"{r['group']} {r['name']}: {r['difference']:.1e}" for r in rows if r["difference"] > TOLERANCE]
    print("".join(f"outputs differ: {w}\n" for w in wrong), end="", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
