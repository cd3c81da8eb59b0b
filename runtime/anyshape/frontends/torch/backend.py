"""The backend of `torch.compile(model, backend="anyshape")`, for inference.

In: the graph that Dynamo took of a model, of which AOTAutograd makes one of ATen operators. Out: a callable. Parameters and buffers are
constants for as long as they keep their contents; sizes are inputs, so that one compile serves all shapes. Calls of operators that have no
mapping run in torch, and what is between them is compiled, part by part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.frontends.torch.control_flow import CONTROL_FLOW
from anyshape.frontends.torch.dtypes import array_of, dtype_of_torch
from anyshape.frontends.torch.importer import GraphImport, operator_name
from anyshape.frontends.torch.model import run_imported
from anyshape.frontends.torch.program import ImportedProgram, OutputOrigin, decompositions, size_input
from anyshape.frontends.torch.symbols import Symbols, ranges_of
from anyshape.graph.building import function, input
from anyshape.graph.value import Value, constant
from anyshape.types import TensorType
from anyshape.vm.executable.entry import compile
from anyshape.vm.executable.executable import Executable

log = logging.getLogger(__name__)


@dataclass
class Statistics:
    """What the backend did in this process."""

    compiled: int = 0
    """graphs, or parts of graphs, that were compiled"""
    eager: dict[str, str] = field(default_factory=dict)
    """operators that run in torch, with the reason"""


STATISTICS = Statistics()


def anyshape_backend(graph: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compiles a graph of Dynamo. `options` are those of `anyshape.compile`, such as threads=1. A graph of which a gradient is asked runs
    in torch."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    own = dict(options.pop("options", None) or {}) | {k: v for k, v in options.items() if k != "mode"}
    fixed = _fixed(graph, example_inputs)

    def inference(aten: Any, inputs: Sequence[Any]) -> Any:
        ahead = len(_placeholders(aten)) - len(example_inputs)
        constants = {ahead + k: t for k, t in fixed.items()} if ahead >= 0 else {}
        with unset_fake_temporarily():  # while torch traces, it takes all tensors for ones without memory
            return make_boxed_func(CompiledGraph(aten, constants, own))

    def training(aten: Any, inputs: Sequence[Any]) -> Any:
        log.warning(
            "a gradient is asked of a graph, which runs in torch: backend anyshape is for inference, under torch.no_grad()"
        )
        return make_boxed_func(aten.forward)

    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=training, bw_compiler=training, inference_compiler=inference, decompositions=decompositions()()
    )(graph, example_inputs)
    return compiled


def _fixed(graph: Any, example_inputs: Sequence[Any]) -> dict[int, Any]:
    """The parameters and buffers of the model among the inputs of Dynamo's graph, by position."""
    import torch

    fixed: dict[int, Any] = {}
    for k, (node, value) in enumerate(zip(_placeholders(graph), example_inputs)):
        static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") is not None
        real = isinstance(value, torch.Tensor) and not isinstance(value, torch._subclasses.FakeTensor)
        if real and (static or isinstance(value, torch.nn.Parameter)):
            fixed[k] = value
    return fixed


class CompiledGraph:
    """A graph of ATen operators, compiled as a whole or in parts. A constant whose contents change becomes an input."""

    def __init__(self, graph: Any, constants: Mapping[int, Any], options: Mapping[str, Any]) -> None:
        self.graph, self.options = graph, options
        self.constants = dict(constants)
        self._compile()

    def _compile(self) -> None:
        self._seen = [(k, t.data_ptr(), t._version) for k, t in self.constants.items()]
        self._run = _whole(self.graph, self.constants, self.options) or _in_parts(self.graph, self.options)

    def __call__(self, *args: Any) -> Any:
        changed = [k for k, place, version in self._seen if args[k].data_ptr() != place or args[k]._version != version]
        if changed:
            for k in changed:
                del self.constants[k]
            self._compile()
        return self._run(*args)


