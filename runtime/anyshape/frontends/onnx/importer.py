"""An ONNX model to a Function: every node through its mapping or its body, everything unsupported told at once.

The graph is read twice. First a look at the operators alone, which needs nothing built; then the translation, in which a node
that is refused poisons what depends on it, so that later refusals are found too. Declared types of intermediate values and
results are never trusted: types are inferred.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyshape.errors import AnyshapeError, DtypeError, ModelError, ShapeError, TypeRelationError, UnsupportedError
from anyshape.frontends.onnx import attributes
from anyshape.frontends.onnx.control import DEEPEST_GRAPHS, free_names, subgraphs
from anyshape.frontends.onnx.dtypes import BY_NUMBER, spell
from anyshape.frontends.onnx.fitting import Fitted, first_fit
from anyshape.frontends.onnx.functions import Body, local_functions, opsets_of, typed_body
from anyshape.frontends.onnx.imported_node import ImportedNode, check_arity, types_allowed
from anyshape.frontends.onnx.inputs import DimBinding, DimNames, check_default, check_names, input_type
from anyshape.frontends.onnx.mappings import Table, declaration, normal_domain, why_missing
from anyshape.frontends.onnx.order import sort_nodes, spell_node
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.refusals import Refusal, Refusals, repairable, within
from anyshape.frontends.onnx.resolve import DEEPEST, MOST_INLINED, Resolver
from anyshape.frontends.onnx.retold import retold
from anyshape.frontends.onnx.sparse import sparse_array
from anyshape.frontends.onnx.tensors import tensor_array
from anyshape.graph.function import Function
from anyshape.graph.value import Value, constant
from anyshape.types import ListType, TensorType

MOST_READINGS = 200

Operands = Sequence[Value | None]


@dataclass
class Scope:
    """The names of one graph or function body; None is a value that could not be made."""

    values: MutableMapping[str, Value | None]
    opsets: Mapping[str, int]
    bound: Mapping[str, Any] = field(default_factory=dict)
    """attributes of the function being inlined"""
    used: frozenset[str] = frozenset()
    """names that somebody reads"""
    inside: str = ""
    depth: int = 0
    nesting: int = 0
    """graphs around this one"""


class Import:
    """One reading of a model."""

    def __init__(
        self, read: Source, dims: Mapping[str, DimBinding] | None, table: Table, fitting: bool = False
    ) -> None:
        self.read, self.where, self.graph = read, read.name, read.model.graph
        self.dims = DimNames(dims)
        self.refusals = Refusals(self.where)
        self.opsets = opsets_of(read.model.opset_import, self.where)
        self.resolver = Resolver(table, local_functions(read.model, self.opsets, self.where), self.where)
        self.fitting = fitting
        self.fitted: list[Fitted] = []
        """Constants that nodes took in another shape than they have; only if `fitting`"""
        self.inlined = 0
        self.readings: Counter[str] = Counter()
        """How often each graph within a node was built: a loop is once more for each round of widening"""

    def function(self) -> Function:
        values = self._initializers(self.graph, self.where)
        params = self._parameters(values)
        results = [info.name for info in self.graph.output]
        nodes = sort_nodes(self.graph.node, values.keys(), self.where, results=results)
        check_names(self.graph.output, "output", self.where)
        self._check_results(self.graph, nodes, values, self.where)
        self.resolver.scan(nodes, self.opsets, self.refusals)
        self.tolerant = bool(self.refusals.found)
        scope = Scope(values, self.opsets, used=_used(nodes, results))
        self._translate(nodes, scope)
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
                made = constant(read(where=f"{place}: initializer {name!r}"), name)
            except Refusal as e:
                values[name] = None
                self.refusals.add("initializer", "", None, str(e), repr(name))
                continue
            if name in values and not _is_one(values[name], made) and name in _read_in(graph):
                raise ModelError(
                    f"{place}: two initializers are called {name!r}, and differ{repairable('keeps the last one')}"
                )
            values[name] = made
        return values

    def _parameters(self, values: dict[str, Value | None]) -> list[Value]:
        """Adds the inputs to `values`; one that an initializer has too is a constant, and no parameter."""
        check_names(self.graph.input, "input", self.where)
        params: list[Value] = []
        for info in self.graph.input:
            if info.name in values:
                check_default(info, values[info.name], self.where)
                continue
            values[info.name] = None
            try:
                made = Value(input_type(info.type, self.dims, f"{self.where}: input {info.name!r}"), info.name)
            except Refusal as e:
                self.refusals.add("input", "", None, str(e), repr(info.name))
                continue
            values[info.name] = made
            params.append(made)
        return params

    @staticmethod
    def _check_results(graph: Any, nodes: Sequence[Any], values: Mapping[str, Value | None], where: str) -> None:
        made = {name for n in nodes for name in n.output}
        if not graph.output:
            raise ModelError(f"{where}: the graph has no outputs")
        for info in graph.output:
            if info.name not in made and info.name not in values:
                raise ModelError(f"{where}: nothing produces the output {info.name!r}")

    def _translate(self, nodes: Sequence[Any], scope: Scope) -> None:
        for node in nodes:
            operands = [scope.values[name] if name else None for name in node.input]
            poisoned = any(scope.values[name] is None for name in free_names((node,)))
            made = None if poisoned else self._attempt(node, operands, scope)
            for k, name in enumerate(node.output):
                if name:
                    scope.values[name] = made[k] if made is not None and k < len(made) else None

    def _attempt(self, node: Any, operands: Operands, scope: Scope) -> Sequence[Value] | None:
        """The node's outputs; None if it is refused, or wrong in a model that is refused already."""
        source = spell_node(node) + scope.inside
        try:
            made = self._convert(node, operands, scope, source)
            self._check_outputs(node, made, scope)
            return made
        except TypeRelationError as e:
            fit = self._fit(node, operands, scope, source) if isinstance(e, ShapeError) else None
            if fit is not None and self.fitting:
                self.fitted.append(fit)
                return fit.made
            if not self.tolerant or scope.depth:
                more = "" if fit is None else repairable(f"takes {', '.join(fit.changes)}")
                told = self._retold(e, node, operands, scope, source)
                raise _placed(type(e)(f"{told}{more}"), self.where, source) from e
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

    def _fit(self, node: Any, operands: Operands, scope: Scope, source: str) -> Fitted | None:
        """What would do in place of a constant. Of operators that are one op, and stand where the model's initializers are seen."""
        if scope.depth > scope.nesting or not self._is_one_op(node, scope.opsets):
            return None
        return first_fit(node, operands, lambda others: self._convert(node, others, scope, source))

    def _retold(self, e: TypeRelationError, node: Any, operands: Operands, scope: Scope, source: str) -> str:
        """Of an operator that stands for ops; a body has nodes of its own, of which the message is."""
        domain, opset = normal_domain(node.domain), self.resolver.opset(node, scope.opsets)
        plain = self._is_one_op(node, scope.opsets)
        return retold(e, declaration(domain, node.op_type, opset), node, operands, source) if plain else str(e)

    def _is_one_op(self, node: Any, opsets: Mapping[str, int]) -> bool:
        """Neither a function nor an operator with graphs within."""
        return not any(subgraphs(node)) and callable(
            self.resolver.find(node, self.resolver.opset(node, opsets), opsets)
        )

    def _convert(self, node: Any, operands: Operands, scope: Scope, source: str) -> Sequence[Value]:
        domain, opset = normal_domain(node.domain), self.resolver.opset(node, scope.opsets)
        found = self.resolver.find(node, opset, scope.opsets)
        local = isinstance(found, Body) and (domain, node.op_type, node.overload) in self.resolver.local
        schema = None if local else declaration(domain, node.op_type, opset)
        said = attributes.by_name(node, scope.bound, f"{self.where}: {source}")
        if schema is not None:
            attributes.check(said, schema, f"{self.where}: {source}")
            check_arity(node, schema, f"{self.where}: {source}")
        if found is None and schema is not None:
            found = self._typed_body(schema, opset, node, said, operands, scope)
        if found is None:
            raise Refusal(
                why_missing(self.resolver.table, domain, node.op_type, opset) + _rank_wanted(schema, operands)
            )
        if isinstance(found, Body):
            return self._inline(found, node, said, operands, scope, source)
        try:
            read = self._node(node, operands, said, schema, scope, source)
            made = self._mapped(found, read, said, source)
            unread = sorted(set(said) - read.asked)
            if schema is None and unread:  # with a declaration, attributes.check has told what is wrong
                raise Refusal(f"attribute {unread[0]} is not supported")
            return made
        except DtypeError as e:
            if types_allowed(schema, operands):
                raise Refusal(retold(e, schema, node, operands, source).removeprefix(f"{source}: ")) from e
            raise

    def _mapped(
        self, mapping: Callable[[Any], Sequence[Value]], read: ImportedNode, said: Mapping[str, Any], source: str
    ) -> Sequence[Value]:
        """What the mapping makes. It computes with attributes, of which any may be 0 or left out, and without a declaration be text or an
        array."""
        try:
            return mapping(read)
        except AnyshapeError:
            raise
        except (TypeError, ValueError, ArithmeticError) as e:
            absent = sorted(name for name in read.asked - set(said) if read.declared(name) is None)
            if not isinstance(e, ArithmeticError) and read.schema is not None and not absent:
                raise
            given = f"{', '.join(sorted(said)) or 'no attribute'} given" + (f", {', '.join(absent)} not" * bool(absent))
            raise ModelError(f"{self.where}: {source}: its attributes give no value ({e}): {given}") from e

    def _node(
        self, node: Any, operands: Operands, said: Mapping[str, Any], schema: Any, scope: Scope, source: str
    ) -> ImportedNode:
        def build_graph(graph: Any, inputs: Sequence[Value], name: str) -> Sequence[Value]:
            return self._region(graph, inputs, scope, f" in {name} of {source}")

        return ImportedNode(
            node.op_type, source, len(node.output), operands, said, schema, self.read.folder, build_graph, scope.values
        )

    def _region(self, graph: Any, inputs: Sequence[Value], scope: Scope, inside: str) -> Sequence[Value]:
        """The results of a graph within a node, whose names see those of the graphs around."""
        where = f"{self.where}:{inside.removeprefix(' in')}"
        self.inlined += len(graph.node)
        self.readings[inside] += 1
        if scope.nesting >= DEEPEST_GRAPHS or self.inlined > MOST_INLINED:
            raise Refusal(f"graphs are nested more than {DEEPEST_GRAPHS} deep, or add more than {MOST_INLINED} nodes")
        if self.readings[inside] > MOST_READINGS:
            raise Refusal("shapes change from turn to turn in too many loops around one another")
        check_names(graph.input, "input", where)
        own = self._initializers(graph, where)
        own.update((i.name, _given(v, i, where)) for i, v in zip(graph.input, inputs, strict=True))
        results = [info.name for info in graph.output]
        nodes = sort_nodes(graph.node, own.keys(), where, scope.values.keys(), results)
        self._check_results(graph, nodes, {**scope.values, **own}, where)
        used = _used(nodes, results)
        values = ChainMap(own, scope.values)
        inner = Scope(values, scope.opsets, scope.bound, used, inside, scope.depth + 1, scope.nesting + 1)
        self._translate(nodes, inner)
        found = [values[name] for name in results]
        for info, made in zip(graph.output, found):
            if made is None:
                raise Refusal(f"{info.name!r} cannot be made{inside}")
            _check_declared(info, made, where)
        return [made for made in found if made is not None]

    def _typed_body(
        self, schema: Any, opset: int, node: Any, said: Mapping[str, Any], operands: Operands, scope: Scope
    ) -> Body | None:
        """ONNX's body for operands of these types, made of a copy of the node that says its attributes itself."""
        plain = type(node)()
        plain.CopyFrom(node)
        del plain.attribute[:]
        for name, a in said.items():
            plain.attribute.add().CopyFrom(a)
            plain.attribute[-1].name = name
        return typed_body(schema, opset, scope.opsets, self.where, plain, operands)

    def _inline(
        self, body: Body, node: Any, said: Mapping[str, Any], operands: Operands, scope: Scope, source: str
    ) -> Sequence[Value]:
        coming = max(len(body.nodes), self.resolver.added(node, scope.opsets))
        if scope.depth < DEEPEST and self.inlined + coming <= MOST_INLINED:
            self.inlined += len(body.nodes)
        else:
            raise Refusal(f"functions are nested more than {DEEPEST} deep, or add more than {MOST_INLINED} nodes")
        if len(operands) > len(body.inputs):
            raise ModelError(f"{source}: function {body.name} has {len(body.inputs)} inputs, got {len(operands)}")
        absent = len(body.inputs) - len(operands)
        values = dict(zip(body.inputs, [*operands, *[None] * absent]))
        used = _used(body.nodes, [inside for inside, outside in zip(body.outputs, node.output) if outside])
        inner = Scope(values, body.opsets, {**body.defaults, **said}, used, f" in {source}", scope.depth + 1)
        left_out = {name for name, v in values.items() if v is None}
        self._translate([_without(n, left_out) for n in body.nodes] if left_out else body.nodes, inner)
        made = [inner.values.get(name) for name in body.outputs]
        lost = [name for name, v in zip(body.outputs, made) if v is None][: len(node.output)]
        if lost and any(name and made[k] is None for k, name in enumerate(node.output) if k < len(made)):
            raise Refusal(f"its output {lost[0]} needs an input that is left out")
        return made  # type: ignore[return-value]  # only outputs nobody names can be None

    def _check_outputs(self, node: Any, made: Sequence[Value], scope: Scope) -> None:
        """An output that the mapping does not compute matters only if somebody reads it."""
        for k, name in enumerate(node.output):
            if name in scope.used and k >= len(made):
                raise Refusal(f"output {k} ({name!r}) is not computed")

    def _finish(self, params: Sequence[Value], scope: Scope) -> Function:
        results: list[Value] = []
        for info in self.graph.output:
            made = scope.values[info.name]
            assert made is not None
            _check_declared(info, made, self.where)
            results.append(made)
        return Function(params, results, "main", [info.name for info in self.graph.output])


