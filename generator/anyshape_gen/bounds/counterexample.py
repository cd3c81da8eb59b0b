"""Searches for shapes at which an index of a kernel is out of bounds.

In: an op, and its accesses that are not proved. Out: the first `Counterexample`: shapes and parameters that the op's own relation
accepts, and values of the variables. Candidates are the examples of the spec with dims and parameters changed, drawn
with a fixed seed. A counterexample is always real; without one, nothing is proved.
"""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from anyshape import dims
from anyshape.dims import Cond, Dim
from anyshape.errors import AnyshapeError, OverflowedError
from anyshape.rules import Rule, Vec
from anyshape_gen.bounds.obligations import Obligation, Obligations
from anyshape_gen.bounds.signature import pieces_by_name
from anyshape_gen.bounds.terms import NO_TERMS
from anyshape_gen.emit.bodies import kernels
from anyshape_gen.emit.rules import relations
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Bool, Float, Int, Str, Unary
from anyshape_gen.model.spec import Example, ExampleValue, ParamSpec

TRIES = 250
LARGEST = 6
"""the number of values that variables and positions take"""
MOST_SYMBOLS = 5


@dataclass(frozen=True)
class Counterexample:
    """A call in which an index is out of bounds."""

    obligation: Obligation
    call: str
    """the shapes and parameters, written as an example of a spec"""
    index: str
    """the index in the call, and its size"""


def counterexample(a: OpAnalysis, accesses: Collection[int]) -> Counterexample | None:
    """Searches for a counterexample for any of the accesses."""
    relation = _relation(a)
    if relation is None:
        return None
    draw = random.Random(a.spec.name)
    for call in itertools.islice(_calls(a, draw), TRIES):
        try:
            rule = Rule(a.spec.name)
            bound = relation(rule, **call)
        except (AnyshapeError, TypeError):  # the op refuses the call; or an example gives an argument of another kind
            continue
        if rule.checks:
            continue
        violation = _violated(a, {**call, **vars(bound)}, accesses)
        if violation is not None:
            shown = ", ".join(f"{n}: {_shown(v)}" for n, v in call.items() if v is not None)
            return Counterexample(violation[0], shown, violation[1])
    return None


def _shown(v: Any) -> str:
    return f"[{', '.join(map(_shown, v))}]" if isinstance(v, (tuple, list)) else str(v)


def _relation(a: OpAnalysis) -> Any:
    """Compiles the op's relation; None where it cannot be emitted."""
    assert a.kernel is not None
    try:
        code = kernels.kernel(a)
        names = dict.fromkeys([*code.bound, *_plain_names(a), *(p.name for p in a.spec.params)])
        text = relations.relation(a, names, code.hoisted)
    except NotExecuted:
        return None
    scope: dict[str, Any] = {}
    for name, module in relations.KNOWN.items():
        scope[name] = getattr(importlib.import_module(module), name, None)
    exec(compile(text, f"<relation of {a.spec.name}>", "exec"), scope)
    return scope[f"{a.spec.name}_relation"]


def _plain_names(a: OpAnalysis) -> list[str]:
    """Lists names of the signature, and of statements that every call runs."""
    assigned = [n for s in a.rule for n in getattr(s, "names", ())]
    inputs = {o.name for o in a.spec.inputs}
    pieces = pieces_by_name(a.spec)
    return [n for n in a.kinds if n not in inputs and (n in assigned or n in pieces)]


# --- calls ------------------------------------------------------------------------------------------------------------


