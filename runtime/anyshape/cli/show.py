"""`anyshape show OP`: one op from its YAML to machine code, and how fast that is against what the machine can do.

In: an op's name, and shapes of its inputs (by default usual shapes or, where these do not fit, an example of the spec). Out: text: the
entry of the spec (where the specs are at hand), the generated relation and kernel, the equations of this call, their schedule, the
program, LLVM and assembly on demand, and GB/s or GFLOP/s measured.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anyshape.cli.answer import Answer
from anyshape.dims import evaluate
from anyshape.dtypes import DType, from_numpy, parse_dtype
from anyshape.equations.expr import Var
from anyshape.equations.traversal import walk
from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.files import open_plain
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.opdef import InputDef, OpDef
from anyshape.graph.registry import all_ops, find_op
from anyshape.graph.value import Value
from anyshape.kernel_model.contractions import EXPRESSIONS, contraction_of
from anyshape.passes.fuse import fuse
from anyshape.passes.pipeline import optimise
from anyshape.passes.steps import KernelStep, RegionStep, Schedule
from anyshape.properties import Example, Given, Property
from anyshape.types import TensorType

if TYPE_CHECKING:
    from anyshape.lower import Group, Kernel

Shape = tuple[int, ...]
STAGES = (
    "spec", "relation", "kernel", "composition", "graph", "equations", "schedule", "program", "llvm", "asm", "speed"
)  # fmt: skip
OF_KERNELS = frozenset(("equations", "schedule", "llvm", "asm"))
USUAL: tuple[Shape, ...] = ((512, 768), (768, 512), (768,), (512, 512), ())
"""Shapes tried for inputs for which no option gives one"""


def show(name: str, shapes: Mapping[str, Shape], params: Mapping[str, Any], stages: Sequence[str]) -> Answer:
    """Spells the chosen stages of an op. Raises ArgumentError if no shapes are given and no usual ones fit."""
    op = variant(name)
    example = _example(op, shapes, params)
    if op.composition is not None:
        example = replace(example, function=optimise(example.function))
    kernels = [_Shown(step) for step in _kernel_steps(example.function)] if OF_KERNELS & set(stages) else []
    parts = [p for stage in STAGES if stage in stages for p in _parts(stage, op, example, kernels, shapes, params)]
    return Answer(
        text="\n".join(f"=== {stage}: {title}\n{text.rstrip()}\n" for stage, title, text in parts),
        data={"op": op.full_name, "stages": [dict(zip(("stage", "title", "text"), part)) for part in parts]},
    )


def _parts(
    stage: str,
    op: OpDef,
    example: ExampleCall,
    kernels: Sequence[_Shown],
    shapes: Mapping[str, Shape],
    params: Mapping[str, Any],
) -> Iterator[tuple[str, str, str]]:
    """Yields (stage, title, text) of a stage: several of those that each kernel has, none of those that the op does not have."""
    from anyshape.vm import compile

    if stage == "spec":
        yield stage, op.source, _spec_text(op)
    if stage == "relation":
        yield stage, "generated", inspect.getsource(op.relation)
    if stage == "kernel" and op.kernel is not None:
        yield stage, "generated", inspect.getsource(op.kernel)
    if stage == "composition" and op.composition is not None:
        yield stage, "generated", inspect.getsource(op.composition.build)
    if stage == "graph" and op.composition is not None:
        yield stage, "its composition", str(example.function)
    if stage == "equations" and not _is_decided(example.function):
        yield stage, "generated when the operands are known", LATER.format(op.twin or op.full_name)
    if stage in OF_KERNELS:
        for kernel in kernels:
            yield stage, *kernel.at(stage)
    if stage == "program":
        executable = compile(example.function, threads=1)
        yield stage, repr(executable), executable.disassemble() or "(generated when the operands are known)"
    if stage == "speed":
        executable = compile(example.function, threads=1)
        yield stage, "one thread", _speed_of_some(op, example, executable, shapes=shapes, params=params)


class _Shown:
    """A kernel at its stages, lowered at most once."""

    def __init__(self, step: KernelStep) -> None:
        self.step = step

    @cached_property
    def group(self) -> Group:
        from anyshape.lower import Group

        border = self.step.tensors
        inputs, outputs = (tuple(border[v] for v in values) for values in (self.step.inputs, self.step.outputs))
        return Group("show", self.step.equations, inputs, outputs=outputs)

    @cached_property
    def kernel(self) -> Kernel:
        from anyshape.lower import host_target, lower_group

        return lower_group(self.group, host_target())

    def at(self, stage: str) -> tuple[str, str]:
        """Title and text of a stage in `OF_KERNELS`."""
        from anyshape.lower import describe, host_target
        from anyshape.lower.llvm.jit import assembly

        if stage == "equations":
            return str(self.step.outputs[0].type), "\n".join(map(str, self.step.equations))
        if stage == "schedule":
            return ", ".join(self.kernel.schedule), describe(self.group)
        return self.kernel.symbol, self.kernel.text if stage == "llvm" else assembly(self.kernel.text, host_target())


LATER = """The equations depend on the value of an operand, so equations, schedule and machine code are generated at run time, once for
each value; `anyshape show {}` shows them for a known value."""


def _is_decided(function: Function) -> bool:
    """Whether ranks and axes are known as far as the equations of every node need them."""
    return not any(node.is_open for node in function.nodes)


def _kernel_steps(function: Function) -> list[KernelStep]:
    """Lists the kernels of a function; none if it has a node whose equations are not known yet."""
    return list(_kernels_of(fuse(function))) if _is_decided(function) else []


def _kernels_of(schedule: Schedule) -> Iterator[KernelStep]:
    """Lists the kernels of a schedule, with those in loops and branches."""
    for step in schedule.steps:
        if isinstance(step, KernelStep):
            yield step
        elif isinstance(step, RegionStep):
            for inner in step.bodies:
                yield from _kernels_of(inner)


def variant(name: str) -> OpDef:
    """Finds the op of that name; of its two variants, the static one."""
    return find_op(f"static.{name}" if f"static.{name}" in all_ops() else name)


def _spec_text(op: OpDef) -> str:
    """Reads the op's entry, and before it that of its family, if the spec file is below the working directory."""
    path, _, line = op.source.rpartition(":")
    if not Path(path).is_file():
        return f"{op.summary}\n(its spec is in {op.source}, which is not below this folder)"
    with open_plain(path) as file:
        lines = file.read().decode().splitlines()
    own = _entry(lines, int(line) - 1)
    family = next((s.split(":", 1)[1].strip() for s in own if s.startswith("    family:")), None)
    shared = _entry(lines, lines.index(f"  {family}:")) if f"  {family}:" in lines else []
    return "\n".join([*(["families:", *shared, "ops:"] if shared else []), *own])


