"""Functions over other inputs: every node inferred anew from what the inputs are now.

In: a function and values in place of its parameters. Out: a function of the same nodes. Used to assume that entry dims are at least 1,
to put in what the user said of dims, and to go on with the ranks that turned up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from anyshape.dims import Dim, Size, bounds, evaluate, free_symbols, substitute, symbol
from anyshape.errors import ArgumentError
from anyshape.graph.entry_checks import EntryFacts
from anyshape.graph.function import Function
from anyshape.graph.infer import rebuild as rebuild_node
from anyshape.graph.regions import substituted_check
from anyshape.graph.required import required_nodes
from anyshape.graph.text import is_anonymous
from anyshape.graph.value import Node, Value
from anyshape.rules import Check


def retype(f: Function, low: int) -> tuple[Function, frozenset[Dim]]:
    """f with entry symbols at least `low`, and the symbols for which that is more than f itself says. Nothing is assumed of a symbol that
    is 0 in usual calls, such as the length of the past in the first step of a decoder."""
    values: dict[Dim, Size] = {}
    for s in f.symbols():
        least, most = bounds(s)
        if least is not None and least < low and (most is None or most >= low):
            values[s] = symbol(s.name, low, most)
    for s in (_grown(f, values) | _of_one_branch(f)).intersection(values):
        del values[s]
    assumed = frozenset(v for v in values.values() if isinstance(v, Dim))
    return with_dims(f, values), assumed


def _grown(f: Function, values: Mapping[Dim, Size]) -> set[Dim]:
    """The symbols of which a dim of a result is the greater of it and another size, or it and at least 1 more, with `values` for symbols,
    and those without which another symbol gives it a size, as in the last 16 of p + t: something is put behind what has this length."""
    grown: set[Dim] = set()
    for n in {n for v in f.results for n in v.type.shape or () if isinstance(n, Dim) and not n.is_symbol}:
        if n.kind == "max":
            grown.update(s for s in n.args if isinstance(s, Dim) and s.is_symbol)
        alone = (monomial[0].dim for monomial, coefficient in n.terms if coefficient == 1 and len(monomial) == 1)
        grown.update(s for s in alone if s in values and (bounds(substitute(n - s, values))[0] or 0) >= 1)
        symbols = free_symbols(n)
        if _is_arithmetic(n) and evaluate(n, dict.fromkeys(symbols, 0)) <= 0:
            grown.update(s for s in symbols if evaluate(n, {**dict.fromkeys(symbols, 1), s: 0}) >= 1)
    return grown


def _is_arithmetic(n: Size) -> bool:
    """Whether nothing in a size is a choice: of a broadcast, or of a `select`, as where a 0 in a shape stands for another size."""
    atoms = () if isinstance(n, int) else (atom for monomial, _ in n.terms for atom in monomial)
    return all(
        a.kind not in ("bcast", "select") and (a.kind == "symbol" or all(map(_is_arithmetic, a.args))) for a in atoms
    )


def _of_one_branch(f: Function) -> set[Dim]:
    """The symbols of nothing but parameters that are read in one branch only: where another is taken, these may be empty."""
    branching = [node for node in f.nodes if len(node.regions) > 1]
    if not branching:
        return set()
    readers = Counter(v for node in branching for v in _read_by_branch(node))
    elsewhere = {v for node in f.nodes if len(node.regions) < 2 for v in node.inputs} | set(f.results)
    alone = {p for p in f.params if p not in elsewhere and readers[p] == 1}
    rest = (p.type.symbols() for p in f.params if p not in alone)
    return {s for p in alone for s in p.type.symbols()}.difference(*rest)


def _read_by_branch(node: Node) -> Iterator[Value]:
    """The operands that each branch of a node reads; one that several read, as often."""
    for region in node.regions:
        read = region.free_values()
        yield from {v for v, p in zip(node.inputs, region.params) if v is not None and p in read}


def constrained(f: Function, dims: Mapping[str, Any]) -> Function:
    """f with what the caller says of its dims: a number, or (least, most). Raises ArgumentError."""
    names = {s.name: s for s in f.symbols()}
    unknown = sorted(set(dims) - set(names))
    if unknown:
        named = [n for n, s in names.items() if not is_anonymous(s)]
        raise ArgumentError(f"dims: no input has a dim {', '.join(unknown)}; there are {', '.join(named) or 'none'}")
    return with_dims(f, {names[n]: _said(n, v) for n, v in dims.items()})


def _said(name: str, said: Any) -> Size:
    if isinstance(said, int) and not isinstance(said, bool) and 0 <= said < 1 << 63:
        return said
    if isinstance(said, (tuple, list)) and len(said) == 2:
        least, most = said
        if isinstance(least, int) and (most is None or (isinstance(most, int) and 0 <= least <= most)):
            return symbol(name, least, most)
    raise ArgumentError(f"dims: {name} must be a size or (least, most), got {said!r}")


def with_dims(f: Function, values: Mapping[Dim, Size]) -> Function:
    """f with symbols of its inputs replaced."""
    if not values:
        return f
    params = [Value(p.type.substitute(values), p.name) if p.type.symbols() & set(values) else p for p in f.params]
    checks = [substituted_check(c, values) for c in f.checks]
    return rebuild(f, dict(zip(f.params, params)), params, f.nodes, [c for c in checks if c is not None], values)


def rebuild(
    f: Function,
    final: Mapping[Value, Value],
    params: Sequence[Value],
    nodes: Collection[Node],
    checks: Sequence[Check] = (),
    renamed: Mapping[Dim, Size] | None = None,
) -> Function:
    """f over `params`, with `final` in place of values of f; `nodes` are those to make anew, in order. `renamed`: what stands for
    symbols of f now, also where they are only in what regions check."""
    mapped = dict(final)
    known = Function(params, (), f.name, (), checks=checks)
    entry = EntryFacts(known, required=required_nodes(f.results))
    entry.facts.renamed = renamed or {}
    for node in nodes:
        inputs = tuple(v if v is None else mapped.get(v, v) for v in node.inputs)
        rebuilt = rebuild_node(node, inputs, entry.facts_for(inputs))
        entry.learn(rebuilt)
        entry.rely_on(rebuilt, node)
        mapped.update(zip(node.outputs, rebuilt.outputs))
    results = [mapped.get(v, v) for v in f.results]
    return Function(params, results, f.name, f.result_names, checks=entry.checks, form=f.form)
