"""The parser of all commands on models, and of `anyshape show OP`: options and help texts."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TypeAlias

from anyshape.cli import arguments
from anyshape.cli.commands import (
    Command,
    accelerate_model,
    batch_rows,
    bench_model,
    compile_model,
    diff_model,
    explain_model,
    export_program,
    on_model,
    profile_model,
    quantise_model,
    run_model,
    serve_models,
    show_op,
    simplify_model,
)
from anyshape.code_version import VERSION
from anyshape.policies import NAMED
from anyshape.precision import PRECISIONS

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

TARGET_NAMES = (
    *("x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "sapphirerapids"),
    *("aarch64-linux-gnu", "riscv64-linux-gnu", "wasm32"),
)
"""Targets of an export (`vm.export.targets`), which need not be loaded for a help text"""

MOST_CALLS = 1_000_000
"""The most calls that --repeat may ask for"""

MOST_SIZE = 1_000_000
"""The largest number that --up-to may ask for"""

_DESCRIPTION = "Compile ONNX models with unknown shapes once, and run them at any shape."

_EXAMPLES = """\
  anyshape explain bert.onnx                             what is dynamic in it, and why
  anyshape explain bert.onnx --memory --at batch=4 --at seq=128
  anyshape explain bert.onnx --memory --plot memory.svg
  anyshape explain bert.onnx --html bert.html --at batch=4 --at seq=128          the same to click through, in a browser
  anyshape run bert.onnx --shape ids=4x128               random inputs; other inputs follow from shared dims
  anyshape run bert.onnx --shape ids=4x128 --ints 0:30000 --repeat 20
  anyshape run model.onnx --input x=x.npy --input mask=inputs.npz --input newshape='[2, -1]'
  anyshape run model.onnx --input x=x.npy --output-dir results --json
  anyshape profile bert.onnx --shape ids=4x128 --html bert.html
  anyshape profile bert.onnx --shape ids=4x128 --trace bert.json                 for ui.perfetto.dev
  anyshape bench bert.onnx --shape ids=4x128 --plot bert.svg     beside onnxruntime, the slowest nodes first
  anyshape bench bert.onnx --dim batch=4 --dim seq=128 --threads 1 --repeat 100 --json
  anyshape run vision.onnx --shape image=1x3x224x224 --repeat 1000 --policy specialised
  anyshape compile bert.onnx --dim batch=1:64 --dim seq=1:512 --timings
  anyshape compile bert.onnx -o bert.anyshape            save it, to be run by: anyshape run bert.anyshape
  anyshape simplify bert.onnx small.onnx --check         an equal model with fewer nodes, for any runtime
  anyshape simplify bert.onnx --shapes-only --failures   symbolic shapes, what must hold of dims, and the smallest inputs that fail
  anyshape simplify bert.onnx --shapes-only --solve last_hidden_state=1x512x256
  anyshape diff model.onnx --shape x=4x128               the first node that differs from onnxruntime, with a script that reproduces it
  anyshape accelerate bert.onnx fast.onnx libfast.so --shape ids=4x128          for onnxruntime, where our kernels are faster
  anyshape accelerate bert.onnx fast.onnx libfast.so --dim seq=1:512 --least 0.3 --json
  anyshape quantise llama.onnx --weights int4 --group 32 --inputs prompt.npz        weights of products in 4 bits, and what each loses
  anyshape quantise llama.onnx --method mse --symmetric --keep 'lm_head*' --keep '*/norm/*' --out small.onnx
  anyshape quantise resnet.onnx --weights int8 --shape image=1x3x224x224 --json
  anyshape export bert.onnx --out bert --bounds seq=1:512                an object file and a C header, without Python
  anyshape export bert.onnx --out bert --target aarch64-linux-gnu --weights file
  anyshape export --op softmax --input x='f32[n, m]' --param axis=0 --out softmax
  anyshape export --op softmax --input x='f32[...]' --ranks 1:4 --out softmax
  anyshape export --op softmax,add --ranks 1:4 --for onnxruntime --out ops        custom ops for register_custom_ops_library
  anyshape serve bert.anyshape gpt2=models/gpt2.onnx --port 8080 --grpc-port 8081 --max-batch 16       Open Inference Protocol
  anyshape batch bert.anyshape texts.parquet scored.parquet --columns input_ids=tokens --columns attention_mask=mask
  anyshape batch bert.anyshape texts.parquet scored.parquet --address auto --workers 16        on a cluster of Ray
  anyshape show softmax                                  its spec, equations, loops, machine code and speed
  anyshape show dyn.reshape --shape x=4x6 --param newshape='[3, -1]' --stage program
