"""Infers and optimises the value of every name of a model, for tools that go on working with the ONNX graph itself.

In: a model. Out: its live nodes in order, and for each name its optimised Value. Nodes that have no mapping, or that an import would
refuse, are allowed: of their outputs only the type is known that ONNX's own inference says. Dead nodes are left out, so that nothing is
concluded from checks that never run.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from anyshape.dims import Dim, Facts, Size, fresh, substitute
from anyshape.dtypes import CHAR
from anyshape.errors import AnyshapeError, ModelError, ShapeError, UnsupportedError
from anyshape.frontends.onnx.control import free_names, named_tensors
from anyshape.frontends.onnx.dtypes import BY_NUMBER, declared_dims
from anyshape.frontends.onnx.edge import model_errors
from anyshape.frontends.onnx.imported_node import SEED, ImportedNode, draws
from anyshape.frontends.onnx.importer import Import, NameScope, Operands
from anyshape.frontends.onnx.inputs import DimBinding, check_default, check_names
from anyshape.frontends.onnx.mappings import all_mappings
from anyshape.frontends.onnx.order import sort_nodes, spell_node
from anyshape.frontends.onnx.reader import Source
from anyshape.graph.entry_checks import EntryFacts
from anyshape.graph.function import UNNAMED, Function, topological
from anyshape.graph.regions import inner_param, rebuilt_over
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.types import ListType, TensorType

SINCE_DEFAULTS = 4
"""The version of ONNX's file format from which an initializer that is an input too is a default that callers may override"""


@dataclass(frozen=True, kw_only=True)
class NamedValues:
    """What is known of the model's graph, or of one within a node. `values` has the optimised value of each live name, None where nothing
    is known; `named` has the dims that the inputs name, by their spelling in the file."""

    source: Source
    graph: Any
    nodes: Sequence[Any]
    values: Mapping[str, Value | None]
    facts: Facts
    named: Mapping[str, Size]
    look: Callable[[str, Any, Any, Mapping[str, Value | None]], NamedValues | None]
    rebuild: Callable[[Any, Operands], Sequence[Value | None] | None]
    """Builds a node with other operands; None where it is refused, or its operator is not known"""
    function: Function
    """The optimised function of which the values are the results; its parameters are inputs, and what nodes that are not supported give"""
    inside: str = ""
    """The place of the graph in the model; empty for the model's own"""
    around: Mapping[str, Value] = field(default_factory=dict)
    """What this graph sees of the values of graphs around it that it is computed from"""
    visible: Mapping[str, Value | None] = field(default_factory=dict)
    """The values of the graphs around by their names, optimised as they are there"""

    @cached_property
    def visible_within(self) -> Mapping[str, Value | None]:
        return {**self.visible, **self.values}

    def within(self, node: Any, attribute: str, graph: Any) -> NamedValues | None:
        """Returns the values of a graph within a node; None if nothing is known of it."""
        return self.look(f" in {attribute} of {spell_node(node)}{self.inside}", node, graph, self.visible_within)


def named_values(read: Source, dims: Mapping[str, DimBinding] | None = None, as_compiled: bool = False) -> NamedValues:
    """Imports a model and returns the values of its names. Raises ModelError for a damaged model, and no error but an AnyshapeError.

    `as_compiled`: the model is taken as `compile` takes it. Initializers that are defaults of inputs are constants, and a node whose
    operands cannot fit is a TypeRelationError instead of a node of which nothing is known.
    """
    with model_errors(read.name):
        return _NamingImport(read, dims, as_compiled).named_values()


def check_mergeable(read: Source) -> None:
    """Raises UnsupportedError for a model in which equal values may not be merged."""
    if read.model.training_info:
        raise UnsupportedError(
            f"{read.name}: it has training information, and which parts of the graph that needs is not known"
        )
    if any(named_tensors(node) for node in read.model.graph.node):
        raise UnsupportedError(
            f"{read.name}: attributes name tensors to differentiate by, and merging equal values would change these"
        )


