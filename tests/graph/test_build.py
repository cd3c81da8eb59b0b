"""Building by hand: variants and aliases, types at once, errors that say wanted and got."""

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ArgumentError, DtypeError, ShapeError
from anyshape.graph.verify import verify
from tests.counting import calls


def test_the_alias_is_never_a_node():
    x, s = anyshape.input("x", "f32[n, 4]"), anyshape.input("s", "i64[1]")
    assert ops.reshape(x, (-1,)).node.op.full_name == "static.reshape"
    assert ops.reshape(x, s).node.op.full_name == "dyn.reshape"


def test_static_says_that_the_parameter_is_an_attribute_not_that_dims_are_numbers():
    x = anyshape.input("x", "f32[n, 4]")
    y = ops.static.reshape(x, newshape=(-1,))
    assert str(y.type) == "f32[4*n]"


def test_an_attribute_never_holds_a_value_of_the_graph():
    x, s = anyshape.input("x", "f32[n, 4]"), anyshape.input("s", "i64[1]")
    with pytest.raises(ArgumentError, match=r"newshape is an attribute, and needs a constant; use dyn\.reshape"):
        ops.static.reshape(x, newshape=s)


def test_contents_flow_through_shape_arithmetic():
    x = anyshape.input("x", "f32[n, 224]")
    shape = ops.concat([ops.slice(ops.shape_of(x), (0,), (1,)), np.array([8, 28])], axis=0)
    y = ops.dyn.reshape(x, shape)
    assert str(y.type) == "f32[n, 8, 28]"
    assert y.node.checks == ()


def test_dims_that_cannot_be_equal_are_refused_at_once():
    a, b = anyshape.input("a", "f32[n, 3]"), anyshape.input("b", "f32[4, m]")
    with pytest.raises(ShapeError, match="matmul"):
        ops.matmul(a, b)


def test_undecided_dims_become_checks():
    a, b = anyshape.input("a", "f32[i, n]"), anyshape.input("b", "f32[m, j]")
    y = ops.matmul(a, b)
    assert [str(c.cond) for c in y.node.checks] == ["m == n"]
    run = anyshape.compile(anyshape.function([a, b], y))
    assert run(np.ones((2, 3), np.float32), np.ones((3, 5), np.float32)).shape == (2, 5)
    with pytest.raises(ShapeError, match=r"matmul.*3.*4|matmul.*4.*3"):
        run(np.ones((2, 3), np.float32), np.ones((4, 5), np.float32))


def test_dtypes_must_agree():
    a, b = anyshape.input("a", "f32[n]"), anyshape.input("b", "i64[n]")
    with pytest.raises(DtypeError, match=r"add: b is i64, and a is f32; they must be equal"):
        ops.add(a, b)


def test_two_unknowns_are_never_silently_equal():
    x = anyshape.input("x", "f32[?, ?]")
    first, second = x.type.shape
    assert first is not second


def test_a_function_names_what_it_needs():
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]")
    with pytest.raises(ArgumentError, match="need y"):
        anyshape.function([x], ops.add(x, y))
    with pytest.raises(ArgumentError, match="two inputs have the name x"):
        anyshape.function([x, anyshape.input("x", "f32[n]")], x)


def test_the_verifier_accepts_what_building_makes():
    x = anyshape.input("x", "f32[n, 224]")
    verify(anyshape.function([x], ops.softmax(ops.mean(x, (1,), keepdims=True))))


def test_the_verifier_refuses_a_wrong_type():
    from anyshape.errors import VerifyError
    from anyshape.types import parse_type

    x = anyshape.input("x", "f32[n, 224]")
    y = ops.relu(x)
    y.type = parse_type("f64[3]")
    with pytest.raises(VerifyError, match=r"has type f64\[3\]"):
        verify(anyshape.function([x], y))


def test_a_deep_graph_needs_no_deep_stack():
    y = x = anyshape.input("x", "f32[n]")
    for _ in range(20_000):
        y = ops.neg(y)
    assert len(anyshape.function([x], y).nodes) == 20_000


def test_integers_of_data_wrap_while_sizes_must_not():
    a, b = anyshape.input("a", "i32[2]"), anyshape.input("b", "i32[2]")
    run = anyshape.compile(anyshape.function([a, b], ops.add(a, b)))
    most = np.array([2**31 - 1, 5], np.int32)
    np.testing.assert_array_equal(run(most, np.array([1, 5], np.int32)), [-(2**31), 10])
    folded = anyshape.passes.fold(anyshape.function([], ops.add(anyshape.constant(most), np.array([1, 5], np.int32))))
    np.testing.assert_array_equal(folded.results[0].constant, [-(2**31), 10])


def test_a_reshape_of_unknown_dims_by_unknown_numbers_is_typed_soon():
    """The dims of the result are products of choices, which are not all multiplied out: that takes twice as long with each one more."""

    def work(rank):  # the least of three, since a cache that is full may be emptied in between
        return min(once(rank, time) for time in range(3))

    def once(rank, time):
        shape = ", ".join(f"typed_{rank}_{time}_{k}" for k in range(rank))
        return calls(lambda: ops.dyn.reshape(anyshape.input("x", f"f32[{shape}]"), anyshape.input("s", f"i64[{rank}]")))

    few, more = work(5), work(6)
    assert more < 1.6 * few