"""

_CODES = """\
Exit codes: 0: done. 1: diff found a difference, or accelerate or quantise nothing to replace. 2: an error in the model, the inputs
or the command, which the message describes. 130: Ctrl-C.
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "anyshape",
        description=_DESCRIPTION,
        epilog=f"{_examples('')}\n{_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"anyshape {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run = _command(
        commands, "run", "run a model on random inputs or inputs from files, and measure its time", run_model
    )
    _add_inputs(run)
    _add_threads(run)
    most = "refuse a call that needs more memory for intermediate values and results"
    run.add_argument("--max-memory", type=arguments.byte_count, metavar="64MB", help=most)
    repeat = arguments.count(0, MOST_CALLS)
    run.add_argument("--repeat", type=repeat, default=5, metavar="N", help="number of further runs to measure (5)")
    _add_policy(run)
    run.add_argument(
        "--output-dir", metavar="FOLDER", help="write each output to FOLDER/NAME.npy, a list as NAME.0.npy and so on"
    )
    compile_ = _command(commands, "compile", "compile a model, and report how", compile_model)
    compile_.add_argument(
        "-o", "--output", metavar="FILE", help="save the compiled model, for `anyshape run FILE` and anyshape.load"
    )
    explain = _command(
        commands, "explain", "describe a model's dims, and which ops stayed dynamic and why", explain_model
    )
    _add_policy(explain)
    explain.add_argument("--memory", action="store_true", help="describe the memory of intermediate values")
    explain.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="NAME=8",
        help="with --memory or --html: the size of a dim, for sizes in bytes",
    )
    target = "with --memory: the processor of the exported model whose formula is printed (default: like this one)"
    explain.add_argument("--target", choices=TARGET_NAMES, metavar="TARGET", help=target)
    plot = "with --memory: draw the bytes of the exported model over each dim: an .svg, or with matplotlib a .png"
    explain.add_argument("--plot", metavar="FILE", help=plot)
    page = "write a page to click through: the kernels as a graph, where dims come from, memory over time at any sizes"
    explain.add_argument("--html", metavar="FILE", help=page)
    _add_profile(commands)
    _add_bench(commands)
    _add_simplify(commands)
    _add_diff(commands)
    _add_accelerate(commands)
    _add_quantise(commands)
    _add_export(commands)
    _add_serve(commands)
    _add_batch(commands)
    _add_show(commands)
    parser.set_defaults(threads=None, max_memory=None, last=None)
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
    _add_precision(one)
    one.add_argument(
        "--repeat",
        type=arguments.count(1, MOST_CALLS),
        default=20,
        metavar="N",
        help="number of calls, of which the fastest is reported (20)",
    )
    _add_policy(one)
    one.add_argument("--html", metavar="FILE", help="write a timeline, as one HTML page without other files")
    trace = "write the first calls as a trace (JSON), for ui.perfetto.dev or chrome://tracing"
    one.add_argument("--trace", metavar="FILE", help=trace)
    one.set_defaults(command=profile_model)


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
    _add_precision(one)
    one.add_argument(
        "--repeat", type=arguments.count(1, MOST_CALLS), default=20, metavar="N", help="number of calls of each (20)"
    )
    one.add_argument("--plot", metavar="FILE", help="draw the slowest nodes: an .svg, or with matplotlib a .png")
    one.set_defaults(command=bench_model)


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
    simplify.set_defaults(command=simplify_model, last="output")


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
    _add_precision(one)
    beside = "what to compare with: onnxruntime, or the exact model of anyshape (onnxruntime)"
    one.add_argument("--beside", choices=("onnxruntime", "exact"), default="onnxruntime", help=beside)
    _add_tolerance(one)
    one.add_argument("-o", "--output", default="diff", metavar="FOLDER", help="the folder for a difference (./diff)")
    one.set_defaults(command=diff_model)


