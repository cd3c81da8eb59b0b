"""`anyshape accelerate IN OUT LIBRARY`: writes a model in which the parts that our kernels compute faster are custom ops of onnxruntime.

In: an ONNX file, inputs as `anyshape run` takes them. Out: a model, and the shared library that its session registers; or, where nothing
is worth replacing, neither. What is tried is grown from the rows of `anyshape bench`; what stays was measured, alone and in the model.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, described
from anyshape.cli.bench import THEY, profile_here, titled
from anyshape.cli.diff import whole
from anyshape.cli.onnxruntime_profile import called, joined, profile_in_onnxruntime, session
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import ChosenSizes, accepted_inputs, inputs_of, make_inputs, spell_shape
from anyshape.cli.replacement_trial import (
    AFTER,
    BEFORE,
    Acceleration,
    Arrays,
    Setting,
    Trials,
    Unreplaced,
    accelerated,
    times_text,
)
from anyshape.custom_ops.candidates import Row, candidates
from anyshape.custom_ops.subgraphs import ModelGraph
from anyshape.errors import AnyshapeError, ArgumentError, UnsupportedError
from anyshape.files import demand_replaceable, open_plain, replacing
from anyshape.frontends.onnx.named_values import named_values
from anyshape.frontends.onnx.order import spell_node
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.writing import MOST, write_model
from anyshape.processors import usable_processors
from anyshape.vm.export import ExportTarget, export_target, name_from, own_targets
from anyshape.vm.export.shared_library import linker
from anyshape.wording import counted

NOTHING = 1
"""The exit code where nothing is replaced"""


def accelerate(args: argparse.Namespace) -> Answer:
    """Runs the command. Raises AnyshapeError for files that cannot be written, without a linker or onnxruntime, and for a model that
    onnxruntime cannot run."""
    output, library, target = Path(args.output), Path(args.library), _target(args.target)
    linker(target)
    _demand_writable(output, library)
    dims, threads = arguments.dims(args.dim), args.threads or usable_processors()
    with progress(f"reading {args.model}"):
        model = whole(args.model)
        if sum(len(t.raw_data) for t in model.graph.initializer) > MOST:
            raise UnsupportedError(f"{args.model}: its weights are beyond 2 GB, which no session takes in one piece")
        graph = ModelGraph(named_values(Source(model, args.model, None), dims), dims)
        running = _original(args.model, threads)
    shapes, contents = arguments.shapes(args.shape), arguments.arrays(args.input)
    ints = arguments.bounds(args.ints, "--ints")
    make = partial(make_inputs, *inputs_of(model, dims, args.model), shapes, contents, ints, args.seed)
    feed, sizes = accepted_inputs(lambda inputs: called(running, inputs), make)
    with TemporaryDirectory() as folder:
        setting = Setting(
            repeat=args.repeat, threads=threads, tolerance=args.tolerance, least=args.least, domain=args.domain, target=target,
            folder=Path(folder),
        )  # fmt: skip
        result = _searched(args, graph, (running, feed), setting)
        if result.library is not None:
            _write(result, output, library)
    return _answer(graph.model, (feed, sizes), setting, result, [] if result.library is None else [output, library])


def _answer(
    model: Any, call: tuple[Arrays, ChosenSizes], setting: Setting, result: Acceleration, written: Sequence[Path]
) -> Answer:
    """Says what was replaced, what was not and why, and what a call takes. `call`: inputs, and which of their sizes were chosen."""
    feed, sizes = call
    shape = ", ".join(f"{name} {spell_shape(a)}" for name, a in feed.items())
    lines = [f"{shape} (some sizes are chosen; set them by --shape NAME=4x128)" if sizes.chosen else shape]
    lines += _lines(model, result, setting.threads)
    if written:
        files = " and ".join(map(str, written))
        lines.append(
            f"written to {files}, for {setting.target.what}; a session registers it (register_custom_ops_library)"
        )
    data = {
        "inputs": {name: described(a, elements=False) for name, a in feed.items()},
        "chosen": sizes.chosen,
        "threads": setting.threads,
        "target": setting.target.name,
        "replaced": [
            {"op": t.subgraph.call.name, "nodes": _spelled(model, sorted(t.subgraph.places)), "seconds": t.seconds}
            for t in result.kept
        ],
        "left": [{"nodes": _spelled(model, item.nodes), "reason": item.reason} for item in result.left],
        "seconds": result.seconds,
        "written": [str(path) for path in written],
    }
    return Answer(text="\n".join(lines), data=data, code=0 if written else NOTHING)


def _searched(args: argparse.Namespace, graph: ModelGraph, call: tuple[Any, Arrays], setting: Setting) -> Acceleration:
    """Tries parts of a model, and replaces those that are worth it. `call`: a session of the model, and inputs."""
    model, (_, feed) = graph.model, call
    obstacles = {k: why for k in range(len(model.graph.node)) if (why := graph.obstacle(k)) is not None}
    able = frozenset(range(len(model.graph.node))) - obstacles.keys()
    with progress("measuring nodes"):
        rows = _rows(args, model, feed) if setting.least else None
    with progress("measuring parts"):
        trials = Trials(graph, feed, setting)
        for nodes in candidates(graph, able, rows, setting.least):
            trials.add(nodes)
    with progress("measuring the model"):
        name = name_from(Path(args.library).stem.removeprefix("lib"))
        result = accelerated(graph, trials.kept, call, name, setting)
    return replace(result, left=[*(Unreplaced((k,), why) for k, why in obstacles.items()), *trials.left, *result.left])


def _target(names: str | None) -> ExportTarget:
    """The target of those names, or the one of most features that this machine can run. Raises ArgumentError for one of which this machine
    runs no level: what is replaced is measured first."""
    own = own_targets()
    if not own:
        raise ArgumentError(
            "accelerate measures code that it exports, and there is no target for processors like this one"
        )
    target = own[-1] if names is None else export_target(names)
    if target.levels[0] not in own:
        raise ArgumentError(
            f"--target {names}: this machine runs {', '.join(t.name for t in own)}, and what is replaced is measured first"
        )
    return target


def _original(path: str, threads: int) -> Any:
    try:
        return session(path, threads)
    except ImportError:
        raise ArgumentError(
            "accelerate measures in onnxruntime, which is not installed (pip install onnxruntime)"
        ) from None


def _demand_writable(*paths: Path) -> None:
    """Raises ArgumentError for a file that cannot be written, before anything is measured."""
    if len({p.absolute() for p in paths}) < len(paths):
        raise ArgumentError(f"the model and the library are one file: {paths[0]}; name two")
    for path in paths:
        try:
            demand_replaceable(path)
        except OSError as e:
            raise ArgumentError(f"{path}: cannot be written: {e.strerror or e}") from None
        if not path.parent.is_dir():
            raise ArgumentError(f"{path}: cannot be written: there is no directory {path.parent}")


def _rows(args: argparse.Namespace, model: Any, feed: Arrays) -> list[Row] | None:
    """Measures nodes here and in onnxruntime; None where the model as a whole cannot run here."""
    try:
        ours = profile_here(args.model, model, feed, args.repeat, arguments.dims(args.dim))
    except AnyshapeError:
        return None
    return joined(ours, profile_in_onnxruntime(model, feed, args.repeat))


def _write(result: Acceleration, output: Path, library: Path) -> None:
    """Writes both files, or none. Raises AnyshapeError."""
    assert result.library is not None
    try:
        with open_plain(result.library) as built, replacing(library, 0o777) as file:
            shutil.copyfileobj(built, file)
            write_model(result.model, output)
    except OSError as e:
        raise AnyshapeError(f"{library}: cannot be written: {e.strerror or e}") from None


def _spelled(model: Any, places: Sequence[int]) -> list[str]:
    return [spell_node(model.graph.node[k]) for k in places]


def _lines(model: Any, result: Acceleration, threads: int) -> list[str]:
    """Lists parts that were replaced, nodes that were not and why, and the time of a call."""
    lines = []
    for t in result.kept:
        nodes = [model.graph.node[k] for k in sorted(t.subgraph.places)]
        lines.append(f"{t.subgraph.call.name}: {counted(len(nodes), 'node')}, {titled(nodes)}: {times_text(t.seconds)}")
    for item in result.left:
        nodes = [model.graph.node[k] for k in item.nodes]
        lines.append(f"not replaced: {counted(len(nodes), 'node')}, {titled(nodes)}: {item.reason}")
    if result.library is None:
        return [
            *lines,
            f"nothing is replaced: no part of the model gains enough in {THEY} (--least); nothing is written",
        ]
    ratio = result.seconds[BEFORE] / result.seconds[AFTER]
    return [
        *lines,
        f"a call on {counted(threads, 'thread')}: {times_text(result.seconds)}: {ratio:.2f} times as fast as before",
    ]
