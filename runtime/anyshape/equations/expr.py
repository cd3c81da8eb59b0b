"""Expressions of index equations: constants, dims, loop variables, reads, elementwise operations, reductions.

Values and indices share one language. Nodes are immutable and interned: equal expressions are one object, so `is` compares,
and a common subexpression is found by identity. A dtype of None is *weak*: a literal or a dim that takes the dtype it meets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, NoReturn, Union
from weakref import WeakValueDictionary

from anyshape.dims import Cond, Dim, Size, bounds, free_symbols
from anyshape.dtypes import BOOL, CHAR, I64, U64, DType, accum, highest, literal_key, lowest
from anyshape.dtypes import bitcast as same_width
from anyshape.errors import SpecError
from anyshape.wording import counted

ExprLike = Union["Expr", Size, float, Cond]

LARGE = 1 << 62
"""The least integer of which the sum of two may not fit 64 bits."""
_interned: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()
_serial = count()


_Operator = Callable[["Expr", ExprLike], "Expr"]
_OPERATORS = ("add", "sub", "mul", "div", "floordiv", "mod")
"""Operations of the operators + - * / // and %."""


def _left(name: str) -> _Operator:
    return lambda self, other: apply(name, self, other)


def _right(name: str) -> _Operator:
    return lambda self, other: apply(name, other, self)


class Expr:
    """A node. `dtype` is None while weak; `free` is the set of loop variables it depends on."""

    __slots__ = ("__weakref__", "dtype", "free", "serial")
    dtype: DType | None
    free: frozenset[Var]
    serial: int

    __add__, __sub__, __mul__, __truediv__, __floordiv__, __mod__ = map(_left, _OPERATORS)
    __radd__, __rsub__, __rmul__, __rtruediv__, __rfloordiv__, __rmod__ = map(_right, _OPERATORS)

    def __pow__(self, other: ExprLike) -> Expr:
        return power(self, other)

    def __rpow__(self, other: ExprLike) -> Expr:
        return power(other, self)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __bool__(self) -> bool:
        raise SpecError(f"the value of {self} is not known while a kernel is built; use where(condition, a, b)")

    def __str__(self) -> str:
        from anyshape.equations.text import spell

        return spell(self)

    __repr__ = __str__


class Const(Expr):
    """A literal number or truth value."""

    __slots__ = ("value",)
    value: int | float | bool


class Scalar(Expr):
    """A dim (or a condition on dims): the same for all elements, computed before the kernel starts."""

    __slots__ = ("size",)
    size: Size | Cond


class Var(Expr):
    """A loop variable, 0 <= var < extent; each is unique. As a value it is an i64."""

    __slots__ = ("extent", "name")
    name: str
    extent: Size

    def __init__(self, name: str, extent: Size) -> None:
        self.name, self.extent = name, extent
        self.dtype, self.free, self.serial = I64, frozenset((self,)), next(_serial)


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """An operand, a result or a scratch of equations; compared by identity."""

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    absent: Const | None = None
    """The constant that every read of an absent optional input gives."""

    def __getitem__(self, index: ExprLike | slice | tuple[ExprLike | slice, ...]) -> Expr:
        """`t[i, :]`, on the left side of a vector, has a variable called ":" at that place."""
        items = index if isinstance(index, tuple) else (index,)
        if self.absent is not None:
            return self.absent
        return read(self, [Var(":", self.shape[k]) if isinstance(i, slice) else i for k, i in enumerate(items)])

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self.name} is a tensor, and no vector: its elements are not listed")

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class Read(Expr):
    """One element of a tensor. `outside`, if given, is the value where an index is out of range (pad)."""

    __slots__ = ("index", "outside", "tensor")
    tensor: Tensor
    index: tuple[Expr, ...]
    outside: Expr | None


class Apply(Expr):
    """An elementwise operation; OPERATIONS lists the names."""

    __slots__ = ("args", "op")
    op: str
    args: tuple[Expr, ...]


