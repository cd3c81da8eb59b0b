"""`anyshape diff MODEL`: runs a model beside onnxruntime, or beside its exact form, and names the first node whose result differs.

In: an ONNX file, inputs as `anyshape run` takes them, a precision, a tolerance. Out: text; where results differ also a folder with the
node's inputs, both results, a model to repeat it with, and the script that does.

Values between nodes are compared by making them outputs of the model. An output is never fused away, so that making every value an output
can remove the difference; bisection then finds how many values have to be outputs until it goes away.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, described
from anyshape.cli.compare import typed
from anyshape.cli.onnxruntime_profile import called, session
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import accepted_inputs, make_inputs
from anyshape.cli.run import spell_array
from anyshape.comparison import apart
from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.files import is_saved
from anyshape.frontends.onnx.control import captured_names
from anyshape.frontends.onnx.edge import model_errors
from anyshape.frontends.onnx.embedding import embedded
from anyshape.frontends.onnx.reader import read_model

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first value that differs: its node, how far it differs, and what both computed."""

    node: Any
    place: int
    name: str
    share: float
    ours: NDArray[Any]
    theirs: NDArray[Any]
    values: Arrays
    """all values that were computed beside ours, and the inputs"""
    outputs: tuple[str, ...]
    """the outputs of the model that differ"""


def diff(args: argparse.Namespace) -> Answer:
    """Runs the command; the exit code is 1 where results differ. Raises AnyshapeError where one of the two cannot run the model."""
    with progress(f"reading {args.model}"):
        model = whole(args.model)
    names = tuple(o.name for o in model.graph.output)
    with progress("running in both"):
        exe = compiled(model, names, args)
        ints, shapes = arguments.bounds(args.ints, "--ints"), arguments.shapes(args.shape)
        contents = arguments.arrays(args.input)
        make = partial(make_inputs, exe.input_names, exe.input_types, shapes, contents, ints, args.seed)
        feed, sizes = accepted_inputs(exe.run, make)
        ours = dict(zip(exe.output_names, exe.run(feed), strict=True))
        theirs = reference(model, names, feed, args)
    head = [f"{name}: {spell_array(a)}" for name, a in feed.items()]
    if sizes.chosen:
        head.append(
            f"(chosen sizes: {', '.join(f'{name}={n}' for name, n in sizes.chosen.items())}; set them by --shape NAME=4x128)"
        )
    shares = {name: apart(theirs[name], ours[name]) for name in names if name in theirs}
    lines = [*head, *(f"output {name}: {spell_share(share)}" for name, share in shares.items())]
    agree = all(share <= args.tolerance for share in shares.values())
    data: dict[str, Any] = {
        "inputs": {name: described(a, elements=False) for name, a in feed.items()},
        "chosen": sizes.chosen,
        "tolerance": args.tolerance,
        "outputs": shares,
        "agree": agree,
    }
    if agree:
        lines.append(f"results agree to within {args.tolerance:g} of the largest element")
        return Answer(text="\n".join(lines), data=data)
    with progress("comparing node by node"):
        difference = first_apart(model, feed, args) or first_cure(model, feed, args)
    lines += [*story(difference, args), *dumped(model, difference, feed, Path(args.output), args)]
    first = {
        "place": difference.place,
        "op": difference.node.op_type,
        "name": difference.node.name,
        "result": difference.name,
    }
    first |= {
        "share": difference.share,
        "anyshape": described(difference.ours),
        args.beside: described(difference.theirs),
    }
    return Answer(text="\n".join(lines), data={**data, "first": first, "folder": args.output}, code=1)


def whole(path: str) -> Any:
    """Reads a model with its weights. Raises ModelError for damage, ArgumentError for a saved program."""
    if is_saved(path):
        raise ArgumentError(f"{path} is a saved model; this command needs the ONNX model from which it was compiled")
    with model_errors(path):
        return embedded(read_model(path))


