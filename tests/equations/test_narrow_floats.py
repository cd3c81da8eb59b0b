"""Narrow floats are what elements are stored in, never what they are computed in: the rule, in expressions and between equations, read by
the interpreter and by native code."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import BF16, F16, F32, F64, I64, DType, parse_dtype
from anyshape.equations import Equations, Tensor
from anyshape.equations.accumulation import accumulate
from anyshape.equations.adjoint import state_adjoint
from anyshape.equations.builder import Equation, Update
from anyshape.equations.dependencies import reads, units
from anyshape.equations.expr import Read, as_expr, scalar
from anyshape.equations.functions import cast, checked, exp, gt, maximum, reduce_, where
from anyshape.equations.interpret import interpret
from anyshape.errors import SpecError
from anyshape.lower import Group
from tests.lower.native import Native

N = dims.symbol("n")
F8 = parse_dtype("f8e4m3fn")
STORED = {F16: np.float16, BF16: ml_dtypes.bfloat16, F8: ml_dtypes.float8_e4m3fn}


def both(eqs: Equations, arrays: dict[Tensor, Any], outputs: tuple[Tensor, ...], n: int) -> list[Any]:
    """The outputs, which native code, a kernel for each equation, and the interpreter give alike."""
    accumulate(eqs)
    expected = interpret(eqs.equations, arrays, {N: n})
    known = dict(arrays)
    for unit in in_memory(eqs):
        targets = tuple(dict.fromkeys(q.target for q in unit))
        read = tuple({t for q in unit for t in reads(q)} - set(targets))
        kernel = Native(Group(eqs.op, tuple(unit), read, outputs=targets))
        status, got = kernel.run({t: known[t] for t in read}, {N: n})
        assert status == 0, kernel.refusal
        known |= zip(targets, got, strict=True)
    for t in outputs:
        close = np.asarray(expected[t]).astype(np.float64)
        eps = float(ml_dtypes.finfo(t.dtype.numpy).eps)
        np.testing.assert_allclose(known[t].astype(np.float64), close, rtol=eps, err_msg=t.name)
    return [known[t] for t in outputs]


def in_memory(eqs: Equations) -> list[list[Equation]]:
    """Equations that are computed together: an update and what it updates are."""
    groups: list[list[Equation]] = []
    for unit in units(eqs.equations):
        if isinstance(unit[0].form, Update):
            groups[[u[0].target for u in groups].index(unit[0].target)] += unit
        else:
            groups.append(unit)
    return groups


@pytest.mark.parametrize("dtype", STORED)
def test_what_is_computed_is_wide_and_what_is_moved_is_not(dtype: DType) -> None:
    x = Tensor("x", dtype, (N,))
    e = x[0]
    assert [(e * 2).dtype, (e / N).dtype, exp(e).dtype, maximum(e, 0.1).dtype] == [F32] * 4
    assert reduce_("sum", [N], lambda k: x[k]).dtype == reduce_("prod", [N], lambda k: x[k]).dtype == F32
    assert reduce_("max", [N], lambda k: x[k]).dtype == reduce_("first", [N], lambda k: x[k]).dtype == dtype
    assert where(gt(e, 0), e, 0).dtype == dtype
    assert where(gt(e, 0), e, e * 0.1).dtype == where(gt(e, 0), e, 0.1).dtype == F32
    assert cast(e * 2, dtype).dtype == dtype
    assert Equations("op", {}, {}).scratch("t", dtype, (N,)).dtype == F32
    assert Equations("op", {}, {}).procedure().variable("v", dtype).dtype == F32


def test_a_dim_is_no_narrow_float() -> None:
    """100,000 as an f16 is infinity: the dims that elements meet are f32."""
    x = Tensor("x", F16, (N,))
    assert (x[0] / N).args[1] is scalar(N, F32)
    assert where(gt(x[0], 0), x[0], as_expr(N)).dtype == F32


def test_floats_that_are_computed_in_f32_do_not_meet_by_themselves() -> None:
    half, brain, double = (Tensor("x", t, ())[()] for t in (F16, BF16, F64))
    for other in (brain, double):
        with pytest.raises(SpecError, match="its operands have the dtypes"):
            half * other
    assert (half * cast(brain, F32)).dtype == F32


@pytest.mark.parametrize("dtype", STORED)
def test_a_mean_of_many(dtype: DType) -> None:
    """A mean as an author writes it: neither the sum nor the number of the elements is a narrow float."""
    x, y = Tensor("x", dtype, (N,)), Tensor("y", dtype, ())
    eqs = Equations("mean", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("sum", [N], lambda k: x[k]) / N)
    (got,) = both(eqs, {x: np.full(100_000, 20, STORED[dtype])}, (y,), 100_000)
    assert float(got) == 20


def test_a_result_that_is_read_is_read_before_it_is_rounded() -> None:
    x, total, mean = Tensor("x", F16, (N,)), Tensor("total", F16, ()), Tensor("mean", F16, ())
    eqs = Equations("both", {"x": x}, {"total": total, "mean": mean})
    eqs.define(total[()], reduce_("sum", [N], lambda k: x[k]))
    eqs.define(mean[()], total[()] / N)
    got = both(eqs, {x: np.full(800, 1000, np.float16)}, (total, mean), 800)
    assert [float(a) for a in got] == [np.inf, 1000]


def test_the_keys_of_an_order_are_not_rounded() -> None:
    """y[i] = x[i] / 4, then its elements in order: all keys are between 0 and 1, and no integers."""
    x, y, z, eqs = Tensor("x", F16, (N,)), Tensor("y", F16, (N,)), Tensor("z", F16, (N,)), Equations("ordered", {}, {})
    i, u = eqs.index("i", N), eqs.index("u", N)
    eqs.outputs = {"y": y, "z": z}
    order = eqs.scratch("order", I64, (N,))
    eqs.define(y[i], x[i] / 4)
    eqs.argsort(order[:], [N], lambda k: y[k])
    eqs.define(z[u], y[order[u]])
    (got,) = both(eqs, {x: np.array([3, 1, 2], np.float16)}, (z,), 3)
    assert got.tolist() == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(("op", "expected"), [("add", 3000), ("max", 1)])
def test_updates_add_up_in_the_wider_dtype(op: str, expected: int) -> None:
    """3,000 ones added one by one to an f16 are 2,048. A maximum is of the elements, and needs no memory but the result's."""
    x, at, y = Tensor("x", F16, (N,)), Tensor("at", I64, (N,)), Tensor("y", F16, (2,))
    eqs = Equations("scatter", {"x": x, "at": at}, {"y": y})
    i, j = eqs.index("i", 2), eqs.index("j", N)
    eqs.define(y[i], 1)
    eqs.update(checked(y)[at[j]], op, x[j])
    before = len(eqs.equations)
    (got,) = both(eqs, {x: np.ones(2999, np.float16), at: np.zeros(2999, np.int64)}, (y,), 2999)
    assert got.astype(int).tolist() == [expected, 1]
    assert len(eqs.equations) == before + (op == "add")


