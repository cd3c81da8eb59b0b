"""Ops in place of which others, with the same results and fewer operations, are called where that takes less time.

In: a call of an op that has algorithms (`OpDef.algorithms`), with a constant for what they transform ahead. Out: the calls that the one of
least cost is made of, or None. Where sizes that only the run tells decide, they are a branch of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from anyshape import control, dims
from anyshape.dims import Dim, Facts, Size
from anyshape.dtypes import F32
from anyshape.equations.expr import Read, Reduce
from anyshape.equations.traversal import walk
from anyshape.errors import AnyshapeError
from anyshape.expansion.composition import expand
from anyshape.graph.alike import alike
from anyshape.graph.function import Function
from anyshape.graph.infer import build, equations_of, tensors_of
from anyshape.graph.matching import make
from anyshape.graph.opdef import AlgorithmDef
from anyshape.graph.regions import spliced
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.contractions import EXPRESSIONS, contraction_of
from anyshape.rules import Rule

LARGE, SMALLER = 224, (48, 12, 6)
"""Sides of pictures between which a model of any sizes may change its algorithms: the large one, and the first of the smaller ones at which
others are best. Beyond, it keeps those of the end. Signals of one dim have as many elements as such pictures."""
CYCLES_PER_BYTE = 0.13
"""Cycles per byte of a product's constants, which come from beyond the second cache in every call, while the product is computed."""
CYCLES_PER_VECTOR, BEYOND_SECOND_CACHE, BEYOND_LAST_CACHE = 4.5, 9.0, 24.0
"""Cycles per vector that a transform reads or writes: where half of the second cache holds all of them, the last one, or none."""
CYCLES_PER_KERNEL = 1500.0
"""Cycles per kernel, whatever it computes."""
CYCLES_PER_VECTOR_OF_GROUPS = 54.0
"""Cycles per vector of a transform where channels are split into groups, so that they do not lie side by side, and one vector is multiplied
and added in a cycle: half where there are two."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """A processor's vectors: elements of f32 in one, how many it multiplies and adds in a cycle, bytes of the second cache, and those
    that the last one holds from one kernel to the next."""

    lanes: int
    multiply_adds: int
    second_cache: int
    last_cache: int

    def cycles_of_transformed(self, elements: int) -> float:
        """Cycles for each vector of a transform that reads and writes so many elements of f32."""
        size = elements * F32.itemsize
        if 2 * size <= self.second_cache:
            return CYCLES_PER_VECTOR
        return BEYOND_SECOND_CACHE if size <= self.last_cache else BEYOND_LAST_CACHE


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A way to compute the results of a call: by an algorithm, whose nodes these are, or as it is."""

    algorithm: AlgorithmDef | None
    works: Sequence[_Work]


@dataclass(frozen=True, eq=False)
class _ChosenCandidate:
    """The candidate that was chosen for a call among all, and the symbols of the call that stand for batches."""

    candidate: _Candidate
    candidates: Sequence[_Candidate]
    symbols: frozenset[Dim]
    batches: frozenset[Dim]


