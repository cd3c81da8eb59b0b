"""Expressions that would grow without end: folded where they say nothing new, refused beyond MAX_DEPTH, freed when nobody has them."""

from __future__ import annotations

import gc

import pytest

import anyshape
from anyshape import dims, ops
from anyshape.dims import (
    MAX_DEPTH,
    NestedTooDeep,
    Size,
    atoms,
    conditions,
    division,
    expr,
    facts,
    interned,
    parse_cond,
    parse_dim,
    symbol,
)
from anyshape.errors import ParseError, UnsupportedError
from anyshape.graph.function import Function
from tests.counting import calls

n, m = symbol("n"), symbol("m")
SCOPE: dict[str, Size] = {"n": n, "m": m, "b": symbol("b", 1), "i": symbol("i", None)}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("(64*n) // select(n == 0, 64, n)", "select(n == 0, 0, 64)"),
        ("(n*m) % select(n == 0, m, n)", "0"),
        ("select(n == 0, 64, n) * select(n == 0, 0, 64)", "64*n"),
        ("n * select(n == 0, 7, 5)", "5*n"),
        ("select(2*n == 3*m, 2*n, 3*m)", "3*m"),
        ("select(n == 0, 1, max(n, 1))", "select(n == 0, 1, n)"),
        ("select(n >= 4, min(n, 4) + m, m)", "select(n >= 4, m + 4, m)"),
        ("select(n >= 4, select(n >= 3, m, b), m)", "m"),
        ("select(2*n == 3*m, min(select(2*n == 3*m, b, n), 7), 7)", "select(2*n == 3*m, min(b, 7), 7)"),
        ("select(n >= 4 and m >= 2, max(n, 3) + max(m, 1), 0)", "select(m >= 2 and n >= 4, m + n, 0)"),
    ],
)
def test_choices_that_a_condition_settles(written: str, expected: str) -> None:
    assert parse_dim(written, SCOPE) is parse_dim(expected, SCOPE) or str(parse_dim(written, SCOPE)) == expected


def test_a_choice_between_choices_is_decided_by_what_holds_there() -> None:
    assert str(parse_cond("select(n == 0, m, n) == 0", SCOPE)) in ("m == 0 and n == 0", "n == 0 and m == 0")


def chain(iterations: int) -> Function:
    """Reshapes by computed shapes, over dims that may be 0."""
    start = y = anyshape.input("x", "f32[batch, seq, 64]")
    for _ in range(iterations):
        sizes = ops.shape_of(y)
        flat = ops.dyn.reshape(y, ops.concat([[-1], ops.slice(sizes, (2,), (3,), (0,))], axis=0))
        y = ops.dyn.reshape(ops.exp(flat), ops.concat([ops.slice(sizes, (0,), (2,), (0,)), [-1]], axis=0))
    return anyshape.function([start], y)


def test_a_chain_of_reshapes_keeps_one_type() -> None:
    assert str(chain(1).results[0].type) == str(chain(40).results[0].type)


def deep(levels: int) -> Size:
    e: Size = n
    for k in range(levels):
        e = dims.minimum(dims.maximum(e, m * (k + 2)) + 1, symbol(f"s{k}"))
    return e


def test_deeper_than_the_limit_is_an_error_of_ours() -> None:
    deepest = deep(MAX_DEPTH // 2 - 1)
    assert str(deepest) and dims.substitute(deepest, {n: m + 1}) is not deepest
    assert dims.evaluate(deepest, dict.fromkeys(dims.free_symbols(deepest), 3)) == 3
    with pytest.raises(NestedTooDeep, match=f"more than {MAX_DEPTH} operations"):
        deep(MAX_DEPTH)


def test_an_op_whose_dims_are_too_deep_is_named() -> None:
    x = y = anyshape.input("x", "f32[n]")
    with pytest.raises(UnsupportedError, match=r"static\.slice: the dims of its operands are nested too deeply"):
        for k in range(2 * MAX_DEPTH):
            y = ops.slice(ops.concat([y, x], axis=0), (0,), (2**63 - 1,), (0,), (k + 2,))


def test_text_that_is_longer_than_its_expression() -> None:
    """Every level mentions the one below twice."""
    e: Size = n
    for k in range(MAX_DEPTH // 2 - 1):
        e = dims.floordiv(e * e + k, e + symbol(f"t{k}", 1))
    assert "…" in str(e) and len(str(e)) < 20_000
    assert calls(lambda: str(e)) < 50_000


@pytest.mark.parametrize("text", ["(" * 500 + "n" + ")" * 500, "-" * 3000 + "n", "not " * 3000 + "n == m"])
def test_text_that_is_nested_too_deep(text: str) -> None:
    with pytest.raises(ParseError, match=f"nested {MAX_DEPTH} deep"):
        parse_cond(text, SCOPE)


def test_parentheses_take_no_time() -> None:
    assert parse_dim("(" * 60 + "n" + ")" * 60, SCOPE) is n


def build_and_drop(k: int) -> None:
    x = anyshape.input("x", f"f32[a{k}, b{k}, ?]")
    f = anyshape.function([x], ops.reshape(ops.exp(x), ops.concat([[-1], ops.shape_of(x, start=2)], axis=0)))
    anyshape.passes.optimise(f)


OPERATIONS = (
    *(expr._sums, expr._products, expr._monomials, division._quotients, division._remainders),
    *(conditions._eq_zero, conditions._ge_zero, conditions._ands, facts._STATES),
    *(atoms._minima, atoms._maxima, atoms._selects, atoms._broadcasts),
)
"""The caches of operations, each of which may hold as many entries as a thousand functions make."""


def test_dims_are_freed() -> None:
    """What caches of operations hold is bounded, and nothing else is left of a thousand functions. The caches are emptied before anything
    is counted: how full they are depends on what other tests of the process computed."""

    def count() -> int:
        for cache in OPERATIONS:
            cache.clear()
        gc.collect()
        return sum(interned().values())

    def left_by_thousand(first: int) -> int:
        before = count()
        for k in range(first, first + 1000):
            build_and_drop(k)
        assert all(len(cache) <= expr._CACHE_LIMIT for cache in OPERATIONS)  # they are emptied rather than left to grow
        return count() - before

    first, more = left_by_thousand(0), left_by_thousand(1000)
    assert first < 60_000 and more < 8_000, (first, more)  # dims of a thousand functions that stay are some 16,000


def test_an_equal_dim_is_the_same_as_long_as_anybody_has_it() -> None:
    first = symbol("kept", 3) * 2 + 1
    gc.collect()
    assert symbol("kept", 3) * 2 + 1 is first
