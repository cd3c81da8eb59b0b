"""What hurts users of other compilers for dynamic shapes, one test each."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from parity_case import LOOPS, agrees

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError, ShapeError
from anyshape.graph.registry import all_ops
from anyshape.passes import dyn_to_static, optimise


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_every_op_has_a_shape_function() -> None:
    """A relation is the shape function, and an op without one is not generated."""
    assert all_ops()
    assert [o.full_name for o in all_ops().values() if not callable(o.relation)] == []
    assert [o.full_name for o in all_ops().values() if o.kernel is None and not o.view and o.composition is None] == []


def test_a_dim_that_cannot_be_had_is_named() -> None:
    x = anyshape.input("x", "f32[n*m]")
    with pytest.raises(AnyshapeError, match=r"nothing defines the dim [mn].*x: f32\[m\*n\] only mentions it"):
        anyshape.compile(anyshape.function([x], ops.exp(x)))


def test_a_result_that_cannot_be_allocated_is_named_with_its_shape() -> None:
    n = anyshape.input("n", "i64[1]")
    run = anyshape.compile(anyshape.function([n], {"rows": ops.full(1.0, n)}))
    with pytest.raises(
        AnyshapeError, match=r"the result rows, of shape \[35184372088832\] and dtype float32, cannot be allocated"
    ):
        run(np.array([2**45]))
    run = anyshape.compile(anyshape.function([n], ops.sum(ops.sort(ops.full(1.0, n)))))
    with pytest.raises(
        AnyshapeError, match=r"cannot allocate \d{15,} bytes for intermediate values: \d+ are available"
    ):
        run(np.array([2**45]))


def test_a_concat_of_shape_and_constant_folds_and_the_reshape_is_static() -> None:
    x = anyshape.input("x", "f32[n, 6, 4]")
    shape = ops.concat([np.array([-1]), ops.mul(ops.shape_of(x, start=2), 2), [3]], axis=0)
    done = dyn_to_static(anyshape.function([x], ops.dyn.reshape(x, shape)))
    assert [(k.op.full_name, k.attrs.get("newshape")) for k in done.nodes] == [("static.reshape", (-1, 8, 3))]
    assert str(done.results[0].type) == "f32[n, 8, 3]"


def test_minus_one_against_an_unknown_dim() -> None:
    x = anyshape.input("x", "f32[?, 6]")
    run = anyshape.compile(anyshape.function([x], ops.add(ops.reshape(x, (-1, 4)), 0.0)))
    for rows in (2, 4, 6):
        assert run(ones(rows, 6)).shape == (rows * 6 // 4, 4)
    with pytest.raises(ShapeError, match="is not a multiple of 4"):
        run(ones(3, 6))


@pytest.mark.parametrize("loop", LOOPS)
def test_bulk_data_is_not_read_to_compute_a_shape(loop: str) -> None:
    """The large operand gives its dims alone: no copy, no kernel, no load; and none of its values."""
    x = anyshape.input("x", "f32[n, m]")
    s = ops.concat([ops.shape_of(ops.exp(x), start=1), ops.shape_of(x, end=1)], axis=0)
    run = anyshape.compile(anyshape.function([x], s), loop=loop)
    text = run.disassemble()
    assert "invoke" not in text and "load" not in text and "argument" not in text
    agrees(run(ones(3, 5)), np.array([5, 3]))


def test_computed_sizes_work_in_reshape_slice_and_topk() -> None:
    x, k = anyshape.input("x", "f32[n, m]"), anyshape.input("k", "i64[]")
    half = ops.div(ops.gather(ops.shape_of(x), 1), 2)
    values = ops.topk(x, ops.minimum(k, half))[0]
    flat = ops.reshape(values, ops.expand_dims(ops.size(values), (0,)))
    run = anyshape.compile(anyshape.function([x, k], flat))
    a = np.arange(12, dtype=np.float32).reshape(2, 6)
    agrees(run(a, np.int64(9)), np.array([5, 4, 3, 11, 10, 9]))
    agrees(run(a, np.int64(1)), np.array([5, 11]))


def test_nothing_is_compiled_again_however_many_shapes_come() -> None:
    x = anyshape.input("x", "f32[n, m]")
    run = anyshape.compile(anyshape.function([x], ops.softmax(ops.exp(x))))
    for k in range(1, 60):
        run(ones(k, 61 - k))
    assert run.compiled_after_first_call == 0


def test_memory_does_not_grow_over_sizes() -> None:
    x = anyshape.input("x", "f32[n]")
    run = anyshape.compile(anyshape.function([x], ops.sum(ops.softmax(ops.exp(x)), axes=(0,))))
    run(ones(5000))
    most = run.memory
    for n in range(1, 5000, 37):
        run(ones(n))
    assert run.memory == most


def test_a_buffer_is_never_reused_at_a_wrong_size() -> None:
    """Small, large and small again, on one context: values, not just shapes."""
    x = anyshape.input("x", "f32[n, m]")
    chain = ops.transpose(ops.exp(ops.transpose(ops.softmax(x))))
    run = anyshape.compile(anyshape.function([x], ops.add(chain, ops.sum(chain, axes=(0,)))))
    rng = np.random.default_rng(0)
    for n, m in ((2, 3), (40, 50), (3, 2), (1, 70), (50, 40), (2, 3)):
        a = rng.uniform(size=(n, m)).astype(np.float32)
        e = np.exp(np.exp(a) / np.exp(a).sum(1, keepdims=True))
        np.testing.assert_allclose(run(a), e + e.sum(0), rtol=1e-5)


def test_the_least_size_is_not_planned_as_the_size() -> None:
    x = anyshape.input("x", "f32[n]")
    f = anyshape.function([x], ops.exp(ops.transpose(ops.reshape(x, (-1, 2)))))
    run = anyshape.compile(f, dims={"n": (2, None)})
    for n in (2, 4000, 2):
        agrees(run(ones(n)), np.full((2, n // 2), np.e, np.float32))


def test_errors_do_not_name_internal_symbols() -> None:
    x, y = anyshape.input("x", "f32[?, ?]"), anyshape.input("y", "f32[?, 4]")
    run = anyshape.compile(anyshape.function([x, y], ops.matmul(x, y, source="project")))
    with pytest.raises(ShapeError) as e:
        run(ones(2, 3), ones(5, 4))
    assert str(e.value) == (
        "matmul (project): k of b: expected 3, got 5 (x.shape[1] == y.shape[0] does not hold: x.shape[1] = 3, y.shape[0] = 5)"
    )


def test_an_unknown_dim_is_not_taken_as_one() -> None:
    x, y = anyshape.input("x", "f32[?, 4]"), anyshape.input("y", "f32[1, 4]")
    assert optimise(anyshape.function([x, y], ops.add(x, y))).results[0].type == x.type
    z = anyshape.input("z", "f32[3, 4]")
    run = anyshape.compile(anyshape.function([x, z], ops.add(x, z)))
    for n in (1, 3):
        assert run(ones(n, 4), ones(3, 4)).shape == (3, 4)


def test_reshapes_by_computed_shapes_do_not_nest_dims_where_a_size_may_be_0() -> None:
    """Each may copy a dim, or not, by a condition that the first has settled."""
    from anyshape.types import parse_type

    def chain(low: int) -> str:
        y = anyshape.input("x", parse_type("f32[a, b, 64]", low=low))
        for _ in range(400):
            flat = ops.dyn.reshape(y, [-1, 64])
            y = ops.dyn.reshape(flat, ops.concat([ops.shape_of(y, end=2), [-1]], axis=0))
        return str(y.type)

    assert chain(1) == "f32[a, b, 64]"
    assert chain(0) == "f32[a, select(b == 0, 64, b), select(b == 0, 0, 64)]"


def test_dims_that_nest_without_end_are_refused_in_words() -> None:
    """Sizes of ever more slices with steps are not folded."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    y = x = anyshape.input("x", "f32[n, m]")
    try:
        with pytest.raises(AnyshapeError, match="nested too deeply"):
            for k in range(100):
                y = ops.slice(ops.concat([y, x], axis=0), (0,), (2**63 - 1,), (0,), (k + 2,))
    finally:
        sys.setrecursionlimit(before)
