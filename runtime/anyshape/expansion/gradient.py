"""Gradients of graphs: reverse accumulation over nodes, the adjoint of each made of the equations that its spec states.

In: a value, and values that it depends on. Out: values of their gradients: for each element, what a small change of it does to
the sum of all elements of the result. An op's adjoint is an op too, without a spec: its shapes are those of the op's rule, its
equations `equations.adjoint` of the op's. Views and compositions are looked through, and the adjoint of a branch is a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anyshape import control, ops
from anyshape.dims import Dim, Size, free_symbols
from anyshape.dims.solving import definitions
from anyshape.equations import Equations, Tensor
from anyshape.equations.accumulation import accumulate, reading_others
from anyshape.equations.adjoint import NotDifferentiable, state_adjoint
from anyshape.equations.expr import const
from anyshape.equations.program import StepProgram
from anyshape.equations.undefined import define_the_rest
from anyshape.errors import ShapeError, UnsupportedError
from anyshape.expansion.composition import expand
from anyshape.graph.control import IF
from anyshape.graph.function import Function, topological
from anyshape.graph.infer import absent_dtype, build, equations_of, rebuild, tensors_of
from anyshape.graph.match_shape import ensured
from anyshape.graph.opdef import InputDef, OpDef, OutputDef
from anyshape.graph.regions import opened
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
    return pulled_back([of], [_full(1, of, source)], by, source)


def pulled_back(of: Sequence[Value], seeds: Sequence[Value], by: Sequence[Value], source: str = "") -> list[Value]:
    """The gradient by each value of `by` of the sum of all elements of all values of `of`, each times that of its seed. Raises
    UnsupportedError naming an op that has no adjoint, with the reason."""
    return _accumulated(of, seeds, by, by, (), source)


def _accumulated(
    of: Sequence[Value],
    seeds: Sequence[Value],
    by: Sequence[Value],
    starts: Sequence[Value],
    called: Callers,
    source: str,
) -> list[Value]:
    """The gradient by each value of `by` of the sum of all elements of `of`, each times that of its seed. It is sought behind `starts`, of
    which `by` are some; `called` are the calls around."""
    of, looked, callers = _looked_through(of, starts)
    adjoints: dict[Value, Value] = {}

    def add(v: Value, more: Value) -> None:
        adjoints[v] = ops.add(adjoints[v], more, source=source) if v in adjoints else more

    for v, seed in zip(of, seeds, strict=True):
        add(v, seed)
    targets = set(by)
    inside = {n for n in looked if any(_depends(n, targets, looked))}
    for node in reversed(looked):
        if node in inside and any(v in adjoints for v in node.outputs):
            own = [adjoints[v] if v in adjoints else _full(0, v, source) for v in node.outputs if v.type.dtype.is_float]
            for v, g in _adjoints(node, (*callers.get(node, ()), *called), own, inside, targets, source):
                add(v, g)
    return [adjoints[v] if v in adjoints else _full(0, v, source) for v in by]


def _full(number: float, like: Value, source: str) -> Value:
    return ops.full(constant(np.array(number).astype(like.type.dtype.numpy)), _shape(like, source), source=source)


def _shape(v: Value, source: str) -> Any:
    return v.type.shape if v.type.is_static else ops.shape_of(v, source=source)


Callers = tuple[Node, ...]
"""The calls of composed ops of whose bodies a call is, the innermost first."""


def _looked_through(
    of: Sequence[Value], by: Sequence[Value]
) -> tuple[Sequence[Value], tuple[Node, ...], dict[Node, Callers]]:
    """The values as calls of ops that have equations or are views, those in order, from `by` on, and which calls they are parts of."""
    callers: dict[Node, Callers] = {}
    while True:
        nodes = _between(of, by)
        composed = {n: n.op.composition for n in nodes if n.op.composition is not None}
        decided = {n: n.op.control.simplify(n) for n in nodes if n.op.control is not None}
        if not composed and all(results is None for results in decided.values()):
            return of, nodes, callers
        new: dict[Value, Value] = {}
        for n in nodes:
            expanded = expand(n) if n in composed else decided.get(n)
            if n in composed and expanded is None:
                raise UnsupportedError(f"no gradient of {_named(n, callers.get(n, ()))}: a rank is not known")
            if expanded is not None:
                inputs = frozenset(v.node for v in n.inputs if v is not None and v.node is not None)
                own = (n, *callers.get(n, ())) if n in composed else callers.get(n, ())
                callers |= {m: own for m in topological(list(expanded), inputs) if m not in callers}
            results = expanded if expanded is not None else _with(n, new)
            callers |= {
                v.node: callers[n] for v in results if n in callers and v.node is not None and v.node not in callers
            }
            new.update((a, b) for a, b in zip(n.outputs, results) if a is not b)
        of = [new.get(v, v) for v in of]


def _with(n: Node, new: Mapping[Value, Value]) -> Sequence[Value]:
    if not any(v in new for v in n.inputs if v is not None):
        return n.outputs
    return rebuild(n, [None if v is None else new.get(v, v) for v in n.inputs]).outputs


def _between(of: Sequence[Value], by: Sequence[Value]) -> tuple[Node, ...]:
    """Collects all nodes that the values need; what makes one of `by` does not count."""
    return topological(of, frozenset(v.node for v in by if v.node is not None))


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
    node: Node, callers: Callers, seeds: Sequence[Value], inside: set[Node], targets: set[Value], source: str
) -> list[tuple[Value, Value]]:
    """The inputs of a node whose gradients are needed, and what this node contributes to each."""
    op = node.op
    needed = [v for v in dict.fromkeys(node.inputs) if v is not None and (v in targets or v.node in inside)]
    if any(isinstance(v.type, ListType) for v in needed):
        raise UnsupportedError(f"no gradient of {_named(node, callers)}: it is computed from a list")
    needed = [v for v in needed if v.type.dtype.is_float]
    if not needed or not seeds:
        return []
    if op.view:
        (seed,) = seeds
        names = [i.name for i in op.inputs]
        x = node.inputs[names.index(next(iter(op.view.values())))]
        assert x is not None
        return [(x, ops.reshape(seed, _shape(x, source), allowzero=True, source=source))] if x in needed else []
    if op is IF:
        return list(zip(needed, _of_branches(node, callers, seeds, needed, source), strict=True))
    if op.kernel is None or op.is_random:
        why = "it draws" if op.is_random else f"a {op.name} has no adjoint" if node.regions else "it has no equations"
        raise UnsupportedError(f"no gradient of {_named(node, callers)}: {why}")
    adjoint = _AdjointCall(node, needed, _named(node, callers))
    call = build(adjoint.op(), [*adjoint.data, *seeds, *adjoint.operands], node.attrs, source or node.source)
    if not call.is_open:
        equations_of(call, *tensors_of(call))  # what has no adjoint is refused now
    return list(zip(needed, call.outputs, strict=True))


def _of_branches(
    node: Node, callers: Callers, seeds: Sequence[Value], needed: Sequence[Value], source: str
) -> tuple[Value, ...]:
    """What a branch contributes to each value that it captures: a branch under the same condition, of the gradients of both sides."""
    *operands, condition = node.inputs
    captured = [v for v in operands if v is not None]

    def side(region: Function) -> Callable[[], Sequence[Value]]:
        def gradient() -> Sequence[Value]:
            if region.failure:
                raise ShapeError(region.failure)
            floats = [v for v in opened(region, captured) if v.type.dtype.is_float]
            sized = [_sized(g, v, source) for g, v in zip(seeds, floats, strict=True)]
            return _accumulated(floats, sized, needed, captured, callers, source)

        return gradient

    then, otherwise = map(side, node.regions)
    return control.if_(condition, then, otherwise, source or node.source)


def _sized(seed: Value, like: Value, source: str) -> Value:
    """A seed known to have the sizes of a result of one branch, of which the results of both tell less."""
    if seed.type.shape is None or like.type.shape is None or seed.type.shape == like.type.shape:
        return seed
    size = ops.shape_of(like, source=source)
    dims = enumerate(zip(seed.type.shape, like.type.shape))
    return ensured(seed, [None if a == b else ops.gather(size, [k], source=source) for k, (a, b) in dims], source)


def _named(node: Node, callers: Callers) -> str:
    """The op of a call, the ops that call it, each with its line, and where the model has that call."""
    called = "".join(f", which {n.op.full_name} calls ({n.op.source})" for n in callers)
    source = next((n.source for n in (node, *callers) if n.source), "")
    return f"{node.op.full_name}{called}{f' (at {source})' if source else ''}"


def _apart(name: str, names: Sequence[str]) -> str:
    """The name, longer if one of the names begins with it."""
    return _apart(f"{name}_", names) if any(n.startswith(name) for n in names) else name


class _Stated(Equations):
    """Equations of a call whose sizes are known, those that its data decide, too."""

    def unbacked(self, size: Size, value: Any, source: str = "") -> None:
        """Does nothing: the size is a dim of what was computed."""


class _AdjointCall:
    """The call of an op's adjoint: its inputs are those of the op that are present, then the seed of each float result."""

    def __init__(self, node: Node, differentiated: Sequence[Value], named: str) -> None:
        self.node, self.differentiated, self.named = node, differentiated, named
        count = len(node.data_inputs)
        self.data = list(dict.fromkeys(v for v in node.inputs[:count] if v is not None))
        self.operands = node.inputs[count:]
        self.floats = [k for k, v in enumerate(node.outputs) if v.type.dtype.is_float]
        self.names = self._names()
        self.seed = _apart("seed", [*(p.name for p in node.op.params), *self.names.values()])

    def op(self) -> OpDef:
        node = self.node
        return OpDef(
            name=f"gradient of {node.op.name}",
            variant=node.op.variant,
            inputs=(
                *(InputDef(self.name(v), v.type.dtype.name) for v in self.data),
                *(InputDef(f"{self.seed}{k}", node.outputs[k].type.dtype.name) for k in self.floats),
            ),
            params=node.op.params,
            outputs=tuple(OutputDef(f"gradient{k}", v.type.dtype.name) for k, v in enumerate(self.differentiated)),
            dtypes={},
            relation=self.relation,
            kernel=self.kernel,
            source=node.op.source,
        )

    def _names(self) -> dict[Value, str]:
        """What messages call the operands: as the op does, one of several tensors with its place among them."""
        names: dict[Value, str] = {}
        grouped = self.node.grouped_inputs()
        taken = [*grouped, *(p.name for p in self.node.op.params)]
        for name, v in grouped.items():
            numbered = _apart(f"{name}_", taken) if isinstance(v, tuple) else ""
            for k, one in enumerate(v if isinstance(v, tuple) else (v,)):
                if one is not None:
                    names.setdefault(one, f"{numbered}{k}" if numbered else name)
        return names

    def name(self, v: Value) -> str:
        return self.names[v]

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

    def relation(self, rule: Rule, /, **arguments: Any) -> Bound:
        params = {p.name: arguments[p.name] for p in self.node.op.params}
        rule.sizes = self.known_sizes(rule, arguments, params)
        forward = self.node.op.relation(rule, **self.grouped(arguments.__getitem__), **params)
        shapes = self.shapes(forward)
        for k in self.floats:
            rule.equal(shapes[k], arguments[f"{self.seed}{k}"], f"result {k} and what it counts")
        return rule.bind(
            outputs={f"gradient{k}": arguments[self.name(v)] for k, v in enumerate(self.differentiated)},
            forward=forward,
        )

    def shapes(self, forward: Bound) -> list[Any]:
        """The shape of each result."""
        outputs = self.node.op.outputs
        return [s for o in outputs for s in (forward.outputs[o.name] if o.variadic else [forward.outputs[o.name]])]

    def known_sizes(self, rule: Rule, arguments: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes that the op's data decide, by their names in the rule: dims of the seeds tell them, for the gradient finds none."""
        trial = Rule(self.node.op.full_name, self.node.source)
        trial.choices = rule.choices
        forward = self.node.op.relation(trial, **self.grouped(arguments.__getitem__), **params)
        if not trial.data_dependent:
            return {}
        shapes = self.shapes(forward)
        passed = {s for v in arguments.values() if isinstance(v, list | tuple) for n in v for s in free_symbols(n)}
        defined = definitions((((k, axis), n) for k in self.floats for axis, n in enumerate(shapes[k])), passed)
        values: dict[Dim, Size] = {}
        for s, definition in defined.items():
            k, axis = definition.place
            values[s] = definition.of(arguments[f"{self.seed}{k}"][axis], values)
        return {name: values[n] for name, n in trial.data_dependent.items() if n in values}

    def kernel(self, eqs: Equations, bound: Any) -> None:
        node, forward = self.node, bound.forward
        ins: dict[str, Any] = {}
        data, equal = self.tensors(eqs)
        for i, (name, operand) in zip(node.op.inputs, self.grouped(data.__getitem__).items(), strict=True):
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
        define_the_rest(stated)
        accumulate(stated)
        seeds = {results[k]: eqs.tensor(f"{self.seed}{k}") for k in self.floats}
        targets = {data[self.name(v)]: eqs.tensor(f"gradient{k}") for k, v in enumerate(self.differentiated)}
        try:
            state_adjoint(eqs, stated.equations, seeds, targets)
        except NotDifferentiable as e:
            raise UnsupportedError(f"no gradient of {self.named}: {e}") from None
        programs: dict[StepProgram, StepProgram] = {}
        eqs.equations = [reading_others(q, equal, programs) for q in eqs.equations]

    def tensors(self, eqs: Equations) -> tuple[dict[str, Tensor], dict[Tensor, Tensor]]:
        """The tensor of each input, and what to read in its place: inputs of which a pass found that they are equal are one tensor, and
        have gradients of their own."""
        data: dict[str, Tensor] = {}
        equal: dict[Tensor, Tensor] = {}
        for name in map(self.name, self.data):
            t = eqs.tensor(name)
            data[name] = Tensor(name, t.dtype, t.shape) if t in data.values() else t
            equal[data[name]] = t
        return data, equal
