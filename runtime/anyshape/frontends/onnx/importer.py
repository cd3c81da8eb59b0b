"""Imports an ONNX model as a Function: every node by its mapping or its body; one error lists everything that is not supported.

The graph is read twice: a scan of the operators, which builds nothing, and the translation, in which the results of a refused node, and
all that depends on them, have no value, so that later refusals are found too. Declared types of intermediate values and results are
never trusted: types are inferred.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from anyshape.errors import AnyshapeError, DtypeError, ModelError, ShapeError, TypeRelationError, UnsupportedError
from anyshape.frontends.onnx import attributes
from anyshape.frontends.onnx.control import DEEPEST_GRAPHS, free_names, subgraphs
from anyshape.frontends.onnx.dtypes import BY_NUMBER, spell
from anyshape.frontends.onnx.fitting import Fitted, first_fit
from anyshape.frontends.onnx.functions import FunctionBody, local_functions, opsets_of, typed_body
from anyshape.frontends.onnx.imported_node import ImportedNode, check_arity, types_allowed
from anyshape.frontends.onnx.inputs import DimBinding, DimNames, check_default, check_names, input_type
from anyshape.frontends.onnx.mappings import Table, declaration, normal_domain, why_missing
from anyshape.frontends.onnx.maps import columns_of, left_out
from anyshape.frontends.onnx.node_message import node_message
from anyshape.frontends.onnx.order import sort_nodes, spell_node
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.refusals import ImportRefusal, Refusals, repairable, within
from anyshape.frontends.onnx.resolve import DEEPEST, MOST_INLINED, Resolver
from anyshape.frontends.onnx.sparse import sparse_array
from anyshape.frontends.onnx.tensors import tensor_array
from anyshape.graph.function import UNNAMED, Function
from anyshape.graph.value import Value, constant
from anyshape.types import ListType, TensorType
from anyshape.wording import counted

MOST_READINGS = 200

Operands = Sequence[Value | None]


@dataclass
class NameScope:
    """The names of one graph or function body; None stands for a value that could not be computed."""

    values: MutableMapping[str, Value | None]
    opsets: Mapping[str, int]
    bound: Mapping[str, Any] = field(default_factory=dict)
    """attributes of the function being inlined"""
    _: KW_ONLY
    used: frozenset[str] = frozenset()
    """names that are read"""
    inside: str = ""
    depth: int = 0
    nesting: int = 0
    """number of graphs around the scope's own"""


