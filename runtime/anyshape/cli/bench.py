"""`anyshape bench MODEL`: how fast a model is beside onnxruntime, as a whole and node by node.

In: an ONNX file, inputs as `anyshape run` takes them. Out: text, JSON, a picture. Where onnxruntime is not installed, or fails on the
model, our times alone, with the reason.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, described
from anyshape.cli.diff import whole
from anyshape.cli.onnxruntime_profile import Arrays, Covered, joined, profile_in_onnxruntime, session
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import accepted_inputs, make_inputs, spell_shape
from anyshape.comparison import apart
from anyshape.errors import AnyshapeError
from anyshape.frontends.onnx.order import spell_node
from anyshape.processors import usable_processors
from anyshape.wording import counted

SHOWN = 25
ROUNDS = 4
"""Turns of each engine; in each it is called often enough to have the processors to itself."""
WARM = 0.005
"""Seconds of calls before those that count: threads of the other engine look for work for a while after its last call."""
CLOSE = 1e-3
"""The largest difference of results, as a share of the largest element, that is not mentioned"""
WITHOUT = "onnxruntime is not installed; with it (pip install onnxruntime) its times stand beside these"
NOTE = """\
Times are the least of all calls, on one thread; onnxruntime counts whole microseconds, each node's clock included. A row is what is one
kernel here or there: a kernel that fuses nodes stands beside all that computes these nodes in onnxruntime."""
US, THEY = "anyshape", "onnxruntime"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that stand in one row: what they are, and seconds by engine."""

    name: str
    nodes: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float | None:
        """Returns the time of the other engine over ours: above 1 ours is faster. None where one of them was not measured."""
        ours, theirs = self.seconds[US], self.seconds.get(THEY)
        return theirs / ours if theirs and ours else None


def bench(args: argparse.Namespace) -> Answer:
    """Runs the command."""
    from anyshape.cli.bench_plot import png, svg
    from anyshape.cli.picture import demand_plot, draw
    from anyshape.vm import compile

    demand_plot(args.plot)
    dims, ints = arguments.dims(args.dim), arguments.bounds(args.ints, "--ints")
    with progress(f"compiling {args.model}"):
        model = whole(args.model)
        exe = compile(args.model, dims, threads=args.threads, precision=args.precision)
    shapes, contents = arguments.shapes(args.shape), arguments.arrays(args.input)
    make = partial(make_inputs, exe.input_names, exe.input_types, shapes, contents, ints, args.seed)
    feed, sizes = accepted_inputs(exe.run, make)
    threads = args.threads or usable_processors()
    calls: dict[str, Callable[[], Sequence[Any]]] = {US: lambda: exe.run(feed)}
    results, why, theirs = exe.run(feed), "", None
    with progress("measuring in onnxruntime"):
        try:
            running = session(args.model, threads)
            calls[THEY] = lambda: running.run(None, feed)
            differing = differences(exe.output_names, results, calls[THEY]())
            theirs = profile_in_onnxruntime(model, feed, args.repeat)
        except ImportError:
            why = WITHOUT
        except Exception as e:  # what its calls raise has no common class
            why = reason(e)
    if theirs is None:
        calls.pop(THEY, None)
        differing = []
    with progress("measuring calls"):
        seconds = alternating(calls, args.repeat)
    with progress("profiling"):
        ours = profile_here(args.model, model, feed, args.repeat, dims)
    rows = groups(model, ours, theirs)
    shape = ", ".join(f"{name} {spell_shape(a)}" for name, a in feed.items())
    lines = [f"{shape} (some sizes are chosen; set them by --shape NAME=4x128)" if sizes.chosen else shape]
    lines += [head(seconds, threads), *([why] if why else []), *differing, "", table(rows), "", NOTE if theirs else ""]
    if args.plot is not None:
        picture = (f"{args.model}: {shape}", rows[:SHOWN], head(seconds, threads))
        draw(args.plot, lambda: svg(*picture), lambda path: png(path, *picture))
        lines.append(f"plot in {args.plot}")
    data = {
        "inputs": {name: described(a, elements=False) for name, a in feed.items()},
        "chosen": sizes.chosen,
        "threads": threads,
        "seconds": seconds,
        "ratio": seconds[THEY] / seconds[US] if THEY in seconds else None,
        "nodes": [{"name": g.name, "nodes": g.nodes, "seconds": g.seconds, "ratio": g.ratio} for g in rows],
        "alone": why or None,
        "differences": differing,
        "plot": args.plot,
    }
    return Answer(text="\n".join(lines).rstrip(), data=data)


