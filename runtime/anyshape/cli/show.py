"""`anyshape show OP`: one op from its YAML to machine code, and how fast that is against what the machine can do.

In: an op's name, and shapes of its inputs. Out: text: the entry of the spec (where the specs are at hand), the generated relation and
kernel, the equations of this call, their schedule, the program, LLVM and assembly on demand, and GB/s or GFLOP/s measured.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anyshape.dims import evaluate
from anyshape.dtypes import DType, parse_dtype
from anyshape.equations.expr import Reduce, Var, walk
from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.opdef import OpDef
from anyshape.graph.registry import all_ops, find_op
from anyshape.graph.value import Value
from anyshape.passes.classify import is_contraction
from anyshape.passes.fuse import fuse
from anyshape.passes.steps import KernelStep
from anyshape.types import TensorType

Shape = tuple[int, ...]
STAGES = ("spec", "relation", "kernel", "equations", "schedule", "program", "llvm", "asm", "speed")
USUAL: tuple[Shape, ...] = ((512, 768), (768, 512), (768,), (512, 512), ())
"""Shapes tried for inputs that nobody gives one"""


def show(name: str, shapes: Mapping[str, Shape], params: Mapping[str, Any], stages: Sequence[str]) -> str:
    """The chosen stages of an op. Raises ArgumentError if no usual shapes fit it and none are given."""
    op = _variant(name)
    function = _example(op, shapes, params)
    from anyshape.lower import Group, describe, host_target, lower_group
    from anyshape.lower.llvm.jit import assembly
    from anyshape.vm import compile

    parts: list[tuple[str, str, str]] = [
        ("spec", op.source, _spec_text(op)),
        ("relation", "generated", inspect.getsource(op.relation)),
    ]
    if op.kernel is not None:
        parts.append(("kernel", "generated", inspect.getsource(op.kernel)))
    for step in fuse(function).steps:
        if not isinstance(step, KernelStep):
            continue
        border = step.tensors
        group = Group(
            "show", step.equations, tuple(border[v] for v in step.inputs), tuple(border[v] for v in step.outputs)
        )
        kernel = lower_group(group, host_target())
        parts += [
            ("equations", str(step.outputs[0].type), "\n".join(map(str, step.equations))),
            ("schedule", ", ".join(kernel.schedule), describe(group)),
            ("llvm", kernel.symbol, kernel.text),
            ("asm", kernel.symbol, assembly(kernel.text, host_target())),
        ]
    executable = compile(function)
    parts.append(("program", repr(executable), executable.disassemble()))
    if "speed" in stages:
        parts.append(("speed", "one thread", _speed(function, executable)))
    chosen = [p for stage in STAGES for p in parts if p[0] == stage and stage in stages]
    return "\n".join(f"=== {stage}: {title}\n{text.rstrip()}\n" for stage, title, text in chosen)


def _variant(name: str) -> OpDef:
    """The op of that name; of two variants the static one."""
    return find_op(f"static.{name}" if f"static.{name}" in all_ops() else name)


def _spec_text(op: OpDef) -> str:
    """The op's entry, if its file is below the working directory."""
    path, _, line = op.source.rpartition(":")
    if not Path(path).is_file():
        return f"{op.summary}\n(the text is in {op.source}, which is not below this folder)"
    lines = Path(path).read_text().splitlines()[int(line) - 1 :]
    end = next((k for k, s in enumerate(lines[1:], 1) if s.strip() and not s.startswith("    ")), len(lines))
    return "\n".join(lines[:end])


def _example(op: OpDef, shapes: Mapping[str, Shape], params: Mapping[str, Any]) -> Function:
    """A call of the op on inputs of the given or usual shapes."""
    strange = sorted(set(shapes) - {i.name for i in op.inputs})
    if strange:
        raise ArgumentError(
            f"{op.full_name} has no input {', '.join(strange)}; it has {', '.join(i.name for i in op.inputs)}"
        )
    last: AnyshapeError | None = None
    for chosen in _choices(op, shapes):
        inputs = [Value(TensorType(_dtype(op, i.dtype), chosen[i.name]), i.name) for i in op.inputs if i.name in chosen]
        given = {v.name: v for v in inputs}
        operands = [[given[i.name]] * 2 if i.variadic else given.get(i.name) for i in op.inputs]
        try:
            return Function(inputs, call(op, operands, params))
        except AnyshapeError as e:
            last = e
    raise ArgumentError(
        f"give {op.full_name} shapes (--shape NAME=4x128) and parameters (--param NAME=VALUE) that fit: {last}"
    )


def _choices(op: OpDef, shapes: Mapping[str, Shape]) -> Iterator[dict[str, Shape]]:
    names = [i.name for i in op.inputs if not i.optional or i.name in shapes]
    for first in USUAL:
        for others in USUAL:
            yield {name: shapes.get(name, first if k == 0 else others) for k, name in enumerate(names)}


def _dtype(op: OpDef, name: str) -> DType:
    allowed = op.dtypes.get(name)
    return parse_dtype(name if allowed is None else "f32" if "f32" in allowed else allowed[0])


def _speed(function: Function, executable: Any) -> str:
    from anyshape.lower.limits import measure_copy, measure_peak

    rng = np.random.default_rng(0)
    arrays = {}
    for p in function.params:
        shape = tuple(int(str(n)) for n in p.type.shape or ())
        arrays[p.name] = (rng.random(shape) if p.type.dtype.is_float else np.zeros(shape)).astype(p.type.dtype.numpy)
    outputs = executable.run(arrays)
    again = {name: np.empty_like(a) for name, a in zip(executable.output_names, outputs, strict=True)}
    seconds = min(_timed(lambda: executable.run(arrays, outputs=again)) for _ in range(50))
    moved = sum(a.nbytes for a in (*arrays.values(), *outputs))
    shapes = ", ".join(f"{k} {'x'.join(map(str, a.shape)) or 'scalar'}" for k, a in arrays.items())
    lines = [f"{shapes}: {seconds * 1e6:.1f} us, the call included"]
    limit = measure_copy(moved)
    lines.append(
        f"{moved / seconds / 1e9:.1f} GB/s of operands, {moved / seconds / 1e9 / limit:.0%} of a copy's {limit:.0f}"
    )
    flops = _multiply_adds(function)
    if flops:
        peak = measure_peak()
        lines.append(
            f"{flops / seconds / 1e9:.1f} GFLOP/s, {flops / seconds / 1e9 / peak:.0%} of the core's {peak:.0f}"
        )
    return "\n".join(lines)


def _multiply_adds(function: Function) -> int:
    """Floating-point operations of the contractions, two for each product."""
    total = 0
    for step in fuse(function).steps:
        for q in step.equations if isinstance(step, KernelStep) else ():
            for e in walk(q.value):
                if isinstance(e, Reduce) and is_contraction(e):
                    total += 2 * math.prod(_extent(v) for v in (*q.variables, *e.vars))
    return total


def _extent(v: Var) -> int:
    return v.extent if isinstance(v.extent, int) else int(evaluate(v.extent, {}))


def _timed(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