class _NamingImport(Import):
    """An import that keeps the names, and continues after nodes that are not supported."""

    def __init__(self, read: Source, dims: Mapping[str, DimBinding] | None, as_compiled: bool) -> None:
        super().__init__(read, dims, all_mappings())
        self.as_compiled = as_compiled

    def named_values(self) -> NamedValues:
        values = self._initializers(self.graph, self.where)
        inputs = {info.name: info for info in self.graph.input}
        for name in overridable(self.read.model) if not self.as_compiled else ():
            check_default(inputs[name], values.pop(name), self.where)
        params = self._parameters(values)
        check_names(self.graph.output, "output", self.where)
        nodes = live_nodes(
            sort_nodes(self.graph.node, values.keys(), self.where, results=[o.name for o in self.graph.output]),
            self.graph.output,
        )
        self._check_results(self.graph, self.graph.node, values, self.where)
        self.tolerant = not self.as_compiled
        self.opaque: list[Value] = []
        self.stated: Mapping[str, TensorType] | None = None
        self.within: dict[str, tuple[Sequence[Any], ChainMap[str, Value | None]]] = {}
        """Nodes and names of graphs within nodes, as they were built last: those of a loop after its types were widened"""
        self.labelled: dict[str, Sequence[str]] = {}
        """The outputs of the first node of each label"""
        self.ambiguous: set[str] = set()
        """Labels that several nodes of one graph have"""
        used = frozenset((*free_names(nodes), *(o.name for o in self.graph.output)))
        scope = NameScope(values, self.opsets, used=used)
        self._translate(nodes, scope)
        self.dims.check_used(self.where)
        known = {name: v for name, v in scope.values.items() if v is not None}
        f = Function([*params, *self.opaque], list(known.values()), UNNAMED, list(known))
        best = optimised(f) if self.as_compiled else _best(f)
        final: dict[str, Value | None] = dict.fromkeys(scope.values)
        final.update(zip(known, best.results, strict=True))
        return NamedValues(
            source=self.read,
            graph=self.graph,
            nodes=nodes,
            values=final,
            facts=EntryFacts(best).facts,
            named=self.dims.sizes,
            look=self.look,
            rebuild=self.rebuild,
            function=best,
        )

    def look(self, inside: str, node: Any, graph: Any, visible: Mapping[str, Value | None]) -> NamedValues | None:
        """Returns the values of a graph within a node, optimised as a function of the values around that it reads, whose results are its
        names. `visible` are those values as they are known around."""
        if inside not in self.within or any(inside.endswith(f" of {label}") for label in self.ambiguous):
            return None
        nodes, names = self.within[inside]
        if _spelled(nodes) != _spelled(graph.node):
            return None  # the entry is of another node of the same name
        live = live_nodes(nodes, graph.output)
        dead = {o for n in nodes for o in n.output}.difference(*(n.output for n in live))
        own = {name: v for name, v in names.maps[0].items() if name not in dead}
        known = {name: v for name, v in own.items() if v is not None}
        read = dict.fromkeys((*free_names(live), *(o.name for o in graph.output), *node.input))
        around = {n: v for n in read if n not in names.maps[0] and (v := names.get(n)) is not None}
        inner, seen = _over(known.values(), around, visible)
        best = _best(Function(inner.params, inner.results, "inner", [*known]))
        final: dict[str, Value | None] = dict.fromkeys(own)
        final.update(zip(known, best.results))
        return NamedValues(
            source=self.read,
            graph=graph,
            nodes=live,
            values=final,
            facts=EntryFacts(best).facts,
            named=self.dims.sizes,
            look=self.look,
            rebuild=self.rebuild,
            function=best,
            inside=inside,
            around=seen,
            visible=visible,
        )

    def _translate(self, nodes: Sequence[Any], scope: NameScope) -> None:
        if scope.depth:
            self.within.pop(scope.inside, None)
            super()._translate(nodes, scope)
            if isinstance(scope.values, ChainMap):
                self.within[scope.inside] = (nodes, scope.values)
            return
        for node in nodes:
            super()._translate([node], scope)
            for name in node.output:
                if name and scope.values[name] is None:
                    scope.values[name] = self._stranger(name)
                    self._forget_within(node)

    def _node(
        self, node: Any, operands: Operands, said: Mapping[str, Any], schema: Any, scope: NameScope, source: str
    ) -> ImportedNode:
        """Makes the node without the seed of an operator that draws random numbers: other runtimes draw other numbers by the same seed, so
        no two draws may be taken for equal. Labels of several nodes are noted."""
        if self.labelled.setdefault(source, node.output) != node.output:
            self.ambiguous.add(source)
        if draws(schema):
            said = {name: a for name, a in said.items() if name != SEED}
        return super()._node(node, operands, said, schema, scope, source)

    def rebuild(self, node: Any, operands: Operands) -> Sequence[Value | None] | None:
        """Builds a node with other operands, if its operator is one op; None for others, and where it is refused."""
        if not self._is_one_op(node, self.opsets):
            return None
        try:
            return self._convert(node, operands, NameScope({}, self.opsets), spell_node(node))
        except AnyshapeError:
            return None

    def _forget_within(self, node: Any) -> None:
        """Drops the graphs in a node that could not be imported: they were not built to the end."""
        for inside in [k for k in self.within if k.endswith(f" of {spell_node(node)}")]:
            del self.within[inside]

    def _stranger(self, name: str) -> Value | None:
        """Makes a parameter of the type that ONNX's inference gives the name; None if it gives none."""
        if self.stated is None:
            self.stated = _inferred_by_onnx(self.read.model)
        if name not in self.stated:
            return None
        self.opaque.append(Value(self.stated[name], name))
        return self.opaque[-1]


