"""Evaluates expressions of rules and kernels to terms that are valid for all shapes.

In: an expression, the values of its names, and the op's state. Out: its value; an unknown, which is always sound, where it is not modelled.
Every partial operation of the rule is checked before a kernel runs, so evaluating one adds the fact that its condition holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape_gen.bounds import functions
from anyshape_gen.bounds.context import implies, within
from anyshape_gen.bounds.state import DEEPEST, Env, State
from anyshape_gen.bounds.terms import (
    Member,
    NotModelled,
    Opaque,
    Run,
    Truth,
    choose,
    concat,
    counted,
    is_int,
    is_truth,
    part,
    spread,
)
from anyshape_gen.model.nodes import (
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    IfExp,
    Index,
    Int,
    Item,
    Name,
    Node,
    NoneLit,
    Over,
    Reduction,
    Slice,
    Star,
    Str,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.model.traverse import free_names

_ORDER: dict[str, Callable[[Size, Size], Truth]] = {
    "==": dims.eq, "!=": dims.ne, "<": dims.lt, "<=": dims.le, ">": dims.gt, ">=": dims.ge,
}  # fmt: skip


# --- names and operators


def term(s: State, e: Item, env: Env) -> Any:
    """Evaluates an expression; one that depends on no variable is evaluated once, so that equal expressions have the same value."""
    if s.depth >= DEEPEST:
        raise NotModelled(f"it is made of more than {DEEPEST} expressions within one another")
    s.depth += 1
    try:
        if isinstance(e, (Name, Int, Str, Bool)) or not free_names(e).isdisjoint(env) or s.busy:
            return _value(s, e, env)
        key = ("expr", e)
        if key not in s.context.opaque:
            s.context.opaque[key] = _value(s, e, env)
        return s.context.opaque[key]
    finally:
        s.depth -= 1


def _value(s: State, e: Item, env: Env) -> Any:
    match e:
        case Name(id=name):
            return env[name] if name in env else s.names.name(name)
        case Int(value=value) | Bool(value=value) | Str(value=value):
            return value
        case Float(value=value):
            return Opaque((value,))
        case NoneLit():
            return None
        case Unary(op="-", operand=operand):
            return spread(lambda a: -a if is_int(a) else s.context.opaque_value("-", a), term(s, operand, env))
        case Unary(operand=operand):
            return dims.not_(truth(s, operand, env))
        case BinOp(op=op, left=left, right=right):
            return spread(lambda a, b: _arithmetic(s, op, a, b), term(s, left, env), term(s, right, env))
        case BoolOp(op=op, items=items):
            join = dims.and_ if op == "and" else dims.or_
            return join(*(truth(s, i, env) for i in items))
        case Compare():
            return _comparison(s, e, env)
        case IfExp(cond=cond, then=then, other=other):
            return choose(truth(s, cond, env), term(s, then, env), term(s, other, env))
        case VecLit(items=items):
            return listed(s, items, env)
        case Index(base=base, items=items):
            return _index(s, base, items, env)
        case Comprehension():
            return _comprehension(s, e, env)
        case TensorRead():
            return s.read(e, env)
        case Call():
            return _call(s, e, env)
    return _unknown(s, e, env)


def integer(s: State, e: Item, env: Env) -> Size:
    """Evaluates an expression to an integer; an unknown one if its value is none."""
    v = term(s, e, env)
    return v if is_int(v) else s.context.unknown("int", v)


def vector(s: State, e: Item, env: Env) -> Run:
    v = term(s, e, env)
    return v if isinstance(v, Run) else s.context.vector(v)


def truth(s: State, e: Expr, env: Env) -> Truth:
    """Evaluates a condition; one on vectors, which holds for all items, is an unknown, since no single term expresses it."""
    v = term(s, e, env)
    if is_truth(v):
        known: Truth = v
        return known
    if is_int(v):
        return dims.ne(v, 0)
    return s.context.undecided("truth", v)


def listed(s: State, items: tuple[Item, ...], env: Env) -> Run:
    pieces: list[Any] = []
    for i in items:
        if isinstance(i, Star):
            pieces.append(vector(s, i.value, env))
        elif isinstance(i, Slice):
            pieces.append(s.context.vector(i))
        else:
            pieces.append(term(s, i, env))
    return concat(pieces)


def _unknown(s: State, e: Node, env: Env) -> Any:
    """Returns an unknown, the same one for the same text over the same values."""
    if not isinstance(e, Reduction):
        return s.context.opaque_value("node", e, *env.values())
    if e.kind in ("any", "all"):
        return s.context.undecided("node", e, *env.values())
    if e.kind in ("argmax", "argmin") and len(e.generators) == 1 and e.generators[0].over is Over.EXTENT:
        # a position, unless the extent is 0
        extent = integer(s, e.generators[0].domain, env)
        position = s.context.unknown("node", e, *env.values(), low=0)
        s.context.own(position, implies([dims.gt(extent, 0)], dims.lt(position, extent)))
        return position
    if e.kind in ("argmax", "argmin", "sum", "prod", "count", "max", "min"):
        return s.context.unknown("node", e, *env.values(), low=0 if e.kind == "count" else None)
    return s.context.opaque_value("node", e, *env.values())


def _arithmetic(s: State, op: str, a: Any, b: Any) -> Any:
    a, b = (dims.select(v, 1, 0) if is_truth(v) else v for v in (a, b))
    if not (is_int(a) and is_int(b)) or op in ("/", "**"):
        if op == "**" and is_int(a) and isinstance(b, int) and 0 <= b <= 4:
            power: Size = 1
            for _ in range(b):
                power = power * a
            return power
        return s.context.opaque_value(op, a, b)
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return dims.floordiv(a, b)
    return dims.mod(a, b)


def _comparison(s: State, e: Compare, env: Env) -> Any:
    sides = [term(s, x, env) for x in (e.first, *(x for _, x in e.rest))]
    return dims.and_(*(compare(s, op, a, b) for (op, _), a, b in zip(e.rest, sides, sides[1:])))


def compare(s: State, op: str, a: Any, b: Any) -> Truth:
    if isinstance(b, Member):
        a, b = b, a
    if isinstance(a, Member) and isinstance(b, str) and op in ("==", "!="):
        at = a.members.index(b) if b in a.members else -1
        return _ORDER[op](a.number, at)
    if op in _ORDER and is_int(a) and is_int(b):
        return _ORDER[op](a, b)
    if op in ("!=", "is not", "not in"):
        return dims.not_(compare(s, {"!=": "==", "is not": "is", "not in": "in"}[op], a, b))
    if isinstance(a, str) and isinstance(b, str) and op == "==":
        return a == b
    return s.context.undecided(op, a, b)


# --- vectors


def _index(s: State, base: Expr, items: tuple[Item, ...], env: Env) -> Any:
    run = term(s, base, env)
    if not isinstance(run, Run) or len(items) != 1:
        return s.context.opaque_value("index", run, items, *env.values())
    (item,) = items
    if isinstance(item, Slice):
        low = None if item.low is None else integer(s, item.low, env)
        high = None if item.high is None else integer(s, item.high, env)
        return part(run, low, high)
    if isinstance(item, Star):
        return s.context.vector(run, item)
    position = term(s, item, env)
    if isinstance(position, Run):
        where = position
        return Run(where.length, lambda p: _item(s, run, where.at(p)), nonnegative=run.nonnegative)
    return _item(s, run, position)


def _item(s: State, run: Run, position: Any) -> Any:
    if not is_int(position):
        return s.context.unknown("item", run, position)
    if isinstance(position, int) and position < 0:
        return run.at(run.length + position)
    if dims.ge(position, 0) is True or position in run.known:
        return run.at(position)
    return run.at(counted(position, run.length))


def _comprehension(s: State, e: Comprehension, env: Env) -> Any:
    if len(e.generators) != 1 or any(t.run for t in e.generators[0].targets):
        return s.context.vector("comprehension", e, *env.values())
    (generator,) = e.generators
    taken = iterations(s, generator.domain, env)
    if taken is None:
        return s.context.vector("comprehension", e, *env.values())
    length, items_at = taken
    names = [t.name for t in generator.targets]

    def bound(p: Size) -> dict[str, Any]:
        items = items_at(p)
        if len(names) == 1:
            return {**env, names[0]: items[0] if len(items) == 1 else s.context.opaque_value("items", *items)}
        return {**env, **dict(zip(names, items))}

    if e.conditions:  # each item is one of those without the conditions
        shorter = s.context.unknown("kept", e, *env.values(), low=0)
        s.context.fact(dims.le(shorter, dims.maximum(length, 0)))
        return Run(shorter, lambda p: term(s, e.element, bound(_chosen(s, e, p, length, shorter))))
    return Run(length, lambda p: term(s, e.element, bound(p)))


def _chosen(s: State, e: Comprehension, p: Size, length: Size, kept: Size) -> Size:
    """Returns the iteration that gives the item at p of a filtered vector with `kept` items."""
    iteration = s.context.unknown("of", e, p, length, low=0)
    s.context.own(iteration, dims.or_(dims.not_(within(p, kept)), dims.lt(iteration, length)))
    return iteration


def iterations(s: State, domain: Expr, env: Env) -> tuple[Size, Callable[[Size], list[Any]]] | None:
    """Returns the number of iterations of a generator, and a function from an iteration to the values of its targets."""
    match domain:
        case Call(func="zip", args=args):
            runs = [vector(s, a, env) for a in args]
            length = spread(lambda *xs: xs[0], *runs).length
            _same_length(s, runs)
            return length, lambda p: [r.at(p) for r in runs]
        case Call(func="enumerate", args=(inner,)):
            run = vector(s, inner, env)
            return run.length, lambda p: [p, run.at(p)]
        case Call(func="range", args=args) if len(args) in (1, 2):
            ends = [integer(s, a, env) for a in args]
            low, high = (0, ends[0]) if len(ends) == 1 else ends
            return dims.maximum(high - low, 0), lambda p: [low + p]
    v = term(s, domain, env)
    if isinstance(v, Run):
        return v.length, lambda p: [v.at(p)]
    return (dims.maximum(v, 0), lambda p: [p]) if is_int(v) else None


def _same_length(s: State, runs: list[Run]) -> None:
    """Adds the fact that vectors of a zip have one length: the rule refuses others."""
    if s.eager and not Run.asked:
        for other in runs[1:]:
            s.context.fact(dims.eq(runs[0].length, other.length))


# --- functions


def _call(s: State, e: Call, env: Env) -> Any:
    own = s.functions.get(e.func)
    if own is not None:
        inner = {**env, **{n: term(s, a, env) for n, a in zip(own.args, e.args)}}
        for statement in own.body:
            if len(statement.names) != 1:
                raise NotModelled("a function of the spec unpacks a vector")
            inner[statement.names[0]] = term(s, statement.value, inner)
        return term(s, own.result, inner)
    match e:
        case Call(func="shape" | "rank", args=(Name(id=name),)):
            run = s.names.shape_of(name, None)
            return run if e.func == "shape" else run.length
        case Call(func="shape" | "rank", args=(Index(base=Name(id=name), items=(element,)),)):
            run = s.names.shape_of(name, None if isinstance(element, (Star, Slice)) else term(s, element, env))
            return run if e.func == "shape" else run.length
        case Call(func="present", args=(Name(id=name),)):
            return s.names.present(name)
    if any(isinstance(a, (Star, Slice)) for a in e.args) or e.keywords:
        return _unknown(s, e, env)
    return functions.apply(s, e.func, [term(s, a, env) for a in e.args])
