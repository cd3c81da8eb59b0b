"""Gradients of graphs: reverse accumulation over nodes, the adjoint of each made of the equations that its spec states.

In: a value, and values that it depends on. Out: values of their gradients: for each element, what a small change of it does to
the sum of all elements of the result. An op's adjoint is an op too, without a spec: its shapes are those of the op's rule, its
equations `equations.adjoint` of the op's. Views and compositions are looked through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anyshape import ops
from anyshape.dims import Dim, Size
from anyshape.equations import Equations, Tensor
from anyshape.equations.accumulation import accumulate
from anyshape.equations.adjoint import NotDifferentiable, state_adjoint
from anyshape.equations.expr import const
from anyshape.errors import UnsupportedError
from anyshape.expansion.composition import expand
from anyshape.graph.function import topological
from anyshape.graph.infer import absent_dtype, build, equations_of, rebuild, tensors_of
from anyshape.graph.opdef import InputDef, OpDef, OutputDef
from anyshape.graph.value import Node, Value, constant
from anyshape.public import public
from anyshape.rules import Bound, Rule
from anyshape.types import ListType


@public
def gradients(of: Value, by: Sequence[Value], source: str = "") -> list[Value]:
    """The gradient of the sum of all elements of `of` by each value of `by`, of that value's type; zeros where it does not depend on it.

    Raises UnsupportedError naming an op that has no adjoint, with the reason, or a value that is no tensor of floats."""
    for v in (of, *by):
        if not v.type.dtype.is_float:
            raise UnsupportedError(f"gradients are of floats, and {v.name or 'a value'} is {v.type}")
    of, looked = _looked_through(of, by)
    adjoints: dict[Value, Value] = {}

    def add(v: Value, more: Value) -> None:
        adjoints[v] = ops.add(adjoints[v], more, source=source) if v in adjoints else more

    add(of, _full(1, of, source))
    targets = set(by)
    inside = {n for n in looked if any(_depends(n, targets, looked))}
    for node in reversed(looked):
        if node in inside and any(v in adjoints for v in node.outputs):
            seeds = [
                adjoints[v] if v in adjoints else _full(0, v, source) for v in node.outputs if v.type.dtype.is_float
            ]
            for v, g in _adjoints(node, seeds, inside, targets, source):
                add(v, g)
    return [adjoints[v] if v in adjoints else _full(0, v, source) for v in by]


def _full(number: float, like: Value, source: str) -> Value:
    return ops.full(constant(np.array(number).astype(like.type.dtype.numpy)), _shape(like, source), source=source)


def _shape(v: Value, source: str) -> Any:
    return v.type.shape if v.type.is_static else ops.shape_of(v, source=source)


def _looked_through(of: Value, by: Sequence[Value]) -> tuple[Value, tuple[Node, ...]]:
    """The value as calls of ops that have equations or are views, and those in order, from `by` on."""
    while True:
        nodes = _between(of, by)
        composed = {n: n.op.composition for n in nodes if n.op.composition is not None}
        if not composed:
            return of, nodes
        new: dict[Value, Value] = {}
        for n in nodes:
            expanded = expand(n) if n in composed else None
            if n in composed and expanded is None:
                raise UnsupportedError(f"no gradient of {n.op.full_name}: a rank is not known")
            results = expanded if expanded is not None else _with(n, new)
            new.update((a, b) for a, b in zip(n.outputs, results) if a is not b)
        of = new.get(of, of)


def _with(n: Node, new: Mapping[Value, Value]) -> Sequence[Value]:
    if not any(v in new for v in n.inputs if v is not None):
        return n.outputs
    return rebuild(n, [None if v is None else new.get(v, v) for v in n.inputs]).outputs


def _between(of: Value, by: Sequence[Value]) -> tuple[Node, ...]:
    """Collects all nodes that the value needs; what makes one of `by` does not count."""
    return topological([of], frozenset(v.node for v in by if v.node is not None))


def _depends(n: Node, targets: set[Value], looked: Sequence[Node]) -> list[bool]:
    """Tests of each operand whether it is one of the targets or depends on one."""
    from functools import cache

    inside = set(looked)

    @cache
    def reaches(v: Value) -> bool:
        if v in targets:
            return True
        return v.node is not None and v.node in inside and any(reaches(x) for x in v.node.inputs if x is not None)

    return [reaches(v) for v in n.inputs if v is not None]


def _adjoints(
    node: Node, seeds: Sequence[Value], inside: set[Node], targets: set[Value], source: str
) -> list[tuple[Value, Value]]:
    """The inputs of a node whose gradients are needed, and what this node contributes to each."""
    op = node.op
    needed = [v for v in dict.fromkeys(node.inputs) if v is not None and (v in targets or v.node in inside)]
    if any(isinstance(v.type, ListType) for v in needed):
        raise UnsupportedError(f"no gradient of {op.full_name}{_at(node)}: it is computed from a list")
    needed = [v for v in needed if v.type.dtype.is_float]
    if not needed or not seeds:
        return []
    if op.view:
        (seed,) = seeds
        names = [i.name for i in op.inputs]
        x = node.inputs[names.index(next(iter(op.view.values())))]
        assert x is not None
        return [(x, ops.reshape(seed, _shape(x, source), allowzero=True, source=source))] if x in needed else []
    if op.kernel is None or op.is_random:
        why = "it draws" if op.is_random else "it has no equations"
        raise UnsupportedError(f"no gradient of {op.full_name}{_at(node)}: {why}")
    adjoint = _Call(node, needed)
    call = build(adjoint.op(), [*adjoint.data, *seeds, *adjoint.operands], node.attrs, source or node.source)
    if not call.is_open:
        equations_of(call, *tensors_of(call))  # what has no adjoint is refused now
    return list(zip(needed, call.outputs, strict=True))


def _at(node: Node) -> str:
    return f" (at {node.source})" if node.source else ""


class _Stated(Equations):
    """Equations of a call whose sizes are known, those that its data decide, too."""

    def born(self, size: Size, value: Any, source: str = "") -> None:
        """Nothing: the size is a dim of what was computed."""


class _Call:
    """The call of an op's adjoint: its inputs are those of the op that are present, then the seed of each float result."""

    def __init__(self, node: Node, differentiated: Sequence[Value]) -> None:
        self.node, self.differentiated = node, differentiated
        count = len(node.data_inputs)
        self.data = list(dict.fromkeys(v for v in node.inputs[:count] if v is not None))
        self.operands = node.inputs[count:]
        self.floats = [k for k, v in enumerate(node.outputs) if v.type.dtype.is_float]

    def op(self) -> OpDef:
        node = self.node
        return OpDef(
            name=f"gradient of {node.op.name}",
            variant=node.op.variant,
            inputs=(
                *(InputDef(self.name(v), v.type.dtype.name) for v in self.data),
                *(InputDef(f"seed{k}", node.outputs[k].type.dtype.name) for k in self.floats),
            ),
            params=node.op.params,
            outputs=tuple(OutputDef(f"gradient{k}", v.type.dtype.name) for k, v in enumerate(self.differentiated)),
            dtypes={},
            relation=self.relation,
            kernel=self.kernel,
            source=node.op.source,
        )

    def name(self, v: Value) -> str:
        return f"x{self.data.index(v)}"

    def grouped(self, value_of: Any) -> dict[str, Any]:
        """The value of each input of the op, by `value_of` the names of its operands; None where the input is absent."""
        return {
            name: [value_of(self.name(x)) for x in v]
            if isinstance(v, tuple)
            else None
            if v is None
            else value_of(self.name(v))
            for name, v in self.node.grouped_inputs().items()
        }

    def relation(self, rule: Rule, **arguments: Any) -> Bound:
        params = {p.name: arguments[p.name] for p in self.node.op.params}
        rule.sizes = self.known_sizes(arguments)
        forward = self.node.op.relation(rule, **self.grouped(arguments.__getitem__), **params)
        shapes = [
            s
            for o in self.node.op.outputs
            for s in (forward.outputs[o.name] if o.variadic else [forward.outputs[o.name]])
        ]
        for k in self.floats:
            rule.equal(shapes[k], arguments[f"seed{k}"], f"result {k} and what it counts")
        return rule.bind(
            outputs={f"gradient{k}": arguments[self.name(v)] for k, v in enumerate(self.differentiated)},
            forward=forward,
        )

    def known_sizes(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes that the op's data decide, by their names in the rule: dims of the seeds, for the gradient finds none."""
        sizes: dict[str, Any] = {}
        for k in self.floats:
            for axis, n in enumerate(self.node.outputs[k].type.shape or ()):
                for name, value in vars(self.node.bound).items() if isinstance(n, Dim) and n.is_symbol else ():
                    if value is n:
                        sizes.setdefault(name, arguments[f"seed{k}"][axis])
        return sizes

    def kernel(self, eqs: Equations, bound: Any) -> None:
        node, forward = self.node, bound.forward
        ins: dict[str, Any] = {}
        for i, (name, operand) in zip(node.op.inputs, self.grouped(eqs.tensor).items(), strict=True):
            if operand is None:
                dtype = absent_dtype(node, i.dtype)
                operand = Tensor(name, dtype, (), const(i.absent(dtype), dtype))
            ins[name] = tuple(operand) if isinstance(operand, list) else operand
        outs: dict[str, Any] = {}
        results: list[Tensor] = []
        for o in node.op.outputs:
            shapes = forward.outputs[o.name] if o.variadic else [forward.outputs[o.name]]
            tensors = tuple(
                Tensor(f"{o.name}{k}", node.outputs[len(results) + k].type.dtype, tuple(s))
                for k, s in enumerate(shapes)
            )
            results += tensors
            outs[o.name] = tensors if o.variadic else tensors[0]
        stated = _Stated(node.op.full_name, ins, outs, node.dtypes)
        assert node.op.kernel is not None
        node.op.kernel(stated, forward)
        accumulate(stated)
        seeds = {results[k]: eqs.tensor(f"seed{k}") for k in self.floats}
        targets = {eqs.tensor(self.name(v)): eqs.tensor(f"gradient{k}") for k, v in enumerate(self.differentiated)}
        try:
            state_adjoint(eqs, stated.equations, seeds, targets)
        except NotDifferentiable as e:
            raise UnsupportedError(f"no gradient of {node.op.full_name}{_at(node)}: {e}") from None
