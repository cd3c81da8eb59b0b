"""Throughput and memory of a model on the rows of a table, on clusters of Ray of one node and of two, beside onnxruntime with padding.

    python -m benchmarks.ray_scale [--rows 100000] [--nodes 1 2] [--engines anyshape onnxruntime onnxruntime-sorted] [--json FILE]

In: texts of unequal lengths, the paragraphs of the docstrings of this Python and its packages, as ids of words. Out: for each engine and
number of nodes rows per second from the first read to the last result, how many positions the calls computed for each of the texts, and
the memory of the workers. Engines run in one pipeline: Parquet is read, tasks of 1,024 rows go to actors with one thread each, calls have
at most 32 rows, one vector of each row comes back. onnxruntime gets rows as they come, or sorted by length within a task, padded to the
longest of a call, with the mask that says so. It needs the extra `[ray]`, and onnxruntime.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import sysconfig
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import anyshape
from anyshape.ray import predict
from benchmarks.local_cluster import nodes, workers
from benchmarks.models import load
from benchmarks.models.token_inputs import VOCABULARY

ENGINES = ("anyshape", "onnxruntime", "onnxruntime-sorted")
ACTORS = {"anyshape": "TableActor", "onnxruntime": "PaddedActor", "onnxruntime-sorted": "PaddedActor"}
LONGEST = 128
"""The most words of a text: of longer ones the beginning is taken"""
TASK, CALL = 1024, 32
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "pooler_output"


def texts() -> Iterator[str]:
    """The paragraphs of docstrings of the standard library and of installed packages, each once."""
    seen = set[str]()
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
        for path in sorted(Path(folder).rglob("*.py")):
            for text in _docstrings(path):
                for paragraph in re.split(r"\n\s*\n", text):
                    plain = " ".join(paragraph.split())
                    if plain and plain not in seen:
                        seen.add(plain)
                        yield plain


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, OSError, RecursionError):  # tests of the parser are among the files
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def ids_of(text: str) -> list[int]:
    """The words and signs of a text as ids, by their hash."""
    words = re.findall(r"\w+|[^\w\s]", text)[:LONGEST]
    return [1 + zlib.crc32(word.encode()) % (VOCABULARY - 1) for word in words]


def write_table(path: Path, count: int) -> dict[str, float]:
    """Writes a table of so many texts, or of as many as there are: numbers that describe their lengths."""
    rows: list[list[int]] = []
    for text in texts():
        if len(rows) == count:
            break
        if ids := ids_of(text):
            rows.append(ids)
    order = np.random.default_rng(5).permutation(len(rows))
    rows = [rows[k] for k in order]
    lists = pa.list_(pa.int64())
    columns = {
        "id": pa.array(range(len(rows))),
        "input_ids": pa.array(rows, lists),
        "attention_mask": pa.array([[1] * len(r) for r in rows], lists),
        "token_type_ids": pa.array([[0] * len(r) for r in rows], lists),
    }
    pq.write_table(pa.table(columns), path, row_group_size=4 * TASK)
    lengths = np.array([len(r) for r in rows])
    numbers = {"rows": len(rows), "median": np.median(lengths), "mean": lengths.mean(), "most": lengths.max()}
    return {name: float(n) for name, n in numbers.items()}


class PaddedActor:
    """A session of onnxruntime that pads the rows of each call to the longest of them."""

    def __init__(self, path: str, is_sorted: bool) -> None:
        import onnxruntime

        from benchmarks.engines import onnxruntime_options

        self._session = onnxruntime.InferenceSession(path, onnxruntime_options(1), providers=["CPUExecutionProvider"])
        self._is_sorted = is_sorted

    def __call__(self, batch: pa.Table) -> pa.Table:
        columns = {name: [np.array(r, np.int64) for r in batch[name].to_numpy()] for name in INPUTS}
        lengths = np.array([len(r) for r in columns["input_ids"]])
        order = np.argsort(lengths, kind="stable") if self._is_sorted else np.arange(len(lengths))
        results: list[Any] = [None] * len(lengths)
        for at in range(0, len(order), CALL):
            numbers = order[at : at + CALL]
            padded = {name: np.zeros((len(numbers), lengths[numbers].max()), np.int64) for name in INPUTS}
            for name, rows in columns.items():
                for k, number in enumerate(numbers):
                    padded[name][k, : lengths[number]] = rows[number]
            (vectors,) = self._session.run([OUTPUT], padded)
            for number, vector in zip(numbers, vectors):
                results[number] = vector
        return batch.append_column(OUTPUT, pa.array(results, pa.list_(pa.float32())))


def dataset(engine: str, table: Path, models: dict[str, Path], count: int) -> Any:
    """The dataset whose consumption runs an engine on so many workers."""
    rows = ray.data.read_parquet(str(table))
    if engine == "anyshape":
        pool = (count, count)
        model = models["anyshape"]
        return predict(rows, model, outputs={OUTPUT: OUTPUT}, concurrency=pool, rows=TASK, max_batch=CALL)
    return rows.repartition(target_num_rows_per_block=TASK).map_batches(
        PaddedActor,
        fn_constructor_args=(str(models["onnxruntime"]), engine == "onnxruntime-sorted"),
        compute=ray.data.ActorPoolStrategy(size=count),
        batch_format="pyarrow",
        batch_size=TASK,
        num_cpus=1,
    )


class MemorySampler(threading.Thread):
    """The memory of workers while they run: of each the most that is resident (RSS), and its share where pages are shared (PSS)."""

    def __init__(self, cluster: Any, actor: str) -> None:
        super().__init__(daemon=True)
        self._cluster, self._actor, self._end = cluster, actor, threading.Event()
        self.most: dict[str, float] = {}

    def run(self) -> None:
        while not self._end.wait(2.0):
            sample = self._sample()
            if sample.get("pss", 0) >= self.most.get("pss", 0):
                self.most = sample

    def end(self) -> dict[str, float]:
        self._end.set()
        self.join()
        return self.most

    def _sample(self) -> dict[str, float]:
        pids = workers(self._cluster.list_all_nodes(), self._actor)
        total = {"workers": float(len(pids)), "rss": 0.0, "pss": 0.0, "model_rss": 0.0, "model_pss": 0.0}
        for pid in pids:
            try:
                _add(total, "", Path(f"/proc/{pid}/smaps_rollup").read_text())
                for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text()):
                    if ".anyshape\n" in block:
                        _add(total, "model_", block)
            except OSError:
                continue
        return total


def _add(total: dict[str, float], prefix: str, text: str) -> None:
    for name in ("Rss", "Pss"):
        if match := re.search(rf"(?m)^{name}: +(\d+) kB", text):
            total[prefix + name.lower()] += int(match[1]) / 1024


def measured(engine: str, table: Path, models: dict[str, Path], per_node: int, count: int) -> dict[str, Any]:
    """One run on a cluster of so many nodes: seconds, memory, and a checksum of the vectors by row."""
    with nodes(count, per_node + 1) as cluster:  # one for tasks that read
        data = dataset(engine, table, models, per_node * count)
        sampler = MemorySampler(cluster, ACTORS[engine])
        sampler.start()
        start, sums = time.perf_counter(), dict[int, float]()
        for piece in data.iter_batches(batch_size=None, batch_format="pyarrow"):
            vectors = np.array(piece[OUTPUT].to_pylist(), np.float64)
            sums.update(zip(piece["id"].to_pylist(), vectors.sum(axis=1).tolist()))
        seconds = time.perf_counter() - start
        return {"engine": engine, "nodes": count, "seconds": seconds, "memory": sampler.end(), "sums": sums}


def computed(engine: str, table: Path, model: Path) -> float:
    """How many positions the calls of an engine compute for each that the texts have."""
    lengths = [len(ids) for ids in pq.read_table(table, columns=["input_ids"])["input_ids"].to_pylist()]
    total = 0
    for at in range(0, len(lengths), TASK):
        task = lengths[at : at + TASK]
        if engine == "anyshape":
            total += sum(task)
            continue
        task = sorted(task) if engine == "onnxruntime-sorted" else task
        total += sum(len(c) * max(c) for c in (task[k : k + CALL] for k in range(0, len(task), CALL)))
    return total / sum(lengths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--workers", type=int, default=1, help="workers for each node")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--model", default="bert_mini")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {"onnxruntime": load(args.model).build(folder / "model.onnx"), "anyshape": folder / "model.anyshape"}
        anyshape.compile(models["onnxruntime"]).save(models["anyshape"])
        table = folder / "texts.parquet"
        about = write_table(table, args.rows)
        print(f"{args.model}; " + ", ".join(f"{k} {n:.0f}" for k, n in about.items()), flush=True)
        results = []
        for count in args.nodes:
            for engine in args.engines:
                result = measured(engine, table, models, args.workers, count)
                sums = result.pop("sums")
                if sorted(sums) != list(range(int(about["rows"]))):
                    raise SystemExit(f"{engine}: rows are missing or there twice")
                result["rows_per_second"] = about["rows"] / result["seconds"]
                result["positions"] = computed(engine, table, models["anyshape"])
                result["sum"] = sum(sums[k] for k in range(0, len(sums), 97))
                results.append(result)
                memory = ", ".join(f"{k} {v:.0f}" for k, v in result["memory"].items())
                print(
                    f"  {count} nodes  {engine:<19} {result['rows_per_second']:8.1f} rows/s   {result['positions']:.2f} positions for "
                    f"each   {memory} MB   checksum {result['sum']:.3f}",
                    flush=True,
                )
    if args.json:
        args.json.write_text(json.dumps({"texts": about, "results": results}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
