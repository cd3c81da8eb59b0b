"""A model in which nodes call custom ops in place of subgraphs.

In: a model, subgraphs of it. Out: a copy with one node for each subgraph, in topological order; initializers and constants that nothing
reads any more are left out, those that both sides read stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.custom_ops.subgraphs import ModelGraph, Subgraph
from anyshape.frontends.onnx.control import free_names
from anyshape.frontends.onnx.order import sort_nodes


def node_of(subgraph: Subgraph, domain: str) -> Any:
    """The node that calls the op of a subgraph."""
    from onnx import helper

    name = subgraph.call.name
    return helper.make_node(name, subgraph.inputs, subgraph.outputs, name=name, domain=domain)


def replaced(whole: ModelGraph, subgraphs: Sequence[Subgraph], domain: str) -> Any:
    """Replaces subgraphs of a model, which is not changed."""
    old = whole.model
    new = type(old)()
    new.CopyFrom(old)
    graph = new.graph
    first = {min(s.places): node_of(s, domain) for s in subgraphs}
    gone = frozenset[int]().union(*(s.places for s in subgraphs))
    constants = frozenset[int]().union(*(s.constants for s in subgraphs))
    nodes = {k: first.get(k, node) for k, node in enumerate(whole.graph.node) if k in first or k not in gone}
    read = whole.results.union(free_names(nodes.values()))
    kept = [node for k, node in nodes.items() if k not in constants or read.intersection(node.output)]
    dropped = frozenset[str]().union(*(whole.reads[k] for k in gone)) - read - {i.name for i in graph.input}
    known = {i.name for i in (*graph.input, *graph.initializer)} | {s.values.name for s in graph.sparse_initializer}
    del graph.node[:]
    graph.node.extend(sort_nodes(kept, known, "model", results=list(whole.results)))
    _keep(graph.initializer, [t for t in graph.initializer if t.name not in dropped])
    _keep(graph.sparse_initializer, [s for s in graph.sparse_initializer if s.values.name not in dropped])
    _describe(whole, subgraphs, graph)
    if domain not in {o.domain for o in new.opset_import}:
        new.opset_import.add(domain=domain, version=1)
    return new


def alone(subgraph: Subgraph, domain: str) -> Any:
    """The model of a subgraph's op alone, with the inputs and outputs of the subgraph."""
    old = subgraph.model
    new = type(old)()
    new.CopyFrom(old)
    del new.graph.node[:], new.graph.initializer[:], new.graph.sparse_initializer[:]
    new.graph.node.append(node_of(subgraph, domain))
    new.opset_import.add(domain=domain, version=1)
    return new


def _describe(whole: ModelGraph, subgraphs: Sequence[Subgraph], graph: Any) -> None:
    """Leaves out the types of values that there are no more, and says those of results of the ops."""
    produced = {name for node in graph.node for name in node.output}
    _keep(graph.value_info, [i for i in graph.value_info if i.name in produced])
    stated = {i.name for i in graph.value_info} | whole.results
    graph.value_info.extend(whole.declared(n) for s in subgraphs for n in s.outputs if n not in stated)


def _keep(field: Any, kept: Sequence[Any]) -> None:
    """Leaves these members in a repeated field."""
    copies = [type(member).FromString(member.SerializeToString()) for member in kept]
    del field[:]
    field.extend(copies)
