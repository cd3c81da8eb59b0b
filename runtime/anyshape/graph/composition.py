"""Ops that are calls of other ops: what their bodies build with, and the ops that come along with each.

In: a node of an op that has a `Composition`. Out: what its body reads of the call; `expansion.composition` puts the body in the place of
the call. Four ops come along with every such op, and are named after it:

    op.input.x           a view of an input, which makes the checks of the op's rule before anything is computed from it
    op.size, op.truth    what the body reads of the rule: a size or a vector of sizes, or a condition; `of` is its text
    op.number.f32        a float that is computed from them, as a default may be
    op.output.y.f32      a view of a result, which checks that it has the shape that the rule says
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anyshape.dims import Cond, Dim
from anyshape.dtypes import F64, DType, accum, is_dtype_name, parse_dtype
from anyshape.equations import Equations
from anyshape.errors import ArgumentError
from anyshape.graph.infer import build
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef
from anyshape.graph.value import Node, Value, constant
from anyshape.rules import Bound, Rule, Vec

if TYPE_CHECKING:
    from anyshape.graph.opdef import Relation

LoopBody = Callable[..., list[Any]]


@dataclass(frozen=True)
class Composition:
    """The body of an op, as its spec states it."""

    build: Callable[[Composing], Sequence[Any]]
    """Gives the outputs; a variadic one as a sequence."""
    sizes: Mapping[str, Callable[[Rule, Bound], Any]]
    """Expressions of the rule that the body reads where a tensor may stand, by their text."""
    truths: frozenset[str] = frozenset()
    """The texts of `sizes` that are conditions."""
    numbers: Mapping[str, Callable[[Bound], Any]] = field(default_factory=dict)
    """Floats that are computed from sizes, where a parameter without a value has such a default, by their text."""


class ControlFlow(Protocol):
    """The interface by which bodies build branches and loops: `anyshape.control`."""

    def if_(
        self, cond: Any, then: Callable[[], list[Any]], otherwise: Callable[[], list[Any]], source: str, /
    ) -> tuple[Any, ...]: ...

    def loop(
        self,
        trip: Any,
        body: LoopBody,
        carried: Sequence[Any],
        cond: Any,
        collects: int,
        source: str,
        names: Sequence[str],
        /,
    ) -> tuple[Any, ...]: ...


class Composing:
    """The arguments of a body: the inputs of one call, the names of its rule, its dtypes."""

    def __init__(self, node: Node, control: ControlFlow) -> None:
        assert node.op.composition is not None and node.bound is not None
        self.node, self.source, self.bound, self.control = node, node.source, node.bound, control
        self.sizes, self.truths = node.op.composition.sizes, node.op.composition.truths
        self.rule = Rule(node.op.full_name, node.source)
        self.inputs = _checked(node) if node.checks else node.inputs

    def input(self, name: str) -> Any:
        """An input; None for one that is absent, its constant if it has one, a tuple of a variadic one."""
        op = self.node.op
        value = replaced(self.node, self.inputs).grouped_inputs()[name]
        (d,) = (i for i in op.inputs if i.name == name)
        if value is None and d.default is not None:
            dtype = self.dtype(d.dtype)
            return constant(dtype.numpy.type(d.absent(dtype)))
        return value

    def present(self, name: str) -> bool:
        """Whether the call gives that input."""
        return self.node.grouped_inputs()[name] is not None

    def dtype(self, key: str) -> DType:
        """The dtype that a dtype variable has in this call, or the dtype of that name."""
        known = self.node.dtypes.get(key)
        return parse_dtype(key) if known is None else known

    def matrix(self, rows: Sequence[Sequence[float]]) -> Value:
        """A matrix of the spec, in the dtype that elements of the first input are summed in."""
        return constant(np.array(rows, accum(self.dtype(self.node.op.inputs[0].dtype)).numpy))

    def size(self, text: str) -> Any:
        """A size that the rule knows: a number, a truth, a tuple of numbers, or a Value where only the run tells."""
        rule = Rule(self.node.op.full_name, self.source)
        value = self.sizes[text](rule, self.bound)
        items = value if isinstance(value, Vec) else (value,)
        if not rule.checks and not any(isinstance(n, Dim | Cond) for n in items):
            return tuple(items) if isinstance(value, Vec) else value
        call = replaced(self.node, self.inputs)
        op = _size(self.node.op, text in self.truths)
        return build(op, call.inputs, {**call.attrs, "of": text}, self.source).outputs[0]

    def number(self, text: str) -> Any:
        """A float: a number where a parameter gives it, else a Value of the dtype of the first input of floats."""
        composition = self.node.op.composition
        assert composition is not None
        value = composition.numbers[text](self.bound)
        if isinstance(value, (int, float)):
            return value
        dtypes = [self.dtype(i.dtype) for i in self.node.op.inputs]
        op = _number(self.node.op, next((t for t in dtypes if t.is_float), F64))
        return build(op, replaced(self.node, self.inputs).inputs, {**self.node.attrs, "of": text}, self.source).outputs[
            0
        ]

    def if_(self, cond: Any, then: Callable[[], list[Any]], otherwise: Callable[[], list[Any]]) -> tuple[Any, ...]:
        return self.control.if_(cond, then, otherwise, self.source)

    def loop(
        self,
        trip: Any,
        body: LoopBody,
        carried: Sequence[Any],
        names: Sequence[str],
        collects: int = 0,
        cond: Any = None,
    ) -> tuple[Any, ...]:
        return self.control.loop(trip, body, carried, cond, collects, self.source, names)


def replaced(node: Node, inputs: Sequence[Value | None]) -> Node:
    """The call with other operands, its types not inferred."""
    copy = Node(node.op, tuple(inputs), node.attrs, node.source)
    copy.bound, copy.dtypes = node.bound, node.dtypes
    return copy


def is_guarded(node: Node) -> bool:
    """Whether the checks of the rule stand before the inputs: there are some, and not any number of them."""
    return not any(i.variadic for i in node.op.inputs) and any(v is not None for v in node.grouped_inputs().values())


def _checked(node: Node) -> tuple[Value | None, ...]:
    """The operands, each of the data with the checks of the rule before it."""
    if not is_guarded(node):
        return node.inputs
    operands = list(node.inputs)
    for k, i in enumerate(node.op.inputs):
        if node.inputs[k] is not None:
            operands[k] = build(_input(node.op, i.name), node.inputs, node.attrs, node.source).outputs[0]
    return tuple(operands)


# --- the ops that come along


def part_of(full_name: str) -> OpDef | None:
    """The op derived from a composed op that has this name (a size, a checked input, an output); None if there is none."""
    from anyshape.graph.registry import all_ops

    words = full_name.split(".")
    cut = 2 if words[0] in ("static", "dyn") else 1
    op = all_ops().get(".".join(words[:cut]))
    if op is None or op.composition is None:
        return None
    inputs, outputs = {i.name for i in op.inputs}, {o.name for o in op.outputs}
    match words[cut:]:
        case ["size" | "truth" as kind]:
            return _size(op, kind == "truth")
        case ["number", dtype] if is_dtype_name(dtype):
            return _number(op, parse_dtype(dtype))
        case ["input", name] if name in inputs:
            return _input(op, name)
        case ["output", name, dtype] if name in outputs:
            return output_of(op, name, dtype)
    return None


@cache
def _size(op: OpDef, truth: bool) -> OpDef:
    """A size as an op on the same operands: it is what the rule finds for them, whatever is known of them by then."""
    assert op.composition is not None
    sizes = op.composition.sizes

    def relation(rule: Rule, of: str, **operands: Any) -> Bound:
        rule.op = op.full_name
        bound = op.relation(rule, **operands)
        if of not in sizes:
            raise ArgumentError(f"{op.full_name}: its body reads no size {of!r}; it reads {', '.join(sizes)}")
        value = sizes[of](rule, bound)
        items = value if isinstance(value, Vec) else None
        return rule.bind(outputs={"size": Vec(()) if items is None else Vec((len(items),))}, value=value)

    def kernel(eqs: Equations, bound: Bound) -> None:
        size = eqs.tensor("size")
        if isinstance(bound.value, Vec):
            for k, n in enumerate(bound.value):
                eqs.define(size[k], n, op.source)
        else:
            eqs.define(size[()], bound.value, op.source)

    size_op = _derived(op, "truth" if truth else "size", OutputDef("size", "bool" if truth else "i64"), relation)
    return replace(size_op, params=(ParamDef("of", "str"), *op.params), kernel=kernel)


@cache
def _number(op: OpDef, dtype: DType) -> OpDef:
    """A float that is computed from sizes, as an op on the same operands."""
    assert op.composition is not None
    numbers = op.composition.numbers

    def relation(rule: Rule, of: str, **operands: Any) -> Bound:
        rule.op = op.full_name
        if of not in numbers:
            raise ArgumentError(f"{op.full_name}: its body reads no number {of!r}; it reads {', '.join(numbers)}")
        return rule.bind(outputs={"number": Vec(())}, inner=op.relation(rule, **operands), of=of)

    def kernel(eqs: Equations, bound: Bound) -> None:
        eqs.define(eqs.tensor("number")[()], numbers[bound.of](bound.inner), op.source)

    number = _derived(op, f"number.{dtype}", OutputDef("number", str(dtype)), relation)
    return replace(number, params=(ParamDef("of", "str"), *op.params), kernel=kernel)


@cache
def _input(op: OpDef, name: str) -> OpDef:
    (declared,) = (i for i in op.inputs if i.name == name)

    def relation(rule: Rule, **operands: Any) -> Bound:
        rule.op = op.full_name
        op.relation(rule, **operands)
        shape = Vec(rule.facts.canonical(n) for n in operands[name])
        return rule.bind(outputs={"same": shape})

    return replace(_derived(op, f"input.{name}", OutputDef("same", declared.dtype), relation), view={"same": name})


@cache
def output_of(op: OpDef, name: str, dtype: str) -> OpDef:
    """An op that checks an output of a body against the rule. Its attribute `element` is that of a variadic output, else -1."""

    def relation(rule: Rule, computed: Any, element: int, **operands: Any) -> Bound:
        rule.op = op.full_name
        expected = op.relation(rule, **operands).outputs[name]
        expected = expected if element < 0 else expected[element]
        return rule.bind(outputs={"same": rule.equal(expected, computed, f"{name}, as its body makes it")})

    derived = _derived(op, f"output.{name}.{dtype}", OutputDef("same", dtype), relation)
    inputs, params = (InputDef("computed", dtype), *op.inputs), (ParamDef("element", "int"), *op.params)
    return replace(derived, inputs=inputs, params=params, view={"same": "computed"})


def _derived(op: OpDef, part: str, output: OutputDef, relation: Relation) -> OpDef:
    """An op on the operands of another, with its name before its own."""
    name = f"{op.full_name}.{part}"
    return replace(
        op, name=name, variant="", outputs=(output,), relation=relation, composition=None, kernel=None, view={}, traits=(), rewrites=()
    )  # fmt: skip