class Reduce(Expr):
    """sum, prod, max, min, any, all, count, argmax or argmin of `body` over `vars`, where `where` holds (None: always)."""

    __slots__ = ("body", "kind", "vars", "where")
    kind: str
    vars: tuple[Var, ...]
    body: Expr
    where: Expr | None


_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_LOGICAL = frozenset(("and", "or", "not"))
_PLACES = frozenset(
    ("add", "sub", "mul", "div", "floordiv", "trunc_div", "mod", "fmod", "min", "max", "neg", "abs", "select")
)
OPERATIONS: dict[str, int] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "trunc_div", "floordiv", "mod", "fmod", "min", "max", "pow", "wrap"), 2),
    "within": 2,
    **dict.fromkeys(_COMPARISONS, 2),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"), 2),
    "philox": 2, "entropy": 0,
    "and": 2, "or": 2, "not": 1, "neg": 1, "abs": 1, "select": 3, "cast": 1, "bitcast": 1,
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sin", "cos"), 1),
    **dict.fromkeys(("floor", "ceil", "round_even", "trunc"), 1), "round_bf16": 1, "round_f16": 1,
}  # fmt: skip


def _intern(key: tuple[Any, ...], make: Callable[[], Expr]) -> Expr:
    node = _interned.get(key)
    if node is None:
        node = make()
        node.serial = next(_serial)
        _interned[key] = node
    return node


def const(value: int | float | bool, dtype: DType | None = None) -> Const:
    """A literal; the key tells True from 1 and 0.0 from -0.0."""
    if isinstance(value, bool) and dtype is None:
        dtype = BOOL

    def make() -> Const:
        node = Const()
        node.value, node.dtype, node.free = value, dtype, frozenset()
        return node

    node = _intern(("const", literal_key(value), dtype), make)
    assert isinstance(node, Const)
    return node


def scalar(size: Size | Cond, dtype: DType | None = None) -> Expr:
    if isinstance(size, (bool, int)):
        return const(size, dtype)

    def make() -> Scalar:
        node = Scalar()
        node.size, node.free = size, frozenset()
        node.dtype = BOOL if isinstance(size, Cond) else dtype
        return node

    return _intern(("scalar", size, dtype), make)


def as_expr(value: ExprLike) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, (Dim, Cond)):
        return scalar(value)
    return const(value)


def position(index: ExprLike) -> Expr:
    """An index as an expression. Raises SpecError for a float."""
    e = as_expr(index)
    if e.dtype is not None and e.dtype.is_float:
        raise SpecError(f"an index is an integer, and {e} is {e.dtype}; write i64(…)")
    return e


def read(tensor: Tensor, index: Sequence[ExprLike], outside: ExprLike | None = None) -> Expr:
    items = tuple(map(position, index))
    if len(items) != len(tensor.shape):
        raise SpecError(f"{tensor} has rank {len(tensor.shape)}, but is indexed with {counted(len(items), 'value')}")
    default = None if outside is None else adapt(as_expr(outside), tensor.dtype)

    def make() -> Read:
        node = Read()
        node.tensor, node.index, node.outside, node.dtype = tensor, items, default, tensor.dtype
        node.free = frozenset().union(*(i.free for i in items), default.free if default is not None else ())
        return node

    return _intern(("read", tensor, items, default), make)


def adapt(e: Expr, dtype: DType) -> Expr:
    """Gives a weak expression the dtype it meets."""
    if e.dtype is not None:
        return e
    if isinstance(e, Const):
        return const(e.value, dtype)
    if isinstance(e, Scalar):
        return scalar(e.size, dtype)
    wide = accum(dtype)
    if wide is not dtype:
        return _apply("cast", (adapt(e, wide),), dtype)
    if isinstance(e, Reduce):
        return reduce_node(e.kind, e.vars, adapt(e.body, dtype), e.where, dtype)
    assert isinstance(e, Apply)
    return _apply(e.op, tuple(adapt(a, dtype) for a in e.args), dtype)


