"""Functions over other inputs: every node inferred anew from what the inputs are now.

In: a function and values in place of its parameters. Out: a function of the same nodes. Used to assume that entry dims are at least 1,
to put in what the user said of dims, and to go on with the ranks that turned up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from anyshape.dims import Dim, Size, bounds, substitute, symbol
from anyshape.errors import ArgumentError
from anyshape.graph.entry_checks import EntryFacts
from anyshape.graph.function import Function
from anyshape.graph.infer import rebuild as rebuild_node
from anyshape.graph.regions import substituted_check
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
    for s in [s for s in values if _grows(f, s, values) or _is_of_one_branch(f, s)]:
        del values[s]
    assumed = frozenset(v for v in values.values() if isinstance(v, Dim))
    return with_dims(f, values), assumed


def _grows(f: Function, s: Dim, values: Mapping[Dim, Size]) -> bool:
    """Whether a dim of a result is `s` and at least 1 more, with `values` for symbols, or the greater of `s` and another size: something is
    put behind what has this length."""
    dims = {n for v in f.results if v.type.shape for n in v.type.shape if isinstance(n, Dim) and n is not s}
    if any(n.kind == "max" and s in n.args for n in dims):
        return True
    return any((bounds(substitute(n - s, values))[0] or 0) >= 1 for n in dims if ((s.atom,), 1) in n.terms)


def _is_of_one_branch(f: Function, s: Dim) -> bool:
    """Whether `s` is the size of nothing but parameters that are read in one branch only: where another is taken, they may be empty."""
    own = {p for p in f.params if s in p.type.symbols()}
    if not all(node.regions for node in f.nodes if not own.isdisjoint(node.inputs)) or not own.isdisjoint(f.results):
        return False
    readers = [_branches(node, p) for node in f.nodes for p in own.intersection(node.inputs)]
    return bool(readers) and all(len(node.regions) > 1 and len(reading) <= 1 for node, reading in readers)


def _branches(node: Node, p: Value) -> tuple[Node, list[Function]]:
    """A node, and those of its regions that read one of its operands."""
    places = [k for k, v in enumerate(node.inputs) if v is p]
    reading = [r for r in node.regions if any(k < len(r.params) and r.params[k] in r.free_values() for k in places)]
    return node, reading


def constrained(f: Function, dims: Mapping[str, Any]) -> Function:
    """f with what the caller says of its dims: a number, or (least, most). Raises ArgumentError."""
    names = {s.name: s for s in f.symbols()}
    unknown = sorted(set(dims) - set(names))
    if unknown:
        raise ArgumentError(f"dims: no input has a dim {', '.join(unknown)}; there are {', '.join(names) or 'none'}")
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
    entry = EntryFacts(known)
    entry.facts.renamed = renamed or {}
    for node in nodes:
        inputs = tuple(v if v is None else mapped.get(v, v) for v in node.inputs)
        rebuilt = rebuild_node(node, inputs, entry.facts)
        entry.learn(rebuilt)
        mapped.update(zip(node.outputs, rebuilt.outputs))
    results = [mapped.get(v, v) for v in f.results]
    return Function(params, results, f.name, f.result_names, checks=entry.checks, form=f.form)
