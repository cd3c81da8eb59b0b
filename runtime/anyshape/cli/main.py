"""`anyshape run|compile|explain|profile|bench|simplify|diff|export MODEL`, `anyshape show OP`.

In: words. Out: text, or JSON with `--json`; for anything wrong one message and exit code 2.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from anyshape.cli import arguments
from anyshape.cli.answer import Answer, as_json, report, signature
from anyshape.cli.progress import progress
from anyshape.code_version import VERSION
from anyshape.errors import AnyshapeError, ArgumentError, library_error
from anyshape.policies import NAMED

if TYPE_CHECKING:
    from anyshape.vm import Executable

Command = Callable[["Executable", argparse.Namespace], Answer]
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
TARGET_NAMES = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64-linux-gnu", "riscv64-linux-gnu", "wasm32")
"""Targets of an export (`vm.export.targets`), which need not be loaded for a help text"""
_REPEATED = ("at", "dim", "input", "param", "shape", "solve", "stage")
"""Options that may be passed more than once"""
MOST_CALLS = 1_000_000
"""The most calls that --repeat may ask for"""
MOST_SIZE = 1_000_000
"""The largest number that --up-to may ask for"""

_DESCRIPTION = "Compile ONNX models with unknown shapes once, and run them at any shape."
_EXAMPLES = """\
  anyshape explain bert.onnx                             what is dynamic in it, and why
  anyshape explain bert.onnx --memory --at batch=4 --at seq=128
  anyshape explain bert.onnx --memory --plot memory.svg
  anyshape run bert.onnx --shape ids=4x128               random inputs; other inputs follow from shared dims
  anyshape run bert.onnx --shape ids=4x128 --ints 0:30000 --repeat 20
  anyshape run model.onnx --input x=x.npy --input mask=inputs.npz --input newshape='[2, -1]'
  anyshape run model.onnx --input x=x.npy --output-dir results --json
  anyshape profile bert.onnx --shape ids=4x128 --html bert.html
  anyshape bench bert.onnx --shape ids=4x128 --plot bert.svg     beside onnxruntime, the slowest nodes first
  anyshape bench bert.onnx --dim batch=4 --dim seq=128 --threads 1 --repeat 100 --json
  anyshape run vision.onnx --shape image=1x3x224x224 --repeat 1000 --policy specialised
  anyshape compile bert.onnx --dim batch=1:64 --dim seq=1:512 --timings
  anyshape compile bert.onnx -o bert.anyshape            save it, to be run by: anyshape run bert.anyshape
  anyshape simplify bert.onnx small.onnx --check         an equal model with fewer nodes, for any runtime
  anyshape simplify bert.onnx --shapes-only --failures   symbolic shapes, what must hold of dims, and the smallest inputs that fail
  anyshape simplify bert.onnx --shapes-only --solve last_hidden_state=1x512x256
  anyshape diff model.onnx --shape x=4x128               the first node that differs from onnxruntime, with a script that reproduces it
  anyshape export bert.onnx --out bert --bounds seq=1:512                an object file and a C header, without Python
  anyshape export bert.onnx --out bert --target aarch64-linux-gnu --weights file
  anyshape export --op softmax --input x='f32[n, m]' --param axis=0 --out softmax
  anyshape export --op softmax --input x='f32[...]' --ranks 1:4 --out softmax
  anyshape export --op softmax,add --ranks 1:4 --for onnxruntime --out ops        custom ops for register_custom_ops_library
  anyshape show softmax                                  its spec, equations, loops, machine code and speed
  anyshape show dyn.reshape --shape x=4x6 --param newshape='[3, -1]' --stage program
