"""Every rule call: on symbols with numbers put in, it gives what it gives on the numbers, or fails with the same
message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape import rules
from anyshape.dims import Dim, symbol
from anyshape.rules import Rule, Vec
from tests.rules.agreement import Symbolic, on_numbers

Call = Callable[[Rule, Vec, Vec], Any]


def _first(v: Vec) -> Any:
    return v[0] if v else 1


def _branches(r: Rule, p: Vec, q: Vec) -> Any:
    """Partial operations under undecided conditions, nested: each check must be weakened by both."""
    a, b = _first(p), _first(q)
    return r.where(
        rules.gt(b, 1),
        lambda: r.where(rules.eq(a, 0), lambda: r.exact_div(b, 2), lambda: r.floordiv(b, a)),
        lambda: r.item(Vec((a, b)), b),
    )


def _guards(r: Rule, p: Vec, q: Vec) -> Any:
    a, b = _first(p), _first(q)
    return Vec(
        (
            r.and_(rules.ne(b, 0), lambda: rules.eq(r.mod(a, b), 0)),
            r.or_(rules.eq(a, 0), lambda: rules.ge(r.floordiv(b, a), 1)),
        )
    )


def _slice(r: Rule, p: Vec, q: Vec) -> Any:
    """The slice rule: p are dims, q starts and steps."""
    sizes = []
    for n, (start, step) in zip(p, zip(q, reversed(q))):
        r.require(rules.ne(step, 0), lambda step=step: f"steps must not be 0, got {step}")
        down = rules.lt(step, 0)
        low = r.where(down, lambda: -1, lambda: 0)
        high = r.where(down, lambda n=n: n - 1, lambda n=n: n)
        begin = rules.clamp(r.where(rules.lt(start, 0), lambda s=start, n=n: s + n, lambda s=start: s), low, high)
        end = r.where(down, lambda: -1, lambda n=n: n)
        sizes.append(r.max(0, r.ceil_div(end - begin, step)))
    return Vec(sizes)


CALLS: dict[str, Call] = {
    "add": lambda r, p, q: p + q if len(p) == len(q) else p + 1,
    "spread": lambda r, p, q: 2 * p - _first(q),
    "floordiv": lambda r, p, q: r.floordiv(_first(p), _first(q)),
    "floordiv_items": lambda r, p, q: r.floordiv(p, _first(q)),
    "mod": lambda r, p, q: r.mod(_first(p), _first(q)),
    "ceil_div": lambda r, p, q: r.ceil_div(_first(p), _first(q)),
    "exact_div": lambda r, p, q: r.exact_div(_first(p), _first(q)),
    "exact_div_product": lambda r, p, q: r.exact_div(rules.prod(p) * _first(q), _first(q)),
    "item": lambda r, p, q: r.item(p, _first(q)),
    "items": lambda r, p, q: r.item(p, q),
    "wrap": lambda r, p, q: r.wrap(_first(q), _first(p)),
    "zip": lambda r, p, q: Vec(a * b for a, b in r.zip(p, q)),
    "min": lambda r, p, q: r.min(p),
    "max": lambda r, p, q: r.max(q),
    "max_items": lambda r, p, q: r.max(0, p, _first(q)),
    "clamp": lambda r, p, q: rules.clamp(p, 0, _first(q)),
    "reflect": lambda r, p, q: rules.reflect(q, _first(p)),
    "int": lambda r, p, q: rules.int_(Vec((rules.eq(p, 1), rules.lt(_first(q), 2)))),
    "infer_size": lambda r, p, q: r.infer_size(q, rules.prod(p)),
    "infer_size_known": lambda r, p, q: r.infer_size(Vec((*p[:1], -1)), rules.prod(p)),
    "broadcast": lambda r, p, q: r.broadcast(p, q),
    "broadcast_three": lambda r, p, q: r.broadcast(p, q, Vec((_first(q), 1))),
    "broadcasts": lambda r, p, q: r.broadcasts(p, q),
    "equal": lambda r, p, q: r.equal(p, q, "p and q"),
    "equal_dim": lambda r, p, q: Vec((r.equal(_first(p), _first(q), "k"), _first(p) + _first(q))),
    "eq": lambda r, p, q: Vec((rules.eq(p, q), rules.ne(p, q), rules.eq(p, 1), rules.ne(p, 1))),
    "compare": lambda r, p, q: Vec((rules.lt(p, 3), rules.le(_first(p), q), rules.gt(p, 0), rules.ge(q, _first(p)))),
    "prod": lambda r, p, q: rules.prod(p, [rules.ne(n, 0) for n in p]),
    "sum": lambda r, p, q: rules.sum_(p) + rules.sum_(q, [rules.gt(n, 1) for n in q]),
    "count": lambda r, p, q: rules.count([rules.eq(n, 1) for n in p]),
    "any_all": lambda r, p, q: Vec((rules.any_([rules.eq(n, 0) for n in p]), rules.all_([rules.ge(n, 1) for n in q]))),
    "put": lambda r, p, q: rules.put(p, 0, _first(q)) if p else p,
    "prefix": lambda r, p, q: rules.prefix(p),
    "ravel": lambda r, p, q: rules.ravel(p, p),
    "unravel": lambda r, p, q: rules.unravel(_first(q), p),
    "where": _branches,
    "guards": _guards,
    "slice": _slice,
}

LOWS = (0, 1, None)


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_symbols_with_numbers_put_in_agree_with_integers(name: str, data: st.DataObject) -> None:
    call = CALLS[name]
    symbols: dict[Dim, int] = {}

    def vector(prefix: str, low: int) -> Vec:
        items: list[Any] = []
        for k in range(data.draw(st.integers(0, 3))):
            least = data.draw(st.sampled_from(LOWS)) if low < 0 else data.draw(st.sampled_from(LOWS[:2]))
            value = data.draw(st.integers(low if least is None else least, 5))
            x: Any = symbol(f"{prefix}{k}", least)
            if data.draw(st.booleans()):
                symbols[x] = value
            else:
                x = value
            items.append(x)
        return Vec(items)

    p, q = vector("p", 0), vector("q", -3)
    symbolic = Symbolic(name, lambda r: r.bind({"y": call(r, p, q)}))
    for iteration in range(4):
        values = {x: v if not iteration else data.draw(st.integers(_low(x), 5)) for x, v in symbols.items()}
        a = Vec(values.get(x, x) for x in p)
        b = Vec(values.get(x, x) for x in q)
        expected = on_numbers(name, lambda r: r.bind({"y": call(r, a, b)}))  # noqa: B023, called at once
        got = symbolic.at(values)
        if symbolic.error:
            assert isinstance(expected, str)
        else:
            assert got == expected, (p, q, values, symbolic.outputs, list(map(str, symbolic.rule.checks)))


def _low(x: Dim) -> int:
    atom = x.atom
    assert atom is not None
    return -3 if atom.low is None else atom.low
