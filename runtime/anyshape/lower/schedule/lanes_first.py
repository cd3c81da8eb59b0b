"""What the lanes of a vector need, before the loops that do not change it.

In: the stores of a scope, and the planned scope. Out: stores in which short sums of looked-up elements are written out, so that each
iteration's place and weight are values of their own; a scope whose vector is outside of loops that leave the places of its lanes alone:
samples of a row are at the same columns in all rows and channels, so that columns and weights are computed once for all of them, and held
in registers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from anyshape import dims
from anyshape.lower.analyse.classify import cost, cost_of_all
from anyshape.lower.analyse.collapse import Numbered, Rebuild
from anyshape.lower.ir.dag import Dag, DagNode, Load, LoopVar, Operation, Reduction, walk
from anyshape.lower.ir.stores import Store, below, reductions_of
from anyshape.lower.schedule.tree import Scope

WORTH = 8
"""Cycles per vector of places that are worth other loops: not of places that are read from memory, which lie in the first cache."""
HEAVY = 60
"""Cycles per vector of what depends on the lanes alone that are worth other loops: some exponentials or logarithms."""
MOST_ITERATIONS = 16
"""The most iterations of a sum that are written out: four by four."""


def write_out_lookups(dag: Dag, stores: Sequence[Store], assumed: Mapping[LoopVar, int]) -> list[Store]:
    """The stores with sums of a few elements, each at a computed place of its own, written out. `assumed` are extents that only the run
    knows."""
    written: dict[DagNode, DagNode] = {}
    for r in _sums_of_lookups(stores):
        iterations = [assumed.get(v, v.extent) for v in r.variables]
        numbers = [n for n in iterations if isinstance(n, int)]
        if len(numbers) == len(iterations) and 0 < math.prod(numbers) <= MOST_ITERATIONS:
            body = Rebuild(dag, written).node(r.body)
            places = itertools.product(*map(range, numbers))
            terms = [Numbered(dag, {}, dict(zip(r.variables, place))).node(body) for place in places]
            total = terms[0]
            for term in terms[1:]:
                total = dag.op("add", r.dtype, total, term)
            written[r] = total
    return [Rebuild(dag, written).store(s) for s in stores] if written else list(stores)


def usual_iterations(stores: Sequence[Store]) -> dict[LoopVar, int]:
    """The variables of sums of lookups whose extents only the run knows, and what they usually are: the most of each of the last two, as
    images have two axes along which they are sampled, and 1 of others. Without those of sums that may have many iterations."""
    usual: dict[LoopVar, int] = {}
    for r in _sums_of_lookups(stores):
        highs = {v: dims.bounds(v.extent)[1] for v in r.variables}
        most = {v: n for v, n in highs.items() if n is not None and not isinstance(v.extent, int)}
        iterations = {v: n if v in list(most)[-2:] else 1 for v, n in most.items()}
        known = [iterations.get(v, n) for v, n in highs.items() if n is not None]
        if len(known) == len(highs) and 0 < math.prod(known) <= MOST_ITERATIONS:
            usual |= iterations
    return usual


def _sums_of_lookups(stores: Sequence[Store]) -> list[Reduction]:
    sums = (r for r in reductions_of(stores) if r.kind == "sum" and r.body.dtype == r.dtype)
    return [r for r in sums if any(_looks_up(n, r) for n in walk([r.body])) and not _runs_again(r)]


def _runs_again(r: Reduction) -> bool:
    """Whether a reduction inside runs over a variable of the sum itself, as the largest of a row does whose softmax is summed: it has the
    same value in every iteration."""
    return any(isinstance(n, Reduction) and set(n.variables) & set(r.variables) for n in walk([r.body]))


def _looks_up(n: DagNode, r: Reduction) -> bool:
    return isinstance(n, Load) and any(v in let.domain for let, _ in n.access.address.lets for v in r.variables)


def are_lanes_heavy(stores: Iterable[Store], v: LoopVar) -> bool:
    """Whether the values that depend on nothing but the lanes take long, of those that others are made of."""
    along = frozenset((v,))
    read = {m for n in below(stores) if n.domain != along for m in n.inputs} | {s.value for s in stores}
    return cost_of_all([n for n in read if isinstance(n, Operation) and n.domain == along], along) >= HEAVY


def lanes_first(scope: Scope) -> Scope:
    """The scope with its vector outside of the innermost loops that change none of the computed places of its lanes: as many as have some
    iterations, and no more, so that what they read and write stays in the caches from one vector to the next. So are long expressions of
    the lanes alone."""
    v = scope.vector
    if v is None or scope.fills or scope.transposed is not None or scope.windows is not None:
        return scope
    loads = [n for n in below(scope.stores) if isinstance(n, Load)]
    places = [let for n in loads for let, _ in n.access.address.lets if v in let.domain]
    changing = frozenset((v,)).union(*(let.domain for let in places))
    inner: list[LoopVar] = []
    iterations = 1
    for w in reversed(scope.variables):
        if w not in changing and iterations < MOST_ITERATIONS:
            inner.insert(0, w)
            iterations *= w.extent if isinstance(w.extent, int) else MOST_ITERATIONS
    of_places = sum(cost(let, frozenset((v,))) for let in dict.fromkeys(places))
    if not inner or (of_places < WORTH and not are_lanes_heavy(scope.stores, v)):
        return scope
    outer = tuple(w for w in scope.variables if w is not v and w not in inner)
    return replace(scope, variables=(*outer, v), steps=[Scope(tuple(inner), None, scope.steps)])