@dataclass
class Algorithms:
    """The rule for a processor's vectors. `growth`: the most by which an algorithm may multiply the bound of errors.
    `side`: the sizes that only the run tells, but for the first of an operand, which is one, and the `lengths` of signals, which are its
    square. `choices` are those that were made."""

    vectors: Vectors
    growth: float
    side: int = LARGE
    _: KW_ONLY
    choices: list[_ChosenCandidate] = field(default_factory=list)
    known: dict[Any, list[_Candidate]] = field(default_factory=dict)
    """Ways of calls that differ in nothing but their operands."""
    facts: Facts = field(default_factory=Facts)
    """What the checks at the entry of the function say."""
    lengths: frozenset[Dim] = frozenset()

    def inside(self) -> Algorithms:
        """Chooses no other algorithms in regions: what those are run for is not known."""
        return Algorithms(self.vectors, 0.0)

    def __call__(self, node: Node) -> Sequence[Value] | None:
        if not node.op.algorithms or node.bound is None:
            return None
        key = (node.op, alike(node.attrs), tuple(None if v is None else (v.type, v.is_constant) for v in node.inputs))
        if key not in self.known:
            self.known[key] = self.candidates(node)
        if len(self.known[key]) == 1:
            return None
        symbols = frozenset(s for v in node.inputs if v is not None for s in v.type.symbols())
        candidates = self.known[key]
        best = self.best(_ChosenCandidate(candidates[0], candidates, symbols, _first_symbols(node)), self.side)
        self.choices.append(best)
        return None if best.candidate.algorithm is None else _called(node, best.candidate.algorithm, self.facts)

    def best(self, choice: _ChosenCandidate, side: int) -> _ChosenCandidate:
        """The choice for pictures of that side, for the same call."""
        choices = (replace(choice, candidate=candidate) for candidate in choice.candidates)
        return min(choices, key=lambda other: self.cost(other, side))

    def changes_at(self, side: int) -> bool:
        """Whether another candidate is the best one of any call for pictures of that side."""
        return any(self.best(choice, side).candidate is not choice.candidate for choice in self.choices)

    def candidates(self, node: Node) -> list[_Candidate]:
        """All ways to compute the results of a call."""
        candidates = [_Candidate(None, _works([node]))]
        for each in node.op.algorithms:
            values = _called(node, each, self.facts) if each.growth <= self.growth and _applies(node, each) else None
            candidates += [_Candidate(each, _works(_new(node, values)))] if values is not None else []
        return candidates

    def cost(self, choice: _ChosenCandidate, side: int) -> float:
        """Rough cycles of a candidate for pictures of that side; not of what is computed of constants alone."""
        sizes = {s: 1 if s in choice.batches else self.size(s, side) for s in choice.symbols}
        return sum(work.cycles(sizes, self.vectors) for work in choice.candidate.works)

    def size(self, symbol: Dim, side: int) -> int:
        """What stands for a size that only the run tells, for pictures of that side."""
        return side**2 if symbol in self.lengths else side

    def total(self, side: int) -> float:
        """Rough cycles of all calls as they were chosen, for other sizes."""
        return sum(self.cost(choice, side) for choice in self.choices)


@dataclass(frozen=True)
class _Work:
    """What a call does: `products` of contractions with so many `constants` bytes, or `moved` elements. `split`: of an axis that two
    variables of the result number, as groups and the channels of each do."""

    products: tuple[Size, ...]
    constants: Size
    moved: Size
    split: bool

    @classmethod
    def of(cls, node: Node, known: Set[Value]) -> _Work:
        """The work of a call, of whose inputs these are `known` when a model is compiled."""
        inputs = [v for v in node.inputs if v is not None]
        products: list[Size] = []
        split = False
        for q in equations_of(node, *tensors_of(node)).equations:
            several = {v for v in q.variables if v.extent != 1}
            split |= any(len(i.free & several) > 1 for i in q.index)
            for e in walk(q.value):
                split |= isinstance(e, Read) and any(len(i.free & several) > 1 for i in e.index)
                c = contraction_of(EXPRESSIONS, e) if isinstance(e, Reduce) else None
                if c is not None:
                    a, b = map(EXPRESSIONS.variables, c.factors)
                    products.append(math.prod((v.extent for v in sorted(a | b, key=lambda v: v.serial)), start=1))
        constants: Size = 0
        for v in inputs:
            constants = constants + (v.type.count() * v.type.dtype.itemsize if v.is_constant or v in known else 0)
        moved: Size = 0
        for v in (*inputs, *node.outputs):
            moved = moved + v.type.count()
        return cls(tuple(products), constants, moved, split)

    def cycles(self, sizes: dict[Dim, int], vectors: Vectors) -> float:
        if not self.products:
            moved = _number(self.moved, sizes)
            each = vectors.cycles_of_transformed(moved)
            if self.split:
                each = max(each, CYCLES_PER_VECTOR_OF_GROUPS / vectors.multiply_adds)
            return moved / vectors.lanes * each + CYCLES_PER_KERNEL
        products = sum(_number(n, sizes) for n in self.products) / vectors.lanes / vectors.multiply_adds
        return max(products, _number(self.constants, sizes) * CYCLES_PER_BYTE) + CYCLES_PER_KERNEL


