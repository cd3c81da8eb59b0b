"""Repairs models that violate the standard: each fault is replaced by what it most likely means.

In: a model as `load` takes it. Out: a copy without the faults that the rules know, and a line for each change. Rules look at names,
declarations and shapes, never at operators. An import must not guess; a repair guesses as onnxruntime does, where it accepts such a
model at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from anyshape.errors import AnyshapeError
from anyshape.frontends.onnx.captures import rename_captured
from anyshape.frontends.onnx.control import subgraphs
from anyshape.frontends.onnx.edge import model_errors
from anyshape.frontends.onnx.embedding import with_weights
from anyshape.frontends.onnx.importer import Import
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.mappings import all_mappings, find_schema, known_domains, normal_domain
from anyshape.frontends.onnx.order import spell_node
from anyshape.frontends.onnx.reader import Source, read_model
from anyshape.frontends.onnx.resolve import ASSUMED
from anyshape.frontends.onnx.sparse import INDICES
from anyshape.frontends.onnx.tensors import tensor_array
from anyshape.graph.unused_names import unused

RepairRule = Callable[[Source], Iterator[str]]


def repaired(source: Any, dims: Mapping[str, DimBinding] | None = None) -> tuple[Source, list[str]]:
    """Repairs a copy of a model; returns it, and the changes in words. Raises ModelError for a file that is no model."""
    with model_errors("model"):
        original = read_model(source)
        read = Source(with_weights(original), original.name, original.folder)
    with model_errors(read.name):
        changes = [change for rule in RULES for change in rule(read)]
        return read, [*changes, *_fitted(read, dims)]


def _graphs(graph: Any) -> Iterator[Any]:
    """Lists a graph and all graphs within it, from the outside in."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _opsets(read: Source) -> Iterator[str]:
    """Keeps the last opset of a domain that is imported twice; imports one that is used and not imported: the newest opset of ONNX's own
    domain, version 1 of others."""
    imports = read.model.opset_import
    last = {normal_domain(o.domain): o.version for o in imports}
    yield from (f"of opsets of {d or 'ai.onnx'} the last, {v}" for d, v in last.items() if _count(imports, d) > 1)
    used = {normal_domain(n.domain) for g in _graphs(read.model.graph) for n in g.node}
    local = {normal_domain(f.domain) for f in read.model.functions}
    for domain in sorted(used - set(last) - local):
        if domain in known_domains(all_mappings()) or not domain:
            last[domain] = ASSUMED if domain else _newest()
            yield f"opset {last[domain]} of {domain or 'ai.onnx'}, of which none was imported"
    del imports[:]
    for domain, version in last.items():
        imports.add(domain=domain, version=version)


def _count(imports: Any, domain: str) -> int:
    return len({o.version for o in imports if normal_domain(o.domain) == domain})


def _newest() -> int:
    import onnx

    return int(onnx.defs.onnx_opset_version())


def _initializers(read: Source) -> Iterator[str]:
    """Keeps the last of several initializers of one name."""
    for graph in _graphs(read.model.graph):
        last = {t.name: t for t in graph.initializer}
        if len(last) < len(graph.initializer):
            names = [t.name for t in graph.initializer]
            yield from (f"of initializers {n!r} the last" for n in last if names.count(n) > 1)
            kept = list(last.values())
            copies = [type(t).FromString(t.SerializeToString()) for t in kept]
            del graph.initializer[:]
            graph.initializer.extend(copies)


def _results(read: Source) -> Iterator[str]:
    """Keeps the first of several graph outputs of one name."""
    for graph in _graphs(read.model.graph):
        seen: set[str] = set()
        for k, info in reversed(list(enumerate(graph.output))):
            if info.name in {o.name for o in graph.output[:k]}:
                seen.add(info.name)
                del graph.output[k]
        yield from (f"of results {name!r} the first" for name in sorted(seen))


