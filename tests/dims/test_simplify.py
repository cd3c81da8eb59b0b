"""The simplifications that shape arithmetic relies on: each line is an expression and the text it must have."""

from __future__ import annotations

import pytest

from anyshape import dims
from anyshape.dims import Size, parse_cond, parse_dim, symbol
from anyshape.errors import OverflowedError, ParseError

SCOPE: dict[str, Size] = {
    "n": symbol("n"),
    "m": symbol("m"),
    "b": symbol("b", 1),
    "s": symbol("s", 1),
    "t": symbol("t", 2, 512),
    "i": symbol("i", None),
}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("(n*b) // b", "n"),
        ("(n*m) // m", "(m*n) // m"),  # m may be 0
        ("(b*s*64) // (s*8)", "8*b"),
        ("(6*n + 4) // 2", "3*n + 2"),
        ("(2*n + 1) // 4", "n // 2"),
        ("(4*n + 7) // 4", "n + 1"),
        ("(n // 2 + 1) // 3", "(n + 2) // 6"),
        ("(n*b + b) // b", "n + 1"),
        ("(n*s + n + s + 1) // (s + 1)", "n + 1"),
        ("(b*n + s) // b", "n + s // b"),
        ("(8*n) % 4", "0"),
        ("(n*m) % m", "0"),
        ("(2*n) % 4", "2*(n % 2)"),
        ("n % 1", "0"),
        ("(n % 4) // 4", "0"),
        ("(n % 4) % 4", "n % 4"),
        ("n // 0", "0"),
        ("n % 0", "0"),
        ("ceil_div(8*n, 4)", "2*n"),
        ("ceil_div(n, 2)", "(n + 1) // 2"),
        ("min(n, n + 1, 3)", "min(n, 3)"),
        ("min(min(n, m), n)", "min(m, n)"),
        ("max(n, 0)", "n"),
        ("max(n, -1, b*n)", "b*n"),
        ("min(t, 512)", "t"),
        ("max(min(n, m), n)", "n"),
        ("min(n*m, 9223372036854775807)", "m*n"),
        ("max(n - 9223372036854775807, -1)", "-1"),
        ("max(n - 9223372036854775808, 0)", "0"),
        ("min(n, 2147483647)", "min(n, 2147483647)"),
        ("select(n >= 0, m, 7)", "m"),
        ("select(n == m, b, b)", "b"),
        ("select(n == 0, n + m, s)", "select(n == 0, m, s)"),
        ("select(n == 0, 0, n)", "n"),
        ("select(n != 0, m, s)", "select(n == 0, s, m)"),
        ("select(n == 0, select(n == 0, m, s), b)", "select(n == 0, m, b)"),
        ("bcast(n, n)", "n"),
        ("bcast(n, 1)", "n"),
        ("bcast(1, n)", "n"),
        ("bcast(n, t)", "t"),
        ("bcast(n, bcast(m, n))", "bcast(m, n)"),
        ("bcast(n, 7)", "7"),
        ("bcast(n, 0)", "0"),
    ],
)
def test_simplified(written: str, expected: str) -> None:
    assert str(parse_dim(written, SCOPE)) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("b*s == 0", "False"),
        ("b*s - b >= 0", "True"),
        ("b*s >= s", "True"),
        ("b*n*s >= n*s", "True"),
        ("n*m >= 0", "True"),
        ("2*n == 2*m", "m == n"),
        ("2*n == 3", "False"),
        ("2*n >= 3", "n >= 2"),
        ("n > 0", "n != 0"),
        ("n <= 0", "n == 0"),
        ("b*n == b*m", "m == n"),
        ("4*(n // 4) == n", "n % 4 == 0"),
        ("n // 4 <= n", "True"),
        ("4*(n // 4) <= n", "True"),
        ("b*(n // b) <= n", "True"),
        ("n - n % 4 >= 0", "True"),
        ("min(n, m) <= n", "True"),
        ("max(n, m) >= m", "True"),
        ("min(n, m) >= 3", "m >= 3 and n >= 3"),
        ("min(n, 3) + max(n, 3) >= n", "True"),
        ("select(i == 0, n, i) == -1", "i == -1"),
        ("n >= 3 and n >= 5", "n >= 5"),
        ("n >= 3 and n <= 2", "False"),
        ("n == 3 and n >= 2", "n == 3"),
        ("n == 3 or n != 3", "True"),
        ("n != 3 or (n == 3 and m != 0)", "m != 0 or n != 3"),
        ("i <= 5", "i <= 5"),
        ("t >= 600", "False"),
        ("t*t >= 4", "True"),
        ("i*i >= 0", "True"),
    ],
)
def test_decided(written: str, expected: str) -> None:
    assert str(parse_cond(written, SCOPE)) in (
        expected,
        " or ".join(reversed(expected.split(" or "))),
        " and ".join(reversed(expected.split(" and "))),
    )


