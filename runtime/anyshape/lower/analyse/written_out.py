"""Sums of products with small constant tables, written out: every number of a table becomes a factor in the code, or nothing where it is 0.

In: stores with one sum, over few positions, of a value times elements of constants. Out: the same stores for each place that a result has
in the tables, with plain values, of which equal ones are computed once: the inner sums before the outer ones. A place is a short variable
of its own (`Spread`: a store each, which may read windows from a copy), or the remainder of a long one, which then runs over tiles
(`Tiled`). A factor of 0 leaves its product out, also where the value is infinite or NaN.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from anyshape import dims
from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Numbered, Rebuild
from anyshape.lower.analyse.windows import Staged, staged_taps
from anyshape.lower.ir.dag import (
    Affine,
    Constant,
    Dag,
    DagNode,
    Load,
    LoopIndex,
    LoopVar,
    Operation,
    Reduction,
    affine,
    walk,
)
from anyshape.lower.ir.stores import Store, reductions_of
from anyshape.lower.kernel import LITERAL_BYTES

LONGEST = 8
"""The most positions of a variable that is written out."""
MOST_TERMS = 64
"""The most elements that are summed."""
MOST_RESULTS = 64
"""The most places in tables that a result may have: a store each."""

Table = tuple[Load, NDArray[Any]]
Remainder = tuple[LoopVar, int]
"""A variable, and the number that it is divided by."""
TablePosition = Mapping[LoopVar | Remainder, int]
"""Positions in tables."""


@dataclass(frozen=True, eq=False, slots=True)
class Spread:
    """Stores without the sum. `staged`: the copy that they read, if the summed value is seen through windows."""

    stores: tuple[Store, ...]
    staged: Staged | None


@dataclass(frozen=True, slots=True)
class Split:
    """A variable as `size * tile + place`."""

    variable: LoopVar
    size: int
    tile: LoopVar


@dataclass(frozen=True, eq=False, slots=True)
class Tiled:
    """`values` of the sum at each place of a tile, over the variables of tiles. `vector` runs along the lanes: a variable of the results,
    or the last of tiles, whose places are then put side by side."""

    sum: Reduction
    splits: tuple[Split, ...]
    vector: LoopVar
    values: Mapping[tuple[int, ...], DagNode]


def written_out(dag: Dag, stores: Sequence[Store], constants: Mapping[Tensor, NDArray[Any]]) -> Spread | Tiled | None:
    """The stores with their sum written out; None where it has no tables, or they are not small."""
    sums = reductions_of(stores)
    if len(sums) != 1 or sums[0].kind != "sum" or sums[0].dtype not in ("f32", "f64"):
        return None
    (r,) = sums
    if not all(isinstance(v.extent, int) and v.extent <= LONGEST for v in r.variables):
        return None
    if not 0 < math.prod(map(_length, r.variables)) <= MOST_TERMS:
        return None
    if any(s.domain != r.domain or not s.access.is_plain for s in stores):
        return None
    tables, rest = _tables(r.body, constants)
    if not tables or len(rest) != 1 or not _is_plain(rest[0]):
        return None
    inner = frozenset(r.variables)
    if any(not inner & t.domain for t, _ in tables) or not inner <= rest[0].domain:
        return None
    places = _ResultPositions.of(dag, tables, inner)
    if places is None or not (places.short or places.splits):
        return None
    if places.splits:
        return _tiled(dag, r, stores, tables, rest[0], places)
    return _spread(dag, r, stores, tables, rest[0], places)


def _tables(body: DagNode, constants: Mapping[Tensor, NDArray[Any]]) -> tuple[list[Table], list[DagNode]]:
    """The factors of a product that are elements of constants, and the others."""
    tables: list[Table] = []
    rest: list[DagNode] = []
    stack = [body]
    while stack:
        match stack.pop():
            case Operation("mul", args):
                stack += reversed(args)
            case Load(access) as load if not (access.bounds or access.checks) and _is_small(
                constants.get(access.tensor)
            ):
                tables.append((load, constants[access.tensor].reshape(-1)))
            case n:
                rest.append(n)
    return tables, rest


def _is_small(array: NDArray[Any] | None) -> bool:
    return array is not None and array.nbytes <= LITERAL_BYTES


def _is_plain(n: DagNode) -> bool:
    return not any(isinstance(m, Reduction) or (isinstance(m, Load) and m.access.checks) for m in walk([n]))


@dataclass(frozen=True, slots=True)
class _ResultPositions:
    """Positions of results in the tables: the short variables of results, or the remainders of long ones."""

    short: tuple[LoopVar, ...]
    splits: tuple[Split, ...]

    @classmethod
    def of(cls, dag: Dag, tables: Sequence[Table], inner: frozenset[LoopVar]) -> _ResultPositions | None:
        short: dict[LoopVar, None] = {}
        sizes: dict[LoopVar, int] = {}
        for t, _ in tables:
            for v, c in t.access.address.terms:
                if not isinstance(v.extent, int) or v.extent > LONGEST or not isinstance(c, int):
                    return None
                if v not in inner:
                    short[v] = None
            for n, c in t.access.address.lets:
                remainder = _part("mod", n)
                if remainder is None or not isinstance(c, int):
                    return None
                v, size = remainder
                if sizes.setdefault(v, size) != size or size > LONGEST:
                    return None
        if math.prod((*map(_length, short), *sizes.values())) > MOST_RESULTS or (short and sizes):
            return None
        splits = tuple(Split(v, n, dag.variable(dims.ceil_div(v.extent, n))) for v, n in sizes.items())
        return cls(tuple(short), splits)


def _places(t: Load) -> list[LoopVar | Remainder]:
    return [*(v for v, _ in t.access.address.terms), *(_remainder(n) for n, _ in t.access.address.lets)]


def _length(place: LoopVar | Remainder) -> int:
    length = place.extent if isinstance(place, LoopVar) else place[1]
    assert isinstance(length, int)
    return length


def _remainder(n: DagNode) -> Remainder:
    matched = _part("mod", n)
    assert matched is not None
    return matched


def _part(operation: str, n: DagNode) -> tuple[LoopVar, int] | None:
    """The variable and the number, of a remainder or a quotient of them."""
    match n:
        case Operation(name, (LoopIndex(v), Constant(int() as size))) if name == operation and size > 0:
            return v, size
    return None


def _spread(
    dag: Dag, r: Reduction, stores: Sequence[Store], tables: list[Table], value: DagNode, places: _ResultPositions
) -> Spread | None:
    if not set(places.short) <= r.domain or set(places.short) & value.domain:
        return None
    seen = staged_taps(dag, r, stores, value)
    terms: Mapping[tuple[int, ...], DagNode]
    if seen is None:
        terms = _terms(dag, r, value)
    else:
        terms = seen[1]
    sums, spread = _TableSums(dag, r, tables, terms), list[Store]()
    for chosen in itertools.product(*(range(_length(v)) for v in places.short)):
        numbers = dict(zip(places.short, chosen, strict=True))
        place: dict[LoopVar | Remainder, int] = dict(zip(places.short, chosen, strict=True))
        at = Numbered(dag, {r: sums.at(place)}, numbers)
        for s in stores:
            new = at.store(s)
            spread.append(Store(new.access, new.value, tuple(v for v in s.variables if v not in numbers)))
    return Spread(tuple(spread), None if seen is None else seen[0])


def _tiled(
    dag: Dag, r: Reduction, stores: Sequence[Store], tables: list[Table], value: DagNode, places: _ResultPositions
) -> Tiled | None:
    along = [v for v in stores[0].variables if all(s.access.address.coefficient(v) == 1 for s in stores)]
    if not along:
        return None
    last = places.splits[-1]
    vector = last.tile if along[-1] is last.variable else along[-1]
    if any(vector is p.variable for p in places.splits):
        return None
    tiles = {(p.variable, p.size): p.tile for p in places.splits}
    by_tile = _ByTile(dag, tiles)
    value = by_tile.node(value)
    if value.domain & {p.variable for p in places.splits}:
        return None
    terms = _terms(dag, r, value)
    sums = _TableSums(dag, r, tables, terms)
    by_place = {}
    for chosen in itertools.product(*(range(p.size) for p in places.splits)):
        by_place[chosen] = sums.at({(p.variable, p.size): k for p, k in zip(places.splits, chosen, strict=True)})
    return Tiled(r, places.splits, vector, by_place)


def _terms(dag: Dag, r: Reduction, value: DagNode) -> dict[tuple[int, ...], DagNode]:
    """The value at each position of the summed variables."""
    return {
        chosen: Numbered(dag, {}, dict(zip(r.variables, chosen, strict=True))).node(value)
        for chosen in itertools.product(*(range(_length(v)) for v in r.variables))
    }


class _ByTile(Rebuild):
    """Copies in which quotients of variables are variables of tiles."""

    def __init__(self, dag: Dag, tiles: Mapping[tuple[LoopVar, int], LoopVar]) -> None:
        super().__init__(dag)
        self.tiles = tiles

    def affine(self, x: Affine) -> Affine:
        terms, lets = list(x.terms), []
        for n, c in x.lets:
            quotient = _part("floordiv", n)
            if quotient is not None and quotient in self.tiles:
                terms.append((self.tiles[quotient], c))
            else:
                lets.append((self.node(n), c))
        return affine(terms, x.offset, lets)


Part = tuple[float, list[tuple[float, int]]]
"""A multiple of a sum of multiples of positions."""


class _TableSums:
    """Sums of products, the last summed variable first, so that what it gives is shared by all results that differ only in tables of
    others."""

    def __init__(
        self, dag: Dag, r: Reduction, tables: Sequence[Table], terms: Mapping[tuple[int, ...], DagNode]
    ) -> None:
        self.dag, self.terms = dag, terms
        order = {v: k for k, v in enumerate(r.variables)}
        of_level: list[list[Table]] = [[] for _ in r.variables]
        for t in tables:
            of_level[max(order[v] for v in t[0].domain if v in order)].append(t)
        self.levels = [_SumLevel(v, r.variables[:k], own) for k, (v, own) in enumerate(zip(r.variables, of_level))]
        self.known: dict[tuple[object, ...], DagNode] = {}

    def at(self, place: TablePosition) -> DagNode:
        """The sum for a place of a result in the tables."""
        return self._sum((), place)

    def _sum(self, fixed: tuple[int, ...], place: TablePosition) -> DagNode:
        if len(fixed) == len(self.levels):
            return self.terms[fixed]
        used = {p for level in self.levels[len(fixed) :] for p in level.places if p in place}
        key = (fixed, frozenset((p, place[p]) for p in used))
        if key not in self.known:
            self.known[key] = self._summed(fixed, place)
        return self.known[key]

    def _summed(self, fixed: tuple[int, ...], place: TablePosition) -> DagNode:
        parts = [
            (c, _combination(self.dag, [(factor, self._sum((*fixed, k), place)) for factor, k in part]))
            for c, part in self.levels[len(fixed)].parts(fixed, place)
        ]
        return _combination(self.dag, parts) if parts else self.dag.const(0.0, next(iter(self.terms.values())).dtype)


class _SumLevel:
    """The factors of one summed variable: what its positions are multiplied by."""

    def __init__(self, v: LoopVar, outer: tuple[LoopVar, ...], tables: Sequence[Table]) -> None:
        self.v, self.outer, self.tables = v, outer, tables
        self.places = frozenset(p for t, _ in tables for p in _places(t))

    def factors(self, fixed: tuple[int, ...], place: TablePosition) -> list[float]:
        """The factor of each position; 0 where a table is."""
        at: dict[LoopVar | Remainder, int] = {**place, **dict(zip(self.outer, fixed, strict=True))}
        return [
            math.prod(_element(t, array, {**at, self.v: k}) for t, array in self.tables) for k in range(_length(self.v))
        ]

    def parts(self, fixed: tuple[int, ...], place: TablePosition) -> list[Part]:
        """The sum as multiples of sums that other places have too, as far as there are any."""
        own = self.factors(fixed, place)
        columns = [k for k, c in enumerate(own) if c != 0]
        rows = self._other_rows(fixed, place)
        for other in rows:
            same = [k for k in columns if other[k] == own[k]]
            opposite = [k for k in columns if other[k] == -own[k]]
            if same and opposite and len(same) + len(opposite) == len(columns) == sum(c != 0 for c in other):
                signs = [(1.0 if own[part[0]] > 0 else -1.0, part) for part in (same, opposite)]
                return [(sign, [(sign * own[k], k) for k in part]) for sign, part in signs]
        parts: list[Part] = []
        while columns:
            k = columns.pop(0)
            pair = next((m for m in columns if _alike(own, k, m) and any(_alike(row, k, m) for row in rows)), None)
            if pair is None:
                parts.append((own[k], [(1.0, k)]))
            else:
                columns.remove(pair)
                parts.append((own[k], [(1.0, k), (own[pair] / own[k], pair)]))
        return parts

    def _other_rows(self, fixed: tuple[int, ...], place: TablePosition) -> list[list[float]]:
        """The factors of other places, where there is one table that depends on the place."""
        used = [p for p in self.places if p in place]
        if len(used) != 1:
            return []
        (p,) = used
        return [self.factors(fixed, {**place, p: k}) for k in range(_length(p)) if k != place[p]]


def _alike(row: Sequence[float], k: int, m: int) -> bool:
    """Whether two factors are the same but for the sign."""
    return row[k] != 0 and abs(row[k]) == abs(row[m])


def _element(t: Load, array: NDArray[Any], place: TablePosition) -> float:
    at = t.access.address.offset
    for v, c in t.access.address.terms:
        at = at + c * place[v]
    for n, c in t.access.address.lets:
        at = at + c * place[_remainder(n)]
    assert isinstance(at, int)
    return float(array[at])


def _combination(dag: Dag, parts: Sequence[tuple[float, DagNode]]) -> DagNode:
    """A sum of multiples; factors of 1 and -1 come first, and take no multiplication."""
    (c, first), *rest = sorted(parts, key=lambda p: (abs(p[0]) != 1, p[0] < 0))
    dtype = first.dtype
    total = (
        first
        if c == 1
        else dag.op("neg", dtype, first)
        if c == -1
        else dag.op("mul", dtype, dag.const(c, dtype), first)
    )
    for c, x in rest:
        if c in (1, -1):
            total = dag.op("add" if c == 1 else "sub", dtype, total, x)
        else:
            total = dag.op("fma", dtype, dag.const(c, dtype), x, total)
    return total
