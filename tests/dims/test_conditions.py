"""Comparisons in normal form."""

from anyshape.dims import eq, ge, le, maximum, minimum, symbol


def test_equality_with_an_extreme_is_an_order():
    n, m = symbol("n", 1), symbol("m")
    assert eq(n, minimum(n, 512)) is le(n, 512)
    assert eq(maximum(n, 4), n) is ge(n, 4)
    assert eq(minimum(n, 512), 1) is eq(n, 1)
    assert str(eq(minimum(n, m), 3)) == "min(m, n) == 3"
