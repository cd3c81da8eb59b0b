"""Throughput and latencies of `anyshape serve` over a stream of mixed lengths, beside the same server on onnxruntime.

    python -m benchmarks.serving [MODEL] [--clients 8] [--requests 400] [--threads N] [--json FILE]

In: a model of `benchmarks.models` with token inputs. Out: for each engine requests per second, the median and the 99th percentile of
latencies, and how many requests a call joined. Both engines are models of one server (`anyshape.serving`): the same routes, queue and
joined calls. Servers are processes of their own, which take turns. It needs the extra `[serve]`, and onnxruntime.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import load

ENGINES = ("anyshape", "onnxruntime")
LENGTHS = (8, 16, 16, 24, 32, 32, 48, 64, 96, 128)
"""Lengths of requests: some are often the same, as those of short texts are"""
TURNS = 3
WARM = 40


class SessionModel:
    """A session of onnxruntime as a model of the server, with types and batch dim of the compiled one."""

    platform = "onnxruntime"

    def __init__(self, path: Path, threads: int) -> None:
        import anyshape
        from anyshape.serving.model import CompiledModel
        from benchmarks.engines import onnxruntime_options

        compiled = CompiledModel(path.stem, anyshape.compile(path))
        self.name, self.inputs, self.outputs, self.batching = (
            path.stem,
            compiled.inputs,
            compiled.outputs,
            compiled.batching,
        )
        import onnxruntime

        self.session = onnxruntime.InferenceSession(
            path, onnxruntime_options(threads), providers=["CPUExecutionProvider"]
        )

    def run(self, inputs: Mapping[str, Any], deadline: float) -> list[Any]:
        results: list[Any] = self.session.run(list(self.outputs), dict(inputs))
        return results


def serve_engine(engine: str, path: Path, threads: int) -> None:
    """Serves one engine until SIGTERM."""
    import anyshape
    from anyshape.serving.model import CompiledModel, Model
    from anyshape.serving.options import ServeOptions
    from anyshape.serving.server import serve

    model: Model
    if engine == "onnxruntime":
        model = SessionModel(path, threads)
    else:
        model = CompiledModel(path.stem, anyshape.compile(path, threads=threads))
    serve([model], ServeOptions(port=0, grpc_port=None), lambda line: print(line, flush=True))


class Server:
    """A server in a process of its own."""

    def __init__(self, engine: str, path: Path, threads: int) -> None:
        command = [sys.executable, "-m", "benchmarks.serving", "--serve", engine, str(path), "--threads", str(threads)]
        self.engine = engine
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if said := re.search(r"HTTP at (\S+)", line):
                self.address = said[1]
                return
        raise SystemExit(f"the server on {engine} did not start")


def bodies(name: str, count: int) -> list[tuple[bytes, int]]:
    """Bodies of requests with binary data, and the lengths of their JSON."""
    from anyshape.dtypes import from_numpy
    from anyshape.serving.datatypes import DATATYPES

    rng, listed = random.Random(7), []
    for k in range(count):
        arrays = load(name).inputs(1, rng.choice(LENGTHS), k)
        tensors = [
            {
                "name": n,
                "datatype": DATATYPES[from_numpy(a.dtype)],
                "shape": list(a.shape),
                "parameters": {"binary_data_size": a.nbytes},
            }
            for n, a in arrays.items()
        ]
        text = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
        listed.append((text + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values()), len(text)))
    return listed


async def turn(server: Server, name: str, requests: list[tuple[bytes, int]], clients: int) -> tuple[float, list[float]]:
    """Seconds of all requests by so many clients, and of each."""
    import aiohttp

    left, seconds = iter(requests), list[float]()
    url = f"http://{server.address}/v2/models/{name}/infer"

    async def client(session: aiohttp.ClientSession) -> None:
        for body, length in left:
            start = time.perf_counter()
            async with session.post(url, data=body, headers={"Inference-Header-Content-Length": str(length)}) as answer:
                await answer.read()
                if answer.status != 200:
                    raise SystemExit(f"{server.engine}: {answer.status}")
            seconds.append(time.perf_counter() - start)

    async with aiohttp.ClientSession() as session:
        start = time.perf_counter()
        await asyncio.gather(*(client(session) for _ in range(clients)))
        return time.perf_counter() - start, seconds


async def joined(server: Server) -> float:
    """How many requests a call joined, on average."""
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(f"http://{server.address}/metrics") as answer:
        text = await answer.text()
    total, calls = (
        float(re.findall(rf"anyshape_call_requests_{what}{{[^}}]*}} (\S+)", text)[0]) for what in ("sum", "count")
    )
    return total / calls


async def measured(servers: list[Server], name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures the servers in turns."""
    requests = bodies(name, args.requests)
    walls: dict[str, float] = dict.fromkeys(ENGINES, 0.0)
    latencies: dict[str, list[float]] = {e: [] for e in ENGINES}
    for server in servers:
        await turn(server, name, requests[:WARM], args.clients)
    for _ in range(TURNS):
        for server in servers:
            wall, seconds = await turn(server, name, requests, args.clients)
            walls[server.engine] += wall
            latencies[server.engine] += seconds
    return [
        {
            "engine": s.engine,
            "requests_per_second": TURNS * len(requests) / walls[s.engine],
            "p50_ms": float(np.percentile(latencies[s.engine], 50)) * 1e3,
            "p99_ms": float(np.percentile(latencies[s.engine], 99)) * 1e3,
            "joined": await joined(s),
        }
        for s in servers
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default="bert_mini")
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.serve:
        serve_engine(args.serve, Path(args.model), args.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = load(args.model).build(Path(folder) / f"{args.model}.onnx")
        servers = [Server(e, path, args.threads) for e in ENGINES]
        try:
            rows = asyncio.run(measured(servers, args.model, args))
        finally:
            for s in servers:
                s.process.terminate()
                s.process.communicate()  # it says that it stopped
    print(f"{args.model}: {args.clients} clients, {args.requests} requests of lengths {', '.join(map(str, LENGTHS))}")
    for r in rows:
        print(
            f"  {r['engine']:<12} {r['requests_per_second']:8.1f} requests/s   p50 {r['p50_ms']:7.1f} ms   "
            f"p99 {r['p99_ms']:7.1f} ms   {r['joined']:.2f} requests a call"
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
