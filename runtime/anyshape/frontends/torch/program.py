"""Exported programs of torch as functions: parameters and buffers are constants over torch's memory, user inputs are parameters.

In: a `torch.export.ExportedProgram`. Out: an `ImportedProgram`: the function, and what each of its inputs and results is to torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from anyshape.dims import Size
from anyshape.errors import UnsupportedError
from anyshape.frontends.torch.dtypes import array_of, dtype_of_torch
from anyshape.frontends.torch.importer import GraphImport, operator_name
from anyshape.frontends.torch.symbols import Symbols, guards, is_number, ranges_of
from anyshape.graph.building import function, input
from anyshape.graph.function import Function
from anyshape.graph.require import require
from anyshape.graph.value import Value, constant
from anyshape.types import TensorType


@dataclass(frozen=True)
class OutputOrigin:
    """The origin of an output of a model. `kind`: `result`, number `index` of the function; `argument`, number `index` of the call;
    `state`, the tensor `value` of the model; `constant`, the Python object `value`. `number`: a size, which torch gives as a number."""

    kind: str
    index: int = 0
    value: Any = None
    number: bool = False


@dataclass(frozen=True, kw_only=True)
class ImportedProgram:
    """A function of a program, and what torch calls it with."""

    function: Function
    inputs: tuple[int, ...]
    """the number of the argument for each parameter of the function, or -1 - k for state k"""
    states: tuple[Any, ...]
    """tensors of the model that calls change: they are inputs of the function, and not constants"""
    outputs: tuple[OutputOrigin, ...]
    """the origins of the model's outputs"""
    updates: tuple[tuple[int, OutputOrigin], ...]
    """arguments, or states -1 - k, that a call replaces the contents of, with where the new contents come from"""
    constants: Mapping[int, Any]
    """arguments that were numbers, texts or None when the program was made, by number: they must be the same in a call"""


@cache
def decompositions() -> Callable[[], dict[Any, Any]]:
    """Makes torch's table of decompositions into core ATen, and of what has no mapping, without those of operators that have one."""
    import torch

    from anyshape_ops.aten import ATEN, REFUSED

    def table() -> dict[Any, Any]:
        chosen = dict(torch.export.default_decompositions().items())
        for op in core_operators():
            name = operator_name(op)
            if name not in ATEN and name not in REFUSED and op in torch._decomp.decomposition_table:
                chosen[op] = torch._decomp.decomposition_table[op]
        return {op: decomposition for op, decomposition in chosen.items() if operator_name(op) not in ATEN}

    return table


@cache
def core_operators() -> tuple[Any, ...]:
    """The operators of core ATen, by name: overloads with the tag `core`, of all that the dispatcher knows; `dir` of the library lists
    only those that were used."""
    import torch

    core: list[Any] = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        library, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if library == "aten" and torch._C._dispatch_has_kernel(name):
            op = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if op is not None and torch.Tag.core in op.tags:
                core.append(op)
    return tuple(core)


@contextmanager
def whole_recurrences() -> Iterator[None]:
    """Keeps each recurrent network one operator while a module is exported: torch's decomposition of them has a step for each position, so
    that a length is a number."""
    import torch

    table = torch._decomp.decomposition_table
    saved: list[tuple[Any, dict[Any, Any], Any]] = []
    try:
        for name, standing in _recurrent_library().items():
            op = getattr(torch.ops.aten, name).input
            saved.append((op, dict(op.py_kernels), table.get(op)))
            for key in (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd):
                op.py_kernels[key] = standing
            table[op] = standing
            op._dispatch_cache.clear()
        yield
    finally:
        for op, kernels, decomposition in saved:
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
            if decomposition is None:
                del table[op]
            else:
                table[op] = decomposition


