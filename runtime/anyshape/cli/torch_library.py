"""`anyshape export --op OP,OP --for torch`: writes a library of kernels of operators of PyTorch, and says which calls have one."""

from __future__ import annotations

import argparse

from anyshape.cli.answer import Answer
from anyshape.cli.custom_ops import choice_of, demand_unused
from anyshape.cli.progress import progress
from anyshape.cli.show import variant
from anyshape.errors import ArgumentError
from anyshape.graph.registry import all_ops
from anyshape.torch.library import torch_library
from anyshape.torch.schema import variants_of
from anyshape.vm.export import export_target, name_from, own_levels
from anyshape.wording import counted

USUAL_NAME = "kernels"
"""The name of a library of several ops, unless a user says another one"""


def torch_library_command(args: argparse.Namespace) -> Answer:
    """Runs the command."""
    if args.op is None:
        raise ArgumentError("--for torch exports kernels of ops: say them by --op, as --op softmax,add")
    demand_unused(args)
    if args.domain:
        raise ArgumentError("--domain is for --for onnxruntime: operators of torch have the namespace of their package")
    variants, names = variants_of(all_ops()), [variant(name).name for name in args.op.split(",")]
    name = args.name or (name_from(args.op) if len(names) == 1 else USUAL_NAME)
    with progress(f"exporting {args.op}"):
        target = export_target(args.target) if args.target else own_levels()
        built = torch_library([variants[n] for n in dict.fromkeys(names)], choice_of(args), name, target)
        paths = built.write(name if args.out is None else args.out)
    sizes = {str(path): path.stat().st_size for path in paths}
    width = max(map(len, sizes))
    lines = [
        f"{name} for torch on {target.name}, {target.what}",
        *(f"  {path:<{width}}  {n:>12,} bytes" for path, n in sizes.items()),
        *(f"{operator}: {counted(n, 'kernel')}" for operator, n in built.counts().items()),
        *(f"no kernel: {call}: {why}" for call, why in built.left_out.items()),
    ]
    data = {"files": sizes, "target": target.name, "kernels": built.counts(), "left_out": dict(built.left_out)}
    return Answer(text="\n".join(lines), data=data)