def _check_declared(info: Any, made: Value, where: str) -> None:
    """Raises ModelError for a result of another dtype than the graph says."""
    said = info.type.tensor_type.elem_type if info.type.HasField("tensor_type") else 0
    if said and said in BY_NUMBER and isinstance(made.type, ListType):
        raise ModelError(f"{where}: output {info.name!r} is declared as a tensor, but what is computed is {made.type}")
    if said and BY_NUMBER.get(said) != made.type.dtype:
        raise ModelError(
            f"{where}: output {info.name!r} is declared as {spell(said)}, but what is computed is {made.type.dtype}"
        )


def _given(v: Value, info: Any, where: str) -> Value:
    """An input of a graph within a node: a scalar is a vector of one where that is what the graph wants."""
    kind = info.type.WhichOneof("value")
    if kind not in (None, "tensor_type") or isinstance(v.type, ListType):
        return _given_list(v, info, where)
    said = info.type.tensor_type
    if kind and said.elem_type and BY_NUMBER.get(said.elem_type) != v.type.dtype:
        raise ModelError(
            f"{where}: input {info.name!r} is declared as {spell(said.elem_type)}, but gets {v.type.dtype}"
        )
    if kind and said.HasField("shape") and len(said.shape.dim) == 1 and v.type.shape == ():
        from anyshape import ops

        return ops.static.reshape(v, newshape=(1,))
    return v


