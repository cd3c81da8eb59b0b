"""The slow interpreter: against NumPy, on numbers; on symbols; and what it refuses."""

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.special

import anyshape
from anyshape.dims import symbol
from anyshape.dtypes import BOOL, F16, F32, F64, I8, I32, I64
from anyshape.equations import Equations, Tensor
from anyshape.equations.expr import as_expr, const
from anyshape.equations.functions import (
    and_,
    at,
    cast,
    eq,
    exp,
    fit,
    floor,
    ge,
    gt,
    le,
    lt,
    maximum,
    or_,
    pad,
    reduce_,
    trunc_div,
    where,
    wrap,
)  # fmt: skip
from anyshape.equations.interpret import interpret
from anyshape.equations.refusing import Refused
from anyshape.equations.unknown import NOTHING, UnknownElement
from anyshape.errors import ShapeError, SpecError

N, M = symbol("n"), symbol("m")


def test_a_difference_from_zero_is_no_operation() -> None:
    """A sum of -0.0 and 0 is 0.0, and so is what -0.0 less -0.0 is."""
    x = Tensor("x", F32, (N,))
    place = as_expr(0)
    element = x[place]
    assert element - 0 is element and element - cast(const(0, I8), F32) is element
    for kept in (element + 0, element - 1, element - (-0.0), 0 - element, element - cast(const(1, I8), F32)):
        assert kept is not element


def softmax_equations() -> tuple[Equations, Tensor, Tensor]:
    x, y = Tensor("x", F32, (N, M)), Tensor("y", F32, (N, M))
    eqs = Equations("softmax", {"x": x}, {"y": y})
    (a,), k = eqs.indices("a", (N,)), eqs.index("k", M)
    peak, total = eqs.scratch("peak", F32, (N,)), eqs.scratch("total", F32, (N,))
    eqs.define(peak[a], reduce_("max", [M], lambda j: x[a, j]))
    eqs.define(total[a], reduce_("sum", [M], lambda j: exp(x[a, j] - peak[a])))
    eqs.define(y[a, k], exp(x[a, k] - peak[a]) / total[a])
    return eqs, x, y


@pytest.mark.parametrize("shape", [(3, 5), (0, 4), (4, 1), (1, 77)])
def test_softmax(shape):
    eqs, x, y = softmax_equations()
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    got = interpret(eqs.equations, {x: array}, {N: shape[0], M: shape[1]})[y]
    np.testing.assert_allclose(got, scipy.special.softmax(array, 1), rtol=1e-6)


def test_a_dim_that_a_dtype_has_no_room_for_wraps():
    x, y = Tensor("x", I8, (N,)), Tensor("y", I8, (N,))
    eqs = Equations("lengths", {"x": x}, {"y": y})
    (a,) = eqs.indices("a", (N,))
    eqs.define(y[a], x[a] + cast(N, I8))
    assert interpret(eqs.equations, {x: np.ones(200, np.int8)}, {N: 200})[y].tolist() == [1 + 200 - 256] * 200


def test_equations_may_come_in_any_order():
    eqs, x, y = softmax_equations()
    array = np.ones((2, 3), np.float32)
    got = interpret(eqs.equations[::-1], {x: array}, {N: 2, M: 3})[y]
    np.testing.assert_allclose(got, 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("dtype", [F16, F64, I32])
@pytest.mark.parametrize(("kind", "expected"), [("sum", 1), ("prod", -2), ("max", 2)])
def test_a_reduction_of_literals_takes_the_dtype_it_meets(kind, expected, dtype):
    x, y = Tensor("x", I64, (3,)), Tensor("y", dtype, ())
    eqs = Equations("count", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_(kind, [3], lambda i: where(lt(x[i], 0), lambda: -1, lambda: 2), lambda i: lt(x[i], 2)))
    got = interpret(eqs.equations, {x: np.array([-5, 1, 2])})[y]
    assert got.dtype == dtype.numpy and got == expected


def test_gather_wraps_negative_indices_and_refuses_others():
    x, index, y = Tensor("x", F32, (3, 2)), Tensor("index", I64, (N,)), Tensor("y", F32, (N, 2))
    eqs = Equations("gather", {"x": x, "index": index}, {"y": y})
    i, j = eqs.index("i", N), eqs.index("j", 2)
    eqs.define(y[i, j], x[wrap(index[i], 3), j])
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    got = interpret(eqs.equations, {x: array, index: np.array([-1, 0])}, {N: 2})[y]
    np.testing.assert_array_equal(got, array[[-1, 0]])
    with pytest.raises(ShapeError, match="index 3 is out of range for axis 0 of x with size 3"):
        interpret(eqs.equations, {x: array, index: np.array([3])}, {N: 1})


def test_a_read_out_of_range_is_fine_where_its_condition_does_not_hold():
    x, y = Tensor("x", F32, (3,)), Tensor("y", F32, (4,))
    eqs = Equations("shift", {"x": x}, {"y": y})
    i = eqs.index("i", 4)
    eqs.define(y[i], where(lt(i, 3), lambda: x[i], lambda: 7.0))
    np.testing.assert_array_equal(interpret(eqs.equations, {x: np.zeros(3, np.float32)})[y], [0, 0, 0, 7])


def test_pad_gives_its_value_outside():
    x, y = Tensor("x", F32, (2,)), Tensor("y", F32, (4,))
    eqs = Equations("pad", {"x": x}, {"y": y})
    i = eqs.index("i", 4)
    eqs.define(y[i], pad(x, 9.0)[i - 1])
    np.testing.assert_array_equal(interpret(eqs.equations, {x: np.array([1, 2], np.float32)})[y], [9, 1, 2, 9])


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "argmax", "argmin"])
def test_reductions(kind):
    x = Tensor("x", F64, (N, M))
    y = Tensor("y", I64 if kind.startswith("arg") else F64, (N,))
    eqs = Equations(kind, {"x": x}, {"y": y})
    i = eqs.index("i", N)
    eqs.define(y[i], reduce_(kind, [M], lambda j: x[i, j]))
    array = np.random.default_rng(1).standard_normal((4, 7))
    got = interpret(eqs.equations, {x: array}, {N: 4, M: 7})[y]
    np.testing.assert_allclose(got, getattr(np, kind)(array, axis=1))


