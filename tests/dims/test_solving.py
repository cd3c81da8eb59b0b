"""Solving dims for symbols: which dim tells which symbol, and what the symbol is then."""

from anyshape.dims import definitions, floordiv, linear, symbol

N, K, M = symbol("n"), symbol("k"), symbol("m")


def test_a_dim_is_linear_in_a_symbol_or_not():
    assert linear(2 * K + N, K) == (2, N) and linear(K, K) == (1, 0)
    assert (
        linear(K * N, K) is None and linear(floordiv(K, 2), K) is None and linear(N, K) is None and linear(3, K) is None
    )


def test_what_stands_alone_comes_first():
    solved = definitions([("a", N + M), ("b", 2 * K), ("c", N), ("d", N)])
    assert {s: (d.place, d.factor, d.rest) for s, d in solved.items()} == {
        N: ("c", 1, 0),
        M: ("a", 1, N),
        K: ("b", 2, 0),
    }
    assert [solved[N].is_alone, solved[M].is_alone, solved[K].of(8), solved[M].of(5, {N: 2})] == [True, False, 4, 3]


def test_two_names_in_one_dim_are_reported_by_none():
    assert definitions([(0, N + M)]) == {} and set(definitions([(0, N + M)], before=[N])) == {M}