def _add_accelerate(commands: Commands) -> None:
    text = "replace the parts of a model at which our kernels are faster by custom ops, for onnxruntime to run with the rest"
    more = (
        "Parts are chosen by measuring on the sizes of --shape and --input; results are compared. To run what is written:",
        "    options = onnxruntime.SessionOptions()",
        "    options.register_custom_ops_library('libfast.so')",
        "    session = onnxruntime.InferenceSession('fast.onnx', options)",
        "Exit code 1, and no files, if nothing is worth replacing. It needs onnxruntime, and a C compiler or the package ziglang.",
    )
    one = _parser(commands, "accelerate", text, *more)
    one.add_argument("model", metavar="IN", help="an ONNX file")
    one.add_argument("output", metavar="OUT", help="the model to write")
    one.add_argument("library", metavar="LIBRARY", help="the shared library to write, as libfast.so")
    _add_dim(one)
    _add_inputs(one)
    _add_threads(one)
    calls = arguments.count(1, MOST_CALLS)
    one.add_argument(
        "--repeat", type=calls, default=20, metavar="N", help="number of calls of each that is measured (20)"
    )
    least = (
        "the least share of its time that a part has to gain (0.1); 0 replaces all that can be, however long it takes"
    )
    one.add_argument("--least", type=arguments.part, default=0.1, metavar="SHARE", help=least)
    _add_tolerance(one)
    levels = (
        "the processor, or levels of one architecture (default: the level of most features that this machine can run)"
    )
    one.add_argument("--target", metavar="TARGET,TARGET", help=levels)
    one.add_argument("--domain", default="com.anyshape", metavar="NAME", help="the domain of the ops (com.anyshape)")
    one.set_defaults(command=accelerate_model)


def _add_quantise(commands: Commands) -> None:
    text = "write a model whose constant weights have 4 or 8 bits, for onnxruntime too, and say what that changes"
    more = (
        "Weights of products become those of MatMulNBits, tables those of GatherBlockQuantized: in groups of a column or row, each with",
        "a scale and a zero point. They stay narrow in memory. Weights of convolutions (int8), and f8e4m3, are narrow in the file alone.",
        "The table has the relative root mean square error of each weight and, on inputs (--inputs, --input, --shape), of what its node",
        "computes and of the model's outputs. Weights that stay are listed with the reason; --keep leaves out those that lose too much.",
        "Exit code 1, and no file, if no weight became narrow.",
    )
    one = _parser(commands, "quantise", text, *more)
    one.add_argument("model", metavar="MODEL", help="an ONNX file")
    _add_dim(one)
    one.add_argument(
        "--weights", choices=("int4", "int8", "f8e4m3"), default="int4", help="the format of weights (int4)"
    )
    group = "elements with one scale: 16, 32, 64, 128 or 256 (32); fewer are more exact, and larger"
    one.add_argument("--group", type=arguments.count(1), metavar="N", help=group)
    one.add_argument("--symmetric", action="store_true", help="groups without zero points: smaller, and less exact")
    method = "rtn: round to nearest (the default); mse: clip each group where that makes its squared error less, which takes longer"
    one.add_argument("--method", choices=("rtn", "mse"), default="rtn", help=method)
    activations = "int8: let products round what they multiply with to 8 bits, in the same groups: two to four times as fast (float)"
    one.add_argument("--activations", choices=("float", "int8"), default="float", help=activations)
    keep = "leave weights, and nodes, of these names as they are; * is any text"
    one.add_argument("--keep", action="append", default=[], metavar="PATTERN", help=keep)
    least = "leave smaller weights as they are, as 64kB or 1MiB (16KiB)"
    one.add_argument("--least", type=arguments.byte_count, default=16384, metavar="BYTES", help=least)
    one.add_argument(
        "--out", metavar="FILE", help="the file to write (default: MODEL.int4.onnx or as the format is called)"
    )
    one.add_argument("--inputs", metavar="FILE.npz", help="measure on these inputs, each under its name")
    _add_inputs(one)
    one.set_defaults(command=quantise_model)


