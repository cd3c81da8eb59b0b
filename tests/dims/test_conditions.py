"""Comparisons in normal form."""

from anyshape.dims import ceil_div, eq, ge, le, maximum, minimum, symbol


def test_equality_with_an_extreme_is_an_order():
    n, m = symbol("n", 1), symbol("m")
    assert eq(n, minimum(n, 512)) is le(n, 512)
    assert eq(maximum(n, 4), n) is ge(n, 4)
    assert eq(minimum(n, 512), 1) is eq(n, 1)
    assert str(eq(minimum(n, m), 3)) == "min(m, n) == 3"


def test_an_equality_of_many_extremes_is_not_taken_apart():
    """sum of 24 parts of n, as split has it, against n: decided or not, at once."""
    n, parts = symbol("n"), 24
    size = ceil_div(n, parts)
    sizes = [minimum(maximum(n - v * size, 0), size) for v in range(parts)]
    assert eq(sum(sizes), n) is not False
