"""Adds the facts that an assert implies, among them facts about all positions of vectors.

In: a condition of the rule, and its hypotheses. Out: facts in the context. A condition on vectors holds at every position, and so
do `all(… for …)` and `broadcasts`; an alternative of an `or` is a fact under the negation of the others.
"""

from __future__ import annotations

from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape_gen.bounds.broadcasting import learn_broadcasts
from anyshape_gen.bounds.evaluate import compare, iterations, term, truth
from anyshape_gen.bounds.state import Env, State
from anyshape_gen.bounds.terms import Run, Truth, is_truth
from anyshape_gen.model.nodes import BoolOp, Call, Compare, Comprehension, Expr, Over, Reduction, Unary


def learn(s: State, c: Expr, env: Env, hypotheses: tuple[Truth, ...]) -> None:
    """Adds the fact that the condition holds where all hypotheses do."""
    with s.evaluated(s.eager and not hypotheses):
        _learn(s, c, env, hypotheses)


def _learn(s: State, c: Expr, env: Env, hypotheses: tuple[Truth, ...]) -> None:
    match c:
        case BoolOp(op="and", items=items):
            for item in items:
                _learn(s, item, env, hypotheses)
        case BoolOp(items=items):
            _alternatives(s, items, env, hypotheses)
        case Call(func="broadcasts", args=(left, right)):
            runs = term(s, left, env), term(s, right, env)
            if isinstance(runs[0], Run) and isinstance(runs[1], Run):
                learn_broadcasts(s.context, runs[0], runs[1], hypotheses)
        case Call(func="inside", args=(index, extent)):
            at, end = term(s, index, env), term(s, extent, env)
            _comparison_of(s, ">=", at, 0, hypotheses)
            _comparison_of(s, "<", at, end, hypotheses)
        case Call(func="all", args=(Comprehension() as inner,)):
            _all(s, inner, env, hypotheses)
        case Reduction(kind="all"):
            _all(s, c, env, hypotheses)
        case Compare():
            sides = [c.first, *(side for _, side in c.rest)]
            for (op, _), left, right in zip(c.rest, sides, sides[1:]):
                _comparison_of(s, op, term(s, left, env), term(s, right, env), hypotheses)
        case _:
            s.context.fact(truth(s, c, env), hypotheses)


def _alternatives(s: State, items: tuple[Expr, ...], env: Env, hypotheses: tuple[Truth, ...]) -> None:
    """Adds the facts of an `or`: an alternative about all positions holds where the others do not."""
    plain = [i for i in items if not about_vectors(s, i, env)]
    of_vectors = [i for i in items if i not in plain]
    terms = tuple(dims.not_(truth(s, i, env)) for i in plain)
    if not of_vectors:
        s.context.fact(dims.or_(*(dims.not_(t) for t in terms)), hypotheses)
    elif len(of_vectors) == 1:
        _learn(s, of_vectors[0], env, (*hypotheses, *terms))


def about_vectors(s: State, c: Expr, env: Env) -> bool:
    match c:
        case BoolOp(items=items):
            return any(about_vectors(s, i, env) for i in items)
        case Unary(op="not"):
            return False
        case Compare(first=first, rest=rest):
            return any(isinstance(term(s, side, env), Run) for side in (first, *(s for _, s in rest)))
        case Call(func="broadcasts" | "all" | "inside") | Reduction(kind="all"):
            return True
    return False


def _comparison_of(s: State, op: str, a: Any, b: Any, hypotheses: tuple[Truth, ...]) -> None:
    if not isinstance(a, Run) and not isinstance(b, Run):
        s.context.fact(compare(s, op, a, b), hypotheses)
        return
    if op == "!=" and isinstance(a, Run) and isinstance(b, Run):
        return
    length: Size = a.length if isinstance(a, Run) else b.length
    if isinstance(a, Run) and isinstance(b, Run):
        s.context.fact(dims.eq(a.length, b.length), hypotheses)

    def at(p: Size) -> Truth:
        x, y = (v.at(p) if isinstance(v, Run) else v for v in (a, b))
        truth = compare(s, op, x, y)
        return truth if is_truth(truth) else True

    if op in ("==", "!=", "<", "<=", ">", ">="):
        s.context.everywhere(length, at, hypotheses)


def _all(s: State, e: Comprehension | Reduction, env: Env, hypotheses: tuple[Truth, ...]) -> None:
    """Adds the fact of `all(c for a, b in zip(u, v) if d)`: d implies c at every position."""
    if len(e.generators) != 1 or any(t.run for t in e.generators[0].targets):
        return
    (generator,) = e.generators
    taken = iterations(s, generator.domain, env)
    if taken is None or generator.over is Over.EXTENTS:
        return
    length, items_at = taken
    names = [t.name for t in generator.targets]

    def at(p: Size) -> Truth:
        items = items_at(p)
        if len(names) == 1 and len(items) > 1:
            return True
        inner = {**env, **dict(zip(names, items))}
        conditions = [dims.not_(truth(s, c, inner)) for c in e.conditions]
        return dims.or_(*conditions, truth(s, e.element, inner))

    s.context.everywhere(length, at, hypotheses)