def _whole(graph: Any, constants: Mapping[int, Any], options: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Compiles a graph as a whole; None if something in it is not supported."""
    imported, refused = import_graph(graph, constants)
    if imported is None:
        for node, reason in refused.items():
            STATISTICS.eager.setdefault(str(node.target), reason)
        return None
    return _callable(imported, options)


def _callable(imported: ImportedProgram, options: Mapping[str, Any]) -> Callable[..., Any] | None:
    if not imported.function.results:
        return lambda *args: tuple(_without_results(imported, args))
    try:
        executable: Executable = compile(imported.function, **options)
    except UnsupportedError as e:
        log.warning("a graph runs in torch: %s", e)
        return None
    STATISTICS.compiled += 1
    return lambda *args: tuple(run_imported(executable, imported, args))


def _without_results(imported: ImportedProgram, args: Sequence[Any]) -> list[Any]:
    return [args[r.index] if r.kind == "argument" else r.value for r in imported.outputs]


def import_graph(graph: Any, constants: Mapping[int, Any]) -> tuple[ImportedProgram | None, dict[Any, str]]:
    """Imports a graph of ATen operators; with None come the FX nodes that were refused, and why."""
    of = GraphImport("a graph of torch.compile")
    inputs, refused = _bind_placeholders(of, graph, constants)
    if not refused:
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                of.bind(node, graph)
        of.run(list(graph.graph.nodes))
        refused = of.reasons
    if refused:
        return None, refused
    outputs, results = _outputs(of, graph)
    whole = ImportedProgram(
        function=function([*inputs.values()], results),
        inputs=tuple(inputs),
        states=(),
        outputs=tuple(outputs),
        updates=(),
        constants={},
    )
    return whole, {}


def _placeholders(graph: Any) -> list[Any]:
    return [n for n in graph.graph.nodes if n.op == "placeholder"]


def _bind_placeholders(
    of: GraphImport, graph: Any, constants: Mapping[int, Any]
) -> tuple[dict[int, Value], dict[Any, str]]:
    """Binds the placeholders of a graph to constants and parameters; returns the latter by position, and what is refused."""
    import torch

    placeholders = _placeholders(graph)
    symbols = Symbols(_ranges(placeholders))
    params: dict[int, Value] = {}
    for k, node in enumerate(placeholders):
        said = node.meta.get("val")
        try:
            if k in constants:
                of.values[node] = constant(array_of(constants[k], node.name), node.name)
            elif isinstance(said, torch.SymInt):
                of.values[node] = params[k] = size_input(node.name, symbols.size(said))
                of.sizes.add(params[k])
            elif isinstance(said, torch.Tensor):
                shape = tuple(symbols.size(s) for s in said.shape)
                of.values[node] = params[k] = input(node.name, TensorType(dtype_of_torch(said.dtype), shape))
            else:
                of.values[node] = said
        except AnyshapeError as e:
            return params, {node: str(e)}
    return params, {}


def _outputs(of: GraphImport, graph: Any) -> tuple[list[OutputOrigin], list[Value]]:
    """Returns the origins of a graph's outputs, and the results of the function that compute some of them."""
    import torch

    numbers = {node: k for k, node in enumerate(_placeholders(graph))}
    returned = next(n for n in graph.graph.nodes if n.op == "output").args[0]
    outputs: list[OutputOrigin] = []
    results: list[Value] = []
    for a in returned if isinstance(returned, (tuple, list)) else [returned]:
        if not isinstance(a, torch.fx.Node):
            outputs.append(OutputOrigin("constant", value=a))
        elif a in numbers:
            outputs.append(OutputOrigin("argument", numbers[a]))
        elif a.op == "get_attr":
            outputs.append(OutputOrigin("constant", value=getattr(graph, a.target)))
        else:
            results.append(of.values[a])
            outputs.append(OutputOrigin("result", len(results) - 1, number=of.values[a] in of.sizes))
    return outputs, results


def _ranges(placeholders: Sequence[Any]) -> dict[str, tuple[int | None, int | None]]:
    """The bounds that torch has for the symbols of a graph."""
    import torch

    for node in placeholders:
        said = node.meta.get("val")
        sizes = [said] if isinstance(said, torch.SymInt) else said.shape if isinstance(said, torch.Tensor) else []
        for s in sizes:
            if isinstance(s, torch.SymInt):
                return ranges_of(s.node.shape_env.var_to_range)
    return {}


def _in_parts(graph: Any, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Compiles what is between calls that are not supported; these run in torch. A part of which more turns out to be refused, as what
    comes after a refused call does, is divided again."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    _, refused = import_graph(graph, {})
    for node, reason in refused.items():
        STATISTICS.eager.setdefault(str(node.target), reason)
    parts = CapabilityBasedPartitioner(
        graph,
        create_op_support(
            lambda _, node: node.op == "call_function" and node not in refused and not _calls_graphs(node)
        ),
        allows_single_node_partition=True,
    )
    split = parts.partition_and_fuse()
    for name, part in list(split.named_children()):
        imported, why = import_graph(part, {})
        compiled = (
            _callable(imported, options)
            if imported is not None
            else _in_parts(part, options)
            if refused and why
            else None
        )
        if compiled is not None:
            outputs = next(n for n in part.graph.nodes if n.op == "output").args[0]
            setattr(split, name, _part(compiled, isinstance(outputs, (tuple, list))))
    split.recompile()
    forward: Callable[..., Any] = split.forward
    return forward


def _calls_graphs(node: Any) -> bool:
    """Whether a node calls graphs within its graph, which no part of the graph can take as inputs."""
    return operator_name(node.target) in CONTROL_FLOW


def _part(compiled: Callable[..., Any], several: bool) -> Any:
    """A compiled part as a module of torch."""
    import torch

    class Part(torch.nn.Module):  # type: ignore[misc]  # torch is not read by mypy
        def forward(self, *args: Any) -> Any:
            results = compiled(*args)
            return results if several or not isinstance(results, tuple) else results[0]

    return Part()