class Import:
    """The import of one model."""

    def __init__(
        self, read: Source, dims: Mapping[str, DimBinding] | None, table: Table, fitting: bool = False
    ) -> None:
        self.read, self.where, self.graph = read, read.name, read.model.graph
        self.dims = DimNames(dims)
        self.refusals = Refusals(self.where)
        self.opsets = opsets_of(read.model.opset_import, self.graph.node, self.where)
        self.resolver = Resolver(table, local_functions(read.model, self.opsets, self.where), self.where)
        self.fitting = fitting
        self.fitted: list[Fitted] = []
        """Constants that nodes accepted in another shape; only if `fitting`"""
        self.inlined = 0
        self.readings: Counter[str] = Counter()
        """How often each graph within a node was built: a loop's body is built again in each round of widening"""

    def function(self) -> Function:
        values = self._initializers(self.graph, self.where)
        params = self._parameters(values)
        self.columns = columns_of(self.graph, self.where)
        results = [info.name for info in self.graph.output]
        sorted_nodes = sort_nodes(self.graph.node, values.keys(), self.where, results=results)
        nodes = left_out(sorted_nodes, self.columns)
        results = [self.columns[name].tensor if name in self.columns else name for name in results]
        check_names(self.graph.output, "output", self.where)
        self._check_results(self.graph, sorted_nodes, values, self.where)
        self.resolver.scan(nodes, self.opsets, self.refusals)
        self.tolerant = bool(self.refusals.by_reason)
        scope = NameScope(values, self.opsets, used=_used(nodes, results))
        self._translate(nodes, scope)
        for name, of in self.columns.items():
            scope.values[name] = of.checked(scope.values[of.tensor], self.where)
        self.refusals.finish()
        self.dims.check_used(self.where)
        return self._finish(params, scope)

    def _initializers(self, graph: Any, place: str) -> dict[str, Value | None]:
        weights, folder = self.read.weights if graph is self.graph else {}, self.read.folder
        readers: list[tuple[str, Callable[..., Any]]] = []
        for k, t in enumerate(graph.initializer):
            readers.append((t.name, partial(tensor_array, t, folder, raw=weights.get(k))))
        for s in graph.sparse_initializer:
            readers.append((s.values.name, partial(sparse_array, s, folder)))
        values: dict[str, Value | None] = {}
        for name, read in readers:
            if not name:
                continue  # nobody can read it
            try:
                value = constant(read(where=f"{place}: initializer {name!r}"), name)
            except ImportRefusal as e:
                values[name] = None
                self.refusals.add("initializer", "", None, str(e), repr(name))
                continue
            if name in values and not _is_one(values[name], value) and name in _read_in(graph):
                raise ModelError(
                    f"{place}: two different initializers have the name {name!r}{repairable('keeps the last one')}"
                )
            values[name] = value
        return values

    def _parameters(self, values: dict[str, Value | None]) -> list[Value]:
        """Adds the inputs to `values` and returns the parameters; an input with an initializer is a constant, and no parameter."""
        check_names(self.graph.input, "input", self.where)
        params: list[Value] = []
        for info in self.graph.input:
            if info.name in values:
                check_default(info, values[info.name], self.where)
                continue
            values[info.name] = None
            try:
                declared = input_type(info.type, self.dims, f"{self.where}: input {info.name!r}", info.name)
                param = Value(declared, info.name)
            except ImportRefusal as e:
                self.refusals.add("input", "", None, str(e), repr(info.name))
                continue
            values[info.name] = param
            params.append(param)
        return params

    @staticmethod
    def _check_results(graph: Any, nodes: Sequence[Any], values: Mapping[str, Value | None], where: str) -> None:
        produced = {name for n in nodes for name in n.output}
        if not graph.output:
            raise ModelError(f"{where}: the graph has no outputs")
        for info in graph.output:
            if info.name not in produced and info.name not in values:
                raise ModelError(f"{where}: nothing produces the output {info.name!r}")

    def _translate(self, nodes: Sequence[Any], scope: NameScope) -> None:
        for node in nodes:
            operands = [scope.values[name] if name else None for name in node.input]
            poisoned = any(scope.values[name] is None for name in free_names((node,)))
            results = None if poisoned else self._attempt(node, operands, scope)
            for k, name in enumerate(node.output):
                if name:
                    scope.values[name] = results[k] if results is not None and k < len(results) else None

    def _attempt(self, node: Any, operands: Operands, scope: NameScope) -> Sequence[Value | None] | None:
        """Converts a node; returns None if it is refused, or if it is wrong in a model that is refused already."""
        source = spell_node(node) + scope.inside
        try:
            results = self._convert(node, operands, scope, source)
            self._check_outputs(node, results, scope)
            return results
        except TypeRelationError as e:
            fit = self._fit(node, operands, scope, source) if isinstance(e, ShapeError) else None
            if fit is not None and self.fitting:
                self.fitted.append(fit)
                return fit.results
            if not self.tolerant or scope.depth:
                more = "" if fit is None else repairable(f"takes {', '.join(fit.changes)}")
                message = self._message(e, node, operands, scope, source)
                raise _placed(type(e)(f"{message}{more}"), self.where, source) from e
        except UnsupportedError as e:
            if scope.depth:
                raise within(node.op_type, e) from None
            domain = normal_domain(node.domain)
            if not self.tolerant or not self.resolver.lacks_anywhere(node, scope.opsets):
                self.refusals.add(node.op_type, domain, self.resolver.opset(node, scope.opsets), str(e), source)
        except AnyshapeError as e:
            if not self.tolerant or scope.depth:
                raise _placed(e, self.where, source) from e
        return None

    def _fit(self, node: Any, operands: Operands, scope: NameScope, source: str) -> Fitted | None:
        """Finds other shapes of constants with which the node is accepted. Only an operator that is one op, in a graph that sees the
        model's initializers, is tried."""
        if scope.depth > scope.nesting or not self._is_one_op(node, scope.opsets):
            return None
        return first_fit(node, operands, lambda fitted: self._convert(node, fitted, scope, source))

    def _message(self, e: TypeRelationError, node: Any, operands: Operands, scope: NameScope, source: str) -> str:
        """Words an error in terms of the node. An error in a body is worded in terms of the body's own nodes already."""
        domain, opset = normal_domain(node.domain), self.resolver.opset(node, scope.opsets)
        plain = self._is_one_op(node, scope.opsets)
        return node_message(e, declaration(domain, node.op_type, opset), node, operands, source) if plain else str(e)

    def _is_one_op(self, node: Any, opsets: Mapping[str, int]) -> bool:
        """Whether a node is neither a call of a function nor an operator with graphs in it."""
        return not any(subgraphs(node)) and callable(
            self.resolver.find(node, self.resolver.opset(node, opsets), opsets)
        )

    def _convert(self, node: Any, operands: Operands, scope: NameScope, source: str) -> Sequence[Value | None]:
        domain, opset = normal_domain(node.domain), self.resolver.opset(node, scope.opsets)
        target = self.resolver.find(node, opset, scope.opsets)
        local = isinstance(target, FunctionBody) and (domain, node.op_type, node.overload) in self.resolver.local
        schema = None if local else declaration(domain, node.op_type, opset)
        said = attributes.by_name(node, scope.bound, f"{self.where}: {source}")
        if schema is not None:
            attributes.check(said, schema, f"{self.where}: {source}")
            check_arity(node, schema, f"{self.where}: {source}")
        if target is None and schema is not None:
            target = self._typed_body(schema, opset, node, said, operands, scope)
        if target is None:
            raise ImportRefusal(
                why_missing(self.resolver.table, domain, node.op_type, opset) + _rank_is_missing(schema, operands)
            )
        if isinstance(target, FunctionBody):
            return self._inline(target, node, said, operands, scope, source)
        try:
            read = self._node(node, operands, said, schema, scope, source)
            results = self._mapped(target, read, said, source)
            unread = sorted(set(said) - read.asked)
            if schema is None and unread:  # where there is a declaration, attributes.check has refused unknown names
                raise ImportRefusal(f"attribute {unread[0]} is not supported")
            return results
        except DtypeError as e:
            if types_allowed(schema, operands):
                raise ImportRefusal(node_message(e, schema, node, operands, source).removeprefix(f"{source}: ")) from e
            raise

    def _mapped(
        self, mapping: Callable[[Any], Sequence[Value]], read: ImportedNode, said: Mapping[str, Any], source: str
    ) -> Sequence[Value]:
        """Calls the mapping. It computes with attributes, any of which may be 0 or absent, or of any type where ONNX declares nothing:
        Python's errors about them become a ModelError."""
        try:
            return mapping(read)
        except AnyshapeError:
            raise
        except (TypeError, ValueError, ArithmeticError) as e:
            provided = {name for name, a in said.items() if not attributes.is_empty(a) or read.requires(name)}
            absent = sorted(name for name in read.asked - provided if read.declared(name) is None)
            if not isinstance(e, ArithmeticError) and read.schema is not None and not absent:
                raise
            present = f"{', '.join(sorted(provided)) or 'no attribute'} given" + (
                f", {', '.join(absent)} not" * bool(absent)
            )
            raise ModelError(f"{self.where}: {source}: its attributes are invalid ({e}): {present}") from e

    def _node(
        self, node: Any, operands: Operands, said: Mapping[str, Any], schema: Any, scope: NameScope, source: str
    ) -> ImportedNode:
        def build_graph(graph: Any, inputs: Sequence[Value], name: str) -> Sequence[Value]:
            return self._region(graph, inputs, scope, f" in {name} of {source}")

        return ImportedNode(
            op=node.op_type,
            source=source,
            output_count=len(node.output),
            operands=operands,
            said=said,
            schema=schema,
            folder=self.read.folder,
            build_graph=build_graph,
            values=scope.values,
        )

    def _region(self, graph: Any, inputs: Sequence[Value], scope: NameScope, inside: str) -> Sequence[Value]:
        """Imports a graph within a node, which may read values of the graphs around it; returns its results."""
        where = f"{self.where}:{inside.removeprefix(' in')}"
        self.inlined += len(graph.node)
        self.readings[inside] += 1
        if scope.nesting >= DEEPEST_GRAPHS or self.inlined > MOST_INLINED:
            raise ImportRefusal(
                f"graphs are nested more than {DEEPEST_GRAPHS} deep, or add more than {MOST_INLINED} nodes"
            )
        if self.readings[inside] > MOST_READINGS:
            raise ImportRefusal("shapes change between iterations in too many nested loops")
        check_names(graph.input, "input", where)
        own = self._initializers(graph, where)
        own.update((i.name, _region_input(v, i, where)) for i, v in zip(graph.input, inputs, strict=True))
        results = [info.name for info in graph.output]
        nodes = sort_nodes(graph.node, own.keys(), where, scope.values.keys(), results)
        self._check_results(graph, nodes, {**scope.values, **own}, where)
        used = _used(nodes, results)
        values = ChainMap(own, scope.values)
        inner = NameScope(
            values,
            scope.opsets,
            scope.bound,
            used=used,
            inside=inside,
            depth=scope.depth + 1,
            nesting=scope.nesting + 1,
        )
        self._translate(nodes, inner)
        outputs = [values[name] for name in results]
        for info, value in zip(graph.output, outputs):
            if value is None:
                raise ImportRefusal(f"{info.name!r} cannot be computed{inside}")
            _check_declared(info, value, where)
        return [value for value in outputs if value is not None]

    def _typed_body(
        self, schema: Any, opset: int, node: Any, said: Mapping[str, Any], operands: Operands, scope: NameScope
    ) -> FunctionBody | None:
        """Asks ONNX for the body for operands of these types, with a copy of the node in which all attributes have values."""
        plain = type(node)()
        plain.CopyFrom(node)
        del plain.attribute[:]
        for name, a in said.items():
            plain.attribute.add().CopyFrom(a)
            plain.attribute[-1].name = name
        return typed_body(schema, opset, scope.opsets, self.where, plain, operands)

    def _inline(
        self, body: FunctionBody, node: Any, said: Mapping[str, Any], operands: Operands, scope: NameScope, source: str
    ) -> Sequence[Value | None]:
        coming = max(len(body.nodes), self.resolver.added(node, scope.opsets))
        if scope.depth < DEEPEST and self.inlined + coming <= MOST_INLINED:
            self.inlined += len(body.nodes)
        else:
            raise ImportRefusal(f"functions are nested more than {DEEPEST} deep, or add more than {MOST_INLINED} nodes")
        if len(operands) > len(body.inputs):
            raise ModelError(
                f"{source}: function {body.name} has {counted(len(body.inputs), 'input')}, got {len(operands)}"
            )
        absent = len(body.inputs) - len(operands)
        values = dict(zip(body.inputs, [*operands, *[None] * absent]))
        used = _used(body.nodes, [inside for inside, outside in zip(body.outputs, node.output) if outside])
        inner = NameScope(
            values,
            body.opsets,
            {**body.defaults, **said},
            used=used,
            inside=f" in {source}",
            depth=scope.depth + 1,
            nesting=scope.nesting,
        )
        left_out = {name for name, v in values.items() if v is None}
        self._translate([_without(n, left_out) for n in body.nodes] if left_out else body.nodes, inner)
        computed = [inner.values.get(name) for name in body.outputs]
        lost = [name for name, v in zip(body.outputs, computed) if v is None][: len(node.output)]
        if lost and any(name and computed[k] is None for k, name in enumerate(node.output) if k < len(computed)):
            raise ImportRefusal(f"its output {lost[0]} needs an input that is left out")
        return computed

    def _check_outputs(self, node: Any, results: Sequence[Value | None], scope: NameScope) -> None:
        """Raises ImportRefusal for an output that is read and that the mapping does not compute."""
        for k, name in enumerate(node.output):
            if name in scope.used and k >= len(results):
                raise ImportRefusal(f"output {k} ({name!r}) is not computed")

    def _finish(self, params: Sequence[Value], scope: NameScope) -> Function:
        results: list[Value] = []
        for info in self.graph.output:
            value = scope.values[info.name]
            assert value is not None
            _check_declared(info, value, self.where)
            results.append(value)
        return Function(params, results, UNNAMED, [info.name for info in self.graph.output])


