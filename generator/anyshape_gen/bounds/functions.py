"""Evaluates functions of rules and kernels on terms.

In: values of arguments. Out: the value, an unknown one where the function is not modelled. `FUNCTIONS` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape_gen.bounds import axes as at_axes
from anyshape_gen.bounds.broadcasting import broadcast
from anyshape_gen.bounds.context import implies, within
from anyshape_gen.bounds.prove import follows
from anyshape_gen.bounds.state import State
from anyshape_gen.bounds.terms import (
    Literal,
    Run,
    Truth,
    concat,
    counted,
    integer_of,
    is_int,
    is_truth,
    spread,
    trunc_div,
)

SHORT = 8
"""vectors of known lengths up to this one are evaluated item by item"""


def apply(s: State, func: str, args: list[Any]) -> Any:
    """Evaluates a call; an unknown where the function is not modelled."""
    function = FUNCTIONS.get(func)
    value = function(s, *args) if function is not None else None
    return _unknown_call(s, func, args) if value is None else value


def _unknown_call(s: State, func: str, args: list[Any]) -> Any:
    if func in ("trunc_div", "fmod", "floor", "ceil", "round_even", "int", "trunc", "i64", "sum", "prod",
                "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "ravel"):  # fmt: skip
        return spread(lambda *xs: s.context.unknown(func, *xs), *args)
    if func in ("sorted", "unique", "list", "unravel"):
        return s.context.vector(func, *args)
    if any(isinstance(a, Run) for a in args) and func not in ("count", "any", "all"):
        return spread(lambda *xs: s.context.opaque_value(func, *xs), *args)
    return s.context.opaque_value(func, *args)


def _len(s: State, v: Any) -> Any:
    return v.length if isinstance(v, Run) else s.context.unknown("len", v, low=0)


def _fill(s: State, n: Any, x: Any) -> Any:
    if not is_int(n):
        return None
    return Run(dims.maximum(n, 0), lambda p: x, nonnegative=isinstance(x, int) and x >= 0)


def _put(s: State, v: Any, positions: Any, items: Any) -> Any:
    return at_axes.put(s.context, v, positions, items) if isinstance(v, Run) else None


def _place(s: State, rest: Any, picked: Any, positions: Any) -> Any:
    return at_axes.place(s.context, rest, picked, positions) if isinstance(rest, Run) else None


def _drop(s: State, v: Any, positions: Any) -> Any:
    return at_axes.drop(s.context, v, positions) if isinstance(v, Run) else None


def _range(s: State, *ends: Any) -> Any:
    if not all(map(is_int, ends)):
        return None
    low, high = (0, ends[0]) if len(ends) == 1 else ends[:2]
    return Run(dims.maximum(high - low, 0), lambda p: low + p)


def _broadcast(s: State, *runs: Any) -> Any:
    return broadcast(s.context, runs) if all(isinstance(r, Run) for r in runs) else None


def _clamp(s: State, x: Any, low: Any, high: Any) -> Any:
    return spread(lambda v, a, b: dims.clamp(v, a, b) if is_int(v) and is_int(a) and is_int(b) else None, x, low, high)


def _max(s: State, *xs: Any) -> Any:
    return _extreme(s, "max", dims.maximum, xs)


def _min(s: State, *xs: Any) -> Any:
    return _extreme(s, "min", dims.minimum, xs)


def _extreme(s: State, name: str, f: Callable[..., Size], xs: tuple[Any, ...]) -> Any:
    if len(xs) == 1 and isinstance(xs[0], Run):
        return s.context.unknown(name, xs[0])
    return spread(lambda *vs: f(*vs) if all(map(is_int, vs)) else s.context.opaque_value(name, *vs), *xs)


def _abs(s: State, x: Any) -> Any:
    return spread(lambda v: dims.maximum(v, -v) if is_int(v) else s.context.opaque_value("abs", v), x)


def _ceil_div(s: State, a: Any, b: Any) -> Any:
    return spread(
        lambda x, y: -dims.floordiv(-x, y) if is_int(x) and is_int(y) else s.context.opaque_value("cd", x, y), a, b
    )


def _exact_div(s: State, a: Any, b: Any) -> Any:
    def divided(x: Any, y: Any) -> Any:
        if not (is_int(x) and is_int(y)):
            return s.context.opaque_value("exact_div", x, y)
        return dims.floordiv(x, y) if isinstance(x, int) and isinstance(y, int) else _quotient(s, x, y)

    return spread(divided, a, b)


def _quotient(s: State, x: Size, y: Size) -> Size:
    """Evaluates `exact_div` of the rule, which checks that quotient times divisor is the dividend."""
    if not s.eager or Run.asked:
        known = s.context.known("exact_div", x, y)
        return dims.floordiv(x, y) if known is None else known
    quotient = s.context.unknown("exact_div", x, y)
    s.context.fact(dims.eq(quotient * y, x))
    return quotient


def _trunc_div(s: State, a: Any, b: Any) -> Any:
    return trunc_div(a, b) if is_int(a) and is_int(b) else None


def _i64(s: State, x: Any) -> Any:
    return x if is_int(x) else None


def _int(s: State, x: Any) -> Any:
    return spread(lambda c: dims.select(c, 1, 0) if is_truth(c) else s.context.unknown("int of", c), x)


def _reflect(s: State, i: Any, n: Any) -> Any:
    """Evaluates `reflect`: for any i a number from 0 to n - 1, unless n is 0."""
    return spread(partial(_reflected, s), i, n)


def _reflected(s: State, i: Any, n: Any) -> Any:
    if is_int(i) and isinstance(n, int) and n <= 1:
        return min(0, 2 * n - 2)
    index = s.context.unknown("reflect", i, n)
    if is_int(n):
        s.context.own(index, implies([dims.gt(n, 0)], within(index, n)))
    return index


def _index(s: State, v: Any, x: Any) -> Any:
    """Evaluates `index`: the position of an item; the rule refuses a call without one."""
    if not isinstance(v, Run):
        return None
    position = s.context.unknown("index", v, x, low=0)
    if position not in v.known:
        v.known[position] = x
        if not Run.asked:
            s.context.own(position, dims.lt(position, v.length))
    return position


def _list(s: State, x: Any) -> Any:
    return x if isinstance(x, Run) else None


def _sorted(s: State, x: Any) -> Any:
    """Evaluates `sorted`: as many items, in an order that is not modelled."""
    return s.context.run("sorted", x.length) if isinstance(x, Run) else None


def _infer_size(s: State, sizes: Any, total: Any) -> Any:
    """Evaluates `infer_size`: as many sizes, whose product is the total; the rule refuses other calls."""
    if not isinstance(sizes, Run):
        return None
    unknown_sizes = s.context.run("size", sizes.length)
    s.context.opaque[("prod", id(unknown_sizes))] = total
    return unknown_sizes


def _wrap(s: State, i: Any, n: Any) -> Any:
    """Evaluates `wrap`: in a kernel an index that is data is checked; any other is computed."""
    return spread(partial(_wrapped, s), i, n)


def _wrapped(s: State, i: Any, n: Any) -> Any:
    if not is_int(n):
        return s.context.unknown("wrap", i, n)
    if is_int(i) and not is_data(s, i):
        return counted(i, n)
    index = s.context.unknown("wrapped", i, n, data=True)
    s.context.checked.add(index.terms[0][0][0])
    s.context.own(index, dims.and_(dims.ge(index, 0), dims.lt(index, n)))
    return index


def is_data(s: State, v: Size) -> bool:
    return isinstance(v, Dim) and not v.symbols.isdisjoint(s.context.data)


def _prefix(s: State, v: Any) -> Any:
    """Evaluates `prefix`, the sums before each item; where no item is negative, such a sum plus the item is at most the total."""
    if not isinstance(v, Run):
        return None
    if (items := short(v)) is not None:
        return concat([_total(items[:k]) for k in range(len(items))])
    context = s.context
    total = _sum(s, v)
    sums = context.run("prefix", v.length)
    if nonnegative(s, v):
        context.everywhere(v.length, lambda p: dims.and_(dims.ge(sums.at(p), 0), dims.le(sums.at(p) + v.at(p), total)))
    return sums


def nonnegative(s: State, v: Run) -> bool:
    """Whether all items of a vector are known to be at least 0, or are proved to be at a generic position."""
    if v.nonnegative:
        return True
    with s.context.aside():
        p = s.context.position()
        item = v.at(p)
        if not is_int(item):
            return False
        inside = dims.lt(p, v.length)
        held = [[inside], *s.context.about([dims.ge(item, 0), inside])]
        v.nonnegative = follows(Literal(item), held, s.context.claims)
    return v.nonnegative


def _sum(s: State, v: Any) -> Any:
    if not isinstance(v, Run):
        return None
    items = short(v)
    return s.context.unknown("sum", v) if items is None else _total(items)


def _prod(s: State, v: Any) -> Any:
    if not isinstance(v, Run):
        return None
    items = short(v)
    if items is not None:
        total: Size = 1
        for item in items:
            total = total * item
        return total
    context = s.context
    if ("prod", id(v)) not in context.opaque:
        product = context.unknown("prod", v, low=0 if nonnegative(s, v) else None)
        context.opaque[("prod", id(v))] = product
        if v.nonnegative:
            context.everywhere(v.length, lambda p: _factor_of(product, v.at(p)))
    return context.opaque[("prod", id(v))]


def _unravel(s: State, position: Any, shape: Any) -> Any:
    """Evaluates `unravel`: each item is a remainder of its dim."""
    if not isinstance(shape, Run):
        return None

    def item(p: Size) -> Size:
        return dims.mod(s.context.unknown("unravel", position, shape, p), integer_of(shape.at(p), "a dim of `unravel`"))

    return Run(shape.length, item)


def short(v: Run) -> list[Size] | None:
    """Returns the items of a short vector of integers, if its length is known."""
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
    """States that a product of numbers that are not negative is 0, or each factor is from 1 to the product."""
    return dims.or_(dims.eq(product, 0), dims.and_(dims.ge(item, 1), dims.le(item, product)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": _len,
    "fill": _fill,
    "put": _put,
    "place": _place,
    "drop": _drop,
    "range": _range,
    "broadcast": _broadcast,
    "clamp": _clamp,
    "max": _max,
    "min": _min,
    "abs": _abs,
    "ceil_div": _ceil_div,
    "exact_div": _exact_div,
    "trunc_div": _trunc_div,
    "i64": _i64,
    "int": _int,
    "reflect": _reflect,
    "index": _index,
    "list": _list,
    "sorted": _sorted,
    "infer_size": _infer_size,
    "wrap": _wrap,
    "prefix": _prefix,
    "sum": _sum,
    "prod": _prod,
    "unravel": _unravel,
    "floor": _i64,
    "ceil": _i64,
    "round_even": _i64,
}
