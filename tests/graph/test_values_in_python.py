"""Operators, indices and methods of Values are the ops that specs say, and compute what NumPy computes."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError, ArgumentError, DtypeError, ShapeError
from anyshape.graph import spelled
from anyshape.graph.item import item

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
Y = RNG.normal(size=5).astype(np.float32)
W = RNG.normal(size=(5, 2)).astype(np.float32)
ROWS, PLACES, MASK = np.array([[0, 2], [1, 1]]), np.array([1, 3]), np.array([True, False, True])
WIDE = RNG.random((4, 5)) > 0.5

COMPUTED = {
    "sum": lambda x, y, w: x + y,
    "sum of a number": lambda x, y, w: 1 + x - 2,
    "sum of an array": lambda x, y, w: Y + x * Y,
    "product": lambda x, y, w: x @ w,
    "quotient and power": lambda x, y, w: 2 - x * y / 3 + x**2,
    "power of a number": lambda x, y, w: 2**x + 0.5**x,
    "of one": lambda x, y, w: -abs(x) + x.round() + +x,
    "comparisons": lambda x, y, w: ~(x < y) & (x >= 0.1) | (x > 1) ^ (x <= -1),
    "sum over all": lambda x, y, w: x.sum(),
    "sum over one": lambda x, y, w: x.sum(axis=1) + x.mean(1),
    "sum over two": lambda x, y, w: x.sum((0, 2), keepdims=True),
    "reductions": lambda x, y, w: x.max(0) - x.min(axis=0) + x.prod(0),
    "any and all": lambda x, y, w: (x < 0).any(axis=1) ^ (x < 1).all(axis=1),
    "place": lambda x, y, w: x.argmax(1) + x.argmin(1),
    "running": lambda x, y, w: x.cumsum(1) + x.cumprod(axis=1),
    "reshaped": lambda x, y, w: x.reshape(-1),
    "reshaped by two": lambda x, y, w: x.reshape(2, -1),
    "reshaped by a list": lambda x, y, w: x.reshape((4, 15)),
    "flat": lambda x, y, w: x.ravel() + x.flatten(),
    "turned": lambda x, y, w: x.T,
    "turned by a method": lambda x, y, w: x.transpose() + x.transpose(2, 1, 0),
    "of a dtype": lambda x, y, w: (
        x.astype(np.float64) + x.astype("float64") + x.astype(float) + x.astype(np.dtype("<f8"))
    ),
    "truths": lambda x, y, w: x.astype(np.int32).astype(bool),
    "turned as said": lambda x, y, w: x.transpose(1, 0, 2) + x.transpose((1, 0, 2)),
    "cut": lambda x, y, w: x.clip(-0.5, 0.5) + x.clip(max=0),
    "squeezed": lambda x, y, w: x[:, :1].squeeze(axis=1),
    "repeated": lambda x, y, w: x.repeat(2, 1),
    "ordered": lambda x, y, w: x.argsort(),
    "mean by hand": lambda x, y, w: x.sum() / x.size + x[0].size,
    "taken": lambda x, y, w: x.take(PLACES, 1),
}
NUMPY = {
    "functions of one": lambda x, y, w: np.exp(x) + np.negative(x) * np.floor(x) - np.absolute(x),
    "functions of two": lambda x, y, w: np.add(x, y) - np.multiply(2, x) / np.subtract(Y, x),
    "comparisons": lambda x, y, w: np.less(x, y) | np.greater_equal(1, x) | np.equal(x, Y),
    "products": lambda x, y, w: np.matmul(x, w),
    "methods": lambda x, y, w: np.sum(x, axis=1, keepdims=True) + np.mean(x) - np.max(x, 0),
    "shapes": lambda x, y, w: np.reshape(np.transpose(x, (1, 0, 2)), (np.shape(x)[0], -1)),
    "quotients": lambda x, y, w: x // 2 + 3 // (x + 9) - y // x,
    "both of a division": lambda x, y, w: divmod(x, 2)[0] + divmod(2, x + 9)[1] + np.divmod(x, y)[0],
    "the only element": lambda x, y, w: x[:1, :1, :1].item() + x,
}
INDICES = {
    "a row": np.s_[1],
    "the last row from 1": np.s_[-1, 1:],
    "a new axis": np.s_[1:, None],
    "backwards": np.s_[..., ::-2],
    "new axes": np.s_[None, :, 2, None, ..., None],
    "one element": np.s_[2, 3, 4],
    "nothing": (),
    "part": np.s_[1:2, -3:-1, ::2],
    "rows": ROWS,
    "columns": np.s_[:, PLACES],
    "listed": np.s_[:, [0, 1], None],
    "two arrays": np.s_[:, PLACES, PLACES],
    "two arrays apart": np.s_[PLACES[:1], :, ROWS],
    "a number and an array": np.s_[0, PLACES],
    "a number and an array apart": np.s_[0, :, ROWS],
    "an array and a number apart": np.s_[ROWS, :, 0],
    "two arrays and new axes": np.s_[None, :, PLACES, PLACES, None],
    "arrays with a new axis between": np.s_[PLACES[:1], None, ROWS, 1],
    "a mask": MASK,
    "a mask behind": np.s_[:, :, Y > 0],
    "a mask over two axes": np.s_[:, WIDE, None],
}


def value(f):
    x, y, w = (anyshape.input(n, t) for n, t in (("x", "f32[a, b, c]"), ("y", "f32[c]"), ("w", "f32[c, d]")))
    return anyshape.compile(anyshape.function([x, y, w], f(x, y, w)))(X, Y, W)


@pytest.mark.parametrize("name", COMPUTED)
def test_operators_and_methods(name):
    np.testing.assert_allclose(value(COMPUTED[name]), COMPUTED[name](X, Y, W), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NUMPY)
def test_functions_of_numpy(name):
    np.testing.assert_allclose(value(NUMPY[name]), NUMPY[name](X, Y, W), rtol=1e-4, atol=1e-5)


def shared_ufuncs():
    """The functions of NumPy that an op has the name of."""
    every = {f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc)}
    return sorted(name for name in every if name in ops.__all__)


@pytest.mark.parametrize("name", shared_ufuncs())
def test_an_op_with_the_name_of_a_function_of_numpy_computes_the_same(name):
    function = getattr(np, name)
    arrays, declared = {
        "logical": ([MASK, ~MASK], "bool[n]"),
        "bitwise": ([PLACES, PLACES[::-1].copy()], "i64[n]"),
    }.get(name.partition("_")[0], ([np.float32([[0.5, 1.5], [2, 3]]), np.float32([[2, 1.5], [0.25, 1]])], "f32[m, n]"))
    inputs = [anyshape.input(f"x{k}", declared) for k in range(function.nin)]
    got = anyshape.compile(anyshape.function(inputs, function(*inputs)))(*arrays[: function.nin])
    np.testing.assert_allclose(got, function(*arrays[: function.nin]), rtol=1e-6)


def test_adding_to_an_array_in_place_makes_a_value():
    x = anyshape.input("x", "f32[n]")
    total = np.ones(1, np.float32)
    total += x
    np.testing.assert_array_equal(anyshape.compile(anyshape.function([x], total))(X[0, 0]), X[0, 0] + 1)


@pytest.mark.parametrize("name", INDICES)
def test_an_index(name):
    got, expected = value(lambda x, y, w: x[INDICES[name]]), X[INDICES[name]]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


def test_integers_and_dtypes():
    k = anyshape.input("k", "i64[n]")
    f = anyshape.function([k], [(k << 2) + (k >> 1) ^ (k & 3) | ~k, k.astype("f32") / 2, k[k > 3]])
    numbers = np.array([1, 5, 9])
    got = anyshape.compile(f)(numbers)
    np.testing.assert_array_equal(got[0], (numbers << 2) + (numbers >> 1) ^ (numbers & 3) | ~numbers)
    np.testing.assert_array_equal(got[1], numbers / 2)
    np.testing.assert_array_equal(got[2], numbers[numbers > 3])


def test_rows_one_by_one():
    x = anyshape.input("x", "f32[2, n]")
    a, b = x
    assert (len(x), x.ndim, str(x.shape), x.dtype.name) == (2, 2, "(2, n)", "f32")
    got = anyshape.compile(anyshape.function([x], a - b))(X[0, :2])
    np.testing.assert_array_equal(got, X[0, 0] - X[0, 1])


REFUSED = {
    "a truth": (lambda x: bool(x), "not a truth yet"),
    "a comparison by ==": (lambda x: x == 0, r"x\.equal\(y\)"),
    "its rows": (lambda x: list(x), "no length that is known"),
    "an array": (lambda x: np.asarray(x), "not an array yet"),
    "an integer": (lambda x: range(x), "not an integer yet"),
    "a function of NumPy that no op is": (lambda x: np.isnan(x), r"np\.isnan takes arrays.*did you mean ops\.is_nan"),
    "an operator that no op is": (lambda x: round(x), r"no op is called round\(\)"),
    "an operator of NumPy that no op is": (lambda x: np.hypot(x, 2), r"np\.hypot takes arrays"),
    "a function of several values": (
        lambda x: np.concatenate([x, x]),
        r"np\.concatenate takes.*did you mean ops\.concat",
    ),
    "an array to write to": (lambda x: np.exp(x, out=np.ones(3)), r"np\.exp with out takes arrays"),
    "a reduction of a function of two": (lambda x: np.add.reduce(x), r"np\.add\.reduce takes arrays"),
    "a whole part": (lambda x: math.trunc(x), "not an integer yet"),
    "a method's arguments": (lambda x: x.sum(1, 2, 3, 4), "too many positional"),
    "a truth as an index": (lambda x: x[True], "an index is"),
    "a float as an index": (lambda x: x[1.5], "an index is"),
    "another value": (lambda x: x.__setitem__(0, 1), "never changes"),
    "what is no operand": (lambda x: x + object(), "an operand is"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_yet_is_refused(name):
    call, text = REFUSED[name]
    with pytest.raises(ArgumentError, match=text):
        call(anyshape.input("x", "f32[n, 4]"))


def test_what_an_operator_means_depends_on_the_dtype():
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[n]")
    assert [((k > 1) & (k > 2)).node.op.name, (k & k).node.op.name] == ["logical_and", "bitwise_and"]
    with pytest.raises(DtypeError, match=r"a & b: it means .* and the value is f32\[n\]"):
        x & x
    with pytest.raises(DtypeError, match=r"a / b: it means div of f32"):
        k / 2


NOT_OF_THE_DTYPE = {
    "a part": (lambda k: k * 1.5, r"\* of <k: i64\[n\]> and 1.5: 1.5 is no i64; cast the operands that are i64"),
    "a root": (lambda k: k**0.5, "0.5 is no i64"),
    "a part before": (lambda k: 1.5 - k, "1.5 is no i64"),
    "a comparison": (lambda k: k < 2.5, "2.5 is no i64"),
    "a method": (lambda k: k.clip(0, 2.5), "clip: high: 2.5 is no i64"),
    "a function": (lambda k: ops.maximum(k, np.nan.real), "maximum: b: nan is no i64"),
    "one of a list": (lambda k: ops.concat([k, [1, 0.5]], axis=0), "concat: xs: 0.5 is no i64"),
    "too large": (lambda k: k.astype("u8") + 300, "300 is no u8"),
    "negative": (lambda k: k.astype("u8") + -1, "-1 is no u8"),
    "no truth": (lambda k: (k > 1) & 2, "2 is no bool"),
    "a step": (lambda k: ops.arange(0.0, k[0], 0.5), "arange: step: 0.5 is no i64"),
    "a size": (lambda k: ops.dyn.reshape(k, [2.5, -1]), "reshape: newshape: 2.5 is no i64"),
}


@pytest.mark.parametrize("name", NOT_OF_THE_DTYPE)
def test_a_number_that_the_dtype_does_not_have_is_refused_and_never_cut(name):
    call, text = NOT_OF_THE_DTYPE[name]
    with pytest.raises(DtypeError, match=text):
        call(anyshape.input("k", "i64[n]"))


def test_a_number_that_the_dtype_has_is_taken_however_it_is_written():
    k = anyshape.input("k", "i64[n]")
    f = anyshape.function([k], [k * 2.0, 2**k, k.astype("u8") + 255, (k > 1) & 1, ops.dyn.reshape(k, [1.0, -1])])
    results = anyshape.compile(f)(np.array([1, 3]))
    assert [r.tolist() for r in results] == [[2, 6], [2, 8], [0, 2], [False, True], [[1, 3]]]


def test_too_many_indices():
    x = anyshape.input("x", "f32[n, 4]")
    with pytest.raises(ShapeError, match=r"3 indices of f32\[n, 4\]"):
        x[0, 0, 0]
    with pytest.raises(ShapeError, match="once at most"):
        x[..., ...]
    with pytest.raises(ShapeError, match="a mask of"):
        x[:, np.array([True, False])]


def test_an_attribute_that_no_spec_says():
    x = anyshape.input("x", "f32[n]")
    with pytest.raises(AttributeError, match=r"did you mean .*cumsum"):
        x.cumsums  # noqa: B018, the read raises
    assert {"sum", "reshape", "T"} <= set(dir(x)) and not hasattr(x, "__fspath__")


def test_a_value_is_itself_alone():
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("x", "f32[n]")
    assert x == x and x != y and len({x, y, x}) == 2 and x in [y, x] and x != None  # noqa: E711, the operator is what is tested


def test_arrays_compare_elements_on_either_side():
    x, a = anyshape.input("x", "f32[n]"), np.float32([1, 2, 3])
    forms = [
        x == a,
        a == x,
        x == np.float32(2),
        np.float32(2) == x,
        x != a,
        a != x,
        np.not_equal(x, x + 1.0),
        np.equal(x, x),
    ]
    got = anyshape.compile(anyshape.function([x], forms))(np.float32([1, 0, 2]))
    assert [r.tolist() for r in got] == [
        [1, 0, 0],
        [1, 0, 0],
        [0, 0, 1],
        [0, 0, 1],
        [0, 1, 1],
        [0, 1, 1],
        [1] * 3,
        [1] * 3,
    ]
    for compared in (lambda: x == 2, lambda: x != [1, 2], lambda: x == x.shape[0]):
        with pytest.raises(ArgumentError, match=r"x\.equal\(y\)"):
            compared()
    with pytest.raises(ArgumentError):
        bool(x == a)


def test_a_table_of_ops_is_nowhere_in_the_run_time():
    """Names of ops in what makes calls of operators and indices."""
    words = {
        w for f in (spelled.__file__, item.__code__.co_filename) for w in re.findall(r"\"(\w+)\"", Path(f).read_text())
    }
    assert not words & set(ops.__all__) - {"add", "sub", "mul", "mod", "pow", "matmul", "abs", "round", "neg"}, (
        "names of Python's methods only"
    )


def test_all_errors_are_ours():
    for f in (lambda x: x["a"], lambda x: x[object()], lambda x: x + "a", lambda x: x @ None):
        with pytest.raises(AnyshapeError):
            f(anyshape.input("x", "f32[n, 4]"))
