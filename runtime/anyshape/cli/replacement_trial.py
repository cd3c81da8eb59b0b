"""What a custom op in place of a subgraph is worth: measured in onnxruntime, with results compared.

In: subgraphs, and what they read and give in a call of the model. Out: seconds of both in turns; or why a subgraph stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from numpy.typing import NDArray

from anyshape.cli.bench import alternating
from anyshape.cli.compare import apart
from anyshape.cli.diff import reference
from anyshape.cli.onnxruntime_profile import session
from anyshape.custom_ops import library_of
from anyshape.custom_ops.replacement import alone, replaced
from anyshape.custom_ops.subgraphs import ModelGraph, Subgraph
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.vm.export import ExportTarget

Arrays = Mapping[str, NDArray[Any]]
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """How trials are made: calls of each, threads, the largest difference of results, the least share of time that has to be gained, the
    domain of the ops, the processor, and a folder for libraries that is kept as long as they may be loaded."""

    repeat: int
    threads: int
    tolerance: float
    least: float
    domain: str
    target: ExportTarget
    folder: Path

    def pays(self, seconds: Mapping[str, float]) -> bool:
        return self.least == 0 or seconds[AFTER] <= (1 - self.least) * seconds[BEFORE]


def linked(subgraphs: Sequence[Subgraph], name: str, setting: Setting) -> Path:
    """Exports subgraphs as one shared library, in a folder of its own: a file that may be loaded is not written again. Raises what
    exporting and linking raise."""
    library = library_of([s.call for s in subgraphs], name, setting.target, setting.domain)
    return library.write(mkdtemp(dir=setting.folder))[-1]


def with_library(model: Any, library: Path, threads: int) -> Any:
    """Makes a session of a model with custom ops. Raises AnyshapeError where onnxruntime does not take it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    return session(model.SerializeToString(), threads, options)


def called(running: Any, feed: Arrays) -> list[Any]:
    """Runs a session. Raises AnyshapeError where it fails."""
    try:
        results: list[Any] = running.run(None, dict(feed))
        return results
    except Exception as e:  # its errors have no common class below this
        raise AnyshapeError(f"onnxruntime fails on the model: {' '.join(str(e).split())}") from None


def demand_close(names: Sequence[str], expected: Sequence[Any], results: Sequence[Any], tolerance: float) -> None:
    """Raises AnyshapeError for a result that differs by more than the tolerance."""
    for name, a, b in zip(names, expected, results, strict=True):
        share = 0.0 if isinstance(a, list | dict) else apart(a, b)
        if not share <= tolerance:
            raise AnyshapeError(f"{name} differs from onnxruntime's by {share:.2g} of its largest element")


def demand_arrays(subgraph: Subgraph) -> None:
    """Raises UnsupportedError for values that cannot be passed in Python, so that nothing would be measured."""
    from onnx import helper

    for info in (*subgraph.model.graph.input, *subgraph.model.graph.output):
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if dtype.kind == "V":
            raise UnsupportedError(f"{info.name}: onnxruntime passes no arrays of {dtype} in Python")


def tried(subgraph: Subgraph, values: Arrays, setting: Setting) -> dict[str, float]:
    """Measures a subgraph and its op, each alone in a session. Raises AnyshapeError where there is no such op, or its results differ."""
    feed = {name: values[name] for name in subgraph.inputs}
    library = linked([subgraph], subgraph.call.name, setting)
    before = session(subgraph.model.SerializeToString(), setting.threads)
    after = with_library(alone(subgraph, setting.domain), library, setting.threads)
    demand_close(subgraph.outputs, [values[name] for name in subgraph.outputs], called(after, feed), setting.tolerance)
    calls = {BEFORE: lambda: called(before, feed), AFTER: lambda: called(after, feed)}
    return alternating(calls, setting.repeat)


def times_text(seconds: Mapping[str, float]) -> str:
    """`12.0 us before, 10.0 us after`."""
    return ", ".join(f"{s * 1e6:,.1f} us {when}" for when, s in seconds.items())


@dataclass(frozen=True, slots=True)
class Trial:
    """A subgraph whose op is worth it, and seconds of both, each alone."""

    subgraph: Subgraph
    seconds: Mapping[str, float]

    @property
    def gain(self) -> float:
        return self.seconds[BEFORE] - self.seconds[AFTER]


@dataclass(frozen=True, slots=True)
class Left:
    """Nodes, by their places, that stay as they are, and why."""

    nodes: tuple[int, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What is replaced: the model and the library, None where nothing is, and seconds of a call of the model before and after."""

    kept: Sequence[Trial] = ()
    left: Sequence[Left]
    model: Any = None
    library: Path | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


def trials(
    graph: ModelGraph, places: Sequence[frozenset[int]], feed: Arrays, setting: Setting
) -> tuple[list[Trial], list[Left]]:
    """Tries sets of nodes as ops. Raises AnyshapeError where onnxruntime cannot compute what they read."""
    subgraphs, kept, left = [], [], []
    for nodes in places:
        try:
            subgraphs.append(graph.subgraph(nodes))
            demand_arrays(subgraphs[-1])
        except AnyshapeError as e:
            subgraphs = [s for s in subgraphs if s.places != nodes]
            left.append(Left((*sorted(nodes),), str(e)))
    names = sorted({n for s in subgraphs for n in (*s.inputs, *s.outputs)} - feed.keys())
    values = {**feed, **(reference(graph.model, names, feed) if names else {})}
    for s in subgraphs:
        try:
            seconds = tried(s, values, setting)
        except AnyshapeError as e:
            left.append(Left((*sorted(s.places),), str(e)))
            continue
        if setting.pays(seconds):
            kept.append(Trial(s, seconds))
        else:
            left.append(Left((*sorted(s.places),), f"as an op it takes {times_text(seconds)}"))
    return kept, left


def outcome(
    graph: ModelGraph, kept: Sequence[Trial], original: tuple[Any, Arrays], name: str, setting: Setting
) -> Outcome:
    """Replaces subgraphs, and takes back the one of the least gain as long as the model gives other results or is no faster. `original`: a
    session of the model, and inputs; `name`: that of the library."""
    running, feed = original
    expected, names = called(running, feed), [o.name for o in graph.graph.output]
    kept, left = [*kept], []
    while kept:
        library = linked([t.subgraph for t in kept], name, setting)
        model = replaced(graph, [t.subgraph for t in kept], setting.domain)
        try:
            after = with_library(model, library, setting.threads)
            demand_close(names, expected, called(after, feed), setting.tolerance)
            seconds = alternating(
                {BEFORE: lambda: called(running, feed), AFTER: partial(called, after, feed)}, setting.repeat
            )
            if setting.least == 0 or seconds[AFTER] < seconds[BEFORE]:
                return Outcome(kept=kept, left=left, model=model, library=library, seconds=seconds)
            reason = f"with it the model takes {times_text(seconds)}"
        except AnyshapeError as e:
            reason = f"with it {e}"
        worst = min(kept, key=lambda t: t.gain)
        kept.remove(worst)
        left.append(Left((*sorted(worst.subgraph.places),), reason))
    return Outcome(left=left)
