"""Simplifies an ONNX model by constant folding, elimination of common subexpressions and dead nodes, and shape inference.

In: a model as `load` takes it. Out: an onnx.ModelProto with nodes of the same model, in the same order, under the same opset. Nothing is
translated back: live nodes are copied, and read the representatives of their operands. Whatever the model computes for some inputs, the
result computes too; where the model would fail, the result may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from anyshape.dims import Dim, exact_text, free_symbols
from anyshape.dtypes import CHAR
from anyshape.frontends.onnx.captures import rename_captured
from anyshape.frontends.onnx.control import captured_names, graph_attributes, subgraphs
from anyshape.frontends.onnx.dtypes import NUMBER_OF, STRING, declared_dims
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.loading import read_source
from anyshape.frontends.onnx.named_values import SINCE_DEFAULTS, NamedValues, check_mergeable, named_values, overridable
from anyshape.frontends.onnx.representatives import OperandAt, Representatives, operands
from anyshape.frontends.onnx.tensors import whole_tensor
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.public import edge
from anyshape.strings import as_strings
from anyshape.types import ListType


@edge
def simplify(
    model: Any, dims: Mapping[str, DimBinding] | None = None, repair: bool = False, notes: list[str] | None = None
) -> Any:
    """Simplifies a model (a path, its bytes or an onnx.ModelProto); returns an onnx.ModelProto, and does not change the original.

    `dims` binds or bounds named dims of the inputs, {"batch": 8, "length": (1, 512)}; the result is valid for those only.
    `repair`: what the standard refuses is written as what it most likely means; `notes` receives these changes. Raises a subclass of
    AnyshapeError for a model that is damaged. Nodes that are not supported stay unchanged.
    """
    read = read_source(model, dims, repair, notes if notes is not None else [])
    check_mergeable(read)
    known = named_values(read, dims)
    return _GraphWriter(known, {*known.values, *names_in(known.graph)}).model()


def names_in(graph: Any) -> Iterator[str]:
    """Lists the names in a graph and in the graphs within it."""
    yield from (i.name for i in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from node.output
        for inner in subgraphs(node):
            yield from names_in(inner)


class _GraphWriter:
    """Writes one graph: the model's, or one within a node. `taken` has the names that are used anywhere in the model."""

    def __init__(self, known: NamedValues, taken: set[str]) -> None:
        self.known, self.old = known, known.graph
        self.values = dict(known.values)
        self.outputs = [o.name for o in self.old.output]
        self.same = Representatives(known)
        self.producer = {name: node for node in known.nodes for name in node.output if name}
        self.taken = taken
        self.inner: dict[str, list[Any]] = {}
        """simplified graphs within nodes, by the first output of the node"""
        self.added: dict[str, Value] = {}
        """constants that have no name in the old model"""
        self.shared: dict[Any, str] = {}
        """the names of added constants, by their elements"""
        self.replaced: dict[OperandAt, str] = {}
        """the names of constants in place of operands"""
        self.needed: set[str] = set()
        """representatives that the outputs need"""
        self.unused: dict[str, str] = {}
        """old names of outputs, by new ones, where the old name has another value now"""
        self.called = self._new_names()
        self.spelled = {s: name for name, s in known.named.items() if isinstance(s, Dim)}
        self.initial = set(self.same.initial)
        self.defaults = set() if known.inside else overridable(known.source.model)

    def model(self) -> Any:
        old = self.known.source.model
        new = type(old)()
        new.CopyFrom(model_frame(old))
        new.ir_version = max(old.ir_version, SINCE_DEFAULTS)
        self.write(new.graph)
        self._describe(new.graph)
        _keep_functions(old, new)
        return new

    def graph(self) -> Any:
        """Writes a graph within a node, with its own inputs and declared types."""
        new = type(self.old)()
        new.name, new.doc_string = self.old.name, self.old.doc_string
        new.metadata_props.extend(self.old.metadata_props)
        self.write(new)
        produced = {name for node in new.node for name in node.output}
        new.value_info.extend(i for i in self.old.value_info if i.name in produced)
        return new

    def write(self, graph: Any) -> None:
        needed = self.needed = self._needed()
        graph.input.extend(self.old.input if self.known.inside else self._inputs())
        for k, t in enumerate(self.old.initializer):
            if t.name in needed or t.name in self.defaults:
                graph.initializer.append(self._whole(t, k))
        graph.sparse_initializer.extend(
            s for s in self.old.sparse_initializer if s.values.name in needed or s.values.name in self.defaults
        )
        for name, v in (*self.same.constants.items(), *self.added.items()):
            if name in needed:
                graph.initializer.append(_tensor(self._name(name), v))
        for node in self.known.nodes:
            if any(name in needed and name not in self.same.constants for name in node.output):
                graph.node.append(self._node(node))
        self._results(graph)

    def _whole(self, t: Any, k: int) -> Any:
        """Copies an initializer with its data in it."""
        source = self.known.source
        return whole_tensor(t, None if self.known.inside else source.weights.get(k), source.folder, source.name)

    def graphs(self, node: Any) -> list[Any]:
        """Simplifies the graphs within a node."""
        key = next((name for name in node.output if name), "")
        if key not in self.inner:
            self.inner[key] = [self._simplified(node, a) for a in graph_attributes(node)]
        return self.inner[key]

    def _simplified(self, node: Any, a: Any) -> Any:
        known = self.known.within(node, a.name, a.g)
        return a.g if known is None else _GraphWriter(known, self.taken).graph()

    # names

    def _new_names(self) -> dict[str, str]:
        """Chooses names of representatives that are not called by their own: the name of a graph output that they are."""
        called: dict[str, str] = {}
        for name in self.outputs:
            first = self.same.of.get(name, name)
            if first in self.producer and first not in self.same.constants and first not in self.outputs:
                called.setdefault(first, name)
        for name in self.outputs:
            if name in self.same.constants:
                called[name] = self._fresh(f"{name}_value")
        return called

    def _name(self, name: str) -> str:
        return self.called.get(name, name)

    def _operand(self, name: str) -> str:
        """Returns the new name that a reader of an old name reads."""
        return self._name(self.same.of.get(name, name))

    def _fresh(self, name: str) -> str:
        return unused(name, self.taken)

    # what stays

    def _needed(self) -> set[str]:
        """Collects the representatives that the outputs need."""
        needed: set[str] = set()
        waiting = [self.same.of.get(name, name) for name in self.outputs]
        while waiting:
            name = waiting.pop()
            if name in needed:
                continue
            needed.add(name)
            if name not in self.producer or name in self.same.constants:
                continue
            node = self.producer[name]
            for k, operand in operands(node):
                solved = self.same.solved.get((node.output[0], k))
                if solved is None:
                    waiting.append(self.same.of.get(operand, operand))
                else:
                    waiting.append(self._constant(solved, f"{node.output[0]}_shape"))
                    self.replaced[node.output[0], k] = waiting[-1]
            waiting += [self.same.of.get(name, name) for g in self.graphs(node) for name in captured_names(g)]
        return needed

    def _constant(self, v: Value, name: str) -> str:
        """Returns the name of an initializer with this value, which is added if there is none yet."""
        existing = self.same.constant_called(v) or self.shared.get(v.contents)
        if existing is None:
            existing = self.shared[v.contents] = self._fresh(name)
            self.added[existing] = v
        return existing

    # writing

    def _inputs(self) -> list[Any]:
        """Copies the inputs, with numbers for dims that are bound; inputs with initializers are left out in old file formats, where they
        are not defaults."""
        kept: list[Any] = []
        for info in self.old.input:
            if info.name in self.initial and info.name not in self.defaults:
                continue
            kept.append(type(info)())
            kept[-1].CopyFrom(info)
            v = self.values.get(info.name)
            for d, n in zip(
                kept[-1].type.tensor_type.shape.dim, (declared_dims(v.type) or ()) if v is not None else ()
            ):
                if isinstance(n, int):
                    d.dim_value = n
        return kept

    def _node(self, node: Any) -> Any:
        copy = type(node)()
        copy.CopyFrom(node)
        for k, name in operands(node):
            constant = self.replaced.get((node.output[0], k))
            copy.input[k] = self._operand(name) if constant is None else self._name(constant)
        for old, new in zip(subgraphs(copy), self.graphs(node), strict=True):
            old.CopyFrom(new)
        rename_captured(copy, self._operand)
        for k, name in enumerate(node.output):
            if not name:
                continue
            if self.same.of[name] == name and name not in self.same.constants:
                copy.output[k] = self._name(name)
            elif name in self.outputs or name in self.needed:
                copy.output[k] = self._fresh(f"{name}_unused")
                self.unused[copy.output[k]] = name
        return copy

    def _results(self, graph: Any) -> None:
        stated = {i.name: i for i in (*self.old.value_info, *self.old.output)}
        for info in self.old.output:
            now = self._operand(info.name)
            if now != info.name:
                node = graph.node.add()
                node.op_type = "Identity"
                node.input.append(now)
                node.output.append(info.name)
            if self.known.inside:
                graph.output.append(info)
                continue
            graph.output.append(self._typed(info.name, self.values.get(info.name), stated.get(info.name)))

    def _describe(self, graph: Any) -> None:
        """Writes the types of values between inputs and outputs."""
        stated = {i.name: i for i in self.old.value_info}
        back = {**self.unused, **{new: old for old, new in self.called.items()}}
        outputs = set(self.outputs)
        for node in graph.node:
            for name in node.output:
                old = back.get(name, name)
                if name and name not in outputs and (self.values.get(old) is not None or old in stated):
                    graph.value_info.append(self._typed(name, self.values.get(old), stated.get(old)))

    def _typed(self, name: str, v: Value | None, stated: Any) -> Any:
        """Spells a value's type as far as it is known, else as the old model says it."""
        import onnx

        info = onnx.ValueInfoProto()
        if stated is not None:
            info.CopyFrom(stated)
        info.name = name
        if v is None or isinstance(v.type, ListType):
            return info
        old = list(info.type.tensor_type.shape.dim) if info.type.tensor_type.HasField("shape") else None
        info.type.tensor_type.elem_type = NUMBER_OF[v.type.dtype]
        if v.type.shape is None:
            return info
        new = onnx.TensorShapeProto()
        dims = declared_dims(v.type) or ()
        for k, n in enumerate(dims):
            d = new.dim.add()
            if isinstance(n, int):
                d.dim_value = n
            elif (text := self._spell(n)) is not None:
                d.dim_param = text
            elif old is not None and len(old) == len(dims):
                d.CopyFrom(old[k])
        info.type.tensor_type.shape.CopyFrom(new)
        return info

    def _spell(self, n: Dim) -> str | None:
        """Spells a dim; None if it is no expression of the inputs' dims."""
        return self.spelled.get(n) or (exact_text(n) if free_symbols(n) <= self.spelled.keys() else None)