def _calls(a: OpAnalysis, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yields the examples, then examples with random changes without end."""
    calls = [_call(a, e) for e in a.spec.examples]
    yield from calls
    while calls:
        yield _changed(a, draw.choice(calls), draw)


def _call(a: OpAnalysis, e: Example) -> dict[str, Any]:
    arguments = dict(e.arguments)
    call: dict[str, Any] = {}
    for o in a.spec.inputs:
        value = arguments.get(o.name)
        call[o.name] = None if value is None else _shape(value, o.signature.variadic is not None)
    for p in a.spec.params:
        call[p.name] = _vec(arguments[p.name].value) if p.name in arguments else _default(p)
    return call


def _shape(value: ExampleValue, several: bool) -> Any:
    if several:
        parts = value.value if isinstance(value.value, tuple) else ()
        return [Vec(_extents(part) if value.literal else part) for part in parts]
    return Vec(_extents(value.value)) if value.literal else _vec(value.value)


def _extents(v: object) -> tuple[int, ...]:
    return (len(v), *(_extents(v[0]) if v else ())) if isinstance(v, tuple) else ()


def _vec(v: object) -> Any:
    return Vec(v) if isinstance(v, tuple) else v


def _default(p: ParamSpec) -> Any:
    match p.default:
        case Int(value=value) | Float(value=value) | Bool(value=value) | Str(value=value):
            return value
        case Unary(op="-", operand=Int(value=value) | Float(value=value)):
            return -value
    return None


def _changed(a: OpAnalysis, call: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    inputs = {o.name for o in a.spec.inputs}
    renamed = {n: draw.choice((0, 1, 2, 3, 5)) for n in range(8) if draw.random() < 0.4}

    def size(n: Any) -> Any:
        """Changes a size; equal sizes mostly stay equal."""
        if draw.random() < 0.15:
            return draw.choice((0, 1, 2, 3, 4))
        return renamed.get(n, n) if isinstance(n, int) else n

    def shape(v: Any) -> Any:
        sizes = [size(n) for n in v]
        change = draw.random()
        if change < 0.1:
            sizes = sizes[1:]
        elif change < 0.2:
            sizes.insert(0, draw.choice((1, 2, 3)))
        return Vec(sizes)

    changed = {}
    for name, v in call.items():
        p = a.spec.param(name)
        if name in inputs:
            changed[name] = [shape(x) for x in v] if isinstance(v, list) else None if v is None else shape(v)
        else:
            changed[name] = _parameter(p, v, draw) if p is not None and draw.random() < 0.5 else v
    return changed


def _parameter(p: ParamSpec, v: Any, draw: random.Random) -> Any:
    if p.kind.base == "enum":
        return draw.choice(p.kind.members)
    if p.kind.base == "bool":
        return draw.random() < 0.5
    if p.kind.base in ("int", "axis"):
        return draw.choice((-2, -1, 0, 1, 2, 3, 4))
    if p.kind.base in ("ints", "axes") and v is not None:
        return Vec(draw.choice((x, x, draw.randint(-3, 4))) for x in v)
    return v


# --- one call ---------------------------------------------------------------------------------------------------------


def _violated(a: OpAnalysis, values: dict[str, Any], accesses: Collection[int]) -> tuple[Obligation, str] | None:
    try:
        op = Obligations(a, values)
        for o in op.collect():
            if o.access in accesses and not o.unmodelled:
                witness = _witness(op, o)
                if witness is not None:
                    return o, witness
    except (*NO_TERMS, OverflowedError):  # no terms, or numbers beyond 64 bits
        return None
    return None


def _witness(op: Obligations, o: Obligation) -> str | None:
    """Searches for values of the variables with which a goal fails."""
    for goal in o.goals:
        if goal is True:
            continue
        held = [
            *o.hypotheses,
            *o.lazily,
            *(c for group in op.context.about([goal, *o.hypotheses, *o.lazily], o.scope, o.value) for c in group),
        ]
        if any(c is False for c in held):
            return None
        conditions = [c for c in (goal, *held) if isinstance(c, Cond)]
        symbols: dict[Dim, None] = {}
        for c in conditions:
            symbols.update(dict.fromkeys(sorted(dims.free_symbols(c), key=str)))
        known = {*op.context.owned, *op.context.stands_at}
        if len(symbols) > MOST_SYMBOLS or any(s.terms[0][0][0] not in known for s in symbols):
            continue
        for point in itertools.product(range(LARGEST + 1), repeat=len(symbols)):
            at = dict(zip(symbols, point))
            if all(_holds(c, at) for c in held) and not _holds(goal, at):
                return _text(o, at)
    return None


def _holds(c: bool | Cond, at: dict[Dim, int]) -> bool:
    return dims.evaluate(c, at)


def _text(o: Obligation, at: dict[Dim, int]) -> str:
    if o.value is None or o.extent is None:
        return f"`{o.index}` has another number of indices than the tensor has dims"
    try:
        return f"`{o.index}` is {dims.evaluate(o.value, at)}, but the dim is {dims.evaluate(o.extent, at)}"
    except AnyshapeError:
        return f"`{o.index}` is beyond its dim"