def test_a_recurrence_goes_on_from_what_is_not_rounded() -> None:
    x, y = Tensor("x", F16, (N,)), Tensor("y", F16, (N,))
    eqs = Equations("running", {"x": x}, {"y": y})
    s = eqs.index("s", N)
    eqs.step(y[s], where(gt(s, 0), lambda: y[s - 1] + x[s], lambda: x[s]), s)
    (got,) = both(eqs, {x: np.ones(3000, np.float16)}, (y,), 3000)
    assert float(got[-1]) == 3000


def test_steps_add_up_in_the_wider_dtype() -> None:
    """Steps add up in the wider dtype in a result, in an array and in a variable."""
    x, y, z = Tensor("x", F16, (N,)), Tensor("y", F16, (1,)), Tensor("z", F16, (2,))
    eqs = Equations("steps", {"x": x}, {"y": y, "z": z})
    p = eqs.procedure()
    own, v, y_, z_ = p.array("own", F16, (1,)), p.variable("v", F16), p.output("y"), p.output("z")
    p.fill(own, 0)
    p.set(v[()], 0)
    with p.loop("i", N) as i:
        p.set(checked(y_)[0], x[i], "add")
        p.set(checked(own)[0], x[i], "add")
        p.set(v[()], x[i], "add")
    p.set(checked(z_)[0], own[0])
    p.set(checked(z_)[1], v[()])
    p.end()
    got = both(eqs, {x: np.ones(3000, np.float16)}, (y, z), 3000)
    assert [a.astype(int).tolist() for a in got] == [[3000], [3000, 3000]]


def test_a_gradient_is_rounded_once() -> None:
    """The gradient of a scale that 3,000 elements share is the sum of what all of them count."""
    x, scale, y = Tensor("x", F16, (N,)), Tensor("scale", F16, ()), Tensor("y", F16, (N,))
    forward = Equations("scaled", {"x": x, "scale": scale}, {"y": y})
    i = forward.index("i", N)
    forward.define(y[i], x[i] * scale[()])
    seed, slope = Tensor("seed", F16, (N,)), Tensor("slope", F16, ())
    eqs = Equations("gradient", {"x": x, "scale": scale, "seed": seed}, {"slope": slope})
    state_adjoint(eqs, forward.equations, {y: seed}, {scale: slope})
    ones = np.ones(3001, np.float16)
    (got,) = both(eqs, {x: ones, scale: np.float16(1).reshape(()), seed: ones / 3}, (slope,), 3001)
    assert abs(float(got) - 3001 * float(np.float16(1 / 3))) < 0.5


def test_whole_floats_are_as_they_were() -> None:
    """What other dtypes are computed in is they themselves: no cast, no tensor more."""
    for dtype in (F32, F64):
        x, y = Tensor("x", dtype, (N,)), Tensor("y", dtype, (N,))
        eqs = Equations("op", {"x": x}, {"y": y})
        i = eqs.index("i", N)
        eqs.define(y[i], x[i])
        eqs.update(y[i], "add", x[i])
        stated = list(eqs.equations)
        accumulate(eqs)
        assert eqs.equations == stated and isinstance(stated[1].value, Read)
        assert (x[0] * 2).dtype is dtype and x[0].dtype is dtype
