"""Code of calls with tensors as DLPack has them: the layout of its `DLTensor`, and what of one a model takes.

In: the interface, and the function that runs rows of dims and addresses. Out: `NAME_run_tensors`. Sizes are those of the inputs' shapes. A
shape of an output says how much room there is; it becomes the shape of what is computed.
Source of the layout and the codes: dlpack.h of DLPack 1.0 (github.com/dmlc/dlpack).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyshape.dtypes import DType
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I8, I32, I64, PTR, Type, Val, const
from anyshape.vm.export.failures import Failures, exact
from anyshape.vm.export.interface import Interface, InterfaceTensor
from anyshape.vm.export.memory_code import byte_count
from anyshape.vm.export.run_code import OUTPUT_BYTES, OUTPUT_SHAPE, OUTPUT_STRIDE
from anyshape.vm.export.status_code import NUMBER, Code, Messages, own_status, template

_KINDS = {"int": 0, "uint": 1, "float": 2, "bool": 6}
_NARROW = {
    "bf16": (4, 16), "f8e4m3fn": (10, 8), "f8e4m3fnuz": (11, 8), "f8e5m2": (12, 8), "f8e5m2fnuz": (13, 8), "f8e8m0": (14, 8),
    "char": (1, 32),
}  # fmt: skip
_CPU = 1
Field = tuple[str, Type]
_FIELDS: tuple[Field, ...] = (
    ("data", PTR), ("device", I32), ("device_id", I32), ("ndim", I32), ("code", I8), ("bits", I8), ("lanes", Type("i16")), ("shape", PTR),
    ("strides", PTR), ("byte_offset", I64),
)  # fmt: skip


def code_of(dtype: DType) -> tuple[int, int] | None:
    """DLPack's code of a dtype, and its bits; None for elements of fewer than 8 bits, which DLPack packs and anyshape does not."""
    if dtype in _NARROW:
        return _NARROW[dtype]
    return None if dtype.width < 8 else (_KINDS[dtype.kind], dtype.bits)


def has_codes(m: Interface) -> bool:
    return all(code_of(t.dtype) is not None for t in (*m.inputs, *m.outputs))