def _assignments(read: Source) -> Iterator[str]:
    """Renames values of one name that several nodes produce, or that existed before: a reader gets the one that was produced last before
    it."""
    taken = {name for graph in _graphs(read.model.graph) for name in _names(graph)}
    for graph in _graphs(read.model.graph):
        produced = [name for node in graph.node for name in node.output if name]
        known = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        doubled = {name for name, count in Counter(produced).items() if count > 1 or name in known}
        if not doubled:
            continue
        yield from (f"{name!r}, which is made more than once, told apart" for name in sorted(doubled))
        now: dict[str, str] = {}
        for node in graph.node:
            for k, name in enumerate(node.input):
                node.input[k] = now.get(name, name)
            rename_captured(node, _through(now))
            for k, name in enumerate(node.output):
                if name in doubled:
                    now[name] = unused(name, taken)
                    node.output[k] = now[name]
        for info in graph.output:
            _rename_result(graph, info, now.get(info.name, info.name), taken)


def _rename_result(graph: Any, info: Any, produced: str, taken: set[str]) -> None:
    """Gives the name of a graph output to the value that was produced last, and another name to the value that had it."""
    if produced == info.name:
        return
    other = unused(info.name, taken)
    swapped = {produced: info.name, info.name: other}
    for node in graph.node:
        for k, name in enumerate(node.input):
            node.input[k] = swapped.get(name, name)
        rename_captured(node, _through(swapped))
        for k, name in enumerate(node.output):
            node.output[k] = swapped.get(name, name)
    for t in (*graph.initializer, *graph.input):
        t.name = swapped.get(t.name, t.name)


def _through(names: Mapping[str, str]) -> Callable[[str], str]:
    """Makes a function that renames by a mapping, and leaves other names alone."""
    return lambda name: names.get(name, name)


def _names(graph: Any) -> Iterator[str]:
    yield from (i.name for i in (*graph.input, *graph.output, *graph.initializer))
    yield from (name for node in graph.node for name in node.output)


def _surplus(read: Source) -> Iterator[str]:
    """Removes inputs behind the last one that the operator declares."""
    opsets = {normal_domain(o.domain): o.version for o in read.model.opset_import}
    own = {(normal_domain(f.domain), f.name) for f in read.model.functions}
    for graph in _graphs(read.model.graph):
        for node in graph.node:
            domain = normal_domain(node.domain)
            schema = None if (domain, node.op_type) in own else find_schema(domain, node.op_type, opsets.get(domain, 1))
            if schema is not None and len(node.input) > schema.max_input:
                left = [name for name in node.input[schema.max_input :] if name]
                del node.input[schema.max_input :]
                yield f"{spell_node(node)} without {', '.join(map(repr, left)) or 'what is empty'} behind its inputs"


def _sparse(read: Source) -> Iterator[str]:
    """Keeps the last of several values of a sparse tensor at one position."""
    for graph in _graphs(read.model.graph):
        held = [(f"initializer {s.values.name!r}", s) for s in graph.sparse_initializer]
        attributes = [(node, a) for node in graph.node for a in node.attribute if a.HasField("sparse_tensor")]
        held += [(spell_node(node), a.sparse_tensor) for node, a in attributes]
        for where, s in held:
            if s.indices.data_type in INDICES and _without_doubled(s, read, where):
                yield f"of values at one place of {where} the last"


def _without_doubled(s: Any, read: Source, where: str) -> bool:
    from onnx import numpy_helper

    values, positions = (tensor_array(t, read.folder, where) for t in (s.values, s.indices))
    if len(values) != len(positions):
        return False
    last = {tuple(np.atleast_1d(p).tolist()): k for k, p in enumerate(positions)}
    if len(last) == len(positions):
        return False
    kept = sorted(last.values())
    for field, array in (("values", values[kept]), ("indices", positions[kept].astype(np.int64))):
        getattr(s, field).CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), getattr(s, field).name))
    return True


RULES: tuple[RepairRule, ...] = (_opsets, _initializers, _results, _assignments, _surplus, _sparse)


def _fitted(read: Source, dims: Mapping[str, DimBinding] | None) -> Iterator[str]:
    """Reshapes constants to the shapes that their nodes accept (`fitting`)."""
    from onnx import numpy_helper

    trial = Import(read, dims, all_mappings(), fitting=True)
    with suppress(AnyshapeError):  # the import of the repaired model raises it again
        trial.function()
    taken = {name for graph in _graphs(read.model.graph) for name in _names(graph)}
    for node, fit in {id(fit.node): (fit.node, fit) for fit in trial.fitted}.values():  # a body is built more than once
        yield f"of {spell_node(node)} {', '.join(fit.changes)}"
        for k, array in fit.arrays.items():
            node.input[k] = unused(node.input[k], taken)
            read.model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), node.input[k]))
