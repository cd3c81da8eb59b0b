"""`anyshape.einsum` beside NumPy's, and outputs that a caller counts because nothing else can."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ArgumentError, ShapeError, UnsupportedError

CASES = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij->ji", [(2, 3)]),
    ("ij", [(2, 3)]),
    ("ii->i", [(3, 3)]),
    ("...ii->...", [(2, 3, 3)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
    ("...ij,...jk", [(5, 2, 3), (1, 3, 4)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("i,j->ij", [(2,), (3,)]),
    ("i,i->", [(4,), (4,)]),
    ("ij,ij,i->j", [(2, 3), (1, 3), (2,)]),
    (" ab , b -> a ", [(2, 0), (0,)]),
    ("a...->...", [(2, 3)]),
    ("a...,...b->...", [(2, 1), (1, 3)]),
    ("a...,...b,...c", [(2, 1), (1, 3), (1, 2)]),
    ("ab,ab->ab", [(1, 2), (1, 2)]),
    ("aa,ab->ab", [(1, 1), (1, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), CASES)
def test_is_numpys(equation, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    want = np.einsum(equation, *arrays)
    xs = [anyshape.input(f"x{k}", f"f32{list(s)}") for k, s in enumerate(shapes)]
    f = anyshape.compile(anyshape.function(xs, anyshape.einsum(equation, *xs)))
    np.testing.assert_allclose(f(*arrays), want, rtol=1e-5, atol=1e-6)


def test_of_symbols_is_one_product():
    a, b = anyshape.input("a", "f32[n, h, i, d]"), anyshape.input("b", "f32[n, h, j, d]")
    f = anyshape.function([a, b], anyshape.einsum("nhid,nhjd->nhij", a, b))
    assert str(f.results[0].type) == "f32[n, h, i, j]" and len(f.nodes) == 1
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 3, n, 5)).astype(np.float32) for n in (4, 6))
    np.testing.assert_allclose(anyshape.compile(f)(x, y), np.einsum("nhid,nhjd->nhij", x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("equation", "shapes", "error", "message"),
    [
        ("ij,jk->ik", ["[2, 3]"], ArgumentError, "2 operands, got 1"),
        ("ij->ik", ["[2, 3]"], ArgumentError, "no operand has k of the result"),
        ("ij->ii", ["[2, 3]"], ArgumentError, "a letter occurs twice"),
        ("ij->i", ["[2]"], ShapeError, "does not fit operand 0"),
        ("i->i", ["[2, 3]"], ShapeError, "does not fit operand 0"),
        ("i1->i", ["[2, 3]"], ArgumentError, "must be made of letters"),
        ("ij,jk->ik", ["[2, 3]", "[4, 5]"], ShapeError, "equal labels have equal sizes"),
        ("i->", ["[...]"], ShapeError, "rank of operand 0 must be known"),
    ],
)
def test_refuses_in_words(equation, shapes, error, message):
    xs = [anyshape.input(f"x{k}", f"f32{s}") for k, s in enumerate(shapes)]
    with pytest.raises(error, match=message):
        anyshape.einsum(equation, *xs)


def test_outputs_that_the_caller_counts():
    x, sizes = anyshape.input("x", "f32[...]"), anyshape.input("sizes", "i64[n]")
    with pytest.raises(UnsupportedError, match="outputs=3"):
        ops.split(x, sizes=sizes)
    f = anyshape.compile(anyshape.function([x, sizes], list(ops.split(x, sizes=sizes, outputs=2))))
    a = np.arange(10, dtype=np.float32).reshape(5, 2)
    first, second = f(a, np.array([2, 3]))
    np.testing.assert_array_equal(first, a[:2])
    np.testing.assert_array_equal(second, a[2:])
    with pytest.raises(ShapeError, match="3 outputs, but the call asks for 2"):
        f(a, np.array([2, 2, 1]))
    with pytest.raises(ShapeError, match="2 outputs, but the call asks for 3"):
        ops.split(anyshape.input("y", "f32[4]"), outputs=3)