def _add_serve(commands: Commands) -> None:
    text = (
        "serve models by the Open Inference Protocol (KServe v2) over HTTP and gRPC, joining requests without padding"
    )
    more = (
        "It needs the extra [serve]. SIGTERM drains: what was accepted is answered. docs/serving.md has all of it.",
    )
    one = _parser(commands, "serve", text, *more)
    one.add_argument("model", metavar="MODEL", help="an ONNX file or a saved model, or NAME=FILE")
    one.add_argument("models", metavar="MODEL", nargs="*", help="more of them")
    _add_dim(one)
    _add_repair(one)
    _add_threads(one)
    one.add_argument("--host", default="127.0.0.1", metavar="HOST", help="the address to listen at (127.0.0.1)")
    port, whole = arguments.count(0, 65535), arguments.count(1, MOST_CALLS)
    one.add_argument("--port", type=port, default=8080, metavar="N", help="the port of HTTP, 0 for a free one (8080)")
    one.add_argument("--grpc-port", type=port, default=8081, metavar="N", help="the port of gRPC (8081)")
    one.add_argument("--no-http", action="store_true", help="serve gRPC alone")
    one.add_argument("--no-grpc", action="store_true", help="serve HTTP alone")
    one.add_argument("--max-batch", type=whole, default=32, metavar="N", help="the most rows of a joined call (32)")
    delay = "how long a request waits for others to be joined with while nothing runs, in milliseconds (0)"
    one.add_argument("--max-delay-ms", type=arguments.share, default=0.0, metavar="MS", help=delay)
    body = "the most bytes of a request (64MiB)"
    one.add_argument("--max-body", type=arguments.byte_count, default=64 << 20, metavar="64MiB", help=body)
    pending = "the most bytes of all requests that are not answered yet (512MiB)"
    one.add_argument("--max-pending", type=arguments.byte_count, default=512 << 20, metavar="512MiB", help=pending)
    one.add_argument("--max-queue", type=whole, default=256, metavar="N", help="the most requests that wait (256)")
    one.add_argument("--timeout", type=arguments.share, default=30.0, metavar="S", help="seconds for a request (30)")
    one.add_argument("--drain", type=arguments.share, default=30.0, metavar="S", help="seconds to drain (30)")
    one.set_defaults(command=serve_models)


def _add_batch(commands: Commands) -> None:
    text = "run a model on each row of a table in a file, joining rows of equal shapes without padding"
    more = (
        "IN and OUT are .parquet or .jsonl; a row has for each input its value without the batch dim. OUT has the columns of IN and one",
        "for each output, and appears once it is whole. It needs the extra [ray]. docs/scale.md has all of it.",
    )
    one = _parser(commands, "batch", text, *more)
    one.add_argument("model", metavar="MODEL", help="an ONNX file or a saved model")
    one.add_argument("source", metavar="IN", help="the table to read")
    one.add_argument("target", metavar="OUT", help="the table to write")
    _add_dim(one)
    _add_repair(one)
    _add_threads(one)
    names = "the column of an input (default: the one of its name)"
    one.add_argument("--columns", action="append", default=[], metavar="INPUT=COLUMN", help=names)
    kept = "an output to write, and the column for it (default: all, by their names)"
    one.add_argument("--outputs", action="append", default=[], metavar="OUTPUT=COLUMN", help=kept)
    rows = "the dim of the inputs that rows are along (default: the batch dim that is proved, else the first)"
    one.add_argument("--batch-dim", metavar="NAME", help=rows)
    convert = "accept columns of other dtypes of the same kind, as f64 for f32, if their numbers fit"
    one.add_argument("--convert", action="store_true", help=convert)
    whole = arguments.count(1, MOST_CALLS)
    piece = "rows that are read, run and written at a time, which bounds the memory (1024)"
    one.add_argument("--rows", type=whole, default=1024, metavar="N", help=piece)
    one.add_argument("--max-batch", type=whole, default=32, metavar="N", help="the most rows of one call (32)")
    address = "run on the cluster of Ray at this address (auto: the one of this machine), whose nodes all see IN"
    one.add_argument("--address", metavar="HOST:PORT", help=address)
    workers = "with --address: the number of workers (default: one for each processor)"
    one.add_argument("--workers", type=whole, metavar="N", help=workers)
    one.set_defaults(command=batch_rows)