@cache
def _recurrent_library() -> dict[str, Any]:
    """Declares an operator of the library `anyshape_recurrent` for each recurrent one of torch; torch knows its shapes and nothing else."""
    import torch

    library = torch.library.Library("anyshape_recurrent", "FRAGMENT")
    _LIBRARIES.append(library)
    standing: dict[str, Any] = {}
    for name, states in (("lstm", 2), ("gru", 1), ("rnn_tanh", 1), ("rnn_relu", 1)):
        hidden = "Tensor[] hx" if states == 2 else "Tensor hx"
        library.define(
            f"{name}(Tensor x, {hidden}, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
            f"bool bidirectional, bool batch_first) -> ({', '.join(['Tensor'] * (1 + states))})"
        )

        def fake(x: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
                 bidirectional: bool, batch_first: bool) -> Any:  # fmt: skip
            ends = hx if isinstance(hx, (list, tuple)) else [hx]
            y = x.new_empty((*x.shape[:-1], ends[0].shape[2] * (2 if bidirectional else 1)))
            return (y, *(torch.empty_like(h) for h in ends))

        torch.library.register_fake(f"anyshape_recurrent::{name}", fake, lib=library)
        standing[name] = getattr(torch.ops.anyshape_recurrent, name)
    return standing


_LIBRARIES: list[Any] = []
"""Libraries of operators, which end with the object that made them"""


@contextmanager
def sizes_alike() -> Iterator[None]:
    """Makes sizes of 0 and 1 no cases of their own while torch traces: ops check by themselves what they need of a size."""
    import torch

    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        yield


def decomposed(program: Any) -> Any:
    """The program in operators that have mappings, as far as torch decomposes into these. Raises UnsupportedError where that makes a
    number of a size."""
    with whole_recurrences(), sizes_alike():
        plain = program.run_decompositions(decompositions()())
    shapes = _shapes(plain)
    for name, shape in _shapes(program).items():
        for axis, (open_size, size) in enumerate(zip(shape, shapes[name])):
            if not is_number(open_size) and is_number(size):
                raise UnsupportedError(
                    f"input {name}: its axis {axis} is open, and torch's decompositions work for the size {size} alone"
                )
    return plain


