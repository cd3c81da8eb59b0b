"""A slow, obvious evaluation of a spec's signature and rule on integers, straight from the model.

In: an `OpAnalysis`, shapes of inputs, values of parameters. Out: every name's value and the shapes of the outputs, or
`Refused` with the message of the assert that failed. It shares nothing with the emitters, whose oracle it is.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anyshape_gen.model.analysis import (
    AtLeastOne,
    BindParam,
    Define,
    Equal,
    ForEach,
    IfPresent,
    OpAnalysis,
    RankCheck,
    SolveStep,
)
from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    Function,
    If,
    IfExp,
    Index,
    Int,
    Item,
    Message,
    Name,
    NoneLit,
    Reduction,
    Slice,
    Star,
    Statement,
    Str,
    Unary,
    Unbacked,
    VecLit,
)


class Refused(Exception):
    """An assert, or an equality of the signature, does not hold."""


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Env = dict[str, Any]


def spread(f: Callable[..., Any], *args: Any) -> Any:
    """Elementwise where any argument is a list."""
    lengths = {len(a) for a in args if isinstance(a, list)}
    if not lengths:
        return f(*args)
    if len(lengths) > 1:
        raise Refused(f"vectors of lengths {sorted(lengths)}")
    (n,) = lengths
    return [f(*(a[k] if isinstance(a, list) else a for a in args)) for k in range(n)]


def exact_div(a: int, b: int) -> int:
    if b == 0 or a % b:
        raise Refused(f"{a} is not a multiple of {b}")
    return a // b


def infer_size(sizes: list[int], total: int) -> list[int]:
    if sizes.count(-1) > 1:
        raise Refused(f"only one size may be -1, got {sizes}")
    solved = [exact_div(total, -math.prod(sizes)) if n == -1 else n for n in sizes]
    if math.prod(solved) != total:
        raise Refused(f"cannot view {total} elements as {solved}")
    return solved


def broadcast(*shapes: list[int]) -> list[int]:
    out: list[int] = []
    for dims in itertools.zip_longest(*(reversed(s) for s in shapes), fillvalue=1):
        wide = {n for n in dims if n != 1}
        if len(wide) > 1:
            raise Refused(f"{shapes} do not broadcast")
        out.append(wide.pop() if wide else 1)
    return out[::-1]


def put(v: list[Any], positions: Any, items: Any) -> list[Any]:
    out = list(v)
    positions = positions if isinstance(positions, list) else [positions]
    for k, position in enumerate(positions):
        out[position] = items[k] if isinstance(items, list) else items
    return out


def place(rest: list[int], picked: list[int], axes: list[int]) -> list[int]:
    left = iter(rest)
    chosen = dict(zip(axes, picked))
    return [chosen[k] if k in chosen else next(left) for k in range(len(rest) + len(picked))]


def reflected(i: Any, n: int) -> Any:
    """How far it is from the far end of the period that it is in."""
    return abs((i - n + 1) % (2 * n - 2) - n + 1) if n > 1 else 0


def extreme(f: Callable[..., Any]) -> Callable[..., Any]:
    """`max` or `min`: of one vector, or of several values or vectors elementwise; NaN if one is."""

    def of(values: Any) -> Any:
        nans = [v for v in values if v != v]
        return nans[0] if nans else f(values)

    return lambda *args: of(args[0]) if len(args) == 1 else spread(lambda *xs: of(xs), *args)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "rank": len,
    "shape": list,
    "fill": lambda n, x: [x] * int(n),
    "put": put,
    "place": place,
    "drop": lambda v, axes: [n for k, n in enumerate(v) if k not in axes],
    "range": lambda *bounds: list(range(*bounds)),
    "prefix": lambda v: [sum(v[:k]) for k in range(len(v))],
    "index": lambda v, item: v.index(item),
    "zip": lambda *vs: [list(items) for items in zip(*vs, strict=True)],
    "enumerate": lambda v: [[k, n] for k, n in enumerate(v)],
    "sorted": sorted,
    "unique": lambda v: list(dict.fromkeys(v)),
    "sum": sum,
    "prod": math.prod,
    "min": extreme(min),
    "max": extreme(max),
    "infer_size": infer_size,
    "broadcast": broadcast,
    "broadcasts": lambda p, to: len(p) <= len(to) and all(a in (1, b) for a, b in zip(p[::-1], to[::-1])),
    "inside": lambda index, d: all(0 <= i < n for i, n in zip(index, d, strict=True)),
    "ravel": lambda index, d: sum(i * math.prod(d[k + 1 :]) for k, i in enumerate(index)),
    "unravel": lambda place, d: [place // math.prod(d[k + 1 :]) % (n if k else place + 1) for k, n in enumerate(d)],
    "ceil_div": lambda a, b: spread(lambda x, y: -(-x // y), a, b),
    "exact_div": lambda a, b: spread(exact_div, a, b),
    "reflect": lambda i, n: spread(reflected, i, n),
    "int": lambda c: spread(int, c),
    "clamp": lambda x, low, high: spread(lambda v, a, b: v if v != v else max(a, min(v, b)), x, low, high),
}


class DataSize:
    """A size that only values decide: as good as any number, until a kernel runs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, DataSize))

    def __hash__(self) -> int:
        return 0

    def __add__(self, other: object) -> DataSize:
        return self

    __radd__ = __add__


