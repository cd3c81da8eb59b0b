"""What an instruction costs outside kernels: programs of real models, their kernels replaced by one that returns at once.

    PYTHONPATH=runtime:generated python -m benchmarks.vm_loop [bert_mini shape_heavy mlp] [--json out.json]

Everything is counted: the call from Python, binding and checking the arguments, shape arithmetic, memory, making the results, and the
calls of kernels. Prints the least nanoseconds of a whole call over many batches and that number divided by the instructions, for the native
loop and for the Python one; then what single scalar instructions cost in a long program of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import anyshape
from anyshape.dtypes import parse_dtype
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import I32, const
from anyshape.lower.target import host_target
from anyshape.types import TensorType
from anyshape.vm.compiling.executors import PythonExecutor
from anyshape.vm.compiling.kernels import ENTRY
from anyshape.vm.native import new_executor
from anyshape.vm.program.table import Op, Program, ResultType, encode
from anyshape.vm.run.arena import ContextPool
from benchmarks.models import MODELS, load

BATCHES, BATCH_SECONDS = 40, 0.004
LONG = 2000


@dataclass
class Nothing:
    """A kernel that does nothing."""

    loaded: Loaded
    name: str = "nothing"
    errors: tuple[str, ...] = ()

    @property
    def entry(self) -> Any:
        return ENTRY(self.loaded.address("nothing"))


def nothing() -> Nothing:
    module = Module(host_target())
    with module.kernel("nothing") as f:
        f.ret(const(I32, 0))
    return Nothing(compile_module(module))


def least(call: Callable[[], object]) -> float:
    """Nanoseconds per call."""
    call()
    started = time.perf_counter()
    call()
    repeats = max(1, int(BATCH_SECONDS / (time.perf_counter() - started)))
    best = float("inf")
    for _ in range(BATCHES):
        started = time.perf_counter()
        for _ in range(repeats):
            call()
        best = min(best, (time.perf_counter() - started) / repeats)
    return best * 1e9


def calls(program: Program, types: list[TensorType], arguments: list[Any]) -> dict[str, Callable[[], object]]:
    native, python = new_executor(program, types), PythonExecutor(program)
    own, context = native.context(), python.context()
    pool = ContextPool(native.context)
    direct = native.direct(pool)
    native.run(arguments, own)  # its memory has the right size now
    pool.give_back(own)
    executors: dict[str, Callable[[], object]] = {
        "turns": lambda: native._resume(arguments, own, ()),
        "python": lambda: python.run(arguments, context, ()),
    }
    if direct is None:
        return executors
    assert direct(arguments) is not None
    return {"native": lambda: direct(arguments), **executors}


def measure(name: str, kernel: Nothing, folder: Path) -> dict[str, Any]:
    model = load(name)
    executable = anyshape.compile(model.build(folder / f"{name}.onnx"))
    (program,) = executable.plan.programs
    program = replace(program, kernels=(kernel,) * len(program.kernels))
    inputs = model.inputs(*model.SHAPES[0], seed=1)
    arguments = [inputs[n] for n in executable.input_names]
    count = sum(1 for _ in program.instructions())
    kernels = sum(op is Op.INVOKE for _, op, _ in program.instructions())
    times = {k: least(c) for k, c in calls(program, list(executable.input_types), arguments).items()}
    print(f"{name}: {count} instructions, {kernels} of them kernel calls")
    for way, ns in times.items():
        print(f"  {way:8} {ns:9.0f} ns per call {ns / count:7.1f} ns per instruction")
    return {"model": name, "instructions": count, "kernel_calls": kernels, "ns": times}


def scalar_program(op: Op) -> Program:
    """LONG equal instructions on registers of small numbers."""
    words = encode(Op.CONST, 0, 7) + encode(Op.CONST, 1, 3)
    operands = (1, 0, 1) if op is Op.SELECT else (0,) if op is Op.NOT else (0, 1)
    for k in range(LONG):
        words += encode(op, 2 + k % 16, *operands)
    result = (ResultType("y", parse_dtype("i64")),)
    code = np.array(words + encode(Op.RETURN), np.int64)
    return Program("scalars", code, 20, 0, results=result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", default=["bert_mini", "shape_heavy", "mlp"], help=f"of {', '.join(MODELS)}"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    kernel = nothing()
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(name, kernel, Path(folder)) for name in options.models]
    print("scalar instructions of one kind, natively:")
    for op in (Op.ADD, Op.MUL, Op.FLOORDIV, Op.MAX, Op.EQ, Op.SELECT):
        native = new_executor(scalar_program(op), [])
        context = native.context()
        print(f"  {op.name:9} {least(partial(native.run, [], context)) / LONG:6.2f} ns")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
