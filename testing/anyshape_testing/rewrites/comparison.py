"""Compares what a rewrite makes with what was there, on numbers and on symbols."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ml_dtypes import finfo

from anyshape import dims
from anyshape.equations.expr import Reduce
from anyshape.equations.interpret import Arithmetic
from anyshape.equations.traversal import walk
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.opdef import RewriteDef
from anyshape.graph.value import Node, Value
from anyshape_testing.compare.enlarging import enlarged
from anyshape_testing.compare.tolerance import is_float, is_normal, product_leaves_range, underflow
from anyshape_testing.execution.evaluation import evaluate
from anyshape_testing.rewrites.instances import Array, Instance


def applied(rewrite: RewriteDef, instance: Instance, before: Value) -> bool:
    """Applies a rewrite to an instance and compares; returns whether it fired, and there was something to compare."""
    after = rewrite.apply(before.node)
    general = instance.symbolic[before]
    compare_on_symbols(rewrite, instance, general, rewrite.apply(general.node), after is not None)
    return after is not None and compare(rewrite, instance, before, after[0])


def compare(rewrite: RewriteDef, instance: Instance, before: Value, after: Value) -> bool:
    """Compares what a rewrite makes with what was there; returns whether there is an element other than zero."""
    where = f"{rewrite.source}: {rewrite.text}\n  on " + "; ".join(instance.called)
    assert after.type == before.type, f"{where}: type {after.type} in place of {before.type}"
    with np.errstate(all="ignore"):
        want, got = evaluate([before, after], instance.arrays)
    assert got.shape == want.shape and got.dtype == want.dtype, where
    close = are_close(got, want, np.zeros(got.shape))
    if not close and is_float(
        got
    ):  # by what the terms of sums explain: the other side may add them up in another order

        def read(arithmetic: Arithmetic) -> list[Array]:
            return evaluate([before], instance.arrays, arithmetic)

        with np.errstate(all="ignore"):
            (spread,) = enlarged(read, beside=False, reductions=True)
            close = are_close(got, want, spread)
        if not close and _adds_up(before.node) and product_leaves_range(instance.operands):
            held = is_normal(got) & is_normal(want)
            lost = underflow(instance.operands)
            close = are_close(got[held], want[held], np.broadcast_to(spread + lost, got.shape)[held])
    assert close, f"{where}: {got!r} in place of {want!r}"
    return bool(np.any(want))


def _adds_up(node: Node | None) -> bool:
    """Whether a node, or one that it reads, is a sum of floats."""
    if node is None or node.op.kernel is None:
        return False
    stated = equations_of(node, *tensors_of(node)).equations
    sums = (e for q in stated for e in walk(q.value) if isinstance(e, Reduce) and e.kind == "sum")
    return any(e.dtype is not None and e.dtype.is_float for e in sums) or any(
        _adds_up(v.node) for v in node.inputs if v is not None
    )


def are_close(got: Array, want: Array, spread: Array) -> bool:
    """Whether elements are equal, or floats up to their rounding and `spread`. The largest float rounds to infinity, and stands for it."""
    if not is_float(got):
        return np.array_equal(got, want)
    with np.errstate(all="ignore"):
        g, w = got.astype(np.float64), want.astype(np.float64)
        margin = 64 * float(finfo(got.dtype).eps) * np.abs(w) + spread
        near = np.clip(g, -float(finfo(got.dtype).max), float(finfo(got.dtype).max))
        return bool(((g == w) | (np.isnan(g) & np.isnan(w)) | (np.isfinite(w) & (np.abs(near - w) <= margin))).all())


def compare_on_symbols(
    rewrite: RewriteDef, instance: Instance, before: Value, results: Sequence[Value] | None, on_numbers: bool
) -> None:
    """Asserts that a rewrite that fires on symbols fires on numbers too, and keeps every dim at these numbers."""
    if results is None:
        return
    after = results[0]
    where = f"{rewrite.source}: {rewrite.text}\n  on symbols, " + "; ".join(instance.called)
    assert on_numbers, f"{where}: fires, and does not on {instance.symbols.numbers}"
    if before.type.shape is None:
        return
    assert after.type.dtype == before.type.dtype, f"{where}: type {after.type} in place of {before.type}"
    assert after.type.shape is not None, f"{where}: the rank of {before.type} is lost"
    assert len(after.type.shape) == len(before.type.shape), f"{where}: type {after.type} in place of {before.type}"
    for n, m in zip(after.type.shape, before.type.shape):
        values = {int(dims.evaluate(x, instance.symbols.numbers)) for x in (n, m)}
        assert len(values) == 1, f"{where}: type {after.type} in place of {before.type} at {instance.symbols.numbers}"
