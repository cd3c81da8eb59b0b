"""`anyshape simplify IN OUT`: writes the simplified model, says what was removed, and checks on demand that results are equal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from numpy.typing import NDArray

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.compare import typed
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import inputs_of, make_inputs
from anyshape.comparison import apart
from anyshape.dims import Dim, bounds, evaluate, free_symbols
from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.frontends.onnx.census import Census, census
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.reader import read_model
from anyshape.frontends.onnx.simplified import simplify as simplified
from anyshape.frontends.onnx.writing import write_model
from anyshape.types import TensorType
from anyshape.wording import counted

Arrays = Mapping[str, NDArray[Any]]

SIZES = ((2, 5, 3), (1, 8, 4), (3, 1, 2), (1, 1, 1))
"""Sizes of the symbolic dims of the inputs, one row for each run of --check"""


def simplify(args: argparse.Namespace) -> Answer:
    """Runs the command. Raises ArgumentError without a file to write, and for options of --shapes-only."""
    if args.output is None:
        raise ArgumentError("simplify takes the file to write as its second argument: anyshape simplify IN OUT")
    asked = {"--solve": args.solve, "--failures": args.failures, "--up-to": args.up_to is not None}
    stray = [option for option, is_passed in asked.items() if is_passed]
    if stray:
        raise ArgumentError(f"{', '.join(stray)} asks about shapes: pass --shapes-only too")
    dims = arguments.dims(args.dim)
    with progress(f"simplifying {args.model}"):
        before = read_model(args.model)
        changes: list[str] = []
        model = simplified(args.model, dims, args.repair, changes)
        write_model(model, args.output)
    counts = census(before.model), census(model)
    lines = [*changes, _spell(*counts), f"written to {args.output}"]
    checked = ""
    if args.check:
        with progress("comparing in onnxruntime"):
            checked = _check(args, before.model, dims)
        lines.append(checked)
    data = {
        "changes": changes,
        "before": asdict(counts[0]),
        "after": asdict(counts[1]),
        "written": args.output,
        "check": checked,
    }
    return Answer(text="\n".join(lines), data=data)


def _spell(before: Census, after: Census) -> str:
    lines = [f"{'nodes':<24} {before.total:>7} -> {after.total}"]
    for op in sorted({*before.nodes, *after.nodes}, key=lambda op: (-before.nodes.get(op, 0), op)):
        was, now = before.nodes.get(op, 0), after.nodes.get(op, 0)
        if was != now:
            lines.append(f"  {op:<22} {was:>7} -> {now}")
    for what, c in (("before", before), ("after", after)):
        lines.append(
            f"shapes known {what}: of {c.shaped} of {counted(c.values, 'value')}, of which {c.static} without symbols"
        )
    return "\n".join(lines)


def _check(args: argparse.Namespace, model: Any, dims: Mapping[str, DimBinding]) -> str:
    """Compares both models in onnxruntime. Raises AnyshapeError where results differ."""
    try:
        import onnxruntime
    except ImportError:
        raise ArgumentError("--check runs both models in onnxruntime, which is not installed") from None
    try:
        old, new = (
            onnxruntime.InferenceSession(p, providers=["CPUExecutionProvider"]) for p in (args.model, args.output)
        )
    except Exception as e:  # its errors have no common class below this
        raise AnyshapeError(f"--check: onnxruntime cannot load the model: {e}") from None
    ran, declined, worst = 0, "", 0.0
    for feed in _feeds(args, model, dims):
        try:
            expected = old.run(None, feed)
        except Exception as e:
            declined = str(e)
            continue
        for name, a, b in zip([o.name for o in model.graph.output], expected, new.run(None, feed)):
            worst = max(worst, _difference(name, a, b))
        ran += 1
    if not ran:
        raise ArgumentError(
            f"--check: onnxruntime fails at all shapes that were tried; pass valid shapes by --shape NAME=4x128: {declined}"
        )
    return f"results are equal in onnxruntime at {counted(ran, 'shape')}, to within {worst:.1g} of the largest element"


def _difference(name: str, a: Any, b: Any) -> float:
    """Measures how far two results are apart. Raises AnyshapeError if they differ by more than 1e-3 of the largest element."""
    share = apart(a, b)
    if not share <= 1e-3:
        if typed(a) != typed(b):
            raise AnyshapeError(f"--check: {name} was {typed(a)}, but is {typed(b)}")
        raise AnyshapeError(f"--check: {name} differs by {share:.1g} of its largest element")
    return share


def _feeds(args: argparse.Namespace, model: Any, dims: Mapping[str, DimBinding]) -> Iterator[Arrays]:
    names, types = inputs_of(model, dims, args.model)
    ints, said = arguments.bounds(args.ints, "--ints"), arguments.shapes(args.shape)
    if said:
        yield make_inputs(names, types, said, {}, ints, 0)[0]
        return
    for k, sizes in enumerate(SIZES):
        yield make_inputs(names, types, _shapes(names, types, sizes), {}, ints, k)[0]


def _shapes(names: list[str], types: list[TensorType], sizes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    values: dict[Dim, int] = {}
    for t in types:
        for s in sorted(t.symbols(), key=attrgetter("name")):
            low, high = bounds(s)
            size = max(sizes[len(values) % len(sizes)], low or 0)
            values.setdefault(s, size if high is None else min(size, high))
    return {
        name: tuple(
            n if isinstance(n, int) else int(evaluate(n, {s: values[s] for s in free_symbols(n)})) for n in t.shape
        )
        for name, t in zip(names, types)
        if t.shape is not None
    }
