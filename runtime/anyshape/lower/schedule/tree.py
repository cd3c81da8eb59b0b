"""The schedule tree: which loops are shared, what each computes, which variable is the vector.

In: stages of stores. Out: `Scope`s and `Loop`s. The one rule: the variables common to the domains of all reductions and
outputs become shared loops; inside, reductions of one level with the same inner variables share a loop, and a reduction
with further free variables is computed for all of them into scratch first. No op is named: softmax comes out as three
loops per row because its equations have three levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import count

from anyshape.dims import Size
from anyshape.lower.analyse.classify import accesses, along_stores, contiguous, cost, vote
from anyshape.lower.analyse.empty_iterations import is_cut, with_ranges_of_their_own
from anyshape.lower.analyse.windows import Folded, Windows
from anyshape.lower.analyse.written_out import Tiled
from anyshape.lower.ir.dag import Access, DagNode, IndexBound, Load, LoopVar, Operation, Reduction, walk
from anyshape.lower.ir.stores import Store, below, reductions_of

MOST_STORES = 64
"""The most stores in one loop, and in one function of a kernel: the time of code generation grows faster than the length of a function."""


@dataclass(frozen=True, eq=False, slots=True)
class Tried:
    """Steps that compute the one reduction of a loop in another order, as `value`. Where that is no number the loop runs after all."""

    steps: tuple[Scope | Loop, ...]
    value: DagNode


@dataclass(eq=False)
class Loop:
    """Inner loops over `variables` (none: straight code) that accumulate reductions and perform stores.

    `vector` is the variable that runs along the lanes, if no enclosing scope has taken one; `keep` are subexpressions written to scratch
    here because a later loop reads them; `inside` are loops that each iteration begins with: sums that it adds up.
    """

    variables: tuple[LoopVar, ...]
    vector: LoopVar | None
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()
    keep: tuple[DagNode, ...] = ()
    _: KW_ONLY
    tried: Tried | None = None
    inside: tuple[Loop, ...] = ()

    def write_to_scratch(self, nodes: tuple[DagNode, ...]) -> None:
        self.keep = nodes


@dataclass(eq=False)
class Scratch:
    """Scratch for `node` at all values of `variables`, computed by the steps of a scope that follows in the tree."""

    node: DagNode
    variables: tuple[LoopVar, ...]


@dataclass(eq=False)
class Scope:
    """Shared loops over `variables`; `vector`, one of them, or None. `fills` is scratch that its steps write.

    `transposed` is a variable that operands are contiguous in while `vector` strides through them: square blocks of the two are transposed
    in registers.
    """

    variables: tuple[LoopVar, ...]
    vector: LoopVar | None
    steps: list[Scope | Loop] = field(default_factory=list)
    fills: tuple[Scratch, ...] = ()
    _: KW_ONLY
    transposed: LoopVar | None = None
    windows: Windows[Reduction] | None = None
    """The one reduction by taps, where it runs over a window; no taps where it is written out."""
    folded: Folded | None = None
    """The one reduction, where it runs over windows one dim after the other."""
    spread: bool = False
    """Whether its stores are many of one sum that is written out."""
    tiled: Tiled | None = None
    """The one reduction for each place of a tile, where its tables depend on that."""
    groups: RowGroups | None = None
    """Scopes of several rows at once, which are run in place of this one."""
    usual: Usual | None = None
    """The loops that are run in place of this one where they may be."""
    interior: Interior | None = None
    """What its rows are inside of the bounds of all that they read."""

    @property
    def stores(self) -> tuple[Store, ...]:
        """Stores of all loops in the scope."""
        return tuple(s for step in self.steps for s in step.stores)


@dataclass(frozen=True, eq=False, slots=True)
class Interior:
    """The part of a row in which all bounds hold: `inside` is the loop there, `rows` the scope of whole rows, whose vector is innermost."""

    bounds: tuple[IndexBound, ...]
    rows: Scope
    inside: Loop


@dataclass(frozen=True, eq=False, slots=True)
class Usual:
    """A scope that computes the same where some extents, of loops with few iterations, have these values, and others are not above
    those."""

    extents: tuple[tuple[Size, int], ...]
    scope: Scope
    most: tuple[tuple[Size, int], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class RowGroups:
    """Scopes inside of a loop over `rows` that compute the row where it is and those that follow, by how many these are, the most first."""

    rows: LoopVar
    scopes: Mapping[int, Scope]


StoreOrScratch = Store | Scratch
SHORT_SUM = 5
"""Positions that a reduction has along what it reads, below which most lanes would be empty: they run along results instead. Rows of two to
four elements take 0.15 to 0.8 of the time (sums, argmax, layer norm), of seven 0.8 to 1.3."""
FEW_LANES = 3
"""The elements that lie side by side of which there are too few for a vector."""


def plan(stores: list[Store], around: frozenset[LoopVar] = frozenset()) -> Scope:
    """Plans the tree of one component; loops over `around` are open already."""
    scope = _Planner(set()).scope(list(stores), around, False)
    keep_shared_values(scope)
    return replace(scope, transposed=_transposed_variable(scope))


def _transposed_variable(scope: Scope) -> LoopVar | None:
    """The variable that most of the operands which the vector of a map strides through are contiguous in."""
    if scope.vector is None or len(scope.steps) != 1 or not isinstance(scope.steps[0], Loop):
        return None
    stores, along = scope.steps[0].stores, scope.vector
    if scope.steps[0].reductions or any(x.checks for x, _ in accesses(stores, (), set())):
        return None
    counts = {v: len(transposed_loads(stores, along, v)) for v in scope.variables if v is not along}
    best = max(counts, key=lambda v: counts[v], default=None)
    least = 2 if len(stores) == 1 and isinstance(stores[0].value, Load) else 4  # copies of few planes are picked lanes
    if best is None or not counts[best] or (isinstance(best.extent, int) and best.extent < least):
        return None
    return best


def transposed_loads(stores: Iterable[Store], along: LoopVar, across: LoopVar) -> list[Load]:
    """Plain loads with coefficient 1 for `across` and a stride for `along`."""
    return [n for n in below(stores) if isinstance(n, Load) and _is_transposable(n.access, along, across)]


def _is_transposable(access: Access, along: LoopVar, across: LoopVar) -> bool:
    step = access.address.coefficient(along)
    return access.is_plain and access.address.coefficient(across) == 1 and step not in (0, 1) and not contiguous(step)


def components(stores: list[Store]) -> list[list[Store]]:
    """Groups stores that are computed together: those that share a reduction, and those without one that have the same domain (so many of
    them at most)."""
    numbers = count()
    parts: dict[int, tuple[set[object], list[Store]]] = {}
    part_of: dict[object, int] = {}
    plain: Counter[frozenset[LoopVar]] = Counter()
    for s in stores:
        keys: set[object] = set(reductions_of([s]))
        if not keys:
            keys = {(s.domain, plain[s.domain] // MOST_STORES)}
            plain[s.domain] += 1
        members = [s]
        for number in sorted({part_of[k] for k in keys if k in part_of}):
            other_keys, m = parts.pop(number)
            keys |= other_keys
            members = m + members
        number = next(numbers)
        parts[number] = keys, members
        part_of.update(dict.fromkeys(keys, number))
    return [m for _, m in parts.values()]


def _roots(t: StoreOrScratch) -> tuple[DagNode, ...]:
    return t.roots if isinstance(t, Store) else (t.node,)


def _domain(t: StoreOrScratch) -> frozenset[LoopVar]:
    return t.domain if isinstance(t, Store) else t.node.domain


class _Planner:
    """Planning of scopes. `done` are reductions whose values exist (as a value in an open scope, or in scratch)."""

    def __init__(self, done: Set[DagNode]) -> None:
        self.done = set(done)

    def pending(self, roots: Iterable[DagNode]) -> list[Reduction]:
        """Reductions still to be computed, inner ones first, down to finished ones."""
        seen: set[DagNode] = set()
        order: list[Reduction] = []

        def visit(n: DagNode) -> None:
            if n in seen or n in self.done:
                return
            seen.add(n)
            for a in n.inputs:
                visit(a)
            if isinstance(n, Reduction):
                order.append(n)

        for r in roots:
            visit(r)
        return order

    def pending_of(self, t: StoreOrScratch) -> list[Reduction]:
        return self.pending(_roots(t))

    def scope(self, targets: list[StoreOrScratch], bound: frozenset[LoopVar], vertical: bool) -> Scope:
        """Shared loops around the targets, then their steps."""
        reds = self.pending([r for t in targets for r in _roots(t)])
        domains = [r.domain for r in reds] + [_domain(t) for t in targets]
        shared = frozenset.intersection(*domains) - bound
        order = _ordered(shared, targets, reds)
        vector = None if vertical else self.vector(targets, reds, bound, shared)
        if vector is None and not vertical and not reds and order:
            vector = order[-1]
        if vector is not None:
            order = (*(v for v in order if v is not vector), vector)
        scope = Scope(order, vector, fills=tuple(t for t in targets if isinstance(t, Scratch)))
        self.steps(scope, targets, bound | shared, vertical or vector is not None)
        return scope

    def vector(
        self,
        targets: list[StoreOrScratch],
        reds: list[Reduction],
        bound: frozenset[LoopVar],
        shared: frozenset[LoopVar],
    ) -> LoopVar | None:
        """The free variable with most votes, if all targets share it."""
        stores = targets_of(targets)
        ranked = vote(stores, reds, self.done) if reds else along_stores(stores) or vote(stores, reds, self.done)
        apart = frozenset[LoopVar]().union(*(_walked_alone(r) for r in reds))
        ranked = [v for v in ranked if v not in apart]
        first = next((v for v in ranked if v not in bound), None)
        if first is not None and first not in shared and isinstance(first.extent, int) and first.extent < SHORT_SUM:
            along = [v for v in along_stores(stores)[:1] if v in shared and v not in apart]
            whole = all(s.access.address.coefficient(v) == 1 for s in stores for v in along)
            first = along[0] if reds and along and whole else first
        if first is not None and not reds and isinstance(first.extent, int) and first.extent <= FEW_LANES:
            return _beside(stores, first, shared - bound) or (first if first in shared else None)
        return first if first in shared else None

    def steps(self, scope: Scope, targets: list[StoreOrScratch], bound: frozenset[LoopVar], vertical: bool) -> None:
        left = list(targets)
        while left:
            reds = self.pending([r for t in left for r in _roots(t)])
            ready = [r for r in reds if not self.pending([r.body])]
            here = [r for r in ready if r.domain <= bound]
            final = [t for t in left if not self.pending_of(t)]
            if here or final:
                self._loops(scope, here, final, bound, vertical)
                left = [t for t in left if t not in final]
                self.done.update(here)
                continue
            nested = self._nested(ready, reds, left, bound) if vertical else None
            if nested is not None:
                scope.steps.append(nested)
                self.done.update(nested.reductions)
                continue
            own = _owner(ready, reds, left, self)
            if own is not None:
                inner = _Planner(self.done).scope([own], bound, vertical)
                scope.steps.append(inner)
                left.remove(own)
                if isinstance(own, Scratch):
                    self.done.add(own.node)
                continue
            node = ready[0]
            spill = Scratch(node, _ordered(node.domain - bound, left, [node]))
            scope.steps.append(self._spill(spill, bound, vertical))
            self.done.add(node)

    def _nested(
        self, ready: list[Reduction], reds: list[Reduction], left: list[StoreOrScratch], bound: frozenset[LoopVar]
    ) -> Loop | None:
        """The loop of sums of sums, such that each iteration computes the inner ones where it uses them; None if something else needs
        these too."""
        domain = ready[0].domain
        inner = {r for r in ready if r.domain == domain}
        outer = [
            r
            for r in reds
            if frozenset(r.variables) == domain - bound and r.domain <= bound and self._below(r) <= inner
        ]
        stored = [root for t in left for root in _roots(t)]
        if not outer or not inner <= set().union(*map(self._below, outer)) or _reached(stored, {*outer}) & inner:
            return None
        loops: dict[frozenset[LoopVar], list[Reduction]] = {}
        for r in reds:
            if r in inner:
                loops.setdefault(frozenset(r.variables), []).append(r)
        inside = tuple(Loop(_ordered(own, [], rs), None, tuple(rs)) for own, rs in loops.items())
        return Loop(_ordered(domain - bound, [], outer), None, tuple(outer), inside=inside)

    def _below(self, r: Reduction) -> set[Reduction]:
        """The sums that the values of a sum need and that are still to be computed."""
        return set(self.pending([r.body]))

    def _spill(self, spill: Scratch, bound: frozenset[LoopVar], vertical: bool) -> Scope:
        return _Planner(self.done).scope([spill], bound, vertical)

    def _loops(
        self,
        scope: Scope,
        reds: list[Reduction],
        final: list[StoreOrScratch],
        bound: frozenset[LoopVar],
        vertical: bool,
    ) -> None:
        """Plans one loop per set of inner variables."""
        groups: dict[frozenset[LoopVar], tuple[list[Reduction], list[StoreOrScratch]]] = {}
        for r in reds:
            groups.setdefault(frozenset(r.variables), ([], []))[0].append(r)
        for t in final:
            groups.setdefault(_domain(t) - bound, ([], []))[1].append(t)
        for inner, (rs, ts) in groups.items():
            stores = tuple(t for t in ts if isinstance(t, Store))
            order = _ordered(inner, ts, rs)
            vector = None
            if not vertical and order:
                ranked = [v for v in vote(stores, rs, self.done) if v in inner]
                vector = ranked[0] if ranked else order[-1]
                order = (*(v for v in order if v is not vector), vector)
            scope.steps.append(Loop(order, vector, tuple(rs), stores))


def _reached(roots: Iterable[DagNode], stops: Set[DagNode]) -> set[DagNode]:
    """What the roots need without what the stops are computed of."""
    seen: set[DagNode] = set()
    stack = [*roots]
    while stack:
        n = stack.pop()
        if n not in seen and n not in stops:
            seen.add(n)
            stack.extend(n.inputs)
    return seen


def _beside(stores: Iterable[Store], short: LoopVar, free: frozenset[LoopVar]) -> LoopVar | None:
    """The variable whose steps are the whole of a short one in all results, where nothing that is read depends on it: lanes that are
    computed outweigh elements that are stored one by one."""
    stores = [*stores]
    loads = [n for n in below(stores) if isinstance(n, Load)]
    for v in sorted(free - {short}, key=lambda v: v.number):
        steps = {s.access.address.coefficient(v) for s in stores}
        if steps == {short.extent} and not any(v in n.domain for n in loads):
            return v
    return None


def _walked_alone(r: Reduction) -> frozenset[LoopVar]:
    """Variables for whose values a reduction has ranges of its own, where it reads along these what is contiguous: lanes along the
    variables would walk over all that is between the first of their ranges and the last."""
    own, apart = frozenset(r.variables), with_ranges_of_their_own(r)
    reads = [n.access for n in walk([r.body]) if isinstance(n, Load) and n.domain & own] if apart else []
    along = {v for x in reads for v, c in x.address.terms if contiguous(c)}
    return apart - along if along & own else frozenset()


def targets_of(targets: list[StoreOrScratch]) -> tuple[Store, ...]:
    return tuple(t for t in targets if isinstance(t, Store))


def _owner(
    ready: list[Reduction], reds: list[Reduction], left: list[StoreOrScratch], planner: _Planner
) -> StoreOrScratch | None:
    """A target that alone uses a ready reduction, and shares its free variables: it is planned by itself, without scratch."""
    for node in ready:
        users = [t for t in left if node in planner.pending_of(t)]
        inner = [r for r in reds if r is not node and node in planner.pending([r.body])]
        if len(users) == 1 and not inner and node.domain <= _domain(users[0]) and len(left) + len(reds) > 2:
            mine = planner.pending_of(users[0])
            if all(r.domain >= node.domain for r in mine):
                return users[0]
    return None


def _ordered(
    variables: frozenset[LoopVar], targets: Iterable[StoreOrScratch], reds: Iterable[Reduction]
) -> tuple[LoopVar, ...]:
    """Sorts variables in the order of the outputs' dims, then of the reductions' variables."""
    order: dict[LoopVar, None] = {}
    for t in targets:
        for v in t.variables:
            order[v] = None
    for r in reds:
        for v in r.variables:
            order[v] = None
    for v in sorted(variables, key=lambda v: v.number):
        order[v] = None
    return tuple(v for v in order if v in variables)


def keep_shared_values(scope: Scope) -> None:
    """Marks what the first of several loops over the same inner variables writes to scratch for the later ones."""
    loops = [s for s in scope.steps if isinstance(s, Loop) and s.variables]
    kept: set[DagNode] = set()
    for i, first in enumerate(loops):
        later = [s for s in loops[i + 1 :] if set(s.variables) == set(first.variables)]
        if later and not is_cut(first.reductions, first.variables):
            first.write_to_scratch(_worth_keeping(first, later, frozenset(kept)))
            kept |= set(first.keep)
    for s in scope.steps:
        if isinstance(s, Scope):
            keep_shared_values(s)


def _values(loop: Loop) -> set[DagNode]:
    """The nodes that a loop evaluates for each element: the bodies of its reductions and stores down to other reductions."""
    values: set[DagNode] = set()
    stack = [r.body for r in loop.reductions] + [r for s in loop.stores for r in s.roots]
    while stack:
        n = stack.pop()
        if n not in values and not isinstance(n, Reduction):
            values.add(n)
            stack.extend(n.inputs)
    return values


def _worth_keeping(first: Loop, later: list[Loop], kept: frozenset[DagNode]) -> tuple[DagNode, ...]:
    """Common values that are expensive, or that take two full loads or more: those of them that no other contains."""
    inner = frozenset(first.variables)
    common = _values(first) & set().union(*(_values(s) for s in later)) - kept
    full = [n for n in common if isinstance(n, Operation) and inner <= n.domain and cost(n, inner, kept) >= 8]
    covered = {a for n in full for a in walk(n.inputs)}
    return tuple(sorted((n for n in full if n not in covered), key=lambda n: n.serial))


def loops_of(scope: Scope) -> list[Loop]:
    """The loops of the scope and of all scopes inside."""
    loops: list[Loop] = []
    for s in scope.steps:
        loops += [s, *s.inside] if isinstance(s, Loop) else loops_of(s)
    return loops


def bodies_of(step: Loop) -> list[DagNode]:
    """The nodes that are evaluated for each element."""
    return [r.body for r in step.reductions] + [s.value for s in step.stores]


def run_time_coefficients(scope: Scope) -> list[Size]:
    """Coefficients of vector variables that only the run decides."""
    coefficients: dict[Size, None] = {}

    def visit(s: Scope, vector: LoopVar | None) -> None:
        vector = s.vector or vector
        for step in s.steps:
            if isinstance(step, Scope):
                visit(step, vector)
                continue
            v = vector or step.vector
            if v is None:
                continue
            for access, _ in accesses(step.stores, step.reductions, set()):
                c = access.address.coefficient(v)
                if not isinstance(c, int) and contiguous(c):
                    coefficients[c] = None

    visit(scope, None)
    return list(coefficients)
