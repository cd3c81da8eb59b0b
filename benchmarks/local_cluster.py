"""A cluster of Ray on this machine, of nodes that are processes: for tests that end workers, and benchmarks that count nodes.

In: the number of nodes. Out: a cluster that this process is connected to, and the processes of workers in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

STARTS = 5
"""Times that a node is started: Ray waits for half a minute for one, which a busy machine may not start in time"""
NODE = {"object_store_memory": 100 << 20}


@contextmanager
def nodes(count: int, processors: int = 2) -> Iterator[Cluster]:
    """Starts nodes of so many processors each, as Ray counts them, and connects to them."""
    head = {**NODE, "num_cpus": processors, "include_dashboard": False}
    cluster = _started(lambda: Cluster(initialize_head=True, head_node_args=head))
    try:
        for _ in range(count - 1):
            add_node(cluster, processors)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="WARNING")
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add_node(cluster: Cluster, processors: int = 2) -> Any:
    """Starts one more node."""
    return _started(lambda: cluster.add_node(num_cpus=processors, **NODE))


def _started(start: Callable[[], Any]) -> Any:
    for _ in range(STARTS - 1):
        try:
            return start()
        except Exception as e:  # Ray raises nothing more special
            print(f"a node did not start, and is started again: {e}")
    return start()


def workers(nodes: Iterable[Any], actor: str) -> set[int]:
    """The processes of actors of a class on nodes of a cluster: children of these nodes alone."""
    own = {p.process.pid for node in nodes for processes in node.all_processes.values() for p in processes}
    pids = set()
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and f"({actor})".encode() in (path / "cmdline").read_bytes():
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                pids |= {int(path.name)} if parent in own else set()
        except OSError:  # it ended
            continue
    return pids
