"""C text of a library of custom ops: tables of its ops and kernels between the two parts of the adapter, which are C files here.

In: calls, and the interface of the function that each was exported as. Out: the text of one C file, complete but for these functions.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from anyshape.custom_ops.c_interface import ELEMENT_TYPES, ENTRIES, ApiFunction, declarations
from anyshape.custom_ops.calls import KernelCall, NodeOp
from anyshape.dims import Dim, Size
from anyshape.dtypes import DType, is_dtype_name, parse_dtype
from anyshape.errors import UnsupportedError
from anyshape.graph.opdef import ParamDef
from anyshape.vm.export.header import shared_types
from anyshape.vm.export.interface import Interface, InterfaceTensor
from anyshape.vm.export.tensor_code import code_of
from anyshape.vm.native import MOST_THREADS

_FOLDER = Path(__file__).parent
_INCLUDES = ("stdarg.h", "stdatomic.h", "stdint.h", "stdio.h", "string.h", "unistd.h")
_KINDS = {
    "bool": "INT", "int": "INT", "axis": "INT", "float": "FLOAT", "number": "FLOAT", "str": "STRING", "dtype": "STRING", "ints": "INTS",
    "axes": "INTS", "floats": "FLOATS", "strs": "STRINGS",
}  # fmt: skip
"""What an attribute of ONNX is for each kind of parameter"""


@dataclass(frozen=True)
class OpKernel:
    """A call, and what callers see of the function that it was exported as."""

    call: KernelCall
    interface: Interface

    @cached_property
    def inputs(self) -> Mapping[str, InterfaceTensor]:
        return {t.name: t for t in self.interface.inputs}

    @property
    def values(self) -> tuple[Any, ...]:
        """The value of each attribute; None where it has none."""
        params = self.call.params
        return tuple(params.get(p.name, None if p.required else p.default) for p in self.call.op.attributes)


@dataclass(frozen=True)
class _Overload:
    """The kernels of an op for one choice of element types."""

    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    kernels: list[OpKernel]


def name_of(op: NodeOp) -> str:
    """What nodes call an op: its static variant, whose parameters are attributes, by the plain name."""
    return op.name if op.variant == "static" else op.full_name


class _KernelsOfOp:
    """The kernels of one op, and the inputs and outputs that all of them have together."""

    def __init__(self, op: NodeOp, kernels: Sequence[OpKernel]) -> None:
        self.op, self.kernels = op, kernels
        self.name = name_of(op)
        names: dict[str, None] = {}
        for i in op.inputs:
            rows = [
                [n for n in k.inputs if n == i.name or (i.variadic and n.rpartition(".")[0] == i.name)] for k in kernels
            ]
            longest = max(rows, key=len)
            names.update(dict.fromkeys(longest or [i.name]))
        names.update(dict.fromkeys(p.name for p in op.operands))
        while names and all(next(reversed(names)) not in k.inputs for k in kernels):
            names.popitem()
        self.inputs = list(names)
        self.output_count = max(len(k.interface.outputs) for k in kernels)

    def is_optional(self, name: str) -> bool:
        return any(name not in k.inputs for k in self.kernels)

    def overloads(self) -> list[_Overload]:
        """Sorts kernels by element types. Raises UnsupportedError where equal inputs have results of different types."""
        overloads: dict[tuple[DType, ...], _Overload] = {}
        for k in self.kernels:
            inputs = tuple(self.input_dtype(k, n) for n in self.inputs)
            outputs = [t.dtype for t in k.interface.outputs]
            outputs += [outputs[-1]] * (self.output_count - len(outputs))
            for dtype in (*inputs, *outputs):
                if dtype not in ELEMENT_TYPES:
                    raise UnsupportedError(
                        f"{self.op.full_name}: onnxruntime has no tensors of {dtype} that lie in whole bytes"
                    )
            known = overloads.setdefault(inputs, _Overload(inputs, tuple(outputs), []))
            if known.outputs != tuple(outputs):
                raise UnsupportedError(
                    f"{self.op.full_name}: for equal inputs onnxruntime would have to choose between results of "
                    f"{', '.join(known.outputs)} and {', '.join(outputs)}; put them into libraries with domains of their own (--domain)"
                )
            known.kernels.append(k)
        return [*overloads.values()]

    def input_dtype(self, kernel: OpKernel, name: str) -> DType:
        """The element type of an input; of an absent one, that of its variable."""
        if name in kernel.inputs:
            return kernel.inputs[name].dtype
        defs = {i.name: i for i in self.op.inputs}
        own = defs[name if name in defs else name.rpartition(".")[0]].dtype
        if is_dtype_name(own):
            return parse_dtype(own)
        same = [t.dtype for n, t in kernel.inputs.items() if (d := defs.get(n.partition(".")[0])) and d.dtype == own]
        return same[0] if same else parse_dtype(next(n for n in self.op.dtypes[own] if n in ELEMENT_TYPES))

    @property
    def described(self) -> str:
        """The choices of attributes, for a message."""
        names = [p.name for p in self.op.attributes]
        texts = dict.fromkeys(
            ", ".join(f"{n} = {json.dumps(v, default=str)}" for n, v in zip(names, k.values) if v is not None)
            or "no attributes"
            for k in self.kernels
        )
        return "; ".join(texts)[:700]


def c_text(name: str, domain: str, kernels: Sequence[OpKernel], entries: Sequence[ApiFunction] = ENTRIES) -> str:
    """The text of the C file. Raises UnsupportedError for what onnxruntime cannot tell apart, or cannot compare."""
    ops = [_KernelsOfOp(op, [*listed]) for op, listed in groupby(kernels, lambda k: k.call.op)]
    tables = _CTables()
    for op in ops:
        for overload in op.overloads():
            tables.overload(op, overload)
    most_tensors = max([1, *(max(len(op.inputs), op.output_count) for op in ops)])
    most_rank = max([1, *(t.rank for k in kernels for t in (*k.interface.inputs, *k.interface.outputs))])
    parts = [
        f"/* {name}: custom ops of onnxruntime, written by anyshape. Do not edit. */",
        *(f"#include <{include}>" for include in _INCLUDES),
        f"#define LIBRARY {_quoted(name)}",
        f"#define DOMAIN {_quoted(domain)}",
        f"#define MOST_TENSORS {most_tensors}",
        f"#define MOST_RANK {most_rank}",
        f"#define MOST_VALUE_BYTES {max(256, -(-tables.most_bytes // 8) * 8)}",
        f"#define MOST_THREADS {MOST_THREADS}",
        shared_types(),
        declarations(entries),
        (_FOLDER / "adapter.h").read_text(),
        *(_declared(k.interface.name) for k in kernels),
        f"static const Op ops[{len(tables.ops)}];",
        *tables.lines,
        f"static const Op ops[{len(tables.ops)}] = {{",
        *(f"  {line}," for line in tables.ops),
        "};",
        (_FOLDER / "adapter.c").read_text(),
    ]
    return "\n".join(parts)


class _CTables:
    """Arrays of C, written one after the other; each is known by its number."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ops: list[str] = []
        self.most_bytes = 0

    def array(self, type_: str, items: Sequence[str]) -> str:
        """Defines an array; its name."""
        if not items:
            return "NULL"
        name = f"table_{len(self.lines)}"
        self.lines.append(f"static const {type_} {name}[] = {{{', '.join(items)}}};")
        return name

    def overload(self, op: _KernelsOfOp, overload: _Overload) -> None:
        parameters = [
            f"{{{_quoted(n)}, {ELEMENT_TYPES[t]}, {int(op.is_optional(n))}}}"
            for n, t in zip(op.inputs, overload.inputs)
        ]
        results = [f"{{NULL, {ELEMENT_TYPES[t]}, {int(op.output_count > 1)}}}" for t in overload.outputs]
        by_values: dict[str, list[OpKernel]] = {}
        for k in overload.kernels:
            by_values.setdefault(repr(k.values), []).append(k)
        choices = [self.choice(op, listed) for listed in by_values.values()]
        infer = (
            "NULL" if any(map(op.is_optional, op.inputs)) else "op_infer"
        )  # it would be called for absent inputs too
        counts = [len(op.inputs), op.output_count, len(op.op.attributes), len(choices)]
        self.ops.append(
            f"{{ORT_VERSION, OP_FUNCTIONS({infer}), {_quoted(op.name)}, {_quoted(op.described)}, {self.array('Parameter', parameters)}, "
            f"{self.array('Parameter', results)}, {', '.join(map(str, counts))}, {self.array('Choice', choices)}}}"
        )

    def choice(self, op: _KernelsOfOp, kernels: Sequence[OpKernel]) -> str:
        attributes = [self.attribute(op.op, p, v) for p, v in zip(op.op.attributes, kernels[0].values)]
        written = self.array("Kernel", [self.kernel(op, k) for k in kernels])
        return f"{{&ops[{len(self.ops)}], {self.array('Attribute', attributes)}, {written}, {len(kernels)}}}"

    def attribute(self, op: NodeOp, p: ParamDef, value: Any) -> str:
        kind = _KINDS.get(p.kind, "STRING")
        is_default = int(value is None or (not p.required and value == p.default))
        if value is None:
            return f"{{{_quoted(p.name)}, ATTRIBUTE_{kind}, {is_default}, NULL, 0}}"
        content = _content(kind, value)
        self.most_bytes = max(self.most_bytes, len(content))
        words = [str(int.from_bytes(content[k : k + 8], "little")) + "u" for k in range(0, len(content), 8)]
        table = self.array("uint64_t", words or ["0"])
        return f"{{{_quoted(p.name)}, ATTRIBUTE_{kind}, {is_default}, {table}, {len(content)}}}"

    def kernel(self, op: _KernelsOfOp, k: OpKernel) -> str:
        operands = [self.operand(k.inputs.get(n)) for n in op.inputs]
        results = [self.result(op, k, t) for t in k.interface.outputs]
        name = k.interface.name
        return (
            f"{{{self.array('Operand', operands)}, {self.array('Result', results)}, {len(results)}, {name}_plan_tensors, "
            f"{name}_run_tensors}}"
        )

    def operand(self, t: InterfaceTensor | None) -> str:
        if t is None:
            return "{0, 0, 0, 0, NULL}"
        dims = self.array("int64_t", [str(-1 if isinstance(n, Dim) else n) for n in t.shape])
        return f"{{{ELEMENT_TYPES[t.dtype]}, {t.rank}, {_code(t)}, {dims}}}"

    def result(self, op: _KernelsOfOp, k: OpKernel, t: InterfaceTensor) -> str:
        axes = []
        for n in t.shape:
            sizes = _sizes(op, k, n)
            axes.append(f"{{{self.array('Size', sizes)}, {len(sizes)}}}")
        return f"{{{t.rank}, {_code(t)}, {self.array('Axis', axes)}}}"


