"""Compiles kernels of operators of torch ahead of time: a shared library, and the table by which `compiled.py` finds kernels in it.

In: ops, what an author chose of their calls, a target. Out: `libNAME.so` and `NAME.kernels.json`, for the folder `compiled` of the package
of the ops, and the calls that have no kernel, with reasons. Torch is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshape.errors import AnyshapeError, ArgumentError, UnsupportedError
from anyshape.files import PathLike, write_files
from anyshape.frontends.torch.dtypes import ELEMENT_TYPES
from anyshape.graph.building import function, input
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.torch.graph import flat, gradients_of, node_of
from anyshape.torch.kinds import FORMAT, ONE, TABLE, Kind, Kinds, tensor_kind, value_kind
from anyshape.torch.schema import NEEDED, Argument, Variants, gradient_name
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import Export, ExportTarget, Request, asking, export_several
from anyshape.vm.export.interface import InterfaceTensor
from anyshape.vm.export.op_calls import Choice, OpCall, calls_of, demand_choice, unexportable
from anyshape.vm.export.shared_library import link_shared, linker
from anyshape.vm.export.tensor_code import code_of


@dataclass(frozen=True)
class TorchCall:
    """A call that there is a kernel for: the operator, the kinds of its arguments, and what is exported."""

    operator: str
    kinds: Kinds
    function: Function


@dataclass(frozen=True, kw_only=True)
class TorchLibrary:
    """Exported kernels, by the names that their functions in C begin with. `left_out` are calls without a kernel, and why."""

    name: str
    export: Export
    kernels: Mapping[str, TorchCall]
    left_out: Mapping[str, str]

    def counts(self) -> dict[str, int]:
        """The number of kernels of each operator."""
        names = [k.operator for k in self.kernels.values()]
        return {n: names.count(n) for n in dict.fromkeys(names)}

    def table(self) -> str:
        """The text that says which function is the kernel of which call."""
        operators: dict[str, list[Any]] = {}
        for m, _ in self.export.programs:
            kernel = self.kernels[m.name]
            entry = {
                "function": m.name,
                "kinds": kernel.kinds,
                "inputs": _layouts(m.inputs),
                "outputs": _layouts(m.outputs),
            }
            operators.setdefault(kernel.operator, []).append(entry)
        first = self.export.programs[0][0].name
        asks = f"{first}_level" if self.export.target.several else ""
        table = {"format": FORMAT, "library": f"lib{self.name}.so", "asks": asks, "operators": operators}
        return json.dumps(table) + "\n"

    def write(self, folder: PathLike) -> list[Path]:
        """Writes the files; their paths, the library last. Raises ArgumentError where nothing links a library here."""
        linker(self.export.target)  # before anything is written
        files = {f"{self.name}.o": self.export.object, f"{self.name}{TABLE}": self.table().encode()}
        return [*write_files(folder, files), link_shared(Path(folder), self.name, self.export.target)]


def torch_library(ops: Sequence[Variants], choice: Choice, name: str, target: ExportTarget) -> TorchLibrary:
    """Exports the calls of ops that an author chose, and their gradients. Raises ArgumentError for a choice that fits no op, and
    UnsupportedError where no call can be exported."""
    if target.pointer_bytes != 8:
        raise UnsupportedError(f"{target.name} has no shared libraries, in which packages have compiled kernels")
    demand_choice([op.static for op in ops], choice)
    left_out: dict[str, str] = {}
    calls = [call for op in ops for call in _calls(op, choice, left_out)]
    if not calls:
        raise UnsupportedError("no call has a kernel: " + "; ".join(f"{c}: {why}" for c, why in left_out.items()))
    named = {f"{name}_{k}": call for k, call in enumerate(calls)}
    refused: dict[str, str] = {}
    functions = {n: call.function for n, call in named.items()}
    exported = export_several(functions, name, Request(asking(target), make_options({"dims": {}})), refused)
    for n, why in refused.items():
        left_out[f"{named[n].operator}{named[n].kinds}"] = why
    kernels = {m.name: named[m.name] for m, _ in exported.programs}
    return TorchLibrary(name=name, export=exported, kernels=kernels, left_out=left_out)


def _calls(op: Variants, choice: Choice, left_out: dict[str, str]) -> Iterator[TorchCall]:
    """The calls of an op that can be stated, each followed by that of its gradient."""
    why = op.refusal or unexportable(op.static)
    variant = op.dyn if op.dyn is not None and any(a.is_size for a in op.arguments) else op.static
    if why is not None:
        left_out[op.static.name] = why
        return
    try:
        calls = calls_of(variant, choice, ELEMENT_TYPES)
    except AnyshapeError as e:
        left_out[op.static.name] = str(e)
        return
    for call in calls:
        for state in (_forward, _gradient):
            try:
                stated = state(op, call)
            except AnyshapeError as e:
                left_out[f"{state.__name__.strip('_')} of {call.described}"] = str(e)
                continue
            if stated is not None:
                yield stated


def _forward(op: Variants, call: OpCall) -> TorchCall:
    values = _values(op, call)
    results = node_of(op, values).outputs
    _demand_types(results)
    return TorchCall(op.static.name, _kinds(op.arguments, values), function(_params(values), results, op.static.name))


def _gradient(op: Variants, call: OpCall) -> TorchCall | None:
    """The gradient by all tensors of floats; None where there are none, or no result is of floats."""
    values = _values(op, call)
    tensors = flat(values[: len(op.static.inputs)])
    results = [v for v in node_of(op, values).outputs if v.type.dtype.is_float]
    needed = [v.type.dtype.is_float for v in tensors]
    if not results or not any(needed):
        return None
    seeds = [_seed(k, v) for k, v in enumerate(results)]
    of_seeds = tuple(tensor_kind(s.type) for s in seeds)
    kinds = (of_seeds, value_kind(NEEDED, tuple(needed)), *_kinds(op.arguments, values))
    gradients = gradients_of(op, seeds, needed, values)
    name = gradient_name(op)
    return TorchCall(name, kinds, function([*seeds, *_params(values)], gradients, name))


def _seed(k: int, result: Value) -> Value:
    dims = ", ".join(f"seeds{k}_{axis}" for axis in range(tensor_kind(result.type).rank))
    seed: Value = input(f"seeds{k}", f"{result.type.dtype}[{dims}]")
    return seed


def _values(op: Variants, call: OpCall) -> list[Any]:
    """Values in place of the tensors of a call, and of integers that may be sizes; other parameters as they are."""
    named = {n: input(n, text) for n, text in call.types.items()}

    def of(a: Argument) -> Any:
        if a.is_tensors:
            return [v for n, v in named.items() if n.rpartition(".")[0] == a.name]
        if a.is_tensor or a.name in named:
            return named.get(a.name)
        value = call.params.get(a.name, a.preset)
        if a.is_size and value is not None:
            raise ArgumentError(
                f"{call.described}: a kernel takes any {a.name}: say how many there are, as --input {a.name}='i64[2]'"
            )
        return value

    return [of(a) for a in op.arguments]


def _params(values: Sequence[Any]) -> list[Value]:
    return [v for v in flat(values) if isinstance(v, Value)]


def _kinds(arguments: Sequence[Argument], values: Sequence[Any]) -> Kinds:
    return tuple(_kind(a, v) for a, v in zip(arguments, values, strict=True))


def _kind(a: Argument, v: Any) -> Kind:
    if a.is_tensors:
        return tuple(tensor_kind(t.type) for t in v)
    if not isinstance(v, Value):
        return value_kind(a, v)
    kind = tensor_kind(v.type)
    if a.is_tensor or kind.rank == 0:
        return kind if a.is_tensor else ONE
    (count,) = v.type.shape or ()
    assert isinstance(count, int), f"{a.name} has {count} elements"
    return count


def _demand_types(results: Sequence[Value]) -> None:
    """Raises UnsupportedError for a result of a dtype that torch has not, or of unknown rank."""
    for v in results:
        if v.type.dtype not in ELEMENT_TYPES or code_of(v.type.dtype) is None:
            raise UnsupportedError(f"a result is {v.type}, and torch has no tensors of {v.type.dtype}")
        if v.type.shape is None:
            raise UnsupportedError(f"a result is {v.type}: how many dims it has depends on sizes or on data")


def _layouts(tensors: Sequence[InterfaceTensor]) -> list[list[Any]]:
    return [[t.dtype.name, *(code_of(t.dtype) or ()), t.rank] for t in tensors]