def _apply(op: str, args: tuple[Expr, ...], dtype: DType | None) -> Expr:
    def make() -> Apply:
        node = Apply()
        node.op, node.args, node.dtype = op, args, dtype
        node.free = frozenset().union(*(a.free for a in args))
        return node

    return _intern(("apply", op, args, dtype), make)


def _unify(op: str, args: Sequence[Expr]) -> tuple[tuple[Expr, ...], DType | None]:
    """The arguments in one dtype: that of the strong ones, which must agree, or where these are narrow floats the one that they are
    computed in. A choice among elements and literals of their dtype computes nothing, and leaves them as they are."""
    strong = {a.dtype for a in args if a.dtype is not None}
    if not strong:
        return tuple(args), None
    wide = {accum(d) for d in strong}
    if len(wide) > 1 or len(strong - wide) > 1:
        met = _places_met(op, args)
        if met is not None:
            return _unify(op, met)
        kinds = " and ".join(sorted(str(d) for d in strong))
        raise SpecError(
            f"{op} of {', '.join(map(str, args))}: its operands have the dtypes {kinds}; write cast(value, dtype)"
        )
    (dtype,) = strong if op == "select" and len(strong) == 1 and all(map(_moved, args)) else wide
    return tuple(cast(a, dtype) for a in args), dtype