def _check_declared(info: Any, value: Value, where: str) -> None:
    """Raises ModelError for a result of another dtype than the graph declares."""
    said = info.type.tensor_type.elem_type if info.type.HasField("tensor_type") else 0
    if said and said in BY_NUMBER and isinstance(value.type, ListType):
        raise ModelError(f"{where}: output {info.name!r} is declared as a tensor, but the result is {value.type}")
    if said and BY_NUMBER.get(said) != value.type.dtype:
        raise ModelError(
            f"{where}: output {info.name!r} is declared as {spell(said)}, but what is computed is {value.type.dtype}"
        )


def _region_input(v: Value, info: Any, where: str) -> Value:
    """Checks an input of a graph within a node; a scalar is reshaped where the graph declares a vector of one element."""
    kind = info.type.WhichOneof("value")
    if kind not in (None, "tensor_type") or isinstance(v.type, ListType):
        return _checked_list(v, info, where)
    said = info.type.tensor_type
    if kind and said.elem_type and BY_NUMBER.get(said.elem_type) != v.type.dtype:
        raise ModelError(
            f"{where}: input {info.name!r} is declared as {spell(said.elem_type)}, but gets {v.type.dtype}"
        )
    if kind and said.HasField("shape") and len(said.shape.dim) == 1 and v.type.shape == ():
        from anyshape import ops

        return ops.static.reshape(v, newshape=(1,))
    return v