def _over(
    results: Iterable[Value], around: Mapping[str, Value], visible: Mapping[str, Value | None]
) -> tuple[Function, dict[str, Value]]:
    """Closes the values of a graph over those around, which become parameters of the types that they have there, or constants; and what
    each of these is in the function."""
    results, taken, symbols = [*results], set[str](), dict[Dim, Size]()
    known = {name: v if (best := visible.get(name)) is None else best for name, v in around.items()}
    seen = {name: v if v.is_constant else inner_param(v, unused(name, taken)) for name, v in known.items()}
    for name, v in around.items():
        _respell(symbols, v, known[name])
    final = {v: seen[name] for name, v in around.items()}
    nodes = topological(results, {v.node for v in around.values() if v.node is not None})
    read = dict.fromkeys((*(v for n in nodes for v in n.inputs if v is not None), *results))
    for v in read:
        if v.is_param and v not in final:
            contents = None if v.contents is None else tuple(substitute(e, symbols) for e in v.contents)
            final[v] = Value(v.type.substitute(symbols), unused(v.name, taken), contents=contents)
    mapped = rebuilt_over(nodes, final, None)
    closed = [mapped.get(v, v) for v in results]
    needed = dict.fromkeys((*closed, *(v for n in topological(closed) for v in n.inputs if v is not None)))
    return Function([v for v in needed if v.is_param], closed, "inner"), seen


def _respell(symbols: dict[Dim, Size], v: Value, known: Value) -> None:
    """Notes which sizes the symbols of a value are by what is known of it."""
    if isinstance(v.type, ListType) or isinstance(known.type, ListType):
        return
    dims = zip(declared_dims(v.type) or (), declared_dims(known.type) or ())
    elements = zip(v.contents or (), known.contents or ())
    for s, n in (*dims, *elements):
        if isinstance(s, Dim) and s.is_symbol and isinstance(n, int | Dim) and not isinstance(n, bool) and s is not n:
            symbols.setdefault(s, n)


def _spelled(nodes: Iterable[Any]) -> list[bytes]:
    return sorted(n.SerializeToString(deterministic=True) for n in nodes)


def optimised(f: Function) -> Function:
    """Optimises twice: what the first run learns of entry dims holds for nodes before the one it was learned from, too."""
    from anyshape.passes import infer_types, optimise

    return optimise(infer_types(optimise(f)))


def _best(f: Function) -> Function:
    try:
        return optimised(f)
    except ShapeError:  # a model that fails for all inputs; a run of it has the better message
        return f


def overridable(model: Any) -> set[str]:
    """Lists the initializers that are defaults of inputs."""
    if model.ir_version < SINCE_DEFAULTS:
        return set()
    graph = model.graph
    initial = [*(t.name for t in graph.initializer), *(s.values.name for s in graph.sparse_initializer)]
    return {i.name for i in graph.input}.intersection(initial)


def live_nodes(nodes: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Selects the nodes that the outputs need, in the same order."""
    needed = {o.name for o in outputs}
    live: list[Any] = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            live.append(node)
            needed.update(free_names((node,)))
    return live[::-1]


def _inferred_by_onnx(model: Any) -> dict[str, TensorType]:
    """Collects the tensor types of values as far as ONNX infers them; its numbers for dims are used, its names are not trusted."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (ValueError, RuntimeError, ModelError):  # its inference gives up on damaged and on huge models
        graph = model.graph
    types: dict[str, TensorType] = {}
    for info in (*graph.value_info, *graph.output):
        t = info.type.tensor_type
        if not info.type.HasField("tensor_type") or t.elem_type not in BY_NUMBER:
            continue
        shape = tuple(_size(d) for d in t.shape.dim) if t.HasField("shape") else None
        dtype = BY_NUMBER[t.elem_type]
        types[info.name] = TensorType(dtype, shape if shape is None or dtype is not CHAR else (*shape, fresh("?")))
    return types


def _size(d: Any) -> int | Dim:
    return int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else fresh("?")