def _sizes(op: _KernelsOfOp, k: OpKernel, n: Size) -> list[str]:
    """The sizes of which an axis of a result is the broadcast; none where one of them is no axis of an input."""
    parts: Sequence[Size] = n.args if isinstance(n, Dim) and n.kind == "bcast" else [n]
    listed = []
    for part in parts:
        if not isinstance(part, Dim):
            listed.append([f"{{{part}, -1, -1}}"])
        elif part.kind == "bcast":
            listed.append(_sizes(op, k, part))
        else:
            places = [
                (op.inputs.index(i.name), a) for i in k.interface.inputs for a, m in enumerate(i.shape) if m == part
            ]
            listed.append([f"{{-1, {places[0][0]}, {places[0][1]}}}"] if places else [])
    return [s for sizes in listed for s in sizes] if all(listed) else []


def _content(kind: str, value: Any) -> bytes:
    """The bytes of a value of an attribute as onnxruntime reads them."""
    if kind == "STRING":
        return str(value).encode() + b"\0"
    items = value if kind in ("INTS", "FLOATS") else [value]
    return b"".join(
        struct.pack("<q", int(v)) if kind in ("INT", "INTS") else struct.pack("<f", float(v)) for v in items
    )


def _code(t: InterfaceTensor) -> str:
    code = code_of(t.dtype)
    assert code is not None
    return f"{code[0]}, {code[1]}"


def _quoted(text: str) -> str:
    return json.dumps(text)


def _declared(name: str) -> str:
    """The declarations of the functions of one exported call."""
    tensors, status = "const anyshape_tensor *, anyshape_tensor *", "anyshape_status *"
    return (
        f"int32_t {name}_plan_tensors(int64_t, {tensors}, uint64_t *, {status});\n"
        f"int32_t {name}_run_tensors(const anyshape_pool *, void *, uint64_t, {tensors}, {status});"
    )
