"""`anyshape.ray.predict` on a cluster of two nodes that loses a worker, and a node: no row is missing, and none is there twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from anyshape.errors import AnyshapeError, ArgumentError, ColumnError
from anyshape.ray import predict
from anyshape.ray.cluster import connected, worker_error
from benchmarks.local_cluster import add_node, nodes, workers
from tests.tables.live.saved import assert_has_results, expected_columns, saved_model, text_table

ROWS = 600
BLOCK = 20
OPEN = 10
"""Blocks that are read at once"""
ACTOR = "TableActor"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with nodes(2) as running:
        yield running


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("models"))


def gated(table: pa.Table, gate: Path) -> Any:
    """A dataset of a table, of whose blocks most are read only once a file is there: what happens before happens amid the run."""

    def block(batch: Any) -> Any:
        first, end = int(batch["id"][0].as_py()), time.monotonic() + 300
        while first >= OPEN * BLOCK and not gate.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return table.slice(first, BLOCK)

    numbers = ray.data.range(ROWS, override_num_blocks=ROWS // BLOCK)
    return numbers.map_batches(block, batch_size=BLOCK, batch_format="pyarrow")


def results(dataset: Any, gate: Path, at_first: Any) -> pa.Table:
    """All rows of a gated dataset. The gate opens after `at_first` was called with the first result there."""
    pieces: list[pa.Table] = []
    for piece in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        pieces.append(piece)
        if len(pieces) == 1:
            at_first()
            gate.touch()
    return pa.concat_tables(pieces)


def assert_whole(table: pa.Table, source: pa.Table, model: Path) -> None:
    """Asserts that each row is there once, with the results of a call of its own."""
    assert sorted(table["id"].to_pylist()) == source["id"].to_pylist()
    assert_has_results(table, expected_columns(source, model))


def test_columns_are_checked_before_the_first_task(cluster: Any, model: Path) -> None:
    dataset = ray.data.from_arrow(text_table(10).rename_columns(["id", "tokens", "w"]))
    with pytest.raises(
        ColumnError, match="column ids: expected a column for the input ids, got the columns id, tokens, w"
    ):
        predict(dataset, model)
    with pytest.raises(ColumnError, match=r"column w: expected i64\[length\] in each row"):
        predict(dataset, model, {"ids": "w"})
    with pytest.raises(ArgumentError, match="is not a saved model, which workers map"):
        predict(dataset, __file__, {"ids": "tokens"})
    with pytest.raises(ArgumentError, match="the path of a saved one"):
        predict(dataset, None, {"ids": "tokens"})
    with pytest.raises(
        ArgumentError, match="4 workers of 1 processors each and a task that reads cannot run on a cluster that has 4"
    ):
        predict(dataset, model, {"ids": "tokens"}, concurrency=(4, 4))
    with pytest.raises(ArgumentError, match=r"\(least, most\), got \(2, 1\)"):
        predict(dataset, model, {"ids": "tokens"}, concurrency=(2, 1))
    assert workers(cluster.list_all_nodes(), ACTOR) == set()


def test_a_worker_is_killed_amid_the_run(cluster: Any, model: Path, tmp_path: Path) -> None:
    table, killed = text_table(ROWS), list[int]()

    def kill() -> None:
        killed.append(min(workers(cluster.list_all_nodes(), ACTOR)))
        os.kill(killed[0], signal.SIGKILL)

    dataset = predict(gated(table, tmp_path / "gate"), model, concurrency=(2, 2), rows=BLOCK)
    assert_whole(results(dataset, tmp_path / "gate", kill), table, model)
    assert killed and killed[0] not in workers(cluster.list_all_nodes(), ACTOR)


def test_a_node_is_lost_amid_the_run(cluster: Any, model: Path, tmp_path: Path) -> None:
    add_node(cluster)
    table, lost = text_table(ROWS), set[int]()

    def lose() -> None:
        node = max(cluster.worker_nodes, key=lambda n: len(workers([n], ACTOR)))
        lost.update(workers([node], ACTOR))
        cluster.remove_node(node, allow_graceful=False)

    dataset = predict(gated(table, tmp_path / "gate"), model, concurrency=(3, 3), rows=BLOCK)
    assert_whole(results(dataset, tmp_path / "gate", lose), table, model)
    assert lost and not lost & workers(cluster.list_all_nodes(), ACTOR)


def test_a_row_that_the_model_refuses(cluster: Any, model: Path) -> None:
    dataset = predict(ray.data.from_arrow(text_table(40, refused=21)), model, concurrency=1, rows=BLOCK)
    with pytest.raises(ray.exceptions.RayError) as e:
        dataset.take_all()
    assert re.match(r"row 1 of the batch: gather: index 77 is out of range .* = 77\)$", str(worker_error(e.value)))
    lost = ray.exceptions.RayError("the cluster went away\n  and more")
    assert str(worker_error(lost)) == "Ray: the cluster went away"


def test_tensors_of_ray(cluster: Any, model: Path) -> None:
    rows = text_table(20).to_pydict()
    items = [
        {"id": k, "ids": np.array(ids, np.int64), "w": np.array(w, np.float32)}
        for k, ids, w in zip(rows["id"], rows["ids"], rows["w"])
    ]
    dataset = predict(ray.data.from_items(items), model, concurrency=1)
    result = pa.concat_tables(list(dataset.iter_batches(batch_size=None, batch_format="pyarrow")))
    assert_whole(result, text_table(20), model)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "no.such.host.invalid:6379"])
def test_no_cluster_at_an_address(address: str) -> None:
    with pytest.raises(AnyshapeError, match=f"no cluster of Ray to connect to at {address}"), connected(address):
        pass


def test_the_command_on_the_cluster(cluster: Any, model: Path, tmp_path: Path) -> None:
    table = text_table(ROWS)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=50)
    pq.write_table(text_table(50, refused=7), tmp_path / "refused.parquet")
    command = [sys.executable, "-m", "anyshape.cli.main", "batch", str(model)]
    more = [str(tmp_path / "out.parquet"), "--address", cluster.address, "--workers", "2", "--rows", "30"]
    done = subprocess.run([*command, str(tmp_path / "in.parquet"), *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = pq.read_table(tmp_path / "out.parquet")
    assert result["id"].to_pylist() == [*range(ROWS)]
    assert_whole(result, table, model)
    (tmp_path / "out.parquet").unlink()
    done = subprocess.run([*command, str(tmp_path / "refused.parquet"), *more], capture_output=True, text=True)
    assert done.returncode == 2 and "of the batch: gather: index 77 is out of range" in done.stderr
    assert not (tmp_path / "out.parquet").exists()