def test_text_does_not_depend_on_history() -> None:
    z, y = symbol("zeta"), symbol("ypsilon")
    assert str(z + 2 * y * z - 3 * z * z + y - 1) == "2*ypsilon*zeta - 3*zeta*zeta + ypsilon + zeta - 1"


@pytest.mark.parametrize(
    ("written", "column", "says"),
    [
        ("n + ", 5, "expected a dim"),
        ("n + nn", 5, "unknown symbol 'nn'; did you mean 'n'"),
        ("n $ 2", 3, "unexpected"),
        ("n m", 3, "unexpected 'm'"),
    ],
)
def test_bad_text_is_pointed_at(written: str, column: int, says: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_dim(written, SCOPE)
    assert says in str(caught.value) and f"column {column}" in str(caught.value)


def test_evaluation_is_checked() -> None:
    n, m = symbol("n"), symbol("m")
    with pytest.raises(OverflowedError, match="64-bit"):
        dims.evaluate(n * m, {n: 1 << 40, m: 1 << 40})
    assert dims.evaluate((n * m) % 7, {n: 3, m: 4}) == 5


def test_exact_division_under_a_check() -> None:
    n, m = symbol("n"), symbol("m")
    assert dims.exact_div(n * m * 6, m * 2, known_nonzero=True) is n * 3
    assert str(dims.exact_div(n * m, m)) == "(m*n) // m"


def test_undecided_conditions_choose_no_branch() -> None:
    with pytest.raises(TypeError, match="undecided"):
        bool(dims.eq(symbol("n"), symbol("m")))


def test_dims_compare_as_conditions() -> None:
    n, t = symbol("n"), symbol("t", 2, 512)
    assert (t >= 2) is (t >= 2) is (t <= 512) is (t < 513) is True and (t < 2) is (t > 512) is False
    assert (
        (n <= t) is dims.le(n, t)
        and (n < 4) is dims.lt(n, 4)
        and (n > 4) is dims.gt(n, 4)
        and (n >= t) is dims.ge(n, t)
    )
    assert n.equal(t) is dims.eq(n, t) and (n % 8).equal(0) is dims.eq(n % 8, 0) and n.equal(n) is True
    assert (2 * n).equal(2 * n + 1) is False and bool(n == t) is False and n != t
    for wrong in (lambda: n < "4", lambda: n.equal("4"), lambda: n >= 1.5):
        with pytest.raises(TypeError):
            wrong()


def test_a_comparison_needs_no_difference() -> None:
    n = symbol("c", None)
    assert dims.evaluate(dims.gt(n, 0), {n: -(1 << 63)}) is False
    assert dims.evaluate(dims.eq(n, 1), {n: -(1 << 63)}) is False
    with pytest.raises(OverflowedError):
        dims.evaluate(dims.gt(n * 2 + symbol("m") * 3, 1), {n: -(1 << 63), symbol("m"): 1})


def test_messages_tell_numbers_beyond_64_bits() -> None:
    n = symbol("n")
    assert dims.value_text(n * n, {n: 1 << 40}) == str(1 << 80)