def _checked_list(v: Value, info: Any, where: str) -> Value:
    """Checks a sequence or an optional that is passed to a graph within a node."""
    if info.type.WhichOneof("value") is not None:
        declared = input_type(info.type, DimNames(None), where)
        if declared.dtype is not v.type.dtype or _kinds(declared) != _kinds(v.type):
            raise ModelError(f"{where}: input {info.name!r} is declared as {declared}, but gets {v.type}")
    return v


def _kinds(t: TensorType) -> tuple[object, ...]:
    """Flattens a type: lists and optionals from the outside in, then the dtype of the tensors."""
    return (t.optional, *_kinds(t.element)) if isinstance(t, ListType) else (t.dtype,)


def _rank_is_missing(schema: Any, operands: Operands) -> str:
    """Words for an operator that ONNX defines by a body that depends on a rank which is not known; empty for others."""
    unknown = [v for v in operands if v is not None and not isinstance(v.type, ListType) and v.type.shape is None]
    if schema is None or not schema.has_context_dependent_function or not unknown:
        return ""
    return f", and a body that depends on the rank of {unknown[0].name or 'an input'}, which is not known"


def _is_one(a: Value | None, b: Value) -> bool:
    """Whether two constants are equal to the last bit."""
    if a is None or a.constant is None or b.constant is None or a.type != b.type:
        return False
    return a.constant.tobytes() == b.constant.tobytes()


def _read_in(graph: Any) -> frozenset[str]:
    return _used(graph.node, [info.name for info in graph.output])


def _used(nodes: Sequence[Any], results: Sequence[str]) -> frozenset[str]:
    return frozenset(free_names(nodes)).union(results) - {""}


def _without(node: Any, absent: set[str]) -> Any:
    """Leaves out the inputs of a node that the caller of the body left out."""
    if not absent.intersection(node.input):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    for k, name in enumerate(copy.input):
        if name in absent:
            copy.input[k] = ""
    return copy


def _placed(e: AnyshapeError, where: str, source: str) -> AnyshapeError:
    """Adds the file and the node to the message of an error."""
    text = str(e) if source in str(e) else f"{e} (at {source})"
    return type(e)(text if text.startswith(where) else f"{where}: {text}")