"""
_CODES = """\
Exit codes: 0: done. 1: diff found a difference. 2: an error in the model, the inputs or the command, which the message describes.
130: Ctrl-C.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of few characters still gets a text
            stream.reconfigure(errors="backslashreplace")
    try:
        args = _parsed(argv)
        try:
            _demand_values(args)
            answer: Answer = args.command(args)
            _put(as_json(answer.data) if args.json else answer.text)
            return answer.code
        except AnyshapeError as e:
            return _refused(args, e)
        except MemoryError:
            return _refused(args, AnyshapeError("there is not enough memory"))
        except ImportError as e:
            return _refused(args, library_error(e))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who read the output has enough
        _silence()
        return 0
    except _Unwritten as e:
        _silence()
        with suppress(OSError):
            print(f"anyshape: standard output cannot be written: {e}", file=sys.stderr, flush=True)
        return 2


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses arguments. The last positional of a command may stand behind options, where argparse does not look for it if it is optional:
    the command's default `last` names it. `--help` and `--version` print, and end the process: raises _Unwritten where their text is
    lost."""
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            known = parser()
            args, rest = known.parse_known_args(argv)
    except SystemExit:
        if said.getvalue():
            _put(said.getvalue().rstrip("\n"))
        raise
    if len(rest) == 1 and not rest[0].startswith("-") and args.last and getattr(args, args.last) is None:
        setattr(args, args.last, rest[0])
    elif rest:
        known.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def _demand_values(args: argparse.Namespace) -> None:
    """Raises ArgumentError for an option whose value is `--`, which argparse takes for no value at all."""
    for name, value in vars(args).items():
        if isinstance(value, list) and not (all(isinstance(v, str) for v in value) and name in _REPEATED):
            raise ArgumentError(f"--{name.replace('_', '-')} has no value")


class _Unwritten(Exception):
    """Standard output takes no more."""


def _put(text: str) -> None:
    """Prints an answer, at once. Raises BrokenPipeError, and _Unwritten for other errors of standard output."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as e:
        raise _Unwritten(e.strerror or str(e)) from None