def _entry(lines: Sequence[str], start: int) -> list[str]:
    """Selects a line and the lines below that are indented further."""
    below = takewhile(lambda s: not s.strip() or s.startswith("    "), lines[start + 1 :])
    return "\n".join([lines[start], *below]).rstrip().split("\n")


@dataclass(frozen=True)
class ExampleCall:
    """A call of the op, and the contents of those inputs that must not be random."""

    function: Function
    contents: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def _example(op: OpDef, shapes: Mapping[str, Shape], params: Mapping[str, Any]) -> ExampleCall:
    """Builds a call on inputs of the given or usual shapes; where these do not fit, by the first of the spec's examples that does."""
    strange = sorted(set(shapes) - {i.name for i in op.inputs})
    if strange:
        raise ArgumentError(
            f"{op.full_name} has no input {', '.join(strange)}; it has {', '.join(i.name for i in op.inputs)}"
        )
    last: AnyshapeError | None = None
    for chosen in _choices(op, shapes):
        try:
            return _call(op, chosen, {}, params)
        except AnyshapeError as e:
            last = e
    for fitting in _of_examples(op, shapes, params):
        return fitting
    raise ArgumentError(
        f"no valid call of {op.full_name} is known; pass shapes (--shape NAME=4x128) and parameters (--param NAME=VALUE): {last}"
    )


def _of_examples(op: OpDef, shapes: Mapping[str, Shape], params: Mapping[str, Any]) -> Iterator[ExampleCall]:
    """Yields the calls of the spec's examples that fit the given shapes and parameters."""
    for example in _examples(op):
        sizes = {name: g.shape for name, g in example.inputs.items() if not g.is_literal}
        literal = {name: g for name, g in example.inputs.items() if g.is_literal and name not in shapes}
        try:
            fitting = _call(op, {**sizes, **shapes}, literal, {**example.params, **params})
        except AnyshapeError:
            continue
        note = "inputs of an example of the spec; set others by --shape NAME=4x128 and --param NAME=VALUE"
        yield replace(fitting, note=note)


def _examples(op: OpDef) -> list[Example]:
    """Lists the spec's examples that have results; none where the libraries of its oracles are not installed."""
    try:
        strategies = import_module(f"{op.relation.__module__.split('.')[0]}.strategies")
        shown: Property = strategies.PROPERTIES[op.name]
    except ImportError:
        return []
    return [e for e in shown.examples if e.error is None]


