"""onnxruntime's own profile of a model, in terms of the model's nodes.

In: a model as a proto, inputs. Out: for each node that onnxruntime runs, its time and which nodes of the model it covers: it fuses nodes,
renames them and adds others, such as changes of layout. The model that it makes of ours is read back: what lies between a node's operands
and its results there is what the node covers.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from anyshape.errors import AnyshapeError
from anyshape.files import open_plain

Arrays = Mapping[str, NDArray[Any]]
Covered = list[tuple[frozenset[int], float]]
"""Nodes of the model, by their places, and seconds; no places where a node cannot be told"""
_EVENT, _BLOCKED = "_kernel_time", "_nchwc"
"""What onnxruntime appends to names: of events of nodes, and of nodes that work on channels in blocks"""


def session(model: bytes | str, threads: int, options: Any = None) -> Any:
    """Makes a session. Raises AnyshapeError for a model that onnxruntime does not take, and ImportError where it is not installed."""
    import onnxruntime

    options = options or onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, threads
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # its errors have no common class below this
        raise AnyshapeError(f"onnxruntime fails on the model: {' '.join(str(e).split())}") from None


def called(running: Any, feed: Arrays, outputs: Sequence[str] | None = None) -> list[Any]:
    """Runs a session, for all outputs or those of these names. Raises AnyshapeError where it fails."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    try:
        results: list[Any] = running.run(outputs, dict(feed), options)
    except Exception as e:  # its errors have no common class below this
        raise AnyshapeError(f"onnxruntime fails on the model: {' '.join(str(e).split())}") from None
    return results


def profile_in_onnxruntime(model: Any, feed: Arrays, repeat: int) -> Covered:
    """Times each node on one thread; of `repeat` calls the least counts, in whole microseconds. Raises AnyshapeError where it fails."""
    import onnx
    import onnxruntime

    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    for k, node in enumerate(marked.graph.node):
        node.name = f"#{k}#"
    options = onnxruntime.SessionOptions()
    with tempfile.TemporaryDirectory() as folder:
        optimised = Path(folder) / "made.onnx"
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "profile")
        options.optimized_model_filepath = str(optimised)
        try:
            running = session(marked.SerializeToString(), 1, options)
            for _ in range(repeat + 1):
                running.run(None, dict(feed))
            with open_plain(Path(running.end_profiling())) as file:
                events = json.load(file)
        except AnyshapeError:
            raise
        except Exception as e:
            raise AnyshapeError(f"onnxruntime fails on the model: {' '.join(str(e).split())}") from None
        with open_plain(optimised) as file:
            model_run = onnx.load_model_from_string(file.read())
    places = covered(marked.graph, model_run.graph)
    return [(places.get(name, frozenset()), seconds) for name, seconds in least(events, places, repeat + 1).items()]


def least(events: Iterable[Mapping[str, Any]], names: Iterable[str], calls: int) -> dict[str, float]:
    """Finds the least seconds of each node of the main graph over calls, of which the first does not count."""
    times: dict[str, list[int]] = {name: [] for name in names}
    for e in events:
        name = str(e["name"]).removesuffix(_EVENT)
        if e["cat"] == "Node" and name != e["name"] and name in times:
            times[name].append(int(e["dur"]))
    return {
        name: sum(min(later[k::per]) for k in range(per)) / 1e6
        for name, durations in times.items()
        if (per := len(durations) // calls) and (later := durations[per:])
    }


def covered(graph: Any, optimised: Any) -> dict[str, frozenset[int]]:
    """Finds the nodes of a graph, each named by its place as in `#12#`, that each node of the optimised graph covers. Nodes that read
    nothing are constants, which many nodes may share."""
    producer = {name: k for k, node in enumerate(graph.node) for name in node.output if name and node.input}
    made_by = {name: node.name for node in optimised.node for name in node.output}
    results: dict[str, list[str]] = defaultdict(list)
    for node in optimised.node:
        results[node.name] += _results(graph, node, producer)
    for node in optimised.node:
        if not any(name in producer for name in node.output):
            reads = {r for name in node.input if name in made_by for r in results[made_by[name]]}
            _extend(graph, results[node.name], reads, {r for names in results.values() for r in names})
    ends = {name for names in results.values() for name in names}
    nodes_of = {name: _between(graph, names, ends, producer) for name, names in results.items()}
    read_by = {name: node.name for node in reversed(optimised.node) for name in node.input}
    for nodes, beside, names in ((optimised.node, made_by, "input"), (reversed(optimised.node), read_by, "output")):
        for node in nodes:  # what it adds belongs to what it follows, or else precedes
            if not nodes_of[node.name]:
                sources = (nodes_of[beside[name]] for name in getattr(node, names) if name in beside)
                nodes_of[node.name] = next(filter(None, sources), frozenset())
    return nodes_of


def _results(graph: Any, node: Any, producer: Mapping[str, int]) -> list[str]:
    """Lists the results of an optimised node that the model has too; if it has none of them, those that the node's name tells."""
    kept = [name for name in node.output if name in producer]
    if kept:
        return kept
    named = node.name.removesuffix(_BLOCKED)
    if named in producer:
        return [named]
    place = re.search(r"#(\d+)#", node.name)
    return [name for name in graph.node[int(place[1])].output if name in producer] if place else []


def _extend(graph: Any, results: list[str], reads: set[str], ends: set[str]) -> None:
    """Adds results of what a node computes behind those that its name tells: nodes that read them, and nothing else but what it reads."""
    for node in graph.node:
        names = [name for name in node.input if name]
        if any(name in results for name in names) and all(name in reads or name in results for name in names):
            results += [name for name in node.output if name and name not in ends]


def _between(graph: Any, results: Sequence[str], ends: set[str], producer: Mapping[str, int]) -> frozenset[int]:
    """Finds the nodes that make results out of what other optimised nodes make."""
    between: set[int] = set()
    open_ = [producer[name] for name in results]
    while open_:
        k = open_.pop()
        if k not in between:
            between.add(k)
            open_ += [producer[name] for name in graph.node[k].input if name in producer and name not in ends]
    return frozenset(between)


def joined(ours: Covered, theirs: Covered) -> list[tuple[frozenset[int], float, float]]:
    """Puts together what covers common nodes: nodes, our seconds, their seconds. What covers no node is a group of its own."""
    leader: dict[int, int] = {}

    def root(k: int) -> int:
        while leader.setdefault(k, k) != k:
            k = leader[k]
        return k

    for places, _ in (*ours, *theirs):
        for k in places:
            leader[root(k)] = root(min(places))
    seconds: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, covers in enumerate((ours, theirs)):
        for places, time in covers:
            seconds[root(min(places)) if places else -1][side] += time
    members: dict[int, set[int]] = defaultdict(set)
    for k in list(leader):
        members[root(k)].add(k)
    return [(frozenset(members.get(k, ())), mine, other) for k, (mine, other) in seconds.items()]