@dataclass(frozen=True, slots=True)
class StructLayout:
    """Offsets of the fields of a tensor, for addresses of so many bytes."""

    pointer_bytes: int

    def offsets(self) -> tuple[dict[str, int], int]:
        """Returns the offset of each field, and the size of all."""
        places: dict[str, int] = {}
        at = 0
        for name, type_ in _FIELDS:
            size = self.pointer_bytes if type_ == PTR else type_.bytes
            at = -(-at // size) * size
            places[name] = at
            at += size
        return places, -(-at // 8) * 8


@dataclass(frozen=True)
class Tensors:
    """Code that reads tensors in an open function."""

    f: FunctionBuilder
    failures: Failures
    layout: StructLayout

    def field(self, tensors: Val, k: int, name: str) -> Val:
        offsets, size = self.layout.offsets()
        return self.f.load(self.f.gep(tensors, k * size + offsets[name], I8), dict(_FIELDS)[name])

    def demand(self, tensors: Val, k: int, t: InterfaceTensor, what: str) -> None:
        """Refuses a tensor of another dtype, rank, device or layout."""
        f, failures = self.f, self.failures
        code = code_of(t.dtype)
        assert code is not None
        kind, bits, lanes = (f.convert("zext", self.field(tensors, k, name), I64) for name in ("code", "bits", "lanes"))
        other = f.or_(f.or_(f.compare("ne", kind, code[0]), f.compare("ne", bits, code[1])), f.compare("ne", lanes, 1))
        named = template(f"{what} {t.name}")
        text = f"{named} must be {t.dtype}, got DLPack's type code {NUMBER} of {NUMBER} bits and {NUMBER} lanes"
        failures.end_if(other, Code.TENSOR, text, [exact(kind), exact(bits), exact(lanes)])
        rank = f.convert("sext", self.field(tensors, k, "ndim"), I64)
        text = f"{named} must be of rank {t.rank}, got rank {NUMBER}"
        failures.end_if(f.compare("ne", rank, t.rank), Code.TENSOR, text, [exact(rank)])
        device = f.convert("sext", self.field(tensors, k, "device"), I64)
        text = f"{named} must be in memory of the CPU, got DLPack's device type {NUMBER}"
        failures.end_if(f.compare("ne", device, _CPU), Code.TENSOR, text, [exact(device)])
        if t.rank:
            absent = f.compare("eq", f.convert("ptrtoint", self.field(tensors, k, "shape"), I64), 0)
            failures.end_if(absent, Code.NULL, f"{named}: shape is NULL")
            self._demand_dense(tensors, k, t, named)

    def _demand_dense(self, tensors: Val, k: int, t: InterfaceTensor, named: str) -> None:
        """Strides are NULL, or those of a dense tensor; of an axis of one element, and of an empty tensor, any."""
        f, strides = self.f, self.field(tensors, k, "strides")
        with f.if_(f.compare("ne", f.convert("ptrtoint", strides, I64), 0)):
            step, sizes = const(I64, 1), self.sizes(tensors, k, t)
            empty = f.compare("eq", byte_count(f, sizes, t.dtype)[0], 0)
            for axis in reversed(range(t.rank)):
                stride = f.load(strides, I64, axis)
                moves = f.and_(f.compare("ne", sizes[axis], 1), f.not_(empty))
                wrong = f.and_(moves, f.compare("ne", stride, step))
                text = f"{named} must be dense: the stride of axis {axis} must be {NUMBER}, got {NUMBER}"
                self.failures.end_if(wrong, Code.TENSOR, text, [exact(step), exact(stride)])
                step = f.mul(step, sizes[axis])

    def sizes(self, tensors: Val, k: int, t: InterfaceTensor) -> list[Val]:
        shape = self.field(tensors, k, "shape")
        return [self.f.load(shape, I64, axis) for axis in range(t.rank)]

    def address(self, tensors: Val, k: int) -> Val:
        return self.f.gep(self.field(tensors, k, "data"), self.field(tensors, k, "byte_offset"), I8)


def emit_rows(f: FunctionBuilder, failures: Failures, m: Interface, pointer_bytes: int) -> tuple[Val, Val, Val]:
    """The rows of dims, of addresses of inputs and of outputs, from the arguments `inputs` and `outputs`, which are rows of tensors."""
    dims, addresses = input_rows(f, failures, m, pointer_bytes)
    tensors, outputs = Tensors(f, failures, StructLayout(pointer_bytes)), _row(f, failures, "outputs", len(m.outputs))
    results = f.alloca(I8, OUTPUT_STRIDE * (len(m.outputs) + 1), 8)
    for k, t in enumerate(m.outputs):
        tensors.demand(outputs, k, t, "output")
        size, beyond = byte_count(f, tensors.sizes(outputs, k, t), t.dtype)
        words = template(f"output {t.name}: its size in bytes does not fit a signed 64-bit integer")
        failures.end_if(beyond, Code.OVERFLOW, words)
        to = f.gep(results, k * OUTPUT_STRIDE, I8)
        f.store(tensors.address(outputs, k), to)
        f.store(size, f.gep(to, OUTPUT_BYTES, I8))
        f.store(tensors.field(outputs, k, "shape"), f.gep(to, OUTPUT_SHAPE, I8))
    return dims, addresses, results


def input_rows(f: FunctionBuilder, failures: Failures, m: Interface, pointer_bytes: int) -> tuple[Val, Val]:
    """The rows of dims and of addresses of inputs, from the argument `inputs`."""
    tensors, inputs = Tensors(f, failures, StructLayout(pointer_bytes)), _row(f, failures, "inputs", len(m.inputs))
    dims, addresses = f.alloca(I64, m.input_words + 1, 8), f.alloca(PTR, len(m.inputs) + 1, 8)
    for k, t in enumerate(m.inputs):
        tensors.demand(inputs, k, t, "input")
        for axis, n in enumerate(tensors.sizes(inputs, k, t)):
            text = template(f"input {t.name}: dim {axis} must be at least 0, got ") + NUMBER
            failures.end_if(f.compare("lt", n, 0), Code.SHAPE, text, [exact(n)])
            f.store(n, dims, t.first + axis)
        f.store(tensors.address(inputs, k), addresses, k)
    return dims, addresses


def _row(f: FunctionBuilder, failures: Failures, what: str, count: int) -> Val:
    """The argument that is a row of so many tensors."""
    row = f.arg(what)
    if count:
        failures.end_if(f.compare("eq", f.convert("ptrtoint", row, I64), 0), Code.NULL, f"{what} is NULL")
    return row


def store_shapes(f: FunctionBuilder, failures: Failures, m: Interface, shapes: Val, pointer_bytes: int) -> None:
    """Writes the dims of all outputs to the shapes of the tensors of the argument `outputs`."""
    tensors, outputs = Tensors(f, failures, StructLayout(pointer_bytes)), _row(f, failures, "outputs", len(m.outputs))
    for k, t in enumerate(m.outputs):
        if t.rank:
            shape = tensors.field(outputs, k, "shape")
            absent = f.compare("eq", f.convert("ptrtoint", shape, I64), 0)
            failures.end_if(absent, Code.NULL, template(f"output {t.name}: shape is NULL"))
            for axis in range(t.rank):
                f.store(f.load(shapes, I64, t.first + axis), shape, axis)


def define_by_rank(module: Module, name: str, ranked: int, ranks: Mapping[int, str], pointer_bytes: int) -> None:
    """Defines `NAME_plan_tensors` and `NAME_run_tensors`, which call the model of a rank by the rank of input number `ranked`."""
    messages = Messages(module)
    plan = [("threads", I64), ("inputs", PTR), ("outputs", PTR), ("arena_bytes", PTR), ("status", PTR)]
    run = [("pool", PTR), ("arena", PTR), ("arena_bytes", I64), ("inputs", PTR), ("outputs", PTR), ("status", PTR)]

    def choose(f: FunctionBuilder, what: str) -> None:
        failures = Failures(f, messages, own_status(f))
        inputs = _row(f, failures, "inputs", 1)
        rank = Tensors(f, failures, StructLayout(pointer_bytes)).field(inputs, ranked, "ndim")
        other, blocks = f.new_block(), {r: f.new_block() for r in ranks}
        f.switch(rank, other, [*blocks.items()])
        for r, block in blocks.items():
            f.start(block)
            callee = f"{ranks[r]}_{what}_tensors"
            f.module.declare(callee, I32, [a.type for a in f.args])
            f.ret(f.call(callee, I32, list(f.args)))
        f.start(other)
        text = f"{name}: there is code for ranks {', '.join(map(str, ranks))}, got an input of rank {NUMBER}"
        failures.end(Code.TENSOR, text, [exact(f.convert("sext", rank, I64))])

    module.define(f"{name}_plan_tensors", I32, plan, lambda f: choose(f, "plan"), internal=False)
    module.define(f"{name}_run_tensors", I32, run, lambda f: choose(f, "run"), internal=False)
