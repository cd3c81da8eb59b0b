"""What the functions of rules and kernels give on terms.

In: values of arguments. Out: the value; None where nothing is modelled. `Evaluator` looks a function up by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape_gen.bounds import axes as at_axes
from anyshape_gen.bounds.broadcasting import broadcast
from anyshape_gen.bounds.context import Context, implies, within
from anyshape_gen.bounds.prove import Truth
from anyshape_gen.bounds.terms import Run, Thing, concat, counted, is_int, is_truth, spread, trunc_div

SHORT = 8
"""vectors up to this length are taken item by item, where their length is known"""


class Functions:
    """One method per function, `_f_` and its name."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def apply(self, func: str, args: list[Any]) -> Any:
        """The value of a call; an unknown one where the function says nothing."""
        method = getattr(self, f"_f_{func}", None)
        found = method(*args) if method is not None else None
        return self._unknown_call(func, args) if found is None else found

    def _some_run(self, *key: Any) -> Run:
        """A vector of which nothing is known."""
        length = self.context.unknown("length", *key, low=0)
        known = self.context.opaque.get(("run", length))
        if known is None:
            known = self.context.opaque[("run", length)] = self.context.run("v", length)
        return known

    def _thing(self, *key: Any) -> Thing:
        return self.context.thing(*key)

    def _unknown_call(self, func: str, args: list[Any]) -> Any:
        if func in ("trunc_div", "fmod", "floor", "ceil", "round_even", "int", "trunc", "i64", "sum", "prod",
                    "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "ravel"):  # fmt: skip
            return spread(lambda *xs: self.context.unknown(func, *xs), *args)
        if func in ("sorted", "unique", "list", "unravel"):
            return self._some_run(func, *args)
        if any(isinstance(a, Run) for a in args) and func not in ("count", "any", "all"):
            return spread(lambda *xs: self._thing(func, *xs), *args)
        return self._thing(func, *args)

    def _f_len(self, v: Any) -> Any:
        return v.length if isinstance(v, Run) else self.context.unknown("len", v, low=0)

    def _f_fill(self, n: Any, x: Any) -> Any:
        if not is_int(n):
            return None
        return Run(dims.maximum(n, 0), lambda p: x, nonnegative=isinstance(x, int) and x >= 0)

    def _f_put(self, v: Any, positions: Any, items: Any) -> Any:
        return at_axes.put(self.context, v, positions, items) if isinstance(v, Run) else None

    def _f_place(self, rest: Any, picked: Any, positions: Any) -> Any:
        return at_axes.place(self.context, rest, picked, positions) if isinstance(rest, Run) else None

    def _f_drop(self, v: Any, positions: Any) -> Any:
        return at_axes.drop(self.context, v, positions) if isinstance(v, Run) else None

    def _f_range(self, *ends: Any) -> Any:
        if not all(map(is_int, ends)):
            return None
        low, high = (0, ends[0]) if len(ends) == 1 else ends[:2]
        return Run(dims.maximum(high - low, 0), lambda p: low + p)

    def _f_broadcast(self, *runs: Any) -> Any:
        return broadcast(self.context, runs) if all(isinstance(r, Run) for r in runs) else None

    def _f_clamp(self, x: Any, low: Any, high: Any) -> Any:
        return spread(
            lambda v, a, b: dims.clamp(v, a, b) if is_int(v) and is_int(a) and is_int(b) else None, x, low, high
        )

    def _f_max(self, *xs: Any) -> Any:
        return self._extreme("max", dims.maximum, xs)

    def _f_min(self, *xs: Any) -> Any:
        return self._extreme("min", dims.minimum, xs)

    def _extreme(self, name: str, f: Callable[..., Size], xs: tuple[Any, ...]) -> Any:
        if len(xs) == 1 and isinstance(xs[0], Run):
            return self.context.unknown(name, xs[0])
        return spread(lambda *vs: f(*vs) if all(map(is_int, vs)) else self._thing(name, *vs), *xs)

    def _f_abs(self, x: Any) -> Any:
        return spread(lambda v: dims.maximum(v, -v) if is_int(v) else self._thing("abs", v), x)

    def _f_ceil_div(self, a: Any, b: Any) -> Any:
        return spread(lambda x, y: -dims.floordiv(-x, y) if is_int(x) and is_int(y) else self._thing("cd", x, y), a, b)

    def _f_exact_div(self, a: Any, b: Any) -> Any:
        def divided(x: Any, y: Any) -> Any:
            if not (is_int(x) and is_int(y)):
                return self._thing("exact_div", x, y)
            return dims.floordiv(x, y) if isinstance(x, int) and isinstance(y, int) else self._quotient(x, y)

        return spread(divided, a, b)

    def _quotient(self, x: Size, y: Size) -> Size:
        known = self.context.known("exact_div", x, y)
        return dims.floordiv(x, y) if known is None else known

    def _f_trunc_div(self, a: Any, b: Any) -> Any:
        return trunc_div(a, b) if is_int(a) and is_int(b) else None

    def _f_i64(self, x: Any) -> Any:
        return x if is_int(x) else None

    _f_floor = _f_ceil = _f_round_even = _f_i64

    def _f_int(self, x: Any) -> Any:
        return spread(lambda c: dims.select(c, 1, 0) if is_truth(c) else self.context.unknown("int of", c), x)

    def _f_reflect(self, i: Any, n: Any) -> Any:
        """Whatever i is, inside 0..n-1, where that is not empty."""
        return spread(self._reflected, i, n)

    def _reflected(self, i: Any, n: Any) -> Any:
        if is_int(i) and isinstance(n, int) and n <= 1:
            return min(0, 2 * n - 2)
        found = self.context.unknown("reflect", i, n)
        if is_int(n):
            self.context.own(found, implies([dims.gt(n, 0)], within(found, n)))
        return found

    def _f_index(self, v: Any, x: Any) -> Any:
        """The position of an item that is there: where there is none, the rule has refused."""
        if not isinstance(v, Run):
            return None
        found = self.context.unknown("index", v, x, low=0)
        if found not in v.known:
            v.known[found] = x
            if not Run.asked:
                self.context.own(found, dims.lt(found, v.length))
        return found

    def _f_list(self, x: Any) -> Any:
        return x if isinstance(x, Run) else None

    def _f_sorted(self, x: Any) -> Any:
        """As many items, in an order that is not modelled."""
        return self.context.run("sorted", x.length) if isinstance(x, Run) else None

    def _f_infer_size(self, sizes: Any, total: Any) -> Any:
        """As many sizes, whose product is the total: where it is not, the rule has refused."""
        if not isinstance(sizes, Run):
            return None
        found = self.context.run("size", sizes.length)
        self.context.opaque[("prod", id(found))] = total
        return found

    def _f_wrap(self, i: Any, n: Any) -> Any:
        """In a kernel an index of data is checked; elsewhere it is what it says."""
        return spread(self._wrapped, i, n)

    def _wrapped(self, i: Any, n: Any) -> Any:
        if not is_int(n):
            return self.context.unknown("wrap", i, n)
        if is_int(i) and not self.is_data(i):
            return counted(i, n)
        found = self.context.unknown("wrapped", i, n, data=True)
        self.context.checked.add(found.terms[0][0][0])
        self.context.own(found, dims.and_(dims.ge(found, 0), dims.lt(found, n)))
        return found

    def is_data(self, v: Size) -> bool:
        return isinstance(v, Dim) and not v.symbols.isdisjoint(self.context.data)

    def _f_prefix(self, v: Any) -> Any:
        """Sums before each item; with no item negative, such a sum and the item are at most the whole."""
        if not isinstance(v, Run):
            return None
        if (items := short(v)) is not None:
            return concat([_total(items[:k]) for k in range(len(items))])
        context = self.context
        total = self._f_sum(v)
        sums = context.run("prefix", v.length)
        if self.nonnegative(v):
            context.everywhere(
                v.length, lambda p: dims.and_(dims.ge(sums.at(p), 0), dims.le(sums.at(p) + v.at(p), total))
            )
        return sums

    def nonnegative(self, v: Run) -> bool:
        """Whether all items of a vector are at least 0; the rule's reader knows better."""
        return v.nonnegative

    def _f_sum(self, v: Any) -> Any:
        if not isinstance(v, Run):
            return None
        items = short(v)
        return self.context.unknown("sum", v) if items is None else _total(items)

    def _f_prod(self, v: Any) -> Any:
        if not isinstance(v, Run):
            return None
        items = short(v)
        if items is not None:
            found: Size = 1
            for item in items:
                found = found * item
            return found
        context = self.context
        if ("prod", id(v)) not in context.opaque:
            product = context.unknown("prod", v, low=0 if self.nonnegative(v) else None)
            context.opaque[("prod", id(v))] = product
            if v.nonnegative:
                context.everywhere(v.length, lambda p: _factor_of(product, v.at(p)))
        return context.opaque[("prod", id(v))]

    def _f_unravel(self, position: Any, shape: Any) -> Any:
        """Each item is a remainder of its dim."""
        if not isinstance(shape, Run):
            return None
        return Run(shape.length, lambda p: dims.mod(self.context.unknown("unravel", position, shape, p), shape.at(p)))


def short(v: Run) -> list[Size] | None:
    """The items of a vector of a known, small number of integers."""
    if not isinstance(v.length, int) or v.length > SHORT:
        return None
    items = [v.at(k) for k in range(v.length)]
    return items if all(map(is_int, items)) else None


def _total(items: list[Size]) -> Size:
    total: Size = 0
    for item in items:
        total = total + item
    return total


def _factor_of(product: Size, item: Size) -> Truth:
    """A product of numbers that are not negative is 0, or each is from 1 to the product."""
    return dims.or_(dims.eq(product, 0), dims.and_(dims.ge(item, 1), dims.le(item, product)))