def _add_export(commands: Commands) -> None:
    text = "write a model, or an op, as an object file with a C header, which need neither Python nor a library"
    more = ("Targets: " + ", ".join(TARGET_NAMES) + ".", "docs/export.md says how to call what is written.")
    one = _parser(commands, "export", text, *more)
    one.add_argument("model", metavar="MODEL", nargs="?", help="an ONNX file or a saved model; none with --op")
    one.add_argument("--out", metavar="FOLDER", help="the folder for the files (default: called as the model)")
    one.add_argument(
        "--name", metavar="NAME", help="what names of files and functions begin with (default: as the model)"
    )
    levels = (
        "the processor (default: like this one), or levels of one architecture, one of which is chosen when it runs"
    )
    one.add_argument("--target", metavar="TARGET,TARGET", help=levels)
    one.add_argument(
        "--weights", choices=("inside", "file"), help="where weights are (default: inside the object if small)"
    )
    shared = "link a shared library too, by cc or the package ziglang"
    one.add_argument("--shared", action="store_true", help=shared)
    one.add_argument("--static", action="store_true", help="refuse a model in which any size is not a number")
    _add_dim(one)
    _add_repair(one)
    _add_precision(one)
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
    engine = "with --op OP,OP: write a library of kernels that this engine loads; --param may have several values of one name"
    one.add_argument("--for", dest="engine", choices=("onnxruntime", "torch"), help=engine)
    dtypes = "with --for: the element types of inputs, as f32,f16 (default: f32, else i64, where an op takes them)"
    one.add_argument("--dtypes", metavar="f32,f16", help=dtypes)
    one.add_argument("--domain", metavar="NAME", help="with --for onnxruntime: the domain of the ops (anyshape)")
    one.set_defaults(command=export_program)


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
    show.set_defaults(command=show_op)


def _command(commands: Commands, name: str, help: str, command: Command) -> argparse.ArgumentParser:
    one = _parser(commands, name, help)
    one.add_argument("model", metavar="MODEL", help="an ONNX file or a saved model")
    _add_dim(one)
    _add_repair(one)
    _add_precision(one)
    one.add_argument("--timings", action="store_true", help="print the time of each phase")
    one.set_defaults(command=partial(on_model, command))
    return one


def _add_policy(one: argparse.ArgumentParser) -> None:
    text = "for which sizes code is made besides (anyshape.policies)"
    one.add_argument("--policy", choices=sorted(NAMED), default="generic", help=text)


def _add_precision(one: argparse.ArgumentParser) -> None:
    text = "bf16 and f16 round what contractions of f32 multiply, and nothing else (default: exact, or as a saved model has it)"
    one.add_argument("--precision", choices=PRECISIONS, help=text)


def _add_tolerance(one: argparse.ArgumentParser) -> None:
    text = "the largest difference of results allowed, as a share of the largest element (0.001)"
    one.add_argument("--tolerance", type=arguments.share, default=1e-3, metavar="SHARE", help=text)


def _add_repair(one: argparse.ArgumentParser) -> None:
    text = "repair models that violate the ONNX standard where the meaning is clear, and report how"
    one.add_argument("--repair", action="store_true", help=text)


def _add_dim(one: argparse.ArgumentParser) -> None:
    text = "set a named dim of the inputs, or bound it: seq=1:512"
    one.add_argument("--dim", "--bounds", action="append", default=[], metavar="NAME=8", help=text)
