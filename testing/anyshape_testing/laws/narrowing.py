"""The law of narrowed contractions: an op compiled for bf16 or f16 gives what an interpreter gives that rounds the same factors.

In: an op that has a contraction of f32. Out: nothing, or an AssertionError. Where all factors are elements of operands, the two differ by
the order of f32 sums alone, and by numbers below the smallest normal one, which may be taken for 0: results are as close as those of the
exact op in law 1b. A factor that is computed may differ by its last bit, and round to the other neighbour: then a result is within
`NEIGHBOURS` of the largest one, times the root of what an algorithm multiplies errors by at most, and calls with numbers far from 1 are not
compared.

Where the processor's sums are of f16, each term and each sum may lose half a unit of f16: of the sum of the terms' sizes, which is what the
op gives for operands without their signs. That holds for ops that are nothing but contractions of operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import anyshape
from anyshape.equations import Equation
from anyshape.equations.expr import Apply, Expr, Read, Reduce
from anyshape.equations.traversal import walk
from anyshape.errors import TypeRelationError, UnsupportedError
from anyshape.graph.value import Node
from anyshape.lower.gemm.pairs import CHUNK_OF_F16
from anyshape.passes.narrowing import contractions_of_f32, narrowed_equation
from anyshape.precision import Narrow
from anyshape.properties import Property
from anyshape.vm.compiling.options import TargetName
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.examples import shown
from anyshape_testing.calls.nodes import equations_below
from anyshape_testing.compare.results import same
from anyshape_testing.compare.tolerance import ARITHMETIC, is_float
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.execution.eager import Eager
from anyshape_testing.execution.interpreter import operands_of
from anyshape_testing.execution.native import Cached, arguments, program, program_key, run_alike
from anyshape_testing.laws.long_axes import growth_of
from anyshape_testing.running.accounting import Record
from anyshape_testing.running.random_calls import on_random_calls

Array = NDArray[Any]
NEIGHBOURS: Mapping[Narrow, float] = {"bf16": 2.0**-6, "f16": 2.0**-9, "f16-chunked": 2.0**-9}
"""The allowed error, relative to the largest element, where a factor of each sum may be another bf16, 2**-8 of itself away, or another f16,
2**-11: some of the factors of a few sums one behind the other."""
NEAR_ONE = 2.0**10
"""The largest magnitude of operands where results are compared by their largest element."""
LARGEST_F16 = float(np.finfo(np.float16).max)
SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
"""Intel's manual of instructions, VDPBF16PS: subnormal inputs and results are zeros, whatever MXCSR says."""
_compiled: Cached[anyshape.Executable | None] = Cached(100)


def has_contractions(p: Property) -> bool:
    """Whether an example of the op has a contraction of f32."""
    return any(contractions_of_f32(q.value) for node in shown(p) for q in equations_below(node))


def contractions_are_narrowed(
    op: str, record: Record, share: int = 1, least: int = 1, precision: Narrow = "bf16", level: TargetName = "host"
) -> None:
    """Runs the law on random calls of an op that `has_contractions`, of which at least `least` have one, for a level of instructions."""

    def body(c: Call) -> bool:
        node = valid_node(c)
        stated = equations_below(node)
        if not any(contractions_of_f32(q.value) for q in stated):
            return False
        key = (precision, level, program_key(c, static=True))
        executable = _compiled.of(key, lambda: narrow(c, precision, level))
        if executable is None:
            return False
        got = run_alike(executable, arguments(c, static=True))
        restated = partial(narrowed_equation, precision=precision)
        want = Eager(restated=restated).run(node, operands_of(c))
        if executable.report.sums != "in f32":
            return agrees_in_f16(got, want, c, node)
        return agrees(got, want, c, node, precision)

    on_random_calls(op, "contractions are narrowed", record, body, share=share, least=least)


def narrow(c: Call, precision: Narrow, level: TargetName) -> anyshape.Executable | None:
    """The call compiled for a narrow precision; None where symbols are refused."""
    try:
        return anyshape.compile(program(c, static=True), precision=precision, target=level)
    except (TypeRelationError, UnsupportedError):
        return None


