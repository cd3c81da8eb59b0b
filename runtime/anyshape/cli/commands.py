"""What each command does with its parsed arguments.

In: arguments. Out: an answer. Modules that compile are imported where a command needs them: others, and help, start without.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, report, signature
from anyshape.cli.progress import progress
from anyshape.errors import ArgumentError
from anyshape.files import size_of

if TYPE_CHECKING:
    from anyshape.vm import Executable
    from anyshape.vm.compiling.options import CompileOptions

Command = Callable[["Executable", argparse.Namespace], Answer]


def profile_model(args: argparse.Namespace) -> Answer:
    from anyshape.cli.profile import profile_command

    return profile_command(args)


def bench_model(args: argparse.Namespace) -> Answer:
    from anyshape.cli.bench import bench

    return bench(args)


def simplify_model(args: argparse.Namespace) -> Answer:
    from anyshape.cli.shapes import shapes_only
    from anyshape.cli.simplify import simplify

    return shapes_only(args) if args.shapes_only else simplify(args)


def diff_model(args: argparse.Namespace) -> Answer:
    from anyshape.cli.diff import diff

    return diff(args)


def quantise_model(args: argparse.Namespace) -> Answer:
    from anyshape.cli.quantise import quantise_command

    return quantise_command(args)


def accelerate_model(args: argparse.Namespace) -> Answer:
    from anyshape.cli.accelerate import accelerate

    return accelerate(args)


def serve_models(args: argparse.Namespace) -> Answer:
    from anyshape.cli.serve import serve_command

    return serve_command(args)


def batch_rows(args: argparse.Namespace) -> Answer:
    from anyshape.cli.batch import batch_command

    return batch_command(args)


def export_program(args: argparse.Namespace) -> Answer:
    if args.engine == "torch":
        from anyshape.cli.torch_library import torch_library_command

        return torch_library_command(args)
    if args.engine == "onnxruntime":
        from anyshape.cli.custom_ops import custom_ops_command

        return custom_ops_command(args)
    from anyshape.cli.export import export_command

    return export_command(args)


def show_op(args: argparse.Namespace) -> Answer:
    from anyshape.cli.show import STAGES, show

    if os.path.splitext(args.op)[1] in (".onnx", ".anyshape") or os.path.isfile(args.op):
        raise ArgumentError(
            f"show takes the name of an op, and {args.op} is a file; `anyshape explain {args.op}` describes a model"
        )
    if "all" in args.stage:
        args.stage = list(STAGES)
    wrong = sorted(set(args.stage) - set(STAGES))
    if wrong:
        raise ArgumentError(f"--stage: there is no {', '.join(wrong)}; the stages are {', '.join(STAGES)}, all")
    stages = args.stage or [s for s in STAGES if s not in ("llvm", "asm")]
    return show(args.op, arguments.shapes(args.shape), arguments.literals(args.param), stages)


def on_model(command: Command, args: argparse.Namespace) -> Answer:
    """Compiles or loads the model, and asks the command about it."""
    start = time.perf_counter()
    exe = _compiled(args)
    answer = command(exe, args)
    if not args.timings:
        return answer
    seconds = _timings(exe, time.perf_counter() - start)
    lines = ["timings:", *(f"  {name:<12} {s * 1e3:9.1f} ms" for name, s in seconds.items())]
    return replace(answer, text="\n".join([answer.text, *lines]), data={**answer.data, "timings": seconds})


def _compiled(args: argparse.Namespace) -> Executable:
    dims = arguments.dims(args.dim)
    with progress(f"compiling {args.model}"):
        from anyshape.vm import compile

        policy = getattr(args, "policy", None)
        options: CompileOptions = {
            "threads": args.threads,
            "repair": args.repair or None,
            "max_memory": args.max_memory,
            "precision": args.precision,
        }
        return compile(args.model, dims, policy=policy, **options)


def run_model(exe: Executable, args: argparse.Namespace) -> Answer:
    from anyshape.cli.run import run

    return run(exe, args)


def compile_model(exe: Executable, args: argparse.Namespace) -> Answer:
    lines, data = [repr(exe), str(exe.report)], {**signature(exe), "report": report(exe), "saved": args.output}
    if args.output is not None:
        exe.save(args.output)
        size = size_of(args.output)
        lines.append(f"saved in {args.output}" + ("" if size is None else f", {size / 1e6:.1f} MB"))
    return Answer(text="\n".join(lines), data=data)


def explain_model(exe: Executable, args: argparse.Namespace) -> Answer:
    from anyshape.cli.explain import explain, explain_page

    if args.plot is not None and not args.memory:
        raise ArgumentError("--plot is for --memory")
    if args.memory:
        from anyshape.cli.memory import memory_answer

        answer = memory_answer(exe, args)
    else:
        answer = explain(exe)
    return answer if args.html is None else explain_page(exe, args, answer)


def _timings(exe: Executable, total: float) -> dict[str, float]:
    """Lists the seconds of the phases of a compile; `other` is time outside of them, such as loading the compiler and printing."""
    phases = exe.report.phases
    return {**phases, "other": total - sum(phases.values()), "all": total}
