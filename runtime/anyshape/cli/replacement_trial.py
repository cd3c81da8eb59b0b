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
from anyshape.cli.diff import between, unoptimised
from anyshape.cli.onnxruntime_profile import called, session
from anyshape.comparison import apart
from anyshape.custom_ops import library_of
from anyshape.custom_ops.replacement import alone, replaced
from anyshape.custom_ops.subgraphs import ModelGraph, Subgraph
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.vm.export import ExportTarget

Arrays = Mapping[str, NDArray[Any]]
BEFORE, AFTER = "before", "after"
SPLITS = 2
"""How often nodes whose op gains too little are tried in halves"""


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
class Unreplaced:
    """Nodes, by their places, that stay as they are, and why."""

    nodes: tuple[int, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Acceleration:
    """What is replaced: the model and the library, None where nothing is, and seconds of a call of the model before and after."""

    kept: Sequence[Trial] = ()
    left: Sequence[Unreplaced]
    model: Any = None
    library: Path | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


class Trials:
    """Trials of sets of nodes as ops, with what the nodes read in one call of the model."""

    def __init__(self, graph: ModelGraph, feed: Arrays, setting: Setting) -> None:
        self.graph, self.feed, self.setting = graph, feed, setting
        self.kept: list[Trial] = []
        self.left: list[Unreplaced] = []
        self._running = unoptimised(graph.model, between(graph.model))

    def add(self, places: frozenset[int], splits: int = SPLITS) -> None:
        """Tries nodes as one op. Where there is no such op, or its results differ, each half of them is tried; where it gains too little,
        too, at most `splits` times."""
        try:
            subgraph = self.graph.subgraph(places)
            demand_arrays(subgraph)
            seconds = tried(subgraph, self._values(subgraph), self.setting)
        except AnyshapeError as e:
            self._halve(places, str(e), splits)
            return
        if self.setting.pays(seconds):
            self.kept.append(Trial(subgraph, seconds))
        elif splits:
            self._halve(places, _too_little(seconds), splits - 1)
        else:
            self.left.append(Unreplaced((*sorted(places),), _too_little(seconds)))

    def _halve(self, places: frozenset[int], reason: str, splits: int) -> None:
        """Tries the first and the second half in topological order, so that no path leads from the second one to the first."""
        if len(places) == 1:
            self.left.append(Unreplaced((*places,), reason))
            return
        order = sorted(places, key=self.graph.order.__getitem__)
        for half in (order[: len(order) // 2], order[len(order) // 2 :]):
            self.add(frozenset(half), splits)

    def _values(self, subgraph: Subgraph) -> Arrays:
        known = {**self.graph.defaults(), **self.feed}
        names = [n for n in dict.fromkeys((*subgraph.inputs, *subgraph.outputs)) if n not in known]
        return {**known, **dict(zip(names, called(self._running, self.feed, names) if names else ()))}


def _too_little(seconds: Mapping[str, float]) -> str:
    return f"as an op it gains too little: {times_text(seconds)}"


def accelerated(
    graph: ModelGraph, kept: Sequence[Trial], original: tuple[Any, Arrays], name: str, setting: Setting
) -> Acceleration:
    """Replaces subgraphs, and takes back the one of the least gain as long as the model gives other results or is no faster. `original`: a
    session of the model, and inputs; `name`: that of the library."""
    running, feed = original
    expected, names = called(running, feed), [o.name for o in graph.graph.output]
    kept, left = [*kept], list[Unreplaced]()
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
                return Acceleration(kept=kept, left=left, model=model, library=library, seconds=seconds)
            reason = f"with it the model takes {times_text(seconds)}"
        except AnyshapeError as e:
            reason = f"with it {e}"
        worst = min(kept, key=lambda t: t.gain)
        kept.remove(worst)
        left.append(Unreplaced((*sorted(worst.subgraph.places),), reason))
    return Acceleration(left=left)
