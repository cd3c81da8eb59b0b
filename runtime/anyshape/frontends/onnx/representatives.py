"""Finds names of a model that have equal values, and constants that can replace computations.

In: the values of the names. Out: for each name the first that is equal to it (its representative); the representatives that are to be
written as initializers; and operands that can be constants in place of what computes them. Two names are equal if the passes made one
value of them, if they are equal constants, if they are small integer tensors of the same expressions, such as two spellings of
[batch, length], or if equal nodes compute them from equal operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from anyshape.frontends.onnx.control import subgraphs
from anyshape.frontends.onnx.imported_node import draws
from anyshape.frontends.onnx.mappings import find_schema, normal_domain
from anyshape.frontends.onnx.named_values import NamedValues
from anyshape.frontends.onnx.shape_operands import constant_shapes
from anyshape.graph.value import Value, constant

ALWAYS = 1 << 14
"""Bytes up to which a constant may replace a node; a larger one must not exceed the constants that the node reads"""
COMPARED = 1 << 16
"""Bytes of constants that are compared by their contents"""
OperandAt = tuple[str, int]
"""The first output of a node, and a position among its inputs"""


class Representatives:
    """`of[name]` is the name that stands for it; `constants` are representatives that are to be initializers, `solved` operands that can
    be constants, with their values."""

    def __init__(self, known: NamedValues) -> None:
        self.known = known
        self._opsets = {normal_domain(o.domain): o.version for o in known.source.model.opset_import}
        graph = known.graph
        self.initial = [t.name for t in graph.initializer] + [s.values.name for s in graph.sparse_initializer]
        self.of: dict[str, str] = {}
        self.constants: dict[str, Value] = {}
        self.solved: dict[OperandAt, Value] = {}
        self._first: dict[Any, str] = {}
        self._calls: dict[Any, Any] = {}
        held = set(self.initial)
        for name in (*self.initial, *(i.name for i in graph.input if i.name not in held)):
            self._add(name, name)
        for node in known.nodes:
            self._solve(node)
            self._add_outputs(node)

    def constant_called(self, v: Value) -> str | None:
        """Returns the representative of constants equal to this one, if it is or becomes an initializer."""
        name = self._first.get(_key("", v))
        return name if name in self.constants or name in self.initial else None

    def _add(self, name: str, otherwise: str) -> None:
        self.of[name] = self._first.setdefault(_key(name, self.known.values.get(name)), otherwise)

    def _add_outputs(self, node: Any) -> None:
        call = self._call(node)
        first = node if call is None else self._calls.setdefault(call, node)
        for k, name in enumerate(node.output):
            if name:
                twin = first.output[k] if k < len(first.output) else ""
                self._add(name, self.of.get(twin, name) if twin else name)
        self.constants.update(self._folded(node))

    def _call(self, node: Any) -> Any:
        """Returns a key of the node: nodes of equal keys have equal results. None for a node that may differ all the same."""
        domain = normal_domain(node.domain)
        if domain not in ("", "ai.onnx.ml") or any(subgraphs(node)):
            return None
        if draws(find_schema(domain, node.op_type, self._opsets.get(domain, 1))):
            return None
        operands = tuple(self._operand(node, k, name) for k, name in enumerate(node.input))
        attributes = tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute))
        return (domain, node.op_type, node.overload, operands, attributes)

    def _operand(self, node: Any, k: int, name: str) -> Any:
        solved = self.solved.get((node.output[0], k))
        return self.of.get(name, name) if solved is None else solved.contents

    def _solve(self, node: Any) -> None:
        values, known = self.known.values, self.known
        if not node.output or not node.output[0]:
            return
        operands = [values.get(i) for i in node.input]
        output = values.get(node.output[0])
        shapes = constant_shapes(operands, output, lambda replaced: known.rebuild(node, replaced), known.facts)
        for k, said in shapes.items():
            self.solved[node.output[0], k] = constant(np.array(said, np.int64))

    def _folded(self, node: Any) -> Iterator[tuple[str, Value]]:
        values = self.known.values
        room = max(ALWAYS, sum(_bytes(values.get(name)) for name in node.input))
        for name in node.output:
            v = values.get(name) if name else None
            folds = node.op_type == "Constant" or _bytes(v) <= room
            if v is not None and v.is_constant and self.of[name] == name and folds:
                yield name, v


def operands(node: Any) -> Iterable[tuple[int, str]]:
    """Lists the inputs that are not left out, with their positions."""
    return ((k, name) for k, name in enumerate(node.input) if name)


def _bytes(v: Value | None) -> int:
    return v.constant.nbytes if v is not None and v.constant is not None else 0


def _key(name: str, v: Value | None) -> Any:
    if v is None:
        return ("name", name)
    if v.constant is not None:
        a = v.constant
        shared = a.tobytes() if a.nbytes <= COMPARED else id(a)
        return ("constant", v.type.dtype, a.shape, shared)
    if v.contents is not None:
        return ("contents", v.type.dtype, v.type.shape, v.contents)
    return ("value", v)
