"""`anyshape export MODEL --out FOLDER`, `anyshape export --op OP`: writes files for C, and says what they need."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.progress import progress
from anyshape.cli.show import variant
from anyshape.errors import ArgumentError
from anyshape.graph.building import input as named_input
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.opdef import OpDef
from anyshape.vm.compiling.options import ExecutorName
from anyshape.vm.executable.executable import function_of
from anyshape.vm.export import Export, ExportTarget, Request, export, export_ranks, export_target, name_from


def export_command(args: argparse.Namespace) -> Answer:
    """Runs the command."""
    if (args.model is None) == (args.op is None):
        raise ArgumentError("export takes a model, or --op with the name of an op")
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
    lines.append(f"calls of the C library: {', '.join(exported.library) or 'none'}")
    lines += [f"  {c} is {label}" for c, label in dims.items() if c != label]
    fits = [f"within {args.budget:,} bytes:", *exported.fits] if exported.fits else []
    return Answer(
        text="\n".join([*lines, *exported.formulas, *fits]),
        data={
            "files": sizes,
            "target": target.name,
            "dims": dims,
            "memory": exported.formulas,
            "library": exported.library,
            "fits": exported.fits,
        },
    )


def _exported(args: argparse.Namespace, name: str, target: ExportTarget) -> Export:
    executor: ExecutorName | None = "graph" if args.static else None
    dims = arguments.dims(args.dim)
    if args.op is None:
        if args.input or args.param or args.ranks:
            raise ArgumentError("--input, --param and --ranks are for --op")
        f, options = function_of(args.model, dims, repair=args.repair or None, executor=executor)
        return export(f, name, target, options, args.weights, args.budget)
    op, types = variant(args.op), arguments.named(args.input, "--input", "NAME=TYPE")
    params = arguments.literals(args.param)
    if args.ranks is None:
        f, options = function_of(of_op(op, types, params), dims, executor=executor)
        return export(f, name, target, options, args.weights, args.budget)
    first, last = args.ranks
    functions = {}
    for rank in range(first, last + 1):
        f, options = function_of(of_op(op, of_rank(types, rank), params), dims, executor=executor)
        functions[rank] = f
    ranked = next(k for k, text in enumerate(types.values()) if ANY_RANK in text)
    return export_ranks(functions, name, Request(target, options, budget=args.budget), ranked)


ANY_RANK = "[...]"


def of_rank(types: Mapping[str, str], rank: int) -> dict[str, str]:
    """The types with so many dims where their number is unknown: `x=f32[...]` is `f32[x_0, x_1]`. Raises ArgumentError where none does."""
    if not any(ANY_RANK in text for text in types.values()):
        raise ArgumentError("--ranks is for an --input of any rank, as x=f32[...]")
    return {n: text.replace(ANY_RANK, f"[{', '.join(f'{n}_{k}' for k in range(rank))}]") for n, text in types.items()}


def of_op(op: OpDef, types: Mapping[str, str], params: Mapping[str, Any]) -> Function:
    """The function of one call: inputs of these types, parameters of these values. Of an input that is a row of tensors, they are called
    `NAME.0`, `NAME.1` and so on. Raises ArgumentError for a name that the op does not have."""
    values = {name: named_input(name, text) for name, text in types.items()}
    rows = {i.name: [n for n in values if n.rpartition(".")[0] == i.name] for i in op.inputs if i.variadic}
    operands = {p.name for p in op.operands}
    known = {i.name for i in op.inputs if not i.variadic} | operands | {n for row in rows.values() for n in row}
    if wrong := sorted(set(values) - known):
        takes = ", ".join([*(f"{i.name}.0" if i.variadic else i.name for i in op.inputs), *sorted(operands)])
        raise ArgumentError(f"{op.full_name} has no input {', '.join(wrong)}; it takes {takes}")
    if wrong := sorted(set(params) - {p.name for p in op.params} | set(params) & set(values)):
        raise ArgumentError(
            f"{op.full_name} has no parameter {', '.join(wrong)}; it has {', '.join(p.name for p in op.params) or 'none'}"
        )
    if missing := [i.name for i in op.inputs if not (i.optional or rows.get(i.name) or i.name in values)]:
        raise ArgumentError(
            f"{op.full_name}: --input must say the type of {', '.join(missing)}, as {missing[0]}='f32[n, 8]'"
        )
    data = [[values[n] for n in rows[i.name]] if i.variadic else values.get(i.name) for i in op.inputs]
    arguments_of: dict[str, Any] = {**params, **{n: v for n, v in values.items() if n in operands}}
    results = call(op, data, arguments_of)
    names = [o.name for o in op.outputs]
    return Function([*values.values()], results, op.name, names if len(names) == len(results) else None)