def _works(nodes: Iterable[Node]) -> list[_Work]:
    """What calls do whose results are no constants and no sizes, but for maps, which are part of the kernel before or behind them."""
    works: list[_Work] = []
    known: set[Value] = set()
    for n in sorted(nodes, key=lambda n: n.serial):
        if all(v is None or v.is_constant or v in known for v in n.inputs):
            known.update(n.outputs)
        elif n.op.kernel is not None and any(v.contents is None for v in n.outputs) and not _is_map(n):
            works.append(_Work.of(n, known))
    return works


def _is_map(node: Node) -> bool:
    """Whether each element of the results is made of those at its own place."""
    equations = equations_of(node, *tensors_of(node)).equations
    reads = ((q, e) for q in equations for e in walk(q.value) if isinstance(e, Read | Reduce))
    return all(isinstance(e, Read) and e.index == q.index for q, e in reads)


def by_size(
    f: Function, optimised: Callable[[Function, Algorithms], Function], vectors: Vectors, growth: float
) -> Function:
    """The function with algorithms in it. Where the best ones depend on sizes that only the run tells, it is a branch: one side for small
    operands, one for large ones, each with all nodes, so that these share kernels and memory as they do without a branch."""
    large = Algorithms(vectors, growth, lengths=_lengths(f))
    for check in f.checks:
        large.facts.learn(check.cond)
    of_large = optimised(f, large)
    if not large.choices:
        return f
    if not any(choice.symbols - choice.batches for choice in large.choices):
        return of_large
    low, high = next((side for side in SMALLER if large.changes_at(side)), None), LARGE
    if low is None:
        return of_large
    small = replace(large, side=low, choices=[])
    of_small = optimised(f, small)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if large.total(middle) < small.total(middle) else (middle, high)
    x = max(f.params, key=lambda p: len(p.type.symbols()))
    least = _number(x.type.count(), {s: 1 if s in _leading(x) else large.size(s, high) for s in x.type.symbols()})

    def side(chosen: Function) -> Callable[[], Sequence[Value]]:
        plain = Function(chosen.params, chosen.results, chosen.name)
        return lambda: spliced(plain, f.params) or ()

    condition = make("greater_equal", [make("size", [x], {}, ""), np.int64(least)], {}, "")
    results = control.if_(condition, side(of_large), side(of_small))
    checks = list(dict.fromkeys((*of_large.checks, *of_small.checks)))
    branched = Function(f.params, results, f.name, f.result_names, checks=checks, form=f.form)
    return optimised(branched, Algorithms(vectors, 0.0))


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


def _called(node: Node, each: AlgorithmDef, facts: Facts) -> Sequence[Value] | None:
    """The results of a call by an algorithm; None where it would make checks in the run, which would keep constants from being one."""
    op = all_ops()[_full_name(node, each)]
    names = {p.name for p in op.params}
    if node.op.operands or node.checks:
        return None
    try:
        call = build(op, node.inputs, {name: a for name, a in node.attrs.items() if name in names}, node.source, facts)
        return None if call.checks else expand(call)
    except AnyshapeError:
        return None


def _new(node: Node, values: Sequence[Value]) -> list[Node]:
    """The nodes that values are made of, as far as they are not there yet."""
    nodes: dict[Node, None] = {}
    pending = [v.node for v in values]
    while pending:
        n = pending.pop()
        if n is not None and n.serial > node.serial and n not in nodes:
            nodes[n] = None
            pending += [v.node for v in n.inputs if v is not None]
    return [*nodes]


def _first_symbols(node: Node) -> frozenset[Dim]:
    first = node.inputs[0] if node.inputs else None
    return frozenset() if first is None else _leading(first)


def _lengths(f: Function) -> frozenset[Dim]:
    """The sizes of parameters that have one of them only, behind their first dim."""
    unknown = ([d for d in (p.type.shape or ())[1:] if not isinstance(d, int)] for p in f.params)
    return frozenset(s for own in unknown if len(own) == 1 for s in dims.free_symbols(own[0]))


def _leading(v: Value) -> frozenset[Dim]:
    return frozenset(dims.free_symbols(v.type.shape[0])) if v.type.shape else frozenset()


def _number(n: Size, usual: dict[Dim, int]) -> int:
    """A size with numbers for its symbols; 1 for one that is no operand's, such as a parameter."""
    return int(dims.evaluate(n, {s: usual.get(s, 1) for s in dims.free_symbols(n)}))