def reason(e: Exception) -> str:
    """Says in one line why onnxruntime was not measured."""
    return str(e) if isinstance(e, AnyshapeError) else f"onnxruntime fails on the model: {' '.join(str(e).split())}"


def profile_here(path: str, model: Any, feed: Arrays, repeat: int, dims: Mapping[str, Any]) -> Covered:
    """Times each kernel on one thread; of `repeat` calls the least counts. Raises what compiling the model or calling it raises."""
    from anyshape.vm.executable.profile import profile

    measured = profile(path, feed, repeat, dims=dims, threads=1)
    places = {spell_node(node): k for k, node in reversed(list(enumerate(model.graph.node)))}
    return [(places_of(s.nodes, places), s.seconds) for s in measured.samples]


def places_of(nodes: Sequence[tuple[Any, float]], places: Mapping[str, int]) -> frozenset[int]:
    """Finds the nodes of the main graph that a kernel came from; of a node in a graph of theirs, the node that has the graph."""
    texts = [node.source.rpartition(" of ")[2] if node.source not in places else node.source for node, _ in nodes]
    return frozenset(places[t] for t in texts if t in places)


def groups(model: Any, ours: Covered, theirs: Covered | None) -> list[NodeGroup]:
    """Makes the rows: what is slowest here comes first."""
    rows = []
    for members, mine, other in joined(ours, theirs or []):
        nodes = [model.graph.node[k] for k in sorted(members)]
        seconds = {US: mine} if theirs is None else {US: mine, THEY: other}
        if any(seconds.values()):
            rows.append(NodeGroup(titled(nodes), tuple(map(spell_node, nodes)), seconds))
    return sorted(rows, key=lambda g: (-g.seconds[US], -g.seconds.get(THEY, 0.0)))


def titled(nodes: Sequence[Any]) -> str:
    """Names a row by its operators and its first node."""
    if not nodes:
        return "(between nodes)"
    kinds = [node.op_type for node in nodes]
    more = "+…" if len(kinds) > 4 else ""
    first = spell_node(nodes[0]).partition(" ")[2]
    return f"{'+'.join(kinds[:4])}{more} {first}"


def differences(names: Sequence[str], ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """Says which results are not close."""
    shares = {n: apart(b, a) for n, a, b in zip(names, ours, theirs, strict=True) if not isinstance(b, list | dict)}
    return [f"output {n} differs; see anyshape diff" for n, share in shares.items() if share > CLOSE]


def alternating(calls: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Measures the median seconds of calls, in turns there and back."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(ROUNDS):
        for name in list(calls)[:: 1 if k % 2 == 0 else -1]:
            end = time.perf_counter() + WARM
            calls[name]()
            while time.perf_counter() < end:
                calls[name]()
            for _ in range(-(-repeat // ROUNDS)):
                start = time.perf_counter()
                calls[name]()
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) for name, own in times.items()}


def head(seconds: Mapping[str, float], threads: int) -> str:
    """One line about whole calls."""
    each = ", ".join(f"{name} {s * 1e6:,.1f} us" for name, s in seconds.items())
    ratio = f": {seconds[THEY] / seconds[US]:.2f} times as fast as onnxruntime" if THEY in seconds else ""
    return f"a call on {counted(threads, 'thread')}: {each}{ratio}"


def table(rows: Sequence[NodeGroup]) -> str:
    """Spells the rows, the first SHOWN of them one by one."""
    names = list(rows[0].seconds) if rows else [US]
    width = min(80, max([len("nodes"), *(len(g.name) for g in rows[:SHOWN])], default=0))
    total = sum(g.seconds[US] for g in rows)
    lines = [f"{'nodes':<{width}}" + "".join(f"  {n + ', us':>15}" for n in names) + "   ratio   share"]
    shown = [*rows[:SHOWN]]
    if rest := rows[SHOWN:]:
        shown.append(NodeGroup(f"{len(rest)} more", (), {n: sum(g.seconds[n] for g in rest) for n in names}))
    for g in shown:
        times = "".join(f"  {g.seconds[n] * 1e6:15,.1f}" for n in names)
        ratio = "" if g.ratio is None else f"{g.ratio:.2f}"
        lines.append(
            f"{short(g.name, width):<{width}}{times}  {ratio:>6}  {g.seconds[US] / total if total else 0:6.1%}"
        )
    return "\n".join(lines)


def short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
