"""`Rule`: one run of a shape rule, on integers or on dims.

In: the calls of an emitted rule. Out: sizes; and what of the operations that not every number allows has to be tested at run time
(`checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from anyshape import dims
from anyshape.dims import Cond, Dim, Facts, Size
from anyshape.rules.checks import Bound, Checking, join, shown
from anyshape.rules.choices import Choices
from anyshape.rules.vec import Truth, Undetermined, Vec, count, eq, ge, is_vector, prod, spread


class Rule(Checking):
    """The interface of emitted rules; `Checking` has the conditions. `choices` are set where unknown axes are tried one after the other."""

    choices: Choices | None = None
    sizes: Mapping[str, Size] = {}
    """Sizes that data decide and that are known already, by name."""

    def __init__(self, op: str, where: str = "", facts: Facts | None = None, assume: Iterable[Truth] = ()) -> None:
        super().__init__(op, where, facts, assume)
        self.data_dependent: dict[str, Dim] = {}
        """Symbols that this run made for sizes that data decide, by name."""
        self.upper_bounds: dict[Dim, Size] = {}

    # --- partial operations

    def item(self, v: Sequence[Any], i: Any) -> Any:
        """v[i], a negative i counted from the end; v[w] for a vector w of positions."""
        if is_vector(i):
            return Vec(self.item(v, j) for j in i)
        n = len(v)
        if i.__class__ is not int or not -n <= i < n:
            inside = dims.and_(dims.ge(i, -n), dims.lt(i, n))
            self.require(inside, lambda: f"index {i} is out of range for {shown(v)}, which has {n} items")
        if i.__class__ is int:
            return v[i]
        i = join(self.decide(dims.lt(i, 0)), i + n, i)
        result = v[n - 1]
        for k in range(n - 2, -1, -1):
            result = join(dims.eq(i, k), v[k], result)
        return result

    def wrap(self, i: Any, n: Any) -> Any:
        """An index into n items, a negative one counted from the end; checked."""
        return spread(self._wrap, i, n)

    def _wrap(self, i: Size, n: Size) -> Size:
        inside = dims.and_(dims.ge(i, -n), dims.lt(i, n))
        self.require(inside, lambda: f"index {i} is out of range for {n} items")
        wrapped: Size = join(self.decide(dims.lt(i, 0)), i + n, i)
        return wrapped

    def floordiv(self, a: Any, b: Any) -> Any:
        return spread(self._floordiv, a, b)

    def _floordiv(self, a: Size, b: Size) -> Size:
        if b.__class__ is not int or b == 0:
            self.require(dims.ne(b, 0), lambda: f"division by zero: {_operand(a)} // {_operand(b)}")
        return dims.floordiv(a, b)

    def mod(self, a: Any, b: Any) -> Any:
        return spread(self._mod, a, b)

    def _mod(self, a: Size, b: Size) -> Size:
        if b.__class__ is not int or b == 0:
            self.require(dims.ne(b, 0), lambda: f"division by zero: {_operand(a)} % {_operand(b)}")
        return dims.mod(a, b)

    def pow(self, a: Any, b: Any) -> Any:
        """a ** b, of an exponent that is not negative."""
        return spread(self._pow, a, b)

    def _pow(self, a: Any, b: Any) -> Any:
        if b.__class__ is not int or b < 0:
            self.require(dims.ge(b, 0), lambda: f"negative exponent: {_operand(a)} ** {_operand(b)}")
        if b.__class__ is int or a.__class__ is float:
            return a**b
        if a.__class__ is not int:
            raise Undetermined("", f"{_operand(a)} ** {_operand(b)} has a base and an exponent that are not known")
        power: Size = 1
        squares = [a ** (1 << k) for k in range(6) if abs(a) ** (1 << k) < 2**63]
        self.require(dims.lt(b, 1 << len(squares)), lambda: f"{_operand(a)} ** {_operand(b)} is too large")
        for k, square in enumerate(squares):
            bit = dims.mod(dims.floordiv(b, 1 << k), 2)
            power = power * dims.select(dims.eq(bit, 1), square, 1)
        return power

    def ceil_div(self, a: Any, b: Any) -> Any:
        return spread(self._ceil_div, a, b)

    def _ceil_div(self, a: Size, b: Size) -> Size:
        if b.__class__ is not int or b == 0:
            self.require(dims.ne(b, 0), lambda: f"division by zero: ceil_div({a}, {b})")
        return dims.ceil_div(a, b)

    def exact_div(self, a: Any, b: Any) -> Any:
        """a / b, which must leave nothing."""
        return spread(self._exact_div, a, b)

    def _exact_div(self, a: Size, b: Size) -> Size:
        self.require(dims.ne(b, 0), lambda: f"division by zero: {a} is not a multiple of {b} with one answer")
        self.require(dims.eq(dims.mod(a, b), 0), lambda: f"{a} is not a multiple of {b}")
        return dims.exact_div(a, b, known_nonzero=True)

    def zip(self, *vectors: Sequence[Any]) -> Vec:
        if len({len(v) for v in vectors}) > 1:
            self.require(
                False, lambda: f"vectors of different lengths are combined: {' and '.join(map(shown, vectors))}"
            )
        return Vec(Vec(items) for items in zip(*vectors))

    def min(self, *xs: Any) -> Any:
        return self._extreme("min", dims.minimum, xs)

    def max(self, *xs: Any) -> Any:
        return self._extreme("max", dims.maximum, xs)

    def _extreme(self, name: str, f: Callable[..., Size], xs: tuple[Any, ...]) -> Any:
        """The least or greatest item of one vector, or of several arguments item by item."""
        if len(xs) == 1 and is_vector(xs[0]):
            if not xs[0]:
                self.require(False, lambda: f"{name} of nothing")
            return f(*xs[0])
        return spread(f, *xs)

    # --- shapes

    def infer_size(self, sizes: Sequence[Any], total: Any) -> Vec:
        """Sizes of which at most one is -1, that one replaced by what makes the product of all `total`; checked."""
        self.require(ge(sizes, -1), lambda: f"sizes are at least -1, got {shown(sizes)}")
        self.require(
            dims.le(count(eq(n, -1) for n in sizes), 1), lambda: f"only one size may be -1, got {shown(sizes)}"
        )

        def filled(value: Callable[[], Any]) -> Vec:
            return Vec(map(lambda n: self.where(dims.eq(n, -1), value, lambda: n), sizes))

        known = prod(filled(lambda: 1))
        filled_sizes = filled(lambda: self.exact_div(total, known))
        self.require(dims.eq(prod(filled_sizes), total), lambda: f"cannot view {total} elements as {filled_sizes}")
        return filled_sizes

    def broadcast(self, *shapes: Sequence[Any]) -> Vec:
        """NumPy's broadcast of the shapes; dims of which nothing is known stay open as bcast(n, m), checked."""
        rank = max((len(s) for s in shapes), default=0)
        result: list[Any] = []
        for k in range(rank, 0, -1):
            dim: Size = 1
            for s in shapes:
                if len(s) >= k:
                    dim = self._broadcast(dim, s[-k], shapes)
            result.append(dim)
        return Vec(result)

    def _broadcast(self, a: Size, b: Size, shapes: Sequence[Any]) -> Size:
        if a is b or (b.__class__ is int and b == 1):
            return a
        if a.__class__ is int and a == 1:
            return b

        def message() -> str:
            return f"{' and '.join(map(shown, shapes))} do not broadcast: {a} against {b}"

        if a.__class__ is int and b.__class__ is int:
            self.require(a == b, message)
            return a
        same, a_is_one, b_is_one = self.decide(dims.eq(a, b)), self.decide(dims.eq(a, 1)), self.decide(dims.eq(b, 1))
        if a_is_one is True or b_is_one is True:
            return b if a_is_one is True else a
        self.require(dims.or_(same, a_is_one, b_is_one), message)
        a, b = self.facts.canonical(a), self.facts.canonical(b)
        if a is b:
            return a
        if b.__class__ is int and b_is_one is False:
            return b
        if a_is_one is False:
            return a
        return b if b_is_one is False else dims.bcast(a, b)

    def broadcasts(self, p: Sequence[Any], to: Sequence[Any]) -> Truth:
        """Whether p broadcasts to the shape `to` without changing it."""
        if len(p) > len(to):
            return False
        conditions = [
            self.decide(dims.or_(dims.eq(a, 1), dims.eq(a, b))) for a, b in zip(p, Vec(to)[len(to) - len(p) :])
        ]
        return self.decide(dims.and_(*conditions))

    def axis(self, name: str, a: Any, rank: int, of: str = "") -> int:
        """An axis as a position, a negative one counted from the end; `of` names the tensor of that rank in the
        message."""
        if a.__class__ is not int:
            if isinstance(a, Dim | Cond):
                a = self._chosen(name, a, rank, range(rank))
            a = int(a)
        if not -rank <= a < rank:
            rank_of = f"{of} of rank {rank}" if of else f"rank {rank}"
            self.require(False, lambda: f"{name} {a} is out of range for {rank_of}")
        return int(a + rank if a < 0 else a)

    def dim_count(self, name: str, n: Size, rank: int) -> Size:
        """A size that says how many of the dims of a tensor of this rank are meant. In a run that tries choices, one that is not known is
        each number that it may be, one after the other."""
        if n.__class__ is int or self.choices is None or not self.choices.ranks:
            return n
        low, high = dims.bounds(n)
        return self._chosen(name, n, rank + 1, range(max(low or 0, 0), min(rank, rank if high is None else high) + 1))

    def axes(self, name: str, v: Any, rank: int, distinct: bool = True, of: str = "") -> Vec:
        """Axes as positions; `name` is said as it is: axes 3 is out of range …"""
        single = {"axes": "axis"}.get(name, name)
        if self.choices is not None and distinct and is_vector(v):
            v = self._distinct(single, v, rank)
        positions = Vec(self.axis(single, a, rank, of) for a in (v if is_vector(v) else (v,)))
        if distinct and len(set(positions)) != len(positions):
            self.require(False, lambda: f"repeated axis in {name} = {shown(v)}")
        return positions

    def _distinct(self, name: str, v: Sequence[Any], rank: int) -> list[Any]:
        """Axes with positions for those that are not known, each another one."""
        taken: list[Any] = []
        for a in v:
            free = [k for k in range(rank) if k not in taken]
            taken.append(self._chosen(name, a, rank, free, True) if isinstance(a, Dim | Cond) else a)
        return taken

    def _chosen(self, name: str, a: Size | Cond, rank: int, positions: Sequence[int], distinct: bool = False) -> int:
        """The position that stands for an axis which is not known, in a run that tries them all."""
        position = self.choices.of(a, rank, positions, distinct) if self.choices is not None else None
        if position is None:
            raise Undetermined(name, f"{name} is {a}, which is not known")
        return position

    def unbacked(self, name: str, low: Size = 0, high: Size | None = None) -> Size:
        """A size that data decides, between low and high. It is a symbol, also where both are one number, whether the operands or what is
        known of them say so."""
        low, high = self.facts.canonical(low), None if high is None else self.facts.canonical(high)
        if name in self.sizes:
            size = self.sizes[name]
            if isinstance(size, Dim) and high is not None:
                self.upper_bounds[size] = high
            return size
        least, most = dims.bounds(low)[0], None if high is None else dims.bounds(high)[1]
        size = self.data_dependent[name] = dims.fresh(name, least, most)
        self.facts.learn(dims.ge(size, low))
        if high is not None:
            self.facts.learn(dims.le(size, high))
            self.upper_bounds[size] = high
        return size

    def bind(self, /, outputs: Mapping[str, Any], **names: Any) -> Bound:
        """The result of the rule; dims in the canonical spelling of what this run has learned, but for the sizes that
        it counts."""
        if self.facts.respells:
            outputs = {k: self._spelled(v) for k, v in outputs.items()}
            counted = {*self.data_dependent, *self.sizes}
            names = {k: v if k in counted else self._spelled(v) for k, v in names.items()}
        bound = Bound(outputs, names)
        bound.upper_bounds = self.upper_bounds
        return bound

    def _spelled(self, v: Any) -> Any:
        if isinstance(v, Dim | Cond):
            return self.facts.canonical(v)
        if isinstance(v, Vec):
            return Vec(map(self._spelled, v))
        return [self._spelled(x) for x in v] if isinstance(v, list) else v


def _operand(e: Size) -> str:
    return str(e) if isinstance(e, int) or e.atom is not None else f"({e})"
