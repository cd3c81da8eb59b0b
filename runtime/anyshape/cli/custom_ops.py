"""`anyshape export --op OP,OP --for onnxruntime`: writes a library of custom ops, and says which kernels it has."""

from __future__ import annotations

import argparse

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.progress import progress
from anyshape.cli.show import variant
from anyshape.custom_ops import DOMAIN, Choice, library
from anyshape.errors import ArgumentError
from anyshape.vm.export import export_target, name_from
from anyshape.vm.export.op_calls import RANKS
from anyshape.wording import counted

USUAL_NAME = "custom_ops"
"""The name of a library of several ops, unless a user says another one"""


def custom_ops_command(args: argparse.Namespace) -> Answer:
    """Runs the command."""
    if args.op is None:
        raise ArgumentError("--for onnxruntime exports ops as custom ops: say them by --op, as --op softmax,add")
    demand_unused(args)
    ops = [variant(name) for name in args.op.split(",")]
    choice = choice_of(args)
    name = args.name or (name_from(args.op) if len(ops) == 1 else USUAL_NAME)
    with progress(f"exporting {args.op}"):
        built = library(ops, choice, name, export_target(args.target), args.domain or DOMAIN)
        paths = built.write(name if args.out is None else args.out)
    sizes = {str(path): path.stat().st_size for path in paths}
    width = max(map(len, sizes))
    lines = [
        f"{name} for onnxruntime on {built.target.name}, {built.target.what}; nodes have the domain {built.domain!r}",
        *(f"  {path:<{width}}  {n:>12,} bytes" for path, n in sizes.items()),
        *(f"{op}: {counted(n, 'kernel')}" for op, n in built.counts().items()),
        *(f"  {line}" for line in built.lines()),
    ]
    data = {"files": sizes, "target": built.target.name, "domain": built.domain, "kernels": built.lines()}
    return Answer(text="\n".join(lines), data=data)


def choice_of(args: argparse.Namespace) -> Choice:
    """What the options choose of the calls of ops."""
    return Choice(
        params=arguments.choices(args.param),
        dtypes=args.dtypes.split(",") if args.dtypes else (),
        ranks=args.ranks or RANKS,
        types=arguments.named(args.input, "--input", "NAME=TYPE"),
    )


def demand_unused(args: argparse.Namespace) -> None:
    """Raises ArgumentError for options that are for models and C programs."""
    unused = {
        "MODEL": args.model, "--weights": args.weights, "--shared": args.shared, "--static": args.static, "--dim": args.dim,
        "--budget": args.budget,
    }  # fmt: skip
    if used := [name for name, value in unused.items() if value]:
        raise ArgumentError(f"{', '.join(used)}: not with --for {args.engine}")
