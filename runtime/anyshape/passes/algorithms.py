"""Ops in place of which others, with the same results and fewer operations, are called where that takes less time.

In: a call of an op that has algorithms (`OpDef.algorithms`), with a constant for what they transform ahead. Out: the calls that the one of
least cost is made of, or None. Sizes that only the run tells count as those of a usual call: `BATCH` along the first dim of the first
operand, `SIDE` elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anyshape import dims
from anyshape.dims import Dim, Facts, Size
from anyshape.equations.expr import Reduce
from anyshape.equations.traversal import walk
from anyshape.errors import AnyshapeError
from anyshape.expansion.composition import expand
from anyshape.graph.infer import build, equations_of, tensors_of
from anyshape.graph.opdef import AlgorithmDef
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.contractions import EXPRESSIONS, contraction_of
from anyshape.passes.simplify import still_checks
from anyshape.rules import Rule

BATCH, SIDE = 1, 224
"""Sizes that only the run tells: the first dim of what is computed with, and every other."""
CYCLES_PER_BYTE = 0.2
"""Of constants of a product, which come from beyond the second cache in every call, while the product is computed."""
CYCLES_PER_KERNEL = 1500.0
LEAST_VECTORS = 1
CYCLES_PER_VECTOR = 3.5
"""Of values that are transformed, each vector that is read or written."""


@dataclass(frozen=True)
class Algorithms:
    """The rule for vectors of so many elements. `growth`: the most by which an algorithm may multiply the bound of errors in a direction."""

    lanes: int
    growth: float

    def __call__(self, node: Node) -> Sequence[Value] | None:
        if not node.op.algorithms or node.bound is None:
            return None
        usual = {s: BATCH if s in _first_symbols(node) else SIDE for v in node.inputs if v is not None for s in v.type.symbols()}
        best, least = None, self.cycles([node], usual)
        for each in node.op.algorithms:
            if each.growth <= self.growth and _applies(node, each):
                values = _called(node, each)
                if values is not None and (cost := self.cycles(_new(node, values), usual)) < least:
                    best, least = values, cost
        return best

    def cycles(self, nodes: Iterable[Node], usual: dict[Dim, int]) -> float:
        """Rough cycles of calls, but of those on constants alone."""
        return sum(self._cycles(n, usual) for n in nodes if not all(v is None or v.is_constant for v in n.inputs))

    def _cycles(self, node: Node, usual: dict[Dim, int]) -> float:
        if node.op.kernel is None or all(v.contents is not None for v in node.outputs):
            return 0.0
        products = sum(self._products(node, usual))
        if products:
            constants = sum(v.constant.nbytes for v in node.inputs if v is not None and v.constant is not None)
            constants += sum(_number(v.type.count(), usual) * v.type.dtype.itemsize for v in node.inputs if v is not None and _made(v))
            return max(products, constants * CYCLES_PER_BYTE)
        vectors = sum(self._vectors(v, usual) for v in (*node.inputs, *node.outputs) if v is not None)
        return vectors * CYCLES_PER_VECTOR + CYCLES_PER_KERNEL

    def _vectors(self, v: Value, usual: dict[Dim, int]) -> int:
        """The vectors of a value, each of elements of one row."""
        *outer, last = (_number(n, usual) for n in v.type.shape or (1,))
        return math.prod(outer) * -(-last // self.lanes)

    def _products(self, node: Node, usual: dict[Dim, int]) -> Iterator[float]:
        """Cycles of the contractions of a call: two multiply-adds of vectors each, along what the result is contiguous in."""
        for q in equations_of(node, *tensors_of(node)).equations:
            for e in walk(q.value):
                c = contraction_of(EXPRESSIONS, e) if isinstance(e, Reduce) else None
                if c is not None:
                    a, b = (EXPRESSIONS.variables(f) for f in c.factors)
                    along = b - a if q.index[-1].free & b else a - b
                    columns = math.prod(_number(v.extent, usual) for v in along)
                    rows = math.prod(_number(v.extent, usual) for v in (a | b) - along)
                    yield rows * max(-(-columns // self.lanes), LEAST_VECTORS) / 2 + CYCLES_PER_KERNEL


def _applies(node: Node, each: AlgorithmDef) -> bool:
    held = node.grouped_inputs()[each.constant]
    rule = Rule(node.op.full_name)
    return (
        isinstance(held, Value)
        and held.is_constant
        and held.type.dtype in all_ops()[_full_name(node, each)].dtypes[_dtype_of(node, each)]
        and rule.decide(each.applies(rule, node.bound)) is True
    )


def _dtype_of(node: Node, each: AlgorithmDef) -> str:
    return next(i.dtype for i in all_ops()[_full_name(node, each)].inputs if i.name == each.constant)


def _full_name(node: Node, each: AlgorithmDef) -> str:
    variants = (f"{node.op.variant}.{each.op}", each.op)
    return next(name for name in variants if name in all_ops())


def _called(node: Node, each: AlgorithmDef) -> Sequence[Value] | None:
    """The results of a call by an algorithm; None where it would check what the call does not."""
    op = all_ops()[_full_name(node, each)]
    names = {p.name for p in op.params}
    if node.op.operands:
        return None
    try:
        call = build(op, node.inputs, {name: a for name, a in node.attrs.items() if name in names}, node.source)
        values = expand(call)
    except AnyshapeError:
        return None
    asked = Facts()
    for check in node.checks:
        asked.learn(check.cond)
    if values is None or any(asked.decide(check.cond) is not True for check in call.checks):
        return None
    return values if still_checks(node, values) else None


def _new(node: Node, values: Sequence[Value]) -> list[Node]:
    """The nodes that values are made of, as far as they are not there yet."""
    found: dict[Node, None] = {}
    pending = [v.node for v in values]
    while pending:
        n = pending.pop()
        if n is not None and n.serial > node.serial and n not in found:
            found[n] = None
            pending += [v.node for v in n.inputs if v is not None]
    return [*found]


def _made(v: Value) -> bool:
    """Whether a value is computed of constants alone, and so is one."""
    return v.constant is None and v.node is not None and all(w is None or w.is_constant for w in v.node.inputs)


def _first_symbols(node: Node) -> frozenset[Dim]:
    shape = node.inputs[0].type.shape if node.inputs and node.inputs[0] is not None else None
    return frozenset(dims.free_symbols(shape[0])) if shape else frozenset()


def _number(n: Size, usual: dict[Dim, int]) -> int:
    return int(dims.evaluate(n, {**{s: SIDE for s in dims.free_symbols(n)}, **usual}))
