"""`anyshape export MODEL --out FOLDER`, `anyshape export --op OP`: writes files for C, and says what they need."""

from __future__ import annotations

import argparse
from pathlib import Path

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.progress import progress
from anyshape.cli.show import variant
from anyshape.errors import ArgumentError
from anyshape.vm.compiling.options import CompileOptions
from anyshape.vm.executable.entry import function_of
from anyshape.vm.export import Export, ExportTarget, Request, export, export_ranks, export_target, name_from
from anyshape.vm.export.op_function import ANY_RANK, demand_ranks, of_op, of_rank


def export_command(args: argparse.Namespace) -> Answer:
    """Runs the command."""
    if (args.model is None) == (args.op is None):
        raise ArgumentError("export takes a model, or --op with the name of an op")
    if args.op is not None and "," in args.op:
        raise ArgumentError(
            f"--op {args.op}: of several ops, --for onnxruntime or --for torch writes one library; for C, export each one alone"
        )
    if args.dtypes or args.domain:
        raise ArgumentError("--dtypes and --domain are for --for onnxruntime; --for torch takes --dtypes too")
    target = export_target(args.target)
    with progress(f"exporting {args.model or args.op}"):
        name = args.name if args.name is not None else name_from(args.op or Path(args.model).stem)
        exported = _exported(args, name, target)
        paths = exported.write(name if args.out is None else args.out, args.shared)
    sizes = {str(path): path.stat().st_size for path in paths}
    width = max(map(len, sizes))
    lines = [
        f"{name} for {target.name}, {target.what}",
        *(f"  {path:<{width}}  {n:>12,} bytes" for path, n in sizes.items()),
    ]
    dims = {d.c_name: d.label for d in exported.interface.dims}
    lines += [f"weights of {level} alone: {n:,} bytes" for level, n in exported.own_weights.items()]
    lines.append(f"calls of the C library: {', '.join(exported.library) or 'none'}")
    lines += [f"  {c} is {label}" for c, label in dims.items() if c != label]
    fits = [f"within {args.budget:,} bytes:", *exported.fits] if exported.fits else []
    return Answer(
        text="\n".join([*lines, *exported.formulas, *fits]),
        data={
            "files": sizes,
            "target": target.name,
            "levels": exported.own_weights,
            "dims": dims,
            "memory": exported.formulas,
            "library": exported.library,
            "fits": exported.fits,
        },
    )


def _exported(args: argparse.Namespace, name: str, target: ExportTarget) -> Export:
    of_compile: CompileOptions = {
        "executor": "graph" if args.static else None, "precision": args.precision, "repair": args.repair or None,
    }  # fmt: skip
    dims = arguments.dims(args.dim)
    if args.op is None:
        if args.input or args.param or args.ranks:
            raise ArgumentError("--input, --param and --ranks are for --op")
        f, options = function_of(args.model, dims, **of_compile)
        return export(f, name, target, options, args.weights, args.budget)
    op, types = variant(args.op), arguments.named(args.input, "--input", "NAME=TYPE")
    params = arguments.literals(args.param)
    if args.ranks is None:
        demand_ranks(types)
        f, options = function_of(of_op(op, types, params), dims, **of_compile)
        return export(f, name, target, options, args.weights, args.budget)
    first, last = args.ranks
    functions = {}
    for rank in range(first, last + 1):
        f, options = function_of(of_op(op, of_rank(types, rank), params), dims, **of_compile)
        functions[rank] = f
    ranked = next(k for k, text in enumerate(types.values()) if ANY_RANK in text)
    return export_ranks(functions, name, Request(target, options, budget=args.budget), ranked)