def test_a_filtered_reduction_counts_only_what_holds():
    x, y = Tensor("x", I32, (6,)), Tensor("y", I64, ())
    eqs = Equations("count", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("count", [6], lambda j: eq(x[j], 1)))
    assert interpret(eqs.equations, {x: np.array([1, 0, 1, 1, 2, 0], np.int32)})[y] == 3


def test_contents_are_symbolic():
    x, y = Tensor("x", I64, (3,)), Tensor("y", I64, (2,))
    eqs = Equations("part", {"x": x}, {"y": y})
    i = eqs.index("i", 2)
    eqs.define(y[i], x[i + 1] * 2)
    known = np.empty(3, object)
    known[:] = [N, M, 4]
    assert interpret(eqs.equations, {x: known}, symbolic=True)[y].tolist() == [2 * M, 8]


def test_a_side_that_is_not_chosen_reads_nothing_of_symbols():
    """A recurrence over small integers: what stands before its start is read nowhere, whatever is known of the elements."""
    x, y = Tensor("x", I64, (3,)), Tensor("y", I64, (3,))
    eqs = Equations("greatest", {"x": x}, {"y": y})
    i = eqs.index("i", 3)
    before = where(ge(y[i - 1], x[i]), lambda: y[i - 1], lambda: x[i])
    eqs.step(y[i], where(gt(i, 0), lambda: before, lambda: x[i]), i)
    known = np.empty(3, object)
    known[:] = [2, 1, 3]
    assert interpret(eqs.equations, {x: known}, symbolic=True)[y].tolist() == [2, 2, 3]
    known[1] = N
    with pytest.raises(Refused, match="index 3"):
        eqs = Equations("outside", {"x": x}, {"y": y})
        i = eqs.index("i", 3)
        eqs.define(y[i], where(gt(i, 0), lambda: x[i + 1], lambda: x[i]))
        interpret(eqs.equations, {x: known}, symbolic=True)


def test_a_side_that_may_not_be_chosen_refuses_nothing():
    x, y = Tensor("x", I64, (2,)), Tensor("y", I64, (2,))
    eqs = Equations("maybe", {"x": x}, {"y": y})
    i = eqs.index("i", 2)
    eqs.define(y[i], where(gt(x[i], 0), lambda: x[i + 1], lambda: x[i]))
    known = np.empty(2, object)
    known[:] = [2, N]
    assert interpret(eqs.equations, {x: known}, symbolic=True)[y].tolist()[1] is NOTHING


def test_one_side_may_decide_where_nothing_is_known_of_the_other():
    """`or` and `and` of a float of a symbol, of which nothing is known, beside a truth."""
    x, y, z = Tensor("x", F32, (2,)), Tensor("y", BOOL, (2,)), Tensor("z", BOOL, (2,))
    eqs = Equations("small", {"x": x}, {"y": y, "z": z})
    i, j = eqs.index("i", 2), eqs.index("j", 2)
    eqs.define(y[i], or_(le(x[i], 4.0), lt(cast(as_expr(N), F32) * x[i], 9.0)))
    eqs.define(z[j], and_(le(x[j], 4.0), lt(cast(as_expr(N), F32) * x[j], 9.0)))
    arrays = interpret(eqs.equations, {x: np.array([2.0, 5.0], object)}, symbolic=True)
    assert arrays[y].tolist() == [True, NOTHING] and arrays[z].tolist() == [NOTHING, False]