def model_frame(old: Any) -> Any:
    """Copies a model without nodes, tensors, types and functions."""
    frame = type(old)()
    for field, value in old.ListFields():
        if field.name not in ("graph", "functions"):
            (getattr(frame, field.name).MergeFrom if field.is_repeated else _setter(frame, field.name))(value)
    frame.graph.name, frame.graph.doc_string = old.graph.name, old.graph.doc_string
    frame.graph.metadata_props.extend(old.graph.metadata_props)
    return frame


def _setter(proto: Any, name: str) -> Any:
    return lambda value: setattr(proto, name, value)


def _keep_functions(old: Any, new: Any) -> None:
    """Copies the functions that nodes call, directly or within other functions."""
    by_key = {(f.domain, f.name): f for f in old.functions}
    kept: set[tuple[str, str]] = set()
    waiting = list(new.graph.node)
    while waiting:
        node = waiting.pop()
        waiting += [n for g in subgraphs(node) for n in g.node]
        key = (node.domain, node.op_type)
        if key in by_key and key not in kept:
            kept.add(key)
            waiting += by_key[key].node
    new.functions.extend(f for f in old.functions if (f.domain, f.name) in kept)


def _tensor(name: str, v: Value) -> Any:
    import onnx

    a = v.constant
    assert a is not None
    if v.type.dtype is CHAR:
        return onnx.helper.make_tensor(name, STRING, a.shape[:-1], [s.encode() for s in as_strings(a).flat])
    return onnx.TensorProto(
        name=name,
        dims=a.shape,
        data_type=NUMBER_OF[v.type.dtype],
        raw_data=np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<")).tobytes(),
    )
