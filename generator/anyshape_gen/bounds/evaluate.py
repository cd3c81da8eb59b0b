"""Expressions of rules and kernels as terms, at no particular shape.

In: an expression and the values of its names. Out: its value; what is not modelled is an unknown, which is always sound. In the rule every
partial operation has been checked before a kernel runs, so evaluating one teaches that its condition holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape_gen.bounds.context import Context, within
from anyshape_gen.bounds.functions import Functions
from anyshape_gen.bounds.prove import Truth
from anyshape_gen.bounds.terms import (
    Member,
    Run,
    Thing,
    choose,
    concat,
    counted,
    is_int,
    is_truth,
    part,
    spread,
)
from anyshape_gen.nodes import (
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    Function,
    IfExp,
    Index,
    Int,
    Item,
    Name,
    Node,
    NoneLit,
    Reduction,
    Slice,
    Star,
    Str,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.traverse import free_names

Env = Mapping[str, Any]
_ORDER: dict[str, Callable[[Size, Size], Truth]] = {
    "==": dims.eq, "!=": dims.ne, "<": dims.lt, "<=": dims.le, ">": dims.gt, ">=": dims.ge,
}  # fmt: skip


class Evaluator(Functions):
    """Evaluates in one context. `read` gives the value of an element of a tensor."""

    def __init__(
        self,
        context: Context,
        functions: Mapping[str, Function],
        lookup: Callable[[str], Any],
        shape: Callable[[str, Any], Run],
    ) -> None:
        super().__init__(context)
        self.functions, self.lookup, self.shape = functions, lookup, shape
        self.busy = True
        """While the rule is read, its names have no values of their own yet."""
        self.read: Callable[[TensorRead, Env], Any] = lambda node, env: context.thing("read", node, *env.values())

    # --- names and operators

    def value(self, e: Item, env: Env) -> Any:
        """What depends on no variable is evaluated once, so that it is one value wherever it is written."""
        if isinstance(e, (Name, Int, Str, Bool)) or not free_names(e).isdisjoint(env) or self.busy:
            return self._value(e, env)
        key = ("expr", e)
        if key not in self.context.opaque:
            self.context.opaque[key] = self._value(e, env)
        return self.context.opaque[key]

    def _value(self, e: Item, env: Env) -> Any:
        match e:
            case Name(id=name):
                return env[name] if name in env else self.lookup(name)
            case Int(value=value) | Bool(value=value) | Str(value=value):
                return value
            case Float(value=value):
                return Thing((value,))
            case NoneLit():
                return None
            case Unary(op="-", operand=operand):
                return spread(lambda a: -a if is_int(a) else self._thing("-", a), self.value(operand, env))
            case Unary(operand=operand):
                return dims.not_(self.truth(operand, env))
            case BinOp(op=op, left=left, right=right):
                return spread(lambda a, b: self._arithmetic(op, a, b), self.value(left, env), self.value(right, env))
            case BoolOp(op=op, items=items):
                join = dims.and_ if op == "and" else dims.or_
                return join(*(self.truth(i, env) for i in items))
            case Compare():
                return self._comparison(e, env)
            case IfExp(cond=cond, then=then, other=other):
                return choose(self.truth(cond, env), self.value(then, env), self.value(other, env))
            case VecLit(items=items):
                return self.items(items, env)
            case Index(base=base, items=items):
                return self._index(base, items, env)
            case Comprehension():
                return self._comprehension(e, env)
            case TensorRead():
                return self.read(e, env)
            case Call():
                return self._call(e, env)
        return self._unknown(e, env)

    def integer(self, e: Item, env: Env) -> Size:
        """The value as an integer, an unknown one if it is none."""
        v = self.value(e, env)
        return v if is_int(v) else self.context.unknown("int", v)

    def vector(self, e: Item, env: Env) -> Run:
        v = self.value(e, env)
        return v if isinstance(v, Run) else self._some_run(v)

    def truth(self, e: Expr, env: Env) -> Truth:
        """A condition; one of vectors holds for all items, which one term does not say: it is an unknown."""
        v = self.value(e, env)
        if is_truth(v):
            known: Truth = v
            return known
        if is_int(v):
            return dims.ne(v, 0)
        return self.context.undecided("truth", v)

    def items(self, items: tuple[Item, ...], env: Env) -> Run:
        pieces = []
        for i in items:
            if isinstance(i, Star):
                pieces.append(self.vector(i.value, env))
            elif isinstance(i, Slice):
                pieces.append(self._some_run(i))
            else:
                v = self.value(i, env)
                pieces.append(v)
        return concat(pieces)

    def _unknown(self, e: Node, env: Env) -> Any:
        """One unknown for the same text over the same values."""
        if isinstance(e, Reduction) and e.kind in ("any", "all"):
            return self.context.undecided("node", e, *env.values())
        if isinstance(e, Reduction) and e.kind in ("argmax", "argmin", "sum", "prod", "count", "max", "min"):
            low = 0 if e.kind == "count" else None
            return self.context.unknown("node", e, *env.values(), low=low)
        return self._thing("node", e, *env.values())

    def _arithmetic(self, op: str, a: Any, b: Any) -> Any:
        a, b = (dims.select(v, 1, 0) if is_truth(v) else v for v in (a, b))
        if not (is_int(a) and is_int(b)) or op in ("/", "**"):
            if op == "**" and is_int(a) and isinstance(b, int) and 0 <= b <= 4:
                power: Size = 1
                for _ in range(b):
                    power = power * a
                return power
            return self._thing(op, a, b)
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

    def _comparison(self, e: Compare, env: Env) -> Any:
        sides = [self.value(x, env) for x in (e.first, *(x for _, x in e.rest))]
        return dims.and_(*(self._compare(op, a, b) for (op, _), a, b in zip(e.rest, sides, sides[1:])))

    def _compare(self, op: str, a: Any, b: Any) -> Truth:
        if isinstance(b, Member):
            a, b = b, a
        if isinstance(a, Member) and isinstance(b, str) and op in ("==", "!="):
            at = a.members.index(b) if b in a.members else -1
            return _ORDER[op](a.number, at)
        if op in _ORDER and is_int(a) and is_int(b):
            return _ORDER[op](a, b)
        if op in ("!=", "is not", "not in"):
            return dims.not_(self._compare({"!=": "==", "is not": "is", "not in": "in"}[op], a, b))
        if isinstance(a, str) and isinstance(b, str) and op == "==":
            return a == b
        return self.context.undecided(op, a, b)

    # --- vectors

    def _index(self, base: Expr, items: tuple[Item, ...], env: Env) -> Any:
        run = self.value(base, env)
        if not isinstance(run, Run) or len(items) != 1:
            return self._thing("index", run, items, *env.values())
        (item,) = items
        if isinstance(item, Slice):
            low = None if item.low is None else self.integer(item.low, env)
            high = None if item.high is None else self.integer(item.high, env)
            return part(run, low, high)
        if isinstance(item, Star):
            return self._some_run(run, item)
        position = self.value(item, env)
        if isinstance(position, Run):
            where = position
            return Run(where.length, lambda p: self._item(run, where.at(p)), nonnegative=run.nonnegative)
        return self._item(run, position)

    def _item(self, run: Run, position: Any) -> Any:
        if not is_int(position):
            return self.context.unknown("item", run, position)
        if isinstance(position, int) and position < 0:
            return run.at(run.length + position)
        if dims.ge(position, 0) is True or position in run.known:
            return run.at(position)
        return run.at(counted(position, run.length))

    def _comprehension(self, e: Comprehension, env: Env) -> Any:
        if len(e.generators) != 1 or any(t.run for t in e.generators[0].targets):
            return self._some_run("comprehension", e, *env.values())
        (generator,) = e.generators
        turns = self.turns(generator.domain, env)
        if turns is None:
            return self._some_run("comprehension", e, *env.values())
        length, items_at = turns
        names = [t.name for t in generator.targets]

        def bound(p: Size) -> dict[str, Any]:
            found = items_at(p)
            if len(names) == 1:
                return {**env, names[0]: found[0] if len(found) == 1 else self._thing("items", *found)}
            return {**env, **dict(zip(names, found))}

        if e.conditions:  # so many as hold: each is one of those without the conditions
            shorter = self.context.unknown("kept", e, *env.values(), low=0)
            self.context.fact(dims.le(shorter, dims.maximum(length, 0)))
            return Run(shorter, lambda p: self.value(e.element, bound(self.chosen(e, p, length, shorter))))
        return Run(length, lambda p: self.value(e.element, bound(p)))

    def chosen(self, e: Comprehension, p: Size, length: Size, kept: Size) -> Size:
        """Which turn the item at p comes from, if so many are kept."""
        found = self.context.unknown("of", e, p, length, low=0)
        self.context.own(found, dims.or_(dims.not_(within(p, kept)), dims.lt(found, length)))
        return found

    def turns(self, domain: Expr, env: Env) -> tuple[Size, Callable[[Size], list[Any]]] | None:
        """How many turns a generator takes, and what its targets are in turn p."""
        match domain:
            case Call(func="zip", args=args):
                runs = [self.vector(a, env) for a in args]
                length = spread(lambda *xs: xs[0], *runs).length
                self._same_length(runs)
                return length, lambda p: [r.at(p) for r in runs]
            case Call(func="enumerate", args=(inner,)):
                run = self.vector(inner, env)
                return run.length, lambda p: [p, run.at(p)]
            case Call(func="range", args=args) if len(args) in (1, 2):
                ends = [self.integer(a, env) for a in args]
                low, high = (0, ends[0]) if len(ends) == 1 else ends
                return dims.maximum(high - low, 0), lambda p: [low + p]
        v = self.value(domain, env)
        if isinstance(v, Run):
            return v.length, lambda p: [v.at(p)]
        return (dims.maximum(v, 0), lambda p: [p]) if is_int(v) else None

    def _same_length(self, runs: list[Run]) -> None:
        """zip of vectors of two lengths was refused."""

    def present(self, name: str) -> Truth:
        """Whether an optional input is given."""
        return self.context.undecided("present", name)

    # --- functions

    def _call(self, e: Call, env: Env) -> Any:
        own = self.functions.get(e.func)
        if own is not None:
            inner = {**env, **{n: self.value(a, env) for n, a in zip(own.args, e.args)}}
            for statement in own.body:
                for name in statement.names[:1]:
                    inner[name] = self.value(statement.value, inner)
            return self.value(own.result, inner)
        match e:
            case Call(func="shape" | "rank", args=(Name(id=name),)):
                run = self.shape(name, None)
                return run if e.func == "shape" else run.length
            case Call(func="shape" | "rank", args=(Index(base=Name(id=name), items=(element,)),)):
                run = self.shape(name, None if isinstance(element, (Star, Slice)) else self.value(element, env))
                return run if e.func == "shape" else run.length
            case Call(func="present", args=(Name(id=name),)):
                return self.present(name)
        if any(isinstance(a, (Star, Slice)) for a in e.args) or e.keywords:
            return self._unknown(e, env)
        args = [self.value(a, env) for a in e.args]
        return self.apply(e.func, args)