@dataclass
class Evaluation:
    """One call of an op."""

    analysis: OpAnalysis
    env: Env = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    """The inputs that are there."""

    @property
    def functions(self) -> dict[str, Function]:
        return {
            function.name: function for function in (*self.analysis.shape_functions, *self.analysis.kernel_functions)
        }

    def run(self, shapes: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """The shapes of the outputs (of a variadic one, a list of shapes)."""
        self.env, self.present = {**params, **shapes}, frozenset(shapes)
        self.steps(self.analysis.steps, self.env)
        self.rule(self.analysis.rule)
        for unbacked in self.analysis.kernel.unbacked if self.analysis.kernel is not None else ():
            self.env[unbacked.name] = DataSize()
        out = {}
        for output in self.analysis.outputs:
            if output.var is None or output.count is None:
                out[output.name] = self.expr(output.shape, self.env)
            else:
                count = self.expr(output.count, self.env)
                out[output.name] = [self.expr(output.shape, {**self.env, output.var: v}) for v in range(count)]
        return out

    # --- steps ------------------------------------------------------------------------------------------------------------

    def steps(self, steps: tuple[SolveStep, ...], env: Env) -> None:
        for step in steps:
            match step:
                case BindParam():
                    self._param(step, env)
                case RankCheck(operand=operand, element=element, rank=rank, most=most):
                    shape = env[operand][env[element]] if element else env[operand]
                    least = self.expr(rank, env)
                    if len(shape) < least or (most is not None and len(shape) > self.expr(most, env)):
                        raise Refused(f"rank of {operand}: wanted {least}, got {shape}")
                case Define(name=name, value=value):
                    env[name] = self.expr(value, env)
                case Equal(left=left, right=right, what=what):
                    if self.expr(left, env) != self.expr(right, env):
                        raise Refused(f"{what}: {self.expr(left, env)} against {self.expr(right, env)}")
                case AtLeastOne(operand=operand):
                    if not env[operand]:
                        raise Refused(f"{operand} is empty")
                case ForEach(var=var, count=count, steps=inner):
                    for v in range(self.expr(count, env)):
                        self.steps(inner, {**env, var: v})
                case IfPresent(operand=operand, steps=inner, absent=absent):
                    self.steps(inner if operand in env else absent, env)

    def _param(self, step: BindParam, env: Env) -> None:
        name, kind = step.param.name, step.param.kind.base
        empty = name in env and step.param.empty is not None and self.expr(step.param.empty, env) and env[name] == []
        if name not in env or empty:
            assert step.default is not None, f"{name} must be given"
            env[name] = self.expr(step.default, env)
        value = env[name]
        if kind in ("axis", "axes") and step.of is not None:
            rank = self.expr(step.of, env)
            listed = value if isinstance(value, list) else [value]
            if any(not -rank <= a < rank for a in listed) or len({a % rank for a in listed}) != len(listed):
                raise Refused(f"{name} = {value} for rank {rank}")
            env[name] = [a % rank for a in listed] if isinstance(value, list) else value % rank
        if step.defines_length is not None:
            env[step.defines_length] = len(value)
        if step.length is not None and value is not None and len(value) != self.expr(step.length, env):
            raise Refused(f"{name} has {len(value)} items")

    # --- rule -------------------------------------------------------------------------------------------------------------

    def rule(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            match statement:
                case Assign(names=(name,), value=value):
                    self.env[name] = self.expr(value, self.env)
                case Assign(names=names, value=value):
                    self.env.update(zip(names, self.expr(value, self.env), strict=True))
                case Assert(cond=cond, message=message):
                    if not self.truth(self.expr(cond, self.env)):
                        raise Refused(self._message(message))
                case Unbacked(name=name):
                    self.env[name] = DataSize()
                case If(cond=cond, then=then, other=other):
                    self.rule(then if self.truth(self.expr(cond, self.env)) else other)

    def _message(self, message: Message | None) -> str:
        parts = message.parts if message else ()
        return "".join(part if isinstance(part, str) else str(self.expr(part, self.env)) for part in parts)

    @staticmethod
    def truth(value: Any) -> bool:
        return all(value) if isinstance(value, list) else bool(value)

    # --- expressions ------------------------------------------------------------------------------------------------------

    def expr(self, node: Expr, env: Env) -> Any:
        match node:
            case Name(id="inf"):
                return math.inf
            case Name(id="pi"):
                return math.pi
            case Name(id=name):
                return env[name]
            case Int(value=value) | Float(value=value) | Str(value=value) | Bool(value=value):
                return value
            case NoneLit():
                return None
            case Unary(op="-", operand=operand):
                return spread(operator.neg, self.expr(operand, env))
            case Unary(operand=operand):
                return not self.truth(self.expr(operand, env))
            case BinOp(op=op, left=left, right=right):
                return spread(OPERATORS[op], self.expr(left, env), self.expr(right, env))
            case BoolOp(op="and", items=items):
                return all(self.truth(self.expr(item, env)) for item in items)
            case BoolOp(items=items):
                return any(self.truth(self.expr(item, env)) for item in items)
            case Compare():
                return self._compare(node, env)
            case IfExp(cond=cond, then=then, other=other):
                return self.expr(then if self.truth(self.expr(cond, env)) else other, env)
            case VecLit(items=items):
                return self._items(items, env)
            case Comprehension(element=element):
                return [self.expr(element, inner) for inner in self._iterations(node, env)]
            case Reduction(kind=kind, element=element):
                return self._reduce(kind, [self.expr(element, inner) for inner in self._iterations(node, env)])
            case Index(base=base, items=(item,)):
                return self._index(self.expr(base, env), item, env)
            case Call(func="present", args=(Name(id=name),)):
                return name in self.present
            case Call(func=func, args=args):
                return self._call(func, self._items(args, env))
        raise TypeError(f"{type(node).__name__} in a rule")

    def _items(self, items: tuple[Item, ...], env: Env) -> list[Any]:
        out: list[Any] = []
        for item in items:
            if isinstance(item, Star):
                out += self.expr(item.value, env)
            else:
                assert not isinstance(item, Slice)
                out.append(self.expr(item, env))
        return out

    def _compare(self, node: Compare, env: Env) -> bool:
        left = self.expr(node.first, env)
        for op, side in node.rest:
            right = self.expr(side, env)
            if op == "==" and isinstance(left, list) and isinstance(right, list):
                holds = left == right
            elif op in ("is", "is not"):
                holds = (left is right) == (op == "is")
            elif op in ("in", "not in"):
                holds = (left in right) == (op == "in")
            else:
                holds = self.truth(spread(OPERATORS[op], left, right))
            if not holds:
                return False
            left = right
        return True

    def _iterations(self, node: Comprehension | Reduction, env: Env) -> list[Env]:
        iterations = [env]
        for generator in node.generators:
            further = []
            for inner in iterations:
                domain = self.expr(generator.domain, inner)
                for item in range(domain) if isinstance(domain, int) else domain:
                    values = item if len(generator.targets) > 1 else [item]
                    further.append({**inner, **dict(zip((t.name for t in generator.targets), values, strict=True))})
            iterations = further
        return [
            iteration for iteration in iterations if all(self.truth(self.expr(c, iteration)) for c in node.conditions)
        ]

    @staticmethod
    def _reduce(kind: str, values: list[Any]) -> Any:
        if kind in ("any", "all"):
            return (any if kind == "any" else all)(values)
        return sum(map(bool, values)) if kind == "count" else FUNCTIONS[kind](values)

    def _index(self, base: Any, item: Item, env: Env) -> Any:
        if isinstance(item, Slice):
            low = None if item.low is None else self.expr(item.low, env)
            high = None if item.high is None else self.expr(item.high, env)
            return base[low:high]
        assert not isinstance(item, Star)
        at = self.expr(item, env)
        picked = [base[k] for k in at] if isinstance(at, list) else base[at]
        return list(picked) if isinstance(picked, tuple) else picked

    def _call(self, func: str, args: list[Any]) -> Any:
        own = self.functions.get(func)
        if own is None:
            return FUNCTIONS[func](*args)
        inner = {**self.env, **dict(zip(own.args, args, strict=True))}
        for statement in own.body:
            inner[statement.names[0]] = self.expr(statement.value, inner)
        return self.expr(own.result, inner)