def asking(model: Any, outputs: Sequence[str]) -> Any:
    """Copies a model, with these values as its outputs."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {o.name: o for o in copy.graph.output}
    listed = [known.get(name) or onnx.ValueInfoProto(name=name) for name in outputs]
    del copy.graph.output[:]
    copy.graph.output.extend(listed)
    return copy


def compiled(model: Any, outputs: Sequence[str], args: argparse.Namespace) -> Any:
    from anyshape.vm import compile

    return compile(asking(model, outputs), arguments.dims(args.dim), precision=args.precision)


def unoptimised(model: Any, outputs: Sequence[str]) -> Any:
    """Makes a session of the model in onnxruntime without its optimisations, with these values as outputs. Raises AnyshapeError where there
    is none."""
    try:
        import onnxruntime
    except ImportError:
        raise ArgumentError("diff compares with onnxruntime, which is not installed") from None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return session(asking(model, outputs).SerializeToString(), 0, options)


def reference(model: Any, outputs: Sequence[str], feed: Arrays, args: argparse.Namespace) -> dict[str, NDArray[Any]]:
    """Runs the model in what ours is compared with; outputs that are not tensors are left out."""
    if args.beside == "exact":
        return _exact(model, outputs, feed, args)
    running = unoptimised(model, outputs)
    accepted = {i.name for i in running.get_inputs()}
    results = called(running, {name: a for name, a in feed.items() if name in accepted})
    return {name: r for name, r in zip(outputs, results, strict=True) if isinstance(r, np.ndarray)}


def _exact(model: Any, outputs: Sequence[str], feed: Arrays, args: argparse.Namespace) -> dict[str, NDArray[Any]]:
    from anyshape.vm import compile

    exe = compile(asking(model, outputs), arguments.dims(args.dim), precision="exact")
    results = zip(exe.output_names, exe.run({name: feed[name] for name in exe.input_names}), strict=True)
    return {name: r for name, r in results if isinstance(r, np.ndarray)}


def between(model: Any) -> list[str]:
    """Lists the results of all nodes of the main graph, in order."""
    return [name for node in model.graph.node for name in node.output if name]


def first_apart(model: Any, feed: Arrays, args: argparse.Namespace) -> Difference | None:
    """Finds the first node whose result differs while every value is an output; its operands agree then."""
    theirs = reference(model, between(model), feed, args)
    exe = compiled(model, list(theirs), args)
    ours = dict(zip(exe.output_names, exe.run(feed), strict=True))
    return _first(model, ours, theirs, feed, tuple(theirs), args.tolerance)


def first_cure(model: Any, feed: Arrays, args: argparse.Namespace) -> Difference:
    """Bisects for the value that has to be an output for the difference to go away, and finds the first value that differs without it.
    Raises AnyshapeError where the difference is not there again, as in a model that draws numbers."""
    names = [o.name for o in model.graph.output]
    theirs = reference(model, between(model), feed, args)
    extra = [name for name in theirs if name not in names]

    def run(count: int) -> dict[str, Any]:
        exe = compiled(model, [*names, *extra[:count]], args)
        return dict(zip(exe.output_names, exe.run(feed), strict=True))

    def differs(count: int) -> bool:
        ours = run(count)
        return any(apart(theirs[n], ours[n]) > args.tolerance for n in names if n in theirs)

    low, high = 0, len(extra)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if differs(middle) else (low, middle)
    difference = _first(model, run(low), theirs, feed, (*names, *extra[:low]), args.tolerance)
    if difference is None:
        raise AnyshapeError(
            "results differed in the first run and not in a second one: does the model draw random numbers?"
        )
    return difference


def _first(
    model: Any, ours: Arrays, theirs: Arrays, feed: Arrays, outputs: tuple[str, ...], tolerance: float
) -> Difference | None:
    for k, node in enumerate(model.graph.node):
        for name in node.output:
            if name in ours and name in theirs and (share := apart(theirs[name], ours[name])) > tolerance:
                return Difference(
                    node=node,
                    place=k,
                    name=name,
                    share=share,
                    ours=np.asarray(ours[name]),
                    theirs=theirs[name],
                    values={**feed, **theirs},
                    outputs=outputs,
                )
    return None


def spell_share(share: float) -> str:
    """Words for a difference as `apart` measures it."""
    return (
        "equal"
        if share == 0
        else "other dtype, shape or special values"
        if np.isinf(share)
        else f"differs by {share:.2g}"
    )


def story(first: Difference, args: argparse.Namespace) -> list[str]:
    node = first.node
    label = f"{node.domain + ':' if node.domain else ''}{node.op_type}{f' {node.name!r}' if node.name else ''}"
    share = f"{spell_share(first.share)} (allowed {args.tolerance:g})"
    return [
        f"first differs at node {first.place}, {label}, in its result {first.name!r}: {share}",
        f"  reads {', '.join(f'{n}: {typed(first.values[n])}' if n in first.values else n for n in node.input if n) or 'nothing'}",
        f"  {'anyshape':<12} {typed(first.ours)} {_few(first.ours)}",
        f"  {args.beside:<12} {typed(first.theirs)} {_few(first.theirs)}",
    ]


def _few(a: NDArray[Any]) -> str:
    return " ".join(np.array2string(a, threshold=6, edgeitems=2, precision=6).split())


def dumped(model: Any, first: Difference, feed: Arrays, folder: Path, args: argparse.Namespace) -> list[str]:
    """Writes the folder that reproduces a difference; returns a line that says what is in it."""
    from anyshape.cli.replay import alone, write

    node_model, reads = alone(model, first.node, first.values, captured_names)
    again = apart_again(node_model, reads, first, args)
    if again:
        write(folder, node_model, reads, first.ours, first.theirs, first.name, args)
        what = "the node alone, which differs too"
    else:
        write(folder, asking(model, first.outputs), feed, first.ours, first.theirs, first.name, args)
        what = "the model, since the node alone agrees"
    return [f"written to {folder}: {what}; its inputs, both results, and replay.py, which runs it again in both"]


def apart_again(node_model: Any, reads: Arrays, first: Difference, args: argparse.Namespace) -> bool:
    """Whether the node, alone and on the same inputs, differs from what it is compared with."""
    try:
        from anyshape.vm import compile

        exe = compile(node_model, precision=args.precision)
        ours = dict(zip(exe.output_names, exe.run({n: reads[n] for n in exe.input_names}), strict=True))
        return bool(apart(first.theirs, ours[first.name]) > args.tolerance)
    except AnyshapeError:
        return False