def _call(op: OpDef, shapes: Mapping[str, Any], literal: Mapping[str, Given], params: Mapping[str, Any]) -> ExampleCall:
    """Builds a function of the call; its parameters are the inputs, and the operands of a dyn variant."""
    inputs: list[Value] = []
    contents: dict[str, Any] = {}

    def new(name: str, dtype: DType, shape: Sequence[int]) -> Value:
        inputs.append(Value(TensorType(dtype, tuple(shape)), name))
        return inputs[-1]

    def holding(name: str, dtype: DType, value: Any) -> Value:
        contents[name] = np.asarray(value, dtype.numpy)
        return new(name, dtype, contents[name].shape)

    def operand(i: InputDef) -> Any:
        dtype = _dtype(op, i.dtype)
        if i.name in literal:
            literal_input = literal[i.name]
            dtype = parse_dtype(literal_input.dtype) if literal_input.dtype else dtype
            if i.variadic:
                return [holding(f"{i.name}{k}", dtype, v) for k, v in enumerate(literal_input.value)]
            return holding(i.name, dtype, literal_input.value)
        if i.name not in shapes:
            return None
        shape = shapes[i.name]
        if i.variadic:
            several = shape if isinstance(shape, list) or (shape and not isinstance(shape[0], int)) else [shape] * 2
            return [new(f"{i.name}{k}", dtype, s) for k, s in enumerate(several)]
        return new(i.name, dtype, shape)

    operands = [operand(i) for i in op.inputs]
    arguments = dict(params)
    for p in op.operands if op.variant == "dyn" else ():
        if arguments.get(p.name) is not None:
            kind = np.bool_ if p.kind == "bool" else np.float32 if p.kind in ("float", "floats") else np.int64
            contents[p.name] = np.asarray(arguments[p.name], kind)
            arguments[p.name] = new(p.name, from_numpy(contents[p.name].dtype), contents[p.name].shape)
    return ExampleCall(Function(inputs, call(op, operands, arguments)), contents)


def _choices(op: OpDef, shapes: Mapping[str, Shape]) -> Iterator[dict[str, Shape]]:
    names = [i.name for i in op.inputs if not i.optional or i.name in shapes]
    for first in USUAL:
        for usual in USUAL:
            yield {name: shapes.get(name, first if k == 0 else usual) for k, name in enumerate(names)}


def _dtype(op: OpDef, name: str) -> DType:
    allowed = op.dtypes.get(name)
    return parse_dtype(name if allowed is None else "f32" if "f32" in allowed else allowed[0])


def _speed_of_some(
    op: OpDef, example: ExampleCall, executable: Any, *, shapes: Mapping[str, Shape], params: Mapping[str, Any]
) -> str:
    """Measures the call, or where the op's asserts refuse random contents the first of the spec's examples whose contents they take."""
    from anyshape.vm import compile

    try:
        return _speed(example, executable)
    except AnyshapeError as e:
        refusal = e
    for fitting in _of_examples(op, shapes, params):
        try:
            return _speed(fitting, compile(fitting.function, threads=1))
        except AnyshapeError:
            continue
    return f"not measured: random contents are refused, and no example of the spec has others: {refusal}"


def _speed(example: ExampleCall, executable: Any) -> str:
    from anyshape.lower.limits import copy_speed, peak, timed

    function = example.function
    rng = np.random.default_rng(0)
    arrays = {}
    for p in function.params:
        if p.name in example.contents:
            arrays[p.name] = example.contents[p.name]
            continue
        shape = tuple(int(str(n)) for n in p.type.shape or ())
        arrays[p.name] = (rng.random(shape) if p.type.dtype.is_float else np.zeros(shape)).astype(p.type.dtype.numpy)
    outputs = executable.run(arrays)
    again = {name: np.empty_like(a) for name, a in zip(executable.output_names, outputs, strict=True)}
    seconds = min(timed(lambda: executable.run(arrays, outputs=again)) for _ in range(50))
    moved = sum(a.nbytes for a in (*arrays.values(), *outputs))
    shapes = ", ".join(f"{k} {'x'.join(map(str, a.shape)) or 'scalar'}" for k, a in arrays.items())
    lines = [f"{shapes}: {seconds * 1e6:.1f} us, the call included{f' ({example.note})' if example.note else ''}"]
    limit = copy_speed(moved)
    lines.append(
        f"{moved / seconds / 1e9:.1f} GB/s of operands, {moved / seconds / 1e9 / limit:.0%} of a copy's {limit:.0f}"
    )
    flops = _multiply_adds(function)
    if flops:
        most = peak("f32")
        lines.append(
            f"{flops / seconds / 1e9:.1f} GFLOP/s, {flops / seconds / 1e9 / most:.0%} of the core's {most:.0f} in f32"
        )
    return "\n".join(lines)


def _multiply_adds(function: Function) -> int:
    """Counts floating-point operations of contractions, two for each product; 0 for a function with loops or branches."""
    total = 0
    if any(node.regions for node in function.nodes):
        return total
    for step in _kernel_steps(function):
        for q in step.equations:
            for e in walk(q.value):
                product = contraction_of(EXPRESSIONS, e)
                if product is not None:
                    total += 2 * math.prod(_extent(v) for v in (*q.variables, *product.summed))
    return total


def _extent(v: Var) -> int:
    return v.extent if isinstance(v.extent, int) else int(evaluate(v.extent, {}))
