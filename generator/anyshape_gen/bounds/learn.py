"""What an assert teaches: facts, and facts about all positions of vectors.

In: a condition of the rule, and what it stands under. Out: facts in the context. A condition of vectors holds at every position;
`all(… for …)` and `broadcasts` are read the same way; an alternative is a fact under the negation of the others.
"""

from __future__ import annotations

from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape_gen.bounds.broadcasting import learn_broadcasts
from anyshape_gen.bounds.evaluate import Env, Evaluator
from anyshape_gen.bounds.prove import Proof, Truth, prove
from anyshape_gen.bounds.terms import Run, is_int, is_truth
from anyshape_gen.nodes import BoolOp, Call, Compare, Comprehension, Expr, Over, Reduction, Unary


class Learner(Evaluator):
    """An evaluator that asserts teach."""

    eager = False
    """Whether what is evaluated now has been evaluated, unconditionally, before any kernel runs."""

    def learn(self, c: Expr, env: Env, given: tuple[Truth, ...]) -> None:
        """The condition holds where all of `given` do."""
        eager, self.eager = self.eager, self.eager and not given
        try:
            self._learn(c, env, given)
        finally:
            self.eager = eager

    def _learn(self, c: Expr, env: Env, given: tuple[Truth, ...]) -> None:
        match c:
            case BoolOp(op="and", items=items):
                for item in items:
                    self._learn(item, env, given)
            case BoolOp(items=items):
                self._alternatives(items, env, given)
            case Call(func="broadcasts", args=(left, right)):
                runs = self.value(left, env), self.value(right, env)
                if isinstance(runs[0], Run) and isinstance(runs[1], Run):
                    learn_broadcasts(self.context, runs[0], runs[1], given)
            case Call(func="inside", args=(index, extent)):
                at, end = self.value(index, env), self.value(extent, env)
                self._comparison_of(">=", at, 0, given)
                self._comparison_of("<", at, end, given)
            case Call(func="all", args=(Comprehension() as inner,)):
                self._all(inner, env, given)
            case Reduction(kind="all"):
                self._all(c, env, given)
            case Compare():
                sides = [c.first, *(side for _, side in c.rest)]
                for (op, _), left, right in zip(c.rest, sides, sides[1:]):
                    self._comparison_of(op, self.value(left, env), self.value(right, env), given)
            case _:
                self.context.fact(self.truth(c, env), given)

    def _alternatives(self, items: tuple[Expr, ...], env: Env, given: tuple[Truth, ...]) -> None:
        """One of several that says something about all positions holds where the others do not."""
        plain = [i for i in items if not self._about_vectors(i, env)]
        others = [i for i in items if i not in plain]
        terms = tuple(dims.not_(self.truth(i, env)) for i in plain)
        if not others:
            self.context.fact(dims.or_(*(dims.not_(t) for t in terms)), given)
        elif len(others) == 1:
            self._learn(others[0], env, (*given, *terms))

    def _about_vectors(self, c: Expr, env: Env) -> bool:
        match c:
            case BoolOp(items=items):
                return any(self._about_vectors(i, env) for i in items)
            case Unary(op="not"):
                return False
            case Compare(first=first, rest=rest):
                return any(isinstance(self.value(side, env), Run) for side in (first, *(s for _, s in rest)))
            case Call(func="broadcasts" | "all" | "inside") | Reduction(kind="all"):
                return True
        return False

    def _comparison_of(self, op: str, a: Any, b: Any, given: tuple[Truth, ...]) -> None:
        if not isinstance(a, Run) and not isinstance(b, Run):
            self.context.fact(self._compare(op, a, b), given)
            return
        if op == "!=" and isinstance(a, Run) and isinstance(b, Run):
            return
        length: Size = a.length if isinstance(a, Run) else b.length
        if isinstance(a, Run) and isinstance(b, Run):
            self.context.fact(dims.eq(a.length, b.length), given)

        def at(p: Size) -> Truth:
            x, y = (v.at(p) if isinstance(v, Run) else v for v in (a, b))
            found = self._compare(op, x, y)
            return found if is_truth(found) else True

        if op in ("==", "!=", "<", "<=", ">", ">="):
            self.context.everywhere(length, at, given)

    def _all(self, e: Comprehension | Reduction, env: Env, given: tuple[Truth, ...]) -> None:
        """`all(c for a, b in zip(u, v) if d)`: d implies c at every position."""
        if len(e.generators) != 1 or any(t.run for t in e.generators[0].targets):
            return
        (generator,) = e.generators
        turns = self.turns(generator.domain, env)
        if turns is None or generator.over is Over.EXTENTS:
            return
        length, items_at = turns
        names = [t.name for t in generator.targets]

        def at(p: Size) -> Truth:
            found = items_at(p)
            if len(names) == 1 and len(found) > 1:
                return True
            inner = {**env, **dict(zip(names, found))}
            conditions = [dims.not_(self.truth(c, inner)) for c in e.conditions]
            return dims.or_(*conditions, self.truth(e.element, inner))

        self.context.everywhere(length, at, given)

    def _same_length(self, runs: list[Run]) -> None:
        if self.eager and not Run.asked:
            for other in runs[1:]:
                self.context.fact(dims.eq(runs[0].length, other.length))

    def nonnegative(self, v: Run) -> bool:
        if v.nonnegative:
            return True
        with self.context.aside():
            p = self.context.position()
            item = v.at(p)
            if not is_int(item):
                return False
            goal = dims.ge(item, 0)
            inside = dims.lt(p, v.length)
            how = prove(goal, [[inside], *self.context.about([goal, inside])])
        v.nonnegative = isinstance(how, Proof)
        return v.nonnegative
