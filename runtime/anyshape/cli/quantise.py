"""`anyshape quantise MODEL`: writes the model with weights in few bits, and says what each weight and each output lost.

In: an ONNX file, how to round, and inputs on which to measure, if any. Out: a model for us and for onnxruntime, and a table.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import inputs_of, make_inputs
from anyshape.errors import ArgumentError
from anyshape.files import demand_replaceable, open_plain
from anyshape.frontends.onnx.reader import read_model
from anyshape.frontends.onnx.writing import write_model
from anyshape.quantisation import quantise

Arrays = Mapping[str, NDArray[Any]]

NOTHING = 1
"""The exit code where no weight became narrow"""


def quantise_command(args: argparse.Namespace) -> Answer:
    """Runs the command. Raises ArgumentError for a file that cannot be written, and for inputs that cannot be read."""
    output = _output(args)
    dims = arguments.dims(args.dim)
    with progress(f"quantising {args.model}"):
        model, report = quantise(
            args.model,
            args.weights,
            args.group,
            args.symmetric,
            args.method,
            args.keep,
            args.least,
            _inputs(args, dims),
            dims,
            args.activations,
        )
    written = str(output) if report.narrowed else None
    if written is not None:
        with progress(f"writing {output}"):
            write_model(model, output)
    last = f"written to {output}" if written else "no weight became narrow; nothing is written"
    return Answer(
        text=f"{report}\n{last}",
        data={**report.as_data(), "written": written},
        code=0 if written else NOTHING,
    )


def _output(args: argparse.Namespace) -> Path:
    """The file to write. Raises ArgumentError for one that cannot be written, before anything is computed."""
    source = Path(args.model)
    output = Path(args.out) if args.out is not None else source.with_name(f"{source.stem}.{args.weights}.onnx")
    try:
        demand_replaceable(output)
        if output.exists() and source.exists() and output.samefile(source):
            raise ArgumentError(f"--out {output} is the model itself; name another file")
    except OSError as e:
        raise ArgumentError(f"{output}: cannot be written: {e.strerror or e}") from None
    if not output.parent.is_dir():
        raise ArgumentError(f"{output}: cannot be written: there is no directory {output.parent}")
    return output


def _inputs(args: argparse.Namespace, dims: Mapping[str, Any]) -> Arrays | None:
    """The inputs to measure on, random where only a shape is said; None if no option says any."""
    if args.inputs is None and not args.input and not args.shape:
        return None
    contents = {**_archive(args.inputs), **arguments.arrays(args.input)}
    ints, shapes = arguments.bounds(args.ints, "--ints"), arguments.shapes(args.shape)
    names, types = inputs_of(read_model(args.model).model, dims, args.model)
    return make_inputs(names, types, shapes, contents, ints, args.seed)[0]


def _archive(path: str | None) -> dict[str, NDArray[Any]]:
    """Reads all arrays of an archive. Raises ArgumentError."""
    if path is None:
        return {}
    try:
        with open_plain(path) as file:
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                raise ValueError("it is one array; pass it as --input NAME=FILE")
            with stored:
                arrays = {name: stored[name] for name in stored.files}
    except Exception as e:  # of damaged files NumPy raises what zipfile, zlib, struct and its parsers do
        raise ArgumentError(
            f"--inputs must be an archive of arrays, FILE.npz, got {path}: {e or type(e).__name__}"
        ) from None
    return arrays
