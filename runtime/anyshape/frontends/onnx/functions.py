"""Reads operators that are defined by graphs of others: functions of the model itself, and the bodies in ONNX's declarations.

Both become a `FunctionBody`: names of inputs, outputs and attributes, and nodes in topological order under opsets of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dims import exact_text
from anyshape.errors import ModelError
from anyshape.frontends.onnx.control import subgraphs
from anyshape.frontends.onnx.dtypes import NUMBER_OF, declared_dims
from anyshape.frontends.onnx.mappings import all_mappings, find_mapping, find_schema, normal_domain
from anyshape.frontends.onnx.order import sort_nodes
from anyshape.frontends.onnx.refusals import repairable
from anyshape.graph.value import Value
from anyshape.types import ListType, TensorType

NEWEST = 100_000
"""The largest number of an opset that is believed; a larger one means a damaged file"""


@dataclass(frozen=True, kw_only=True)
class FunctionBody:
    """A graph to inline in place of one node. `defaults` are attributes that the node may leave out."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Any, ...]
    opsets: Mapping[str, int]
    defaults: Mapping[str, Any]


def opsets_of(imports: Sequence[Any], nodes: Iterable[Any], where: str) -> dict[str, int]:
    """Maps domains to versions, from entries of opset_import. Of a domain that is imported twice the standard takes the highest version,
    and onnxruntime the last: these must be one, or mean the same for all `nodes`."""
    versions: dict[str, int] = {}
    for o in imports:
        domain = normal_domain(o.domain)
        if not 1 <= o.version <= NEWEST:
            raise ModelError(f"{where}: opset {o.version} of {o.domain or 'ai.onnx'} does not exist")
        highest = max(int(o.version), versions.get(domain, 0))
        if highest > o.version and not _mean_the_same(domain, nodes, o.version, highest):
            raise ModelError(
                f"{where}: it imports two opsets of {o.domain or 'ai.onnx'}, {versions[domain]} and {o.version}, "
                "in which its operators differ" + repairable("keeps the last one")
            )
        versions[domain] = highest
    return versions


def _mean_the_same(domain: str, nodes: Iterable[Any], one: int, other: int) -> bool:
    """Whether every operator of a domain that nodes and the graphs within them use is the same in two opsets: by one mapping, or by one
    declaration."""
    return all(
        (normal_domain(node.domain) != domain or _is_one_operator(domain, node.op_type, one, other))
        and all(_mean_the_same(domain, graph.node, one, other) for graph in subgraphs(node))
        for node in nodes
    )


def _is_one_operator(domain: str, op: str, one: int, other: int) -> bool:
    a, b = (find_mapping(all_mappings(), domain, op, opset) for opset in (one, other))
    if a is not None or b is not None:
        return a is b
    first, second = (find_schema(domain, op, opset) for opset in (one, other))
    return first is not None and second is not None and first.since_version == second.since_version


def body_of(proto: Any, outer: Mapping[str, int], where: str, schema: Any = None) -> FunctionBody:
    """Checks a FunctionProto and makes a FunctionBody of it. `schema` is the declaration that it comes from, if any: such bodies are
    written for the types of one call, and may leave out optional outputs. `outer` has the caller's opsets, for domains that the function
    does not import itself."""
    name = proto.name or "?"
    where = f"{where}: function {name}"
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    if len(set(inputs)) < len(inputs) or "" in inputs:
        raise ModelError(f"{where}: its inputs must have distinct names, got {', '.join(map(repr, inputs))}")
    nodes = sort_nodes(list(proto.node), set(inputs), where, results=outputs)
    defined = {o for n in nodes for o in n.output} | set(inputs)
    missing = [o for o in outputs if o not in defined]
    if missing and schema is None:
        raise ModelError(f"{where}: nothing produces its output {missing[0]!r}")
    defaults = {a.name: a for a in proto.attribute_proto}
    for key, declared in () if schema is None else schema.attributes.items():
        if declared.default_value.name:
            defaults.setdefault(key, declared.default_value)
    return FunctionBody(
        name=name,
        inputs=inputs,
        outputs=outputs,
        nodes=tuple(nodes),
        opsets={**outer, **opsets_of(proto.opset_import, proto.node, where)},
        defaults=defaults,
    )


def local_functions(model: Any, opsets: Mapping[str, int], where: str) -> dict[tuple[str, str, str], FunctionBody]:
    """Maps (domain, name, overload) to bodies of the model's own functions."""
    bodies: dict[tuple[str, str, str], FunctionBody] = {}
    for proto in model.functions:
        key = (normal_domain(proto.domain), proto.name, proto.overload)
        if key in bodies:
            raise ModelError(f"{where}: two functions have the name {proto.domain}:{proto.name}")
        bodies[key] = body_of(proto, opsets, where)
    return bodies


def has_body(schema: Any) -> bool:
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def plain_body(schema: Any, opset: int, outer: Mapping[str, int], where: str) -> FunctionBody | None:
    """Returns the body of a declaration that does not depend on types; None if it has none."""
    if not schema.has_function:
        return None
    proto = _at_opset(schema.function_opset_versions, schema.get_function_with_opset_version, opset)
    return None if proto is None else body_of(proto, outer, where, schema)


def typed_body(
    schema: Any, opset: int, outer: Mapping[str, int], where: str, node: Any, inputs: Sequence[Value | None]
) -> FunctionBody | None:
    """Returns the body of a declaration for inputs of these types (ranks and dtypes); None if it has none."""
    if not schema.has_context_dependent_function:
        return None
    data, types = node.SerializeToString(), [_type_bytes(v) for v in inputs]
    versions = schema.context_dependent_function_opset_versions

    def get(version: int) -> Any:
        import onnx

        try:
            serialised = schema.get_context_dependent_function_with_opset_version(version, data, types)
        except (RuntimeError, TypeError, ValueError) as e:
            raise ModelError(f"{where}: ONNX gives no body of {schema.name} for these operands: {e}") from e
        return onnx.FunctionProto.FromString(serialised) if serialised else None

    proto = _at_opset(versions, get, opset)
    return None if proto is None else body_of(proto, outer, where, schema)


def _at_opset(versions: Sequence[int], get: Any, opset: int) -> Any:
    """Returns the newest body written for this opset or an older one; there is one for each opset that changed an operator it uses."""
    import onnx

    for version in sorted((v for v in versions if v <= opset), reverse=True):
        proto = get(version)
        if proto is None or (isinstance(proto, bytes) and not proto):
            continue
        return onnx.FunctionProto.FromString(proto) if isinstance(proto, bytes) else proto
    return None


def _type_bytes(v: Value | None) -> bytes:
    import onnx

    proto = onnx.TypeProto()
    if v is not None:
        _spell_type(proto, v.type)
    return bytes(proto.SerializeToString())


def _spell_type(proto: Any, t: TensorType) -> None:
    if isinstance(t, ListType):
        return _spell_type((proto.optional_type if t.optional else proto.sequence_type).elem_type, t.element)
    proto.tensor_type.elem_type = NUMBER_OF[t.dtype]
    if t.shape is None:
        return None
    proto.tensor_type.shape.SetInParent()
    for n in declared_dims(t) or ():
        d = proto.tensor_type.shape.dim.add()
        if isinstance(n, int):
            d.dim_value = n
        else:
            d.dim_param = exact_text(n)
    return None
