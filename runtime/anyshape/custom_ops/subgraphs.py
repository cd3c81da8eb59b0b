"""Subgraphs of an ONNX model that can be custom ops of onnxruntime, each as a model of its own.

In: what is known of a model's names. Out: for a set of its nodes a `Subgraph`: the model of these nodes alone, with its weights and
constants inside, and the function that a kernel is exported of. Nodes that read nothing are constants: they belong to every subgraph that
reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from anyshape.custom_ops.c_interface import ELEMENT_TYPES
from anyshape.custom_ops.function_call import FunctionCall
from anyshape.dims import Dim, Size
from anyshape.errors import UnsupportedError
from anyshape.frontends.onnx import load
from anyshape.frontends.onnx.control import free_names, named_tensors, subgraphs
from anyshape.frontends.onnx.imported_node import draws
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.mappings import find_schema, normal_domain
from anyshape.frontends.onnx.named_values import NamedValues, overridable
from anyshape.frontends.onnx.order import sort_nodes
from anyshape.graph.unused_names import unused
from anyshape.types import ListType

MOST_CONSTANT = 1 << 14
"""Bytes up to which an operand that is known is a constant of the subgraph, whatever nodes compute it"""


@dataclass(frozen=True, kw_only=True)
class Subgraph:
    """Nodes of a model, by their places, as one call. `constants`: the places of nodes that read nothing and belong to others too."""

    places: frozenset[int]
    constants: frozenset[int]
    model: Any
    call: FunctionCall

    @property
    def inputs(self) -> list[str]:
        return [i.name for i in self.model.graph.input]

    @property
    def outputs(self) -> list[str]:
        return [o.name for o in self.model.graph.output]


class ModelGraph:
    """The main graph of a model: which nodes read what, and which of them a custom op can compute."""

    def __init__(self, known: NamedValues, dims: Mapping[str, DimBinding]) -> None:
        self.known, self.dims = known, dims
        self.model, self.graph = known.source.model, known.graph
        self.reads = [frozenset(free_names((node,))) for node in self.graph.node]
        self.producer = {name: k for k, node in enumerate(self.graph.node) for name in node.output if name}
        self.results = frozenset(o.name for o in self.graph.output)
        self._defaults = overridable(self.model)
        self.initial = {t.name for t in self.graph.initializer} | {s.values.name for s in self.graph.sparse_initializer}
        self.initial -= self._defaults
        passed = {i.name for i in self.graph.input}
        nodes = [*self.graph.node]
        numbers = {id(node): k for k, node in enumerate(nodes)}
        ordered = sort_nodes(nodes, passed | self.initial, known.source.name, results=[*self.results])
        self.order = {numbers[id(node)]: at for at, node in enumerate(ordered)}
        """The rank of each node in topological order"""
        self._opaque = {p.name for p in known.function.params} - passed
        self._opsets = {normal_domain(o.domain): o.version for o in self.model.opset_import}
        self._spelled: dict[Dim, str] = {s: name for name, s in known.named.items() if isinstance(s, Dim)}
        self._taken = set(known.named)
        self.constants = frozenset(k for k, names in enumerate(self.reads) if not names and self.obstacle(k) is None)

    def readers(self) -> list[set[int]]:
        """The places of the nodes that read results of each node."""
        readers: list[set[int]] = [set() for _ in self.reads]
        for k, names in enumerate(self.reads):
            for name in names & self.producer.keys():
                readers[self.producer[name]].add(k)
        return readers

    def defaults(self) -> dict[str, NDArray[Any]]:
        """The values of inputs that callers may leave out."""
        import onnx

        return {t.name: onnx.numpy_helper.to_array(t) for t in self.graph.initializer if t.name in self._defaults}

    def obstacle(self, place: int) -> str | None:
        """Why a custom op cannot compute a node; None if it can."""
        node = self.graph.node[place]
        domain = normal_domain(node.domain)
        if subgraphs(node) or named_tensors(node):
            return "it has graphs within it"
        if draws(find_schema(domain, node.op_type, self._opsets.get(domain, 1))) and not self._passes_on(node):
            return "it draws random numbers"
        if self._opaque.intersection(node.output):
            return "its operator is not supported"
        for name in (*self.reads[place], *filter(None, node.output)):
            if (why := self._obstacle_of(name)) is not None:
                return f"{name}: {why}"
        return None

    def _passes_on(self, node: Any) -> bool:
        """Whether the results of a node are its first operand, as those of a Dropout that is not in training."""
        values = self.known.values
        operand = values.get(node.input[0]) if node.input else None
        return operand is not None and all(values.get(name) is operand for name in node.output if name)

    def _obstacle_of(self, name: str) -> str | None:
        v = self.known.values.get(name)
        if v is None:
            return "its type is not known, since its operator is not supported or nothing reads it"
        if isinstance(v.type, ListType) or v.type.dtype not in ELEMENT_TYPES:
            return f"an op has no tensors of {v.type}"
        return "its rank is not known" if v.type.shape is None else None

    def subgraph(self, places: Collection[int]) -> Subgraph:
        """Makes a subgraph of nodes that read something. Raises AnyshapeError where it cannot be imported alone, or has no inputs."""
        read = frozenset[str]().union(*(self.reads[k] for k in places))
        own = {name for k in places for name in self.graph.node[k].output if name}
        constants = frozenset(self.producer[n] for n in read if self.producer.get(n) in self.constants)
        elsewhere = self.results.union(*(names for k, names in enumerate(self.reads) if k not in places))
        produced = own | {name for k in constants for name in self.graph.node[k].output}
        outside = [
            n for k in sorted(places) for n in self.graph.node[k].input if n and n not in produced | self.initial
        ]
        model = self._model(
            sorted({*places, *constants}),
            read,
            [*dict.fromkeys(outside)],
            [n for n in self.producer if n in own & elsewhere],
        )
        if not model.graph.input:
            raise UnsupportedError("all that it reads is constant")
        digest = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
        named = {d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim}
        function = load(model, {n: b for n, b in self.dims.items() if n in named})
        return Subgraph(
            places=frozenset(places),
            constants=constants,
            model=model,
            call=FunctionCall(f"subgraph_{digest[:12]}", function),
        )

    def _model(
        self, places: Sequence[int], read: frozenset[str], outside: Sequence[str], results: Sequence[str]
    ) -> Any:
        import onnx

        graph = onnx.GraphProto(name="subgraph")
        graph.node.extend(self.graph.node[k] for k in places)
        held = read & self.initial
        graph.initializer.extend(t for t in self.graph.initializer if t.name in held)
        graph.sparse_initializer.extend(s for s in self.graph.sparse_initializer if s.values.name in held)
        for name in outside:
            v = self.known.values[name]
            if v is not None and v.constant is not None and v.constant.nbytes <= MOST_CONSTANT:
                graph.initializer.append(onnx.numpy_helper.from_array(v.constant, name))
            else:
                graph.input.append(self.declared(name))
        graph.output.extend(self.declared(name) for name in results)
        model = onnx.helper.make_model(graph, opset_imports=self.model.opset_import, functions=self.model.functions)
        model.ir_version = self.model.ir_version
        return model

    def declared(self, name: str) -> Any:
        """The type of a value, in which equal dims have equal names."""
        import onnx

        v = self.known.values[name]
        assert v is not None and v.type.shape is not None
        dims = [self._dim(n) for n in v.type.shape]
        return onnx.helper.make_tensor_value_info(name, ELEMENT_TYPES[v.type.dtype], dims)

    def _dim(self, n: Size) -> int | str:
        if not isinstance(n, Dim):
            return n
        if n not in self._spelled:
            self._spelled[n] = unused(f"size_{len(self._spelled)}", self._taken)
        return self._spelled[n]