def agrees(got: list[Array], want: list[Array], c: Call, node: Node, precision: Narrow) -> bool:
    """Raises AssertionError unless results are as close as the factors allow; returns whether an element was compared."""
    what = f"native against interpreter, in {precision}"
    if node.op.composition is None and are_of_operands(equations_below(node)):
        return same(got, want, c, node, what)
    if not all(np.abs(a.astype(np.float64)).max(initial=0.0) <= NEAR_ONE for a in c.flat_inputs() if is_float(a)):
        return False
    allowed = NEIGHBOURS[precision] * (steps_in_a_row(node) * max(growth_of(node.op.name), 1.0)) ** 0.5
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        assert within_neighbours(g, w, allowed), f"{what}, output {k} of {node.op.full_name}: {g} against {w}"
    return any(w.size for w in want)


def agrees_in_f16(got: list[Array], want: list[Array], c: Call, node: Node) -> bool:
    """Raises AssertionError unless results are as close as sums of f16 allow; returns whether they were compared: results of one
    contraction of operands, whose terms together are numbers of f16."""
    stated = equations_below(node)
    if node.op.composition is not None or len(stated) != 1 or not are_of_operands(stated) or len(want) != 1:
        return False
    sizes, terms = (
        Eager().run(node, [of(a) if a is not None and is_float(a) else a for a in operands_of(c)])[0].astype(np.float64)
        for of in (np.abs, np.ones_like)
    )
    numbers = [a for a in (*operands_of(c), sizes) if a is not None and is_float(a)]
    if not all((np.abs(a.astype(np.float64)) < LARGEST_F16).all() for a in numbers):
        return False
    close = within_sums_of_f16(got[0], want[0], sizes, terms)
    assert close, f"native against interpreter, with sums of f16, of {node.op.full_name}: {got[0]} against {want[0]}"
    return bool(want[0].size)


def within_sums_of_f16(got: Array, want: Array, sizes: Array, terms: Array) -> bool:
    """Whether sums of so many terms, of such sizes together, differ by no more than half a unit of f16 for each addition in a chunk, and
    for each factor, and for all terms below the normal numbers half of the smallest one."""
    additions = np.minimum(np.ceil(terms / 2), CHUNK_OF_F16) + 2
    return bool((np.abs(got.astype(np.float64) - want) <= 2.0**-11 * additions * sizes + 2.0**-25 * (terms + 1)).all())


def steps_in_a_row(node: Node) -> int:
    """The most steps of a recurrence: what one rounds to another neighbour, all after it depend on."""
    recurring = [
        q for q in equations_below(node) if any(isinstance(e, Read) and e.tensor is q.target for e in walk(q.value))
    ]
    return max((n for q in recurring for n in q.target.shape if isinstance(n, int)), default=1)


def within_neighbours(got: Array, want: Array, allowed: float) -> bool:
    """Whether results differ by no more than factors that are rounded to another neighbour, and their own rounding to another neighbour of
    their dtype; or by what is below the normal numbers of f32: the dot instructions of processors take such numbers for zeros, and give
    zeros for them."""
    if got.shape != want.shape:
        return False
    if not is_float(want):
        return bool((got == want).all())
    g, w = got.astype(np.float64), want.astype(np.float64)
    near = max(allowed * np.abs(w[np.isfinite(w)]).max(initial=0.0), SMALLEST_NORMAL)
    unit = float(ml_dtypes.finfo(want.dtype).eps)
    with np.errstate(invalid="ignore"):
        close = (np.abs(g - w) <= near + unit * np.abs(w)) | (g == w) | (np.isnan(g) & np.isnan(w))
    return bool(close.all())


def are_of_operands(stated: Sequence[Equation]) -> bool:
    """Whether all factors of contractions are elements of operands, chosen or moved, but not computed."""
    own = {q.target for q in stated}
    factors = [x for q in stated for c in contractions_of_f32(q.value) for x in c.factors]
    return not any(_is_computed(e) or (isinstance(e, Read) and e.tensor in own) for x in factors for e in walk(x))


def _is_computed(e: Expr) -> bool:
    rounds = isinstance(e, Apply) and e.op in ARITHMETIC and e.dtype is not None and e.dtype.is_float
    return rounds or isinstance(e, Reduce)
