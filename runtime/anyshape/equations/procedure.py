"""Steps that run one after the other, where no equation says what an op computes.

In: calls of `Procedure` by a generated kernel, in the order of the steps. Out: one `StepProgram`, and an equation with the form `Run` for
everything it makes. Variables are arrays of rank 0. A loop's number of iterations that data decides is a symbol while the kernel is
built (`Let`), as the position of a recurrence is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.dtypes import BOOL, I64, DType, accum
from anyshape.equations.expr import (
    Apply,
    Const,
    Expr,
    ExprLike,
    Read,
    Reduce,
    Scalar,
    Tensor,
    Var,
    adapt,
    apply,
    as_expr,
    cast,
    const,
)
from anyshape.equations.functions import maximum, not_
from anyshape.equations.indexing import is_variable, item
from anyshape.equations.program import (
    Action,
    Each,
    Leave,
    Let,
    Order,
    Put,
    StepProgram,
    When,
    every,
    without_results,
    without_sizes,
)
from anyshape.equations.traversal import walk
from anyshape.errors import SpecError

if TYPE_CHECKING:
    from anyshape.equations.builder import Equations


class Procedure:
    """The program of one call of an op while it is stated. `unbacked`: {data-dependent size: its upper bound}.

    An output that such a size shapes has room for the upper bound, and is cut to the size in the end. With `counted` the program is run
    twice, first for the sizes alone, and the output has the room that it needs: where upper bounds multiply.
    """

    def __init__(self, eqs: Equations, unbacked: Mapping[Size, Size] | None = None, counted: bool = False) -> None:
        self.eqs = eqs
        self.unbacked = dict(unbacked or {})
        self.counted = counted
        self.makes: list[Tensor] = []
        self.arrays: list[Tensor] = []
        self.cut: list[tuple[Tensor, Tensor]] = []
        self.blocks: list[list[Action]] = [[]]
        self.loops: list[Var] = []
        self.exits: list[Var] = []

    # --- memory

    def output(self, name: str) -> Tensor:
        """The output of that name, to be written at any place."""
        declared = self.eqs.tensor(name)
        highest = {s: high for s, high in self.unbacked.items() if isinstance(s, Dim)}
        shape = tuple(dims.substitute(n, highest) if isinstance(n, Dim) else n for n in declared.shape)
        if shape == declared.shape or self.counted:
            self.makes.append(declared)
            return declared
        room = Tensor(name, declared.dtype, shape)
        self.makes.append(room)
        self.cut.append((declared, room))
        return room

    def variable(self, name: str, dtype: DType) -> Tensor:
        return self.array(name, dtype, ())

    def array(self, name: str, dtype: DType, shape: Iterable[Size]) -> Tensor:
        """Memory of the procedure's own, in the dtype that values of `dtype` are computed in."""
        self.arrays.append(Tensor(name, accum(dtype), tuple(shape)))
        return self.arrays[-1]

    # --- steps

    def do(self, action: Action) -> None:
        self.blocks[-1].append(action)

    def set(self, place: Expr, value: ExprLike, op: str = "set") -> None:
        """`t[e] op= value` for one element."""
        if not isinstance(place, Read):
            raise SpecError(f"{self.eqs.op}: a step sets an element of a tensor, not {place}")
        index = tuple(self.plain(i) for i in place.index)
        e = _of_dtype(value, place.tensor.dtype)
        self.do(Put(op, place.tensor, index, e if op == "set" else self.plain(e)))

    def set_all(self, *pairs: tuple[Expr, ExprLike]) -> None:
        """Every value before the first is set."""
        kept = []
        for place, value in pairs:
            assert isinstance(place, Read)
            kept.append((place, self.kept(_of_dtype(value, place.tensor.dtype))))
        for place, value in kept:
            self.set(place, value)

    def fill(self, array: Tensor, value: ExprLike) -> None:
        over = tuple(Var(f"f{k}", n) for k, n in enumerate(array.shape))
        self.do(Put("set", array, over, self.plain(_of_dtype(value, array.dtype)), over))

    def kept(self, e: Expr) -> Expr:
        """The current value of e, kept for later steps."""
        assert e.dtype is not None
        t = self.variable(f"kept{len(self.arrays)}", e.dtype)
        self.do(Put("set", t, (), cast(e, t.dtype)))
        return t[()]

    def plain(self, e: Expr) -> Expr:
        """The value without reductions."""
        return self.kept(e) if any(isinstance(n, Reduce) for n in walk(e)) else e

    def size(self, e: ExprLike) -> Size:
        """A number of iterations: a size, or a symbol for the current value of e where data decides it; 0 where it is negative."""
        if isinstance(e, (int, Dim)):
            return e
        value = as_expr(e)
        if isinstance(value, Const):
            return int(value.value)
        if isinstance(value, Scalar):
            return dims.select(value.size, 1, 0) if isinstance(value.size, (bool, dims.Cond)) else value.size
        if value.free - set(self.loops):
            raise SpecError(f"{self.eqs.op}: the number of iterations {value} varies inside a step")
        symbol = dims.fresh("iterations", 0)
        self.do(Let(symbol, maximum(self.plain(cast(value, I64)), 0)))
        return symbol

    # --- blocks

    @contextmanager
    def block(self) -> Iterator[list[Action]]:
        self.blocks.append([])
        yield self.blocks[-1]
        self.blocks.pop()

    @contextmanager
    def loop(self, name: str, extent: ExprLike) -> Iterator[Var]:
        """`for name in extent`."""
        with self.loops_over(name, [self.size(extent)]) as (v,):
            yield v

    @contextmanager
    def loops_over(self, name: str, extents: Sequence[Size]) -> Iterator[tuple[Var, ...]]:
        """`for *name in extents`, row-major; the block once where there are none."""
        variables = tuple(Var(f"{name}{k}" if len(extents) > 1 else name, n) for k, n in enumerate(extents))
        nest = variables or (Var(name, 1),)
        self.loops += nest
        self.exits.append(nest[0])
        with self.block() as body:
            yield variables
        self.exits.pop()
        del self.loops[-len(nest) :]
        actions: tuple[Action, ...] = tuple(body)
        for v in reversed(nest):
            actions = (Each(v, actions),)
        self.do(actions[0])

    @contextmanager
    def range(self, name: str, low: ExprLike, high: ExprLike) -> Iterator[Expr]:
        """`for name in range(low, high)`, whose bounds are those before the first iteration."""
        start = as_expr(low)
        start = start if isinstance(start, (Const, Scalar)) else self.kept(cast(start, I64))
        with self.loop(name, _difference(high, start)) as v:
            yield v + start

    @contextmanager
    def items(self, name: str, values: Sequence[Size]) -> Iterator[Expr]:
        """`for name in values`, of which there are as many as a rank says."""
        with self.loop(name, len(values)) as v:
            yield item(values, v)

    @contextmanager
    def ordered(
        self, name: str, extents: Iterable[Size], key: Callable[[Var], ExprLike], descending: bool = False
    ) -> Iterator[Expr]:
        """`for name in argsort([key(v) for v in extent], descending=)`, in the order before the first iteration."""
        (n,) = extents
        over = Var(name, n)
        value = adapt(as_expr(key(over)), I64)
        order = self.array(f"order{len(self.arrays)}", I64, (self._room(n, over, value),))
        self.do(Order(order, over, value, bool(descending)))
        with self.loop(name, n) as v:
            yield order[v]

    def _room(self, n: Size, over: Var, key: Expr) -> Size:
        """An upper bound on the number of keys: the extent of an array that the key reads one by one, where data decides the number."""
        if not isinstance(n, Dim) or not any(isinstance(a, Let) and a.symbol is n for a in every(self.blocks[-1])):
            return n
        for e in walk(key):
            if isinstance(e, Read):
                for i, extent in zip(e.index, e.tensor.shape, strict=True):
                    if is_variable(i, over):
                        return extent
        raise SpecError(f"{self.eqs.op}: nothing says how many keys there can be at most: {key}")

    @contextmanager
    def repeat(self, limit: ExprLike) -> Iterator[None]:
        """The loop of `while … limit n`, of which `unless` is the first step."""
        with self.loop("iteration", limit):
            yield

    def unless(self, condition: ExprLike) -> None:
        """Leaves the innermost loop where the condition does not hold."""
        with self.when(not_(self.decided(condition))):
            self.leave()

    @contextmanager
    def when(self, condition: ExprLike) -> Iterator[None]:
        test = self.decided(condition)
        with self.block() as body:
            yield
        self.do(When(test, tuple(body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Opens the block that runs where the condition of the `when` just before does not hold."""
        with self.block() as body:
            yield
        last = self.blocks[-1].pop()
        assert isinstance(last, When)
        self.do(replace(last, other=tuple(body)))

    def leave(self) -> None:
        self.do(Leave(self.exits[-1]))

    def decided(self, condition: ExprLike) -> Expr:
        """A condition whose right sides are looked at only where the left ones leave it open, and that has no reductions."""
        e = as_expr(condition)
        if e.dtype is None:
            e = apply("ne", e, 0)
        if (
            isinstance(e, Apply)
            and e.op in ("and", "or")
            and any(isinstance(n, (Read, Reduce)) for n in walk(e.args[1]))
        ):
            flag = self.variable(f"flag{len(self.arrays)}", BOOL)
            self.do(Put("set", flag, (), self.decided(e.args[0])))
            with self.when(flag[()] if e.op == "and" else not_(flag[()])):
                self.do(Put("set", flag, (), self.decided(e.args[1])))
            return flag[()]
        if isinstance(e, Apply) and e.op == "not":
            return not_(self.decided(e.args[0]))
        return self.plain(e)

    # --- the end

    def end(self, variables: Mapping[Size, Tensor] | None = None, source: str = "") -> None:
        """States the equations. `found`: the variable that each size is in the end; one that is a number is known without it."""
        from anyshape.equations.builder import Equation, Run

        sizes = {t: s for s, t in (variables or {}).items() if isinstance(s, Dim)}
        arrays = tuple(t for t in self.arrays if t not in sizes)
        whole = StepProgram(tuple(self.blocks[0]), (*self.makes, *sizes), arrays)
        programs = (without_results(whole, sizes), without_sizes(whole, sizes)) if self.counted else (whole,)
        for program in programs:
            for t in program.makes:
                nothing = const(False if t.dtype.is_bool else 0, t.dtype)
                self.eqs.equations.append(Equation(t, (), nothing, source, Run(program), unbacked=sizes.get(t)))
        for declared, room in self.cut:
            index = self.eqs.indices("i", declared.shape)
            self.eqs.define(declared[index], room[index], source)


def _of_dtype(value: ExprLike, dtype: DType) -> Expr:
    e = adapt(as_expr(value), dtype)
    return e if e.dtype is dtype else cast(e, dtype)


def _difference(high: ExprLike, low: Expr) -> ExprLike:
    """The difference of two values; a size where both are sizes."""
    end = as_expr(high)
    last, first = (e.value if isinstance(e, Const) else e.size if isinstance(e, Scalar) else None for e in (end, low))
    if isinstance(last, (int, Dim)) and isinstance(first, (int, Dim)):
        return dims.maximum(0, last - first)
    return apply("sub", end, low)
