"""`anyshape simplify IN [OUT] --shapes-only`: prints symbolic shapes and conditions, answers inverse questions, and writes the shapes to
OUT."""

from __future__ import annotations

import argparse
from typing import Any

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.progress import progress
from anyshape.errors import ArgumentError
from anyshape.frontends.onnx.writing import write_model
from anyshape.frontends.symbolic_shapes.annotated import annotate
from anyshape.frontends.symbolic_shapes.search import UP_TO
from anyshape.frontends.symbolic_shapes.text import as_data, sizes_as_data, text


def shapes_only(args: argparse.Namespace) -> Answer:
    """Runs the command. Raises ArgumentError for options of a check that nothing is left for."""
    if args.check or args.shape:
        raise ArgumentError("--check and --shape compare a simplified model, and --shapes-only does not simplify")
    questions = arguments.partial_shapes(args.solve)
    changes: list[str] = []
    with progress(f"inferring shapes of {args.model}"):
        model, known = annotate(args.model, arguments.dims(args.dim), args.repair, changes)
        if args.output is not None:
            write_model(model, args.output)
    up_to = UP_TO if args.up_to is None else args.up_to
    with progress("searching sizes"):
        solved = known.solve(questions, up_to=up_to) if questions else None
        failing = (
            [known.smallest_failure(k, up_to=up_to) for k in range(len(known.conditions))] if args.failures else []
        )
    lines = [*changes, text(known, whole=True)]
    if solved is not None:
        lines += ["solved:", str(solved)]
    if args.failures:
        lines += ["smallest sizes that fail each condition:", *map(str, failing)]
    if args.output is not None:
        lines.append(f"written to {args.output}")
    data: dict[str, Any] = {
        "changes": changes,
        **as_data(known),
        "solved": None if solved is None else sizes_as_data(solved),
        "failures": [sizes_as_data(f) for f in failing],
        "written": args.output,
    }
    return Answer(text="\n".join(lines), data=data)
