"""Constant factors of 16 bits that a kernel would widen one at a time become constants of f32.

In: a schedule. Out: the schedule in which such a factor, as a weight of a depthwise convolution, is read as the f32 that it is multiplied
as. Results are the same to the last bit. Products of matrices keep theirs, which they widen as whole vectors, and so do kernels whose
results lie along the constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from anyshape.dtypes import F32
from anyshape.equations import Equation, Tensor
from anyshape.equations.expr import Apply, Expr, Read, Reduce, read
from anyshape.equations.traversal import replace_node, walk
from anyshape.graph.value import Value, constant
from anyshape.kernel_model.contractions import EXPRESSIONS, contraction_of
from anyshape.passes.steps import KernelStep, Schedule

LEAST_BYTES, MOST_BYTES = 256, 1 << 19
"""Bytes of constants that are widened: smaller ones are numbers in the code, of larger ones the memory counts."""


def with_wide_factors(schedule: Schedule) -> Schedule:
    """The schedule with constants of f32 for factors that would be widened one at a time."""
    known: dict[Value, Value] = {}
    steps = tuple(_of_kernel(s, known) if isinstance(s, KernelStep) else s for s in schedule.steps)
    return replace(schedule, steps=steps) if known else schedule


def _of_kernel(step: KernelStep, known: dict[Value, Value]) -> KernelStep:
    constants = {t: v for v, t in step.tensors.items() if v.constant is not None and _is_narrow(v)}
    if not constants:
        return step
    wide: dict[Tensor, Tensor] = {}
    reads: dict[Expr, Expr] = {}
    for widened, x in (pair for q in step.equations for pair in _widened_alone(q)):
        if x.tensor in constants:
            wide.setdefault(x.tensor, replace(x.tensor, dtype=F32))
            reads[widened] = read(wide[x.tensor], x.index)
    if not reads:
        return step
    for t in wide:
        v = constants[t]
        assert v.constant is not None
        if v not in known:
            known[v] = constant(v.constant.astype(np.float32))
    equations = tuple(replace(q, value=replace_node(q.value, reads)) for q in step.equations)
    left = {e.tensor for q in equations for e in walk(q.value) if isinstance(e, Read)}
    gone = {constants[t] for t in wide if t not in left}
    kept = {v: t for v, t in step.tensors.items() if v not in gone}
    return replace(
        step,
        equations=equations,
        inputs=(*(v for v in step.inputs if v not in gone), *(known[constants[t]] for t in wide)),
        tensors={**kept, **{known[constants[t]]: new for t, new in wide.items()}},
    )


def _is_narrow(v: Value) -> bool:
    a = v.constant
    return a is not None and v.type.dtype.is_float and a.itemsize == 2 and LEAST_BYTES < a.nbytes <= MOST_BYTES


def _widened_alone(q: Equation) -> Iterator[tuple[Expr, Read]]:
    """Elements that a sum widens to f32, each with its read: those that are the same along the last axis of the result, along which the
    vectors of windows run."""
    along = q.index[-1].free if q.index else frozenset()
    for r in (e for e in walk(q.value) if isinstance(e, Reduce) and contraction_of(EXPRESSIONS, e) is None):
        for e in walk(r.body):
            x = e.args[0] if isinstance(e, Apply) and e.op == "cast" and e.dtype is F32 else None
            if isinstance(x, Read) and x.outside is None and not x.free & along:
                yield e, x