def test_an_assert_of_which_nothing_is_known_is_not_taken_to_hold():
    x, y = Tensor("x", F32, ()), Tensor("y", I64, ())
    eqs = Equations("asserted", {"x": x}, {"y": y})
    eqs.demand(or_(le(x[()], 4.0), lt(cast(as_expr(N), F32) * x[()], 9.0)), ("too large",))
    eqs.define(y[()], const(1))
    assert interpret(eqs.equations, {x: np.array(2.0, object)}, symbolic=True)[y][()] == 1
    with pytest.raises(UnknownElement):
        interpret(eqs.equations, {x: np.array(5.0, object)}, symbolic=True)


def test_a_reduction_of_what_holds_for_symbols_is_not_known():
    x, y = Tensor("x", I64, (3,)), Tensor("y", I64, ())
    eqs = Equations("greatest", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("max", [3], lambda j: x[j], where=lambda j: gt(x[j], 0)))
    known = np.empty(3, object)
    known[:] = [2, 0, 3]
    assert interpret(eqs.equations, {x: known}, symbolic=True)[y][()] == 3
    known[1] = N
    with pytest.raises(UnknownElement):
        interpret(eqs.equations, {x: known}, symbolic=True)


def test_an_unknown_element_is_asked_for():
    x, y = Tensor("x", I64, (1,)), Tensor("y", I64, (1,))
    eqs = Equations("same", {"x": x}, {"y": y})
    i = eqs.index("i", 1)
    eqs.define(y[i], x[i])
    with pytest.raises(UnknownElement):
        interpret(eqs.equations, {}, symbolic=True)


@pytest.mark.parametrize("n", [1 << 62, 3])
def test_of_an_empty_result_whose_symbols_no_array_holds_nothing_is_known(n):
    """Symbols take eight bytes each and truths one: inference does not refuse what a run computes."""
    x, y = Tensor("x", BOOL, (1,)), Tensor("y", BOOL, (n, 0))
    eqs = Equations("empty", {"x": x}, {"y": y})
    i, j = eqs.index("i", n), eqs.index("j", 0)
    eqs.define(y[i, j], x[i % 1])
    assert interpret(eqs.equations, {x: np.ones(1, bool)})[y].shape == (n, 0)
    with pytest.raises(UnknownElement) if n > 3 else nullcontext():
        assert interpret(eqs.equations, {x: np.array([True], object)}, symbolic=True)[y].shape == (n, 0)


def test_an_empty_result_of_truths_is_inferred():
    x = anyshape.input("x", "bool[1]")
    repeated = anyshape.ops.static.tile(x, repeats=(2**63 - 1, 0))
    assert str(repeated.type) == f"bool[{2**63 - 1}, 0]"
    assert anyshape.compile(anyshape.function([x], repeated))(np.array([True])).shape == (2**63 - 1, 0)


def test_equal_expressions_are_one_object():
    x = Tensor("x", F32, (4,))
    assert (x[1] + x[2]) is (x[1] + x[2])
    assert const(True) is not const(1)
    assert const(0.0) is not const(-0.0)


def test_literals_adapt_and_dtypes_do_not_mix():
    x, i = Tensor("x", F32, (4,)), Tensor("i", I32, (4,))
    assert (x[0] * 2).dtype is F32
    assert maximum(x[0], 0).dtype is F32
    assert lt(x[0], 1).dtype is BOOL
    assert cast(i[0], F32).dtype is F32
    with pytest.raises(SpecError, match="write cast"):
        x[0] + i[0]


def test_fit_reads_dims_of_one_at_zero_and_leaves_unknown_ones_open():
    eqs = Equations("add", {}, {})
    a = eqs.indices("a", (N, M))
    exact, one = fit(a, (N, 1))
    assert exact is a[0]
    assert one is const(0, I64)
    (opened,) = fit(a, (N,))
    assert str(opened) == "(0 if n == 1 else a1)"


def test_at_places_the_picked_indices():
    a, b, c = (as_expr(k) for k in (10, 11, 12))
    assert at([a, b], [c], [1]) == (a, c, b)


def test_integer_division():
    x, y = Tensor("x", I32, (4,)), Tensor("y", I32, (4,))
    eqs = Equations("div", {"x": x}, {"y": y})
    i = eqs.index("i", 4)
    eqs.define(y[i], trunc_div(x[i], 2))
    np.testing.assert_array_equal(interpret(eqs.equations, {x: np.array([-3, 3, -4, 1], np.int32)})[y], [-1, 1, -2, 0])


def test_an_equation_defines_an_element():
    eqs = Equations("bad", {}, {})
    with pytest.raises(SpecError, match="must define an element"):
        eqs.define(floor(1.5), 1)