def _places_met(op: str, args: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """Positions and elements of one other dtype, in one dtype: that of the elements, as dims adapt, or where integers are compared i64.
    None where something else meets."""
    places = [a.dtype is I64 and is_position(a) for a in args]
    met = {accum(a.dtype) for a, place in zip(args, places) if a.dtype is not None and not place}
    if not any(places) or len(met) != 1:
        return None
    (dtype,) = met
    if dtype is BOOL or dtype is CHAR or dtype is I64:
        return None
    if op in _COMPARISONS and dtype.is_integer and dtype is not U64:
        return tuple(cast(a, I64) for a in args)
    return tuple(_place_in(a, dtype) if place else a for a, place in zip(args, places))


def is_position(e: Expr) -> bool:
    """Whether an integer is computed of variables, sizes and literals, and of nothing that is read: what it is taken for is not said by
    its dtype, so that it adapts as a dim does."""
    if isinstance(e, Apply):
        return e.op in _PLACES and all(map(is_position, e.args[1:] if e.op == "select" else e.args))
    return isinstance(e, (Var, Const, Scalar)) and e.dtype in (None, I64)


def _place_in(e: Expr, dtype: DType) -> Expr:
    """A position as a number of another dtype. A quotient in floats is one of floats, as that of dims is."""
    if dtype.is_float and isinstance(e, Apply) and any(isinstance(n, Apply) and n.op == "div" for n in _parts(e)):
        if e.op == "select":
            return apply(e.op, e.args[0], *(_place_in(a, dtype) for a in e.args[1:]))
        return apply(e.op, *(_place_in(a, dtype) for a in e.args))
    if isinstance(e, (Const, Scalar)):
        return const(e.value, dtype) if isinstance(e, Const) else scalar(e.size, dtype)
    return cast(e, dtype)


def _parts(e: Expr) -> Iterator[Expr]:
    yield e
    for a in e.args if isinstance(e, Apply) else ():
        yield from _parts(a)


def _moved(e: Expr) -> bool:
    """Whether an element, or a literal that every narrow float holds as it is: no dim, which may be greater than the greatest of them."""
    return e.dtype is not None or (isinstance(e, Const) and e.value in (0, 1, -1, inf, -inf))


def apply(op: str, *operands: ExprLike) -> Expr:
    """An elementwise operation, in accum(T) of operands of T; weak operands adapt, integers of indices stay i64."""
    if OPERATIONS.get(op) != len(operands):
        raise SpecError(f"{op} is not an operation of {len(operands)} operands")
    args = tuple(as_expr(o) for o in operands)
    if op == "select":
        branches, dtype = _unify(op, args[1:])
        c = args[0]
        if isinstance(c, Const):
            return branches[0] if c.value else branches[1]
        return branches[0] if branches[0] is branches[1] else _apply(op, (c, *branches), dtype)
    if op in _COMPARISONS:
        known = _compared(op, args)
        return known if known is not None else _apply(op, _unify(op, _held(_apart(args)))[0], BOOL)
    if op in _LOGICAL:
        known = _decided(op, args)
        return known if known is not None else _apply(op, args, BOOL)
    unified, dtype = _unify(op, args)
    simple = _simplify(op, unified)
    return simple if simple is not None else _apply(op, unified, dtype)


def _held(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The two sides of a comparison, in i64 where an integer of few bits does not hold what it is compared with: a dim, a large literal."""
    strong = [a.dtype for a in args if a.dtype is not None]
    if len(strong) == 1 and strong[0].is_integer and strong[0].bits < I64.bits and strong[0] is not CHAR:
        (weak,) = (a for a in args if a.dtype is None)
        beyond = (
            isinstance(weak.value, int) and not lowest(strong[0]) <= weak.value <= highest(strong[0])
            if isinstance(weak, Const)
            else isinstance(weak, Scalar) and strong[0].bits < 32
        )
        if beyond:
            return tuple(cast(a, I64) for a in args)
    return args


def _apart(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The two sides of a comparison of positions, an integer of any size alone on one of them: `j >= i + k` is `j - i >= k`, where i + k
    may be more than an integer holds, and the difference of two positions is not."""
    terms = [*_terms(args[0], 1), *_terms(args[1], -1)]
    large = [(sign, e) for sign, e in terms if _is_any_integer(e)]
    if len(large) != 1 or large[0][1] in args or not all(_is_place(e) for _, e in terms):
        return args
    ((sign, k),) = large
    rest: Expr | None = None
    for s, e in sorted(((-sign * s, e) for s, e in terms if e is not k), key=lambda t: -t[0]):
        rest = (e if s > 0 else apply("neg", e)) if rest is None else apply("add" if s > 0 else "sub", rest, e)
    assert rest is not None
    return (k, rest) if sign > 0 else (rest, k)


def _terms(e: Expr, sign: int) -> list[tuple[int, Expr]]:
    if isinstance(e, Apply) and e.op in ("add", "sub") and _is_place(e):
        return [*_terms(e.args[0], sign), *_terms(e.args[1], sign if e.op == "add" else -sign)]
    return [(sign, e)]


def _is_place(e: Expr) -> bool:
    """An integer that is computed of variables and sizes, and of nothing that is read."""
    if isinstance(e, Apply):
        return e.op in ("add", "sub") and all(map(_is_place, e.args))
    return isinstance(e, Var) or (isinstance(e, (Const, Scalar)) and e.dtype in (None, I64) and not _is_fraction(e))


def _is_fraction(e: Expr) -> bool:
    return isinstance(e, Const) and not isinstance(e.value, int)


def _is_any_integer(e: Expr) -> bool:
    """Whether the value may be near the limits of i64: a parameter or an element, and no dim."""
    if isinstance(e, Const):
        return isinstance(e.value, int) and abs(e.value) >= LARGE
    if not isinstance(e, Scalar) or isinstance(e.size, int):
        return False
    return any(bounds(s)[0] is None for s in free_symbols(e.size))


def _compared(op: str, args: tuple[Expr, ...]) -> Expr | None:
    """A comparison of two integer literals."""
    a, b = args
    if isinstance(a, Const) and isinstance(b, Const) and type(a.value) is int and type(b.value) is int:
        return const(bool(getattr(operator, op)(a.value, b.value)))
    return None


def _decided(op: str, args: tuple[Expr, ...]) -> Expr | None:
    """A logical operation that a literal decides, or leaves to the other operand."""
    known = [a for a in args if isinstance(a, Const) and isinstance(a.value, bool)]
    if not known:
        return None
    if op == "not":
        return const(not known[0].value)
    if known[0].value is (op == "or"):
        return known[0]
    other = args[1] if args[0] is known[0] else args[0]
    return other if other.dtype is BOOL else None


def _simplify(op: str, args: tuple[Expr, ...]) -> Expr | None:
    """x + 0, x * 1 on integers and weak values only: on floats they are not identities of every value (-0.0). x - 0 is one of any."""
    if len(args) != 2:
        return None
    a, b = args
    if op in ("floordiv", "mod") and isinstance(b, Const) and type(b.value) is int and b.value == 1 and is_integer(a):
        return a if op == "floordiv" else const(0, a.dtype)
    if (
        isinstance(a, Const)
        and isinstance(b, Const)
        and type(a.value) is int
        and type(b.value) is int
        and op in ("add", "sub", "mul")
    ):
        value = {"add": a.value + b.value, "sub": a.value - b.value, "mul": a.value * b.value}[op]
        return const(value, a.dtype)
    if op == "sub" and _is_zero(b):
        return a
    if isinstance(b, Const) and type(b.value) is int and b.value == {"add": 0, "mul": 1}.get(op) and is_integer(a):
        return a
    if isinstance(a, Const) and type(a.value) is int and a.value == {"add": 0, "mul": 1}.get(op) and is_integer(b):
        return b
    return None


def _is_zero(e: Expr) -> bool:
    """Whether an expression is the integer 0, or that as a number of another dtype."""
    if isinstance(e, Apply) and e.op == "cast":
        return _is_zero(e.args[0])
    return isinstance(e, Const) and type(e.value) is int and e.value == 0


def is_integer(e: Expr) -> bool:
    return (e.dtype is not None and e.dtype.is_integer) or (e.dtype is None and isinstance(e, Scalar))


def power(base: ExprLike, exponent: ExprLike) -> Expr:
    """A small literal integer power is a product (exact, and far cheaper than pow)."""
    if isinstance(exponent, int) and not isinstance(exponent, bool) and 1 <= exponent <= 4:
        b = as_expr(base)
        result = b
        for _ in range(exponent - 1):
            result = result * b
        return result
    return apply("pow", base, exponent)


def cast(value: ExprLike, dtype: DType) -> Expr:
    e = as_expr(value)
    if e.dtype is None:
        return adapt(e, dtype)
    return e if e.dtype is dtype else _apply("cast", (e,), dtype)


def bitcast(value: ExprLike, dtype: DType) -> Expr:
    """The bits of an element as one of another dtype that has as many: a bool has those of 0 or 1, and is true for any but 0."""
    e = as_expr(value)
    if e.dtype is None:
        raise TypeError("a number without a dtype has no bits")
    return e if e.dtype is dtype else _apply("bitcast", (e,), same_width(e.dtype, dtype))


def drawn(seed: ExprLike, position: ExprLike, dtype: DType) -> Expr:
    """The number of a dtype that Philox gives for a seed and a position: `equations.philox` says which."""
    return _apply("philox", (cast(seed, I64), cast(position, I64)), dtype)


def entropy() -> Expr:
    """An i64 that no other evaluation gets: `equations.entropy`."""
    return _apply("entropy", (), I64)


def reduce_node(kind: str, variables: tuple[Var, ...], body: Expr, where: Expr | None, dtype: DType | None) -> Expr:
    def make() -> Reduce:
        node = Reduce()
        node.kind, node.vars, node.body, node.where, node.dtype = kind, variables, body, where, dtype
        node.free = (body.free | (where.free if where is not None else frozenset())) - frozenset(variables)
        return node

    return _intern(("reduce", kind, variables, body, where, dtype), make)
