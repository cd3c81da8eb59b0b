"""Regions: the functions that an op of control flow runs. Made from what a callable built, typed for operands, put in place of their node.

A region is closed: what it reads of its surroundings are parameters of its own, the last ones, for which the node has operands. Its dims
are expressions of the same symbols as those outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from anyshape.dims import Cond, Dim, Facts, Size, free_symbols, substitute
from anyshape.errors import ShapeError
from anyshape.graph.counts import stands_for
from anyshape.graph.entry_checks import EntryFacts
from anyshape.graph.function import Function, topological
from anyshape.graph.infer import rebuild
from anyshape.graph.required import required_nodes
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.rules import Check
from anyshape.rules.checks import located


def captures(results: Sequence[Value], own: Sequence[Value], since: int) -> tuple[Value, ...]:
    """What `results` need of nodes made before `since` and of parameters other than `own`, in order of first use; no constants."""
    captured: dict[Value, None] = {}
    inside = topological(results, since=since)
    inner = {*own, *(v for node in inside for v in node.outputs)}
    for v in (*(v for node in inside for v in node.inputs), *results):
        if v is not None and not v.is_constant and v not in inner:
            captured[v] = None
    return tuple(captured)


def close(name: str, results: Sequence[Value], own: Sequence[Value], captured: Sequence[Value], since: int) -> Function:
    """The region of these results, over parameters of its own and, behind them, one for each captured value."""
    taken = {p.name for p in own}
    inner: list[Value] = []
    for v in captured:
        inner.append(inner_param(v, _unused(v.name or "captured", taken)))
        stands_for(inner[-1], v)
    mapped = rebuilt_over(topological(results, since=since), dict(zip(captured, inner, strict=True)), None)
    return Function((*own, *inner), [mapped.get(v, v) for v in results], name)


def failed(name: str, params: Sequence[Value], failure: str) -> Function:
    """A region that cannot run."""
    return Function(params, (), name, failure=failure)


def params_for(params: Sequence[Value], operands: Sequence[Value]) -> list[Value]:
    """Parameters of these names with the types and contents of `operands`."""
    return [inner_param(v, p.name) for p, v in zip(params, operands, strict=True)]


def inner_param(v: Value, name: str) -> Value:
    """What a region sees of a value outside: its type and what is known of its elements."""
    return Value(v.type, name, contents=v.elements())


def _unused(name: str, taken: set[str]) -> str:
    return unused(name, taken, lambda k: f"{name}_{k - 1}")


def rebuilt_over(nodes: Sequence[object], final: Mapping[Value, Value], entry: EntryFacts | None) -> dict[Value, Value]:
    """Every node inferred anew over `final` in place of values."""
    from anyshape.graph.value import Node

    mapped = dict(final)
    for node in nodes:
        assert isinstance(node, Node)
        inputs = tuple(v if v is None else mapped.get(v, v) for v in node.inputs)
        rebuilt = rebuild(node, inputs, entry.facts_for(inputs) if entry is not None else None)
        if entry is not None and entry.learn(rebuilt):
            rebuilt = rebuild(node, inputs, entry.facts_for(inputs))
        if entry is not None:
            entry.rely_on(rebuilt, node)
        mapped.update(zip(node.outputs, rebuilt.outputs, strict=True))
    return mapped


def typed(region: Function, operands: Sequence[Value], facts: Facts | None, constants: bool = False) -> Function:
    """The region for parameters with the types and contents of `operands`; itself if that changes nothing. With `constants`, those
    among `operands` take the place of their parameters. Raises what inference raises, ShapeError for a check that cannot hold."""
    if not constants and all(map(fits, region.params, operands)):
        return region
    kept = [not (constants and v.is_constant) for v in operands]
    params = [p if k else v for p, v, k in zip(params_for(region.params, operands), operands, kept, strict=True)]
    own = [p for p, k in zip(params, kept) if k]
    for p, v in zip(params, operands, strict=True):
        if p is not v:
            stands_for(p, v)
    if region.failure:
        return failed(region.name, own, region.failure)
    return retyped(region, own, dict(zip(region.params, params)), facts)


def retyped(
    region: Function, params: Sequence[Value], final: Mapping[Value, Value], facts: Facts | None = None
) -> Function:
    """The region over `params`, with `final` in the place of its own parameters. Raises what inference raises."""
    checks = moved_checks(region, [final[p] for p in region.params], facts.renamed if facts is not None else {})
    entry = EntryFacts(Function(params, (), region.name, (), checks=checks), facts, required_nodes(region.results))
    mapped = rebuilt_over(region.nodes, final, entry)
    return Function(
        params, [mapped.get(v, v) for v in region.results], region.name, region.result_names, checks=entry.checks
    )


def moved_checks(region: Function, params: Sequence[Value], renamed: Mapping[Dim, Size]) -> list[Check]:
    """The region's checks, in the symbols of other parameters, and of what stands for symbols around it; without those on elements of which
    nothing is known any more, which nodes make again."""
    values: dict[Dim, Size] = dict(renamed)
    gone: set[Dim] = set()
    for old, new in zip(region.params, params, strict=True):
        for a, b in zip(old.type.shape or (), new.type.shape or ()):
            if isinstance(a, Dim) and a is not b:
                stands = (a, b) if a.is_symbol else _renamed(a, b)
                if stands is not None:
                    values.setdefault(*stands)
    for old, new in zip(region.params, params, strict=True):
        for e, now in zip(old.contents or (), new.contents or repeat(None)):
            if not isinstance(e, Dim) or not e.is_symbol or e is now or e in values:
                continue
            if isinstance(now, int | Dim):
                values[e] = now
            else:
                gone.add(e)
    moved = (substituted_check(c, values) for c in region.checks if gone.isdisjoint(free_symbols(c.cond)))
    return [c for c in moved if c is not None]


def _renamed(a: Dim, b: Size) -> tuple[Dim, Dim] | None:
    """The one symbol of a that b has another one for."""
    gone, come = free_symbols(a) - free_symbols(b), free_symbols(b) - free_symbols(a)
    if len(gone) != 1 or len(come) != 1:
        return None
    (old,), (new,) = gone, come
    return (old, new) if substitute(a, {old: new}) is b else None


def substituted_check(c: Check, values: Mapping[Dim, Size]) -> Check | None:
    """A check with symbols replaced; None if that decides it. Raises ShapeError if it decides against it."""
    if not values:
        return c
    cond = substitute(c.cond, values)
    if cond is True:
        return None
    parts = tuple(p if isinstance(p, str) else _part(substitute(p, values)) for p in c.parts)
    substituted = replace(c, cond=c.cond if cond is False else cond, parts=parts)
    if cond is False:
        raise ShapeError(located(substituted.op, substituted.where, substituted.message))
    return substituted


def _part(p: Size | bool | Cond) -> str | Dim | Cond:
    return p if isinstance(p, Dim | Cond) else str(p)


def fits(param: Value, value: Value) -> bool:
    """Whether a region's parameter says what is known of the value that it stands for."""
    known = value.elements()
    return param.type == value.type and (param.contents == known or known is None)


def opened(region: Function, operands: Sequence[Value]) -> list[Value]:
    """The region's results with its nodes in the place of the call. Each node makes the checks that it relies on itself."""
    mapped = rebuilt_over(region.nodes, dict(zip(region.params, operands, strict=True)), None)
    return [mapped.get(v, v) for v in region.results]


def spliced(region: Function, operands: Sequence[Value]) -> list[Value] | None:
    """Returns the region's results with its nodes in the place of the call; None if the region has checks at its entry that its nodes do
    not make."""
    results = opened(region, operands)
    demanded = Facts()
    for check in (c for node in region.nodes for c in node.checks):
        demanded.learn(check.cond)
    return results if all(demanded.decide(c.cond) is True for c in region.checks) else None


def symbols_of(values: Sequence[Value | None], facts: Facts | None = None) -> set[Dim]:
    """Symbols that the values' shapes and elements mention, and those in which facts spell them."""
    mentioned: set[Dim] = set()
    for v in values:
        if v is not None:
            mentioned |= v.type.symbols()
            for e in v.contents or ():
                mentioned |= free_symbols(e)
    if facts is not None:
        mentioned = mentioned.union(*(free_symbols(facts.canonical(s)) for s in mentioned))
    return mentioned