def _silence() -> None:
    """Lets what is left in the buffer of standard output go nowhere, so that Python does not try again when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(args: argparse.Namespace, e: AnyshapeError) -> int:
    """Prints why a command fails, as JSON too if asked for. Returns the exit code."""
    with suppress(OSError):
        print(f"anyshape: {e}", file=sys.stderr, flush=True)
    if args.json:
        _put(as_json({"error": type(e).__name__, "message": str(e)}))
    return 2


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "anyshape",
        description=_DESCRIPTION,
        epilog=f"{_examples('')}\n{_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"anyshape {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run = _command(commands, "run", "run a model on random inputs or inputs from files, and measure its time", _run)
    _add_inputs(run)
    _add_threads(run)
    repeat = arguments.count(0, MOST_CALLS)
    run.add_argument("--repeat", type=repeat, default=5, metavar="N", help="number of further runs to measure (5)")
    _add_policy(run)
    run.add_argument(
        "--output-dir", metavar="FOLDER", help="write each output to FOLDER/NAME.npy, a list as NAME.0.npy and so on"
    )
    compile_ = _command(commands, "compile", "compile a model, and report how", _compile)
    compile_.add_argument(
        "-o", "--output", metavar="FILE", help="save the compiled model, for `anyshape run FILE` and anyshape.load"
    )
    explain = _command(commands, "explain", "describe a model's dims, and which ops stayed dynamic and why", _explain)
    _add_policy(explain)
    explain.add_argument("--memory", action="store_true", help="describe the memory of intermediate values")
    explain.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="NAME=8",
        help="with --memory: the size of a dim, for sizes in bytes",
    )
    target = "with --memory: the processor of the exported model whose formula is printed (default: like this one)"
    explain.add_argument("--target", choices=TARGET_NAMES, metavar="TARGET", help=target)
    plot = "with --memory: draw the bytes of the exported model over each dim: an .svg, or with matplotlib a .png"
    explain.add_argument("--plot", metavar="FILE", help=plot)
    _add_profile(commands)
    _add_bench(commands)
    _add_simplify(commands)
    _add_diff(commands)
    _add_export(commands)
    _add_show(commands)
    parser.set_defaults(threads=None, last=None)
    return parser


def _examples(name: str) -> str:
    """Selects the examples of a command; of all commands for an empty name."""
    return "examples:\n" + "".join(e for e in _EXAMPLES.splitlines(True) if e.startswith(f"  anyshape {name}"))


def _parser(commands: Commands, name: str, text: str, *more: str) -> argparse.ArgumentParser:
    """Adds the parser of a command, whose help says what it does and shows examples."""
    description = "\n".join([text[0].upper() + text[1:] + ".", *more])
    form = argparse.RawDescriptionHelpFormatter
    one = commands.add_parser(name, help=text, description=description, epilog=_examples(name), formatter_class=form)
    one.add_argument("--json", action="store_true", help="print the answer, and an error, as JSON")
    return one


def _add_profile(commands: Commands) -> None:
    text = "measure the time of a call by kernel and by op, and compare it with the limits of the machine"
    one = _parser(commands, "profile", text)
    one.add_argument("model", metavar="MODEL", help="an ONNX file")
    _add_dim(one)
    _add_inputs(one)
    _add_threads(one)
    one.add_argument(
        "--repeat",
        type=arguments.count(1, MOST_CALLS),
        default=20,
        metavar="N",
        help="number of calls, of which the fastest is reported (20)",
    )
    _add_policy(one)
    one.add_argument("--html", metavar="FILE", help="write a timeline, as one HTML page without other files")
    one.set_defaults(command=_profile)


def _profile(args: argparse.Namespace) -> Answer:
    from anyshape.cli.profile import profile_command

    return profile_command(args)


def _add_bench(commands: Commands) -> None:
    text = "measure a model beside onnxruntime: whole calls in turns, and the slowest nodes with what onnxruntime takes for them"
    more = (
        "Nodes are timed on one thread, by the profile of each. A kernel that fuses nodes is one row, beside all that computes these",
        "nodes in onnxruntime. A ratio above 1 says that anyshape is faster. Without onnxruntime, the times of anyshape stand alone.",
    )
    one = _parser(commands, "bench", text, *more)
    one.add_argument("model", metavar="MODEL", help="an ONNX file")
    _add_dim(one)
    _add_inputs(one)
    _add_threads(one)
    one.add_argument(
        "--repeat", type=arguments.count(1, MOST_CALLS), default=20, metavar="N", help="number of calls of each (20)"
    )
    one.add_argument("--plot", metavar="FILE", help="draw the slowest nodes: an .svg, or with matplotlib a .png")
    one.set_defaults(command=_bench)


def _bench(args: argparse.Namespace) -> Answer:
    from anyshape.cli.bench import bench

    return bench(args)


def _add_threads(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--threads",
        type=arguments.count(0),
        metavar="N",
        help="the most threads of one kernel (0: all processors, the default)",
    )


def _add_simplify(commands: Commands) -> None:
    text = "write an equal ONNX model with constants folded, shapes inferred and equal nodes merged, for any runtime"
    simplify = _parser(commands, "simplify", text)
    simplify.add_argument("model", metavar="IN", help="an ONNX file")
    simplify.add_argument("output", metavar="OUT", nargs="?", help="the file to write; not required with --shapes-only")
    _add_dim(simplify)
    _add_repair(simplify)
    simplify.add_argument(
        "--check", action="store_true", help="run both models in onnxruntime at several shapes, and compare results"
    )
    simplify.add_argument(
        "--shape", action="append", default=[], metavar="NAME=4x128", help="with --check: the shape of an input"
    )
    simplify.add_argument(
        "--ints", default="0:2", metavar="LOW:HIGH", help="with --check: range of random integers, HIGH excluded (0:2)"
    )
    _add_shapes(simplify)
    simplify.set_defaults(command=_simplify, last="output")


def _add_shapes(simplify: argparse.ArgumentParser) -> None:
    """Adds the options about symbolic shapes."""
    only = "print the symbolic shape of each value and the conditions on dims; OUT gets the model with these shapes, not simplified"
    simplify.add_argument("--shapes-only", action="store_true", help=only)
    simplify.add_argument(
        "--solve",
        action="append",
        default=[],
        metavar="NAME=1x512",
        help="with --shapes-only: for which inputs a value has this shape; ? is any size",
    )
    simplify.add_argument(
        "--failures", action="store_true", help="with --shapes-only: the smallest input that fails each condition"
    )
    simplify.add_argument(
        "--up-to",
        type=arguments.count(0, MOST_SIZE),
        default=None,
        metavar="N",
        help="with --solve or --failures: the largest number to try for a dim (1024)",
    )


def _simplify(args: argparse.Namespace) -> Answer:
    from anyshape.cli.shapes import shapes_only
    from anyshape.cli.simplify import simplify

    return shapes_only(args) if args.shapes_only else simplify(args)


def _add_diff(commands: Commands) -> None:
    text = "compare a model with onnxruntime, and report the first node whose result differs"
    more = (
        "Its inputs, both results and a script that reproduces the difference are written to a folder.",
        "Exit code 1 if results differ.",
    )
    one = _parser(commands, "diff", text, *more)
    one.add_argument("model", metavar="MODEL", help="an ONNX file")
    _add_dim(one)
    _add_inputs(one)
    allowed = "the largest difference allowed, as a share of the largest element (0.001)"
    one.add_argument("--tolerance", type=arguments.share, default=1e-3, metavar="SHARE", help=allowed)
    one.add_argument("-o", "--output", default="diff", metavar="FOLDER", help="the folder for a difference (./diff)")
    one.set_defaults(command=_diff)


def _diff(args: argparse.Namespace) -> Answer:
    from anyshape.cli.diff import diff

    return diff(args)


def _add_export(commands: Commands) -> None:
    text = "write a model, or an op, as an object file with a C header, which need neither Python nor a library"
    more = ("Targets: " + ", ".join(TARGET_NAMES) + ".", "docs/export.md says how to call what is written.")
    one = _parser(commands, "export", text, *more)
    one.add_argument("model", metavar="MODEL", nargs="?", help="an ONNX file or a saved model; none with --op")
    one.add_argument("--out", metavar="FOLDER", help="the folder for the files (default: called as the model)")
    one.add_argument(
        "--name", metavar="NAME", help="what names of files and functions begin with (default: as the model)"
    )
    one.add_argument("--target", choices=TARGET_NAMES, metavar="TARGET", help="the processor (default: like this one)")
    one.add_argument(
        "--weights", choices=("inside", "file"), help="where weights are (default: inside the object if small)"
    )
    shared = "link a shared library too, by cc or the package ziglang"
    one.add_argument("--shared", action="store_true", help=shared)
    one.add_argument("--static", action="store_true", help="refuse a model in which any size is not a number")
    bounds = "set a named dim of the inputs, or bound it: seq=1:512"
    one.add_argument("--dim", "--bounds", action="append", default=[], metavar="NAME=8", help=bounds)
    _add_repair(one)
    budget = "the most bytes of the arena, as 64MB or 512KiB: what needs more is refused, here or by the call"
    one.add_argument("--budget", type=arguments.byte_count, metavar="64MB", help=budget)
    one.add_argument("--op", metavar="OP", help="in place of a model: the name of an op, like softmax or dyn.reshape")
    types = "with --op: the type of an input, as x=f32[n, 8]; the same name is the same size"
    one.add_argument("--input", action="append", default=[], metavar="NAME=TYPE", help=types)
    one.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="with --op: a parameter, like axis=0"
    )
    ranks = "with --op and an input of type f32[...]: a function for each of these ranks, and one that chooses by the tensor"
    one.add_argument("--ranks", type=arguments.ranks, metavar="0:4", help=ranks)
    engine = "with --op OP,OP: write a library of custom ops that this engine loads; --param may have several values of one name"
    one.add_argument("--for", dest="engine", choices=("onnxruntime",), help=engine)
    dtypes = "with --for: the element types of inputs, as f32,f16 (default: f32, else i64, where an op takes them)"
    one.add_argument("--dtypes", metavar="f32,f16", help=dtypes)
    one.add_argument("--domain", metavar="NAME", help="with --for: the domain of the ops (anyshape)")
    one.set_defaults(command=_export)


def _export(args: argparse.Namespace) -> Answer:
    if args.engine is not None:
        from anyshape.cli.custom_ops import custom_ops_command

        return custom_ops_command(args)
    from anyshape.cli.export import export_command

    return export_command(args)


def _add_inputs(one: argparse.ArgumentParser) -> None:
    """Adds the options that say which inputs a model runs on."""
    one.add_argument("--shape", action="append", default=[], metavar="NAME=4x128", help="the shape of an input")
    one.add_argument(
        "--input", action="append", default=[], metavar="NAME=VALUE", help="an input: file.npy, file.npz, or [1, 2]"
    )
    one.add_argument("--ints", default="0:2", metavar="LOW:HIGH", help="range of random integers, HIGH excluded (0:2)")
    one.add_argument("--seed", type=arguments.count(0), default=0, help="seed of the random numbers (0)")


def _add_show(commands: Commands) -> None:
    text = "show one op from its YAML to machine code, and its speed against the machine's limits"
    show = _parser(commands, "show", text)
    show.add_argument("op", metavar="OP", help="the name of an op, like softmax or dyn.reshape")
    show.add_argument("--shape", action="append", default=[], metavar="NAME=4x128", help="the shape of an input")
    show.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter, like axis=0")
    show.add_argument("--stage", action="append", default=[], metavar="STAGE", help="show only this stage: spec, relation, kernel, "
                      "equations, schedule, program, llvm, asm, speed; or all (default: all but llvm and asm)")  # fmt: skip
    show.set_defaults(command=_show)


def _show(args: argparse.Namespace) -> Answer:
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


def _command(commands: Commands, name: str, help: str, command: Command) -> argparse.ArgumentParser:
    one = _parser(commands, name, help)
    one.add_argument("model", metavar="MODEL", help="an ONNX file or a saved model")
    _add_dim(one)
    _add_repair(one)
    one.add_argument("--timings", action="store_true", help="print the time of each phase")
    one.set_defaults(command=partial(_on_model, command))
    return one


def _on_model(command: Command, args: argparse.Namespace) -> Answer:
    """Compiles or loads the model, and asks the command about it."""
    start = time.perf_counter()
    exe = _compiled(args)
    answer = command(exe, args)
    if not args.timings:
        return answer
    seconds = _timings(exe, time.perf_counter() - start)
    lines = ["timings:", *(f"  {name:<12} {s * 1e3:9.1f} ms" for name, s in seconds.items())]
    return replace(answer, text="\n".join([answer.text, *lines]), data={**answer.data, "timings": seconds})


def _add_policy(one: argparse.ArgumentParser) -> None:
    text = "for which sizes code is made besides (anyshape.policies)"
    one.add_argument("--policy", choices=sorted(NAMED), default="generic", help=text)


def _add_repair(one: argparse.ArgumentParser) -> None:
    text = "repair models that violate the ONNX standard where the meaning is clear, and report how"
    one.add_argument("--repair", action="store_true", help=text)


def _add_dim(one: argparse.ArgumentParser) -> None:
    text = "set a named dim of the inputs, or bound it: seq=1:512"
    one.add_argument("--dim", action="append", default=[], metavar="NAME=8", help=text)


def _compiled(args: argparse.Namespace) -> Executable:
    dims = arguments.dims(args.dim)
    with progress(f"compiling {args.model}"):
        from anyshape.vm import compile

        policy = getattr(args, "policy", None)
        return compile(args.model, dims, policy=policy, threads=args.threads, repair=args.repair or None)


def _run(exe: Executable, args: argparse.Namespace) -> Answer:
    from anyshape.cli.run import run

    return run(exe, args)


def _compile(exe: Executable, args: argparse.Namespace) -> Answer:
    lines, data = [repr(exe), str(exe.report)], {**signature(exe), "report": report(exe), "saved": args.output}
    if args.output is not None:
        exe.save(args.output)
        lines.append(f"saved in {args.output}, {os.path.getsize(args.output) / 1e6:.1f} MB")
    return Answer(text="\n".join(lines), data=data)


def _explain(exe: Executable, args: argparse.Namespace) -> Answer:
    from anyshape.cli.explain import explain

    if not args.memory:
        if args.plot is not None:
            raise ArgumentError("--plot is for --memory")
        return explain(exe)
    from anyshape.cli.memory import memory_answer

    return memory_answer(exe, args)


def _timings(exe: Executable, total: float) -> dict[str, float]:
    """Lists the seconds of the phases of a compile; `other` is time outside of them, such as loading the compiler and printing."""
    phases = exe.report.phases
    return {**phases, "other": total - sum(phases.values()), "all": total}


if __name__ == "__main__":
    sys.exit(main())