def _given_list(v: Value, info: Any, where: str) -> Value:
    """The same of a sequence or an optional."""
    if info.type.WhichOneof("value") is not None:
        wanted = input_type(info.type, DimNames(None), where)
        if wanted.dtype is not v.type.dtype or _kinds(wanted) != _kinds(v.type):
            raise ModelError(f"{where}: input {info.name!r} is declared as {wanted}, but gets {v.type}")
    return v


def _kinds(t: TensorType) -> tuple[object, ...]:
    """Lists and optionals from the outside in, and the dtype of the tensors."""
    return (t.optional, *_kinds(t.element)) if isinstance(t, ListType) else (t.dtype,)


def _rank_wanted(schema: Any, operands: Operands) -> str:
    """That ONNX has a body for the operator if only ranks were known."""
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
    """The node with inputs that the caller left out left out here too."""
    if not absent.intersection(node.input):
        return node
    made = type(node)()
    made.CopyFrom(node)
    for k, name in enumerate(made.input):
        if name in absent:
            made.input[k] = ""
    return made


def _placed(e: AnyshapeError, where: str, source: str) -> AnyshapeError:
    """The same error, naming file and node."""
    text = str(e) if source in str(e) else f"{e} (at {source})"
    return type(e)(text if text.startswith(where) else f"{where}: {text}")