def _shapes(program: Any) -> dict[str, tuple[Any, ...]]:
    """The shapes of the tensors that a program takes."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    user = set(program.graph_signature.user_inputs)
    return {name: tuple(getattr(value, "shape", ())) for name, value in values.items() if name in user}


def import_program(program: Any, sizes: Mapping[str, Size]) -> ImportedProgram:
    """Imports a decomposed program. `sizes` are the dims of torch's symbols that people named. Raises UnsupportedError
    listing all that is not supported."""
    return _ProgramImport(program, sizes).run()


def named_program(program: Any) -> tuple[Function, list[str]]:
    """A decomposed program as a function whose results are all values of its graph by the names of torch's nodes, and the names of its
    outputs among them. Raises UnsupportedError listing all that is not supported."""
    importing = _ProgramImport(program, {})
    importing.run()
    computed = {n.name: importing.graph.values.get(n) for n in importing.nodes if n.op == "call_function"}
    named = {name: v for name, v in computed.items() if isinstance(v, Value)}
    known = {*named, *(p.name for p in importing.params)}
    outputs = [name for name in program.graph_signature.user_outputs if name in known]
    return function(importing.params, named, "the program"), outputs


class _ProgramImport:
    """The import of one exported program."""

    def __init__(self, program: Any, sizes: Mapping[str, Size]) -> None:
        self.program, self.signature = program, program.graph_signature
        self.symbols = Symbols(ranges_of(program.range_constraints), dict(sizes))
        self.graph = GraphImport(
            type(program.graph_module).__name__ if not program.module_call_graph else "the program"
        )
        self.nodes = list(program.graph_module.graph.nodes)
        self.params: list[Value] = []
        self.inputs: list[int] = []
        self.states: list[Any] = []
        self.constants: dict[int, Any] = {}
        self.arguments: dict[Any, int] = {}
        """numbers of the arguments, by placeholder"""
        self.tensors: dict[Any, Any] = {}
        """tensors of the model, by placeholder"""

    def run(self) -> ImportedProgram:
        changed = set(self.signature.buffers_to_mutate.values())
        placeholders = [n for n in self.nodes if n.op == "placeholder"]
        count = 0
        for node, spec in zip(placeholders, self.signature.input_specs, strict=True):
            kind = spec.kind.name
            if kind == "USER_INPUT":
                self._user_input(node, spec.arg, count)
                count += 1
            elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                self._state(node, spec.target, spec.target in changed)
            else:
                self.graph.values[node] = None
                self.graph.refusals.add(
                    "input", "aten", None, f"{_SPELLED.get(kind, kind)} is not supported", node.name
                )
        for node in self.nodes:
            if node.op == "get_attr":
                self._attribute(node)
        for condition, words in guards(self.program, self.symbols):
            require(condition, words)
        self.graph.run(self.nodes)
        self.graph.refusals.finish()
        return self._finished()

    def _user_input(self, node: Any, argument: Any, number: int) -> None:
        import torch

        self.arguments[node] = number
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            shape = tuple(self.symbols.size(s) for s in value.shape)
            param = input(node.name, TensorType(dtype_of_torch(value.dtype), shape))
        elif isinstance(value, torch.SymInt):
            param = size_input(node.name, self.symbols.size(value))
            self.graph.sizes.add(param)
        elif isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise UnsupportedError(f"input {node.name}: a {type(value).__name__} that is not known; make it a tensor")
        else:
            self.constants[number] = value if value is not None else getattr(argument, "value", None)
            self.graph.values[node] = self.constants[number]
            return
        self._param(node, param, number)

    def _param(self, node: Any, param: Value, number: int) -> None:
        self.graph.values[node] = param
        self.params.append(param)
        self.inputs.append(number)

    def _state(self, node: Any, target: str, changed: bool) -> None:
        tensor = self.program.state_dict.get(target)
        if tensor is None:
            tensor = self.program.constants[target]
        self.tensors[node] = tensor
        if changed:
            self.states.append(tensor)
            type = TensorType(dtype_of_torch(tensor.dtype), tuple(tensor.shape))
            self._param(node, input(node.name, type), -len(self.states))
        else:
            self.graph.values[node] = constant(array_of(tensor, target), target)

    def _attribute(self, node: Any) -> None:
        import torch

        value = self.graph.bind(node, self.program.graph_module)
        if isinstance(value, torch.Tensor):
            self.tensors[node] = value

    def _finished(self) -> ImportedProgram:
        results: list[Value] = []
        output = next(n for n in self.nodes if n.op == "output")
        outputs: list[OutputOrigin] = []
        updates: list[tuple[int, OutputOrigin]] = []
        buffers = {
            self.signature.inputs_to_buffers[n.name]: n
            for n in self.tensors
            if n.name in self.signature.inputs_to_buffers
        }
        user = {n.name: k for n, k in self.arguments.items()}
        for a, spec in zip(output.args[0], self.signature.output_specs, strict=True):
            kind, result = spec.kind.name, self._result(a, results)
            if kind == "USER_OUTPUT":
                outputs.append(result)
            elif kind == "BUFFER_MUTATION":
                states = [k for k, t in enumerate(self.states) if t is self.tensors[buffers[spec.target]]]
                updates.append((-1 - states[0], result))
            elif kind == "USER_INPUT_MUTATION":
                updates.append((user[spec.target], result))
            else:
                raise UnsupportedError(
                    f"output {spec.arg}: {kind.lower().replace('_', ' ')}s are not supported; export without them"
                )
        return ImportedProgram(
            function=function(self.params, results),
            inputs=tuple(self.inputs),
            states=tuple(self.states),
            outputs=tuple(outputs),
            updates=tuple(updates),
            constants=self.constants,
        )

    def _result(self, a: Any, results: list[Value]) -> OutputOrigin:
        """Returns the origin of one output; adds to the results of the function."""
        if a not in self.graph.values:
            return OutputOrigin("constant", value=a)
        value = self.graph.values[a]
        if a in self.arguments:
            return OutputOrigin("argument", self.arguments[a])
        if a in self.tensors:
            return OutputOrigin("state", value=self.tensors[a])
        if not isinstance(value, Value):
            return OutputOrigin("constant", value=value)
        results.append(value)
        return OutputOrigin("result", len(results) - 1, number=value in self.graph.sizes)


_SPELLED = {
    "TOKEN": "the order of operators with effects, as one that raises an error by its elements,",
    "CUSTOM_OBJ": "an object of C++",
}
"""Kinds of inputs that have no tensors"""


def size_input(name: str, size: Any) -> Value:
    """A parameter that is a size: a scalar of i64 whose content is the dim."""
    from anyshape.dtypes import I64
    from anyshape.graph.sizes import remember, remember_input

    param = Value(TensorType(I64, ()), name, contents=(size,))
    remember(param)
    remember_input(param)
    return param
