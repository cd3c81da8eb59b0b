"""What fusion is told of kernels is what the lowering makes of them: answers of `kernel_model` beside the schedules of the same equations.

The kernels are those of every example of the specs, and of encoders. Nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import BF16, BOOL, F16, F32, F64, I32, U32, DType
from anyshape.equations import Equation, Tensor
from anyshape.equations.expr import OPERATIONS, Apply, Expr, Read, Reduce, Var, apply, cast, reduce_node
from anyshape.equations.functions import pad, reduce_
from anyshape.equations.traversal import walk
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.kernel_model.contractions import EXPRESSIONS, Contraction, as_stored, contraction_of
from anyshape.kernel_model.costs import OPERATIONS as COSTS
from anyshape.kernel_model.costs import Cost, cost_of
from anyshape.kernel_model.left_operand import left_operand
from anyshape.lower.kernel import Group
from anyshape.lower.lowering import lower_group
from anyshape.lower.schedule.kernel_schedule import KernelSchedule, schedule_group
from anyshape.lower.schedule.products import Product
from anyshape.lower.target import host_target
from anyshape.passes import optimise
from anyshape.passes.fuse import fuse
from anyshape.passes.steps import KernelStep, step_name
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.operands import ByName, flat_values, typed
from anyshape_testing.calls.packages import register
from benchmarks.passes_speed import bert
from tests.lower.groups import Builder


def kernels(f: Function) -> Iterator[tuple[KernelStep, KernelSchedule]]:
    """Each kernel that fusion makes, beside what the lowering makes of it."""
    if not any(node.is_open for node in f.nodes):
        for step in fuse(f).steps:
            if isinstance(step, KernelStep):
                yield step, schedule_of(step)


def schedule_of(step: KernelStep) -> KernelSchedule:
    constants = {step.tensors[v]: v.constant for v in step.inputs if v.constant is not None}
    inputs, outputs = (tuple(step.tensors[v] for v in vs) for vs in (step.inputs, step.outputs))
    return schedule_group(Group("g", step.equations, inputs, outputs=outputs, constants=constants))


@cache
def all_kernels() -> list[tuple[str, KernelStep, KernelSchedule]]:
    functions = [("encoder", optimise(bert(2, width=64, heads=4)))]
    for name, op in register("anyshape_ops").items():
        for example in op.examples:
            if example.error is None:
                c = call_of(name, example)
                inputs = flat_values(c.values(typed))
                functions.append((name, optimise(Function(inputs, call(c.op, c.values(ByName(inputs)), c.params)))))
    return [(name, *kernel) for name, f in functions for kernel in kernels(f)]


def products_of(equations: Sequence[Equation]) -> list[tuple[Equation, Contraction[Expr, Var]]]:
    reductions = [(q, e) for q in equations for e in walk(q.value) if isinstance(e, Reduce)]
    return [(q, p) for q, e in reductions if (p := contraction_of(EXPRESSIONS, e)) is not None]


def has_loops(q: Equation, p: Contraction[Expr, Var]) -> bool:
    """Whether no loop has one turn or none: such a product is loops to the lowering, or nothing."""
    return all(v.extent not in (0, 1) for v in (*q.variables, *p.summed))


def is_padded(p: Contraction[Expr, Var]) -> bool:
    """Whether a factor is read with pads."""
    return any(isinstance(f, Read) and f.outside is not None for f in p.factors)


def divides(equations: Sequence[Equation]) -> bool:
    """Whether an element is looked up by the quotient or the remainder of an index."""
    indices = (i for q in equations for e in walk(q.value) if isinstance(e, Read) for i in e.index)
    return any(isinstance(e, Apply) and e.op in ("floordiv", "mod") for i in indices for e in walk(i))


def disagreements(schedules: Sequence[tuple[str, KernelStep, KernelSchedule]]) -> list[str]:
    """Kernels with products where fusion sees no contraction, or the other way round. A product of one row is left out: a vector times a
    constant matrix is one to the lowering, while in the equations no variable is the vector's alone. So are padded windows times a small
    table, which are written out, and an index that is divided, which known sizes may leave without a quotient."""
    wrong = []
    for name, step, schedule in schedules:
        lowered = any(isinstance(s, Product) and s.m.extent != 1 for s in schedule.steps)
        matched = products_of(step.equations)
        surely = any(len(p.summed) == 1 and has_loops(q, p) and not is_padded(p) for q, p in matched)
        if (lowered > bool(matched) and not divides(step.equations)) or surely > lowered:
            wrong.append(f"{name}, {step_name(step)}: {len(matched)} contractions for fusion, products: {lowered}")
    return wrong


def computes_nothing(step: KernelStep) -> bool:
    """Whether the types say that all results have no elements, so that there is nothing to share out."""
    return all(0 in v.type.shape for v in step.outputs if v.type.shape is not None)


def alone_too_long(schedules: Sequence[tuple[str, KernelStep, KernelSchedule]]) -> list[str]:
    """Kernels with contractions that fusion put together, or says that others may stand beside, and that one thread has to run whole."""
    wrong = []
    for name, step, schedule in schedules:
        together = len(step.nodes) > 1 and bool(products_of(step.equations))
        if schedule.serial and (together or left_operand(step.equations) is not None) and not computes_nothing(step):
            wrong.append(f"{name}, {step_name(step)}")
    return wrong


def test_what_is_a_contraction_to_fusion_is_a_product_to_the_lowering() -> None:
    every = all_kernels()
    assert sum(bool(products_of(step.equations)) for _, step, _ in every) > 40
    assert sum(any(isinstance(s, Product) for s in schedule.steps) for _, _, schedule in every) > 25
    assert disagreements(every) == []


def test_what_is_put_together_is_shared_out_to_threads() -> None:
    assert alone_too_long(all_kernels()) == []


def test_answers_that_are_wrong_are_found() -> None:
    x, w, codes, of = (
        anyshape.input(*p) for p in (("x", "f32[9, 8]"), ("w", "f32[8, 5]"), ("codes", "u8[9, 8]"), ("of", "u8[8, 5]"))
    )
    (product,), (sums,) = (
        kernels(anyshape.function([x, w], y)) for y in (ops.relu(ops.matmul(x, w)), ops.sum(x, axes=[0]))
    )
    (row,) = kernels(
        anyshape.function([v := anyshape.input("v", "f32[8]")], ops.matmul(v, np.ones((8, 5), np.float32)))
    )
    (integers,) = kernels(anyshape.function([codes, of], ops.matmul_integer(codes, of, np.uint8(3), np.uint8(4))))
    assert disagreements([("", *product), ("", *sums), ("", *integers), ("", *row)]) == []
    assert not products_of(row[0].equations) and any(isinstance(s, Product) for s in row[1].steps)
    assert len(disagreements([("", product[0], sums[1]), ("", sums[0], product[1]), ("", product[0], row[1])])) == 3
    assert alone_too_long([("", *product), ("", *integers)]) == []
    assert alone_too_long([("", product[0], replace(integers[1], serial=True))]) == [", matmul+relu"]
    (empty,) = kernels(anyshape.function([x, v := anyshape.input("v", "f32[8, 0]")], ops.relu(ops.matmul(x, v))))
    assert alone_too_long([("", empty[0], replace(integers[1], serial=True))]) == []


def test_only_padded_factors_and_divided_indices_are_left_to_the_lowering() -> None:
    b = Builder("factors")
    x, w, y = b.input([9]), b.input([3, 4]), b.tensor([4, 7])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], reduce_("sum", [3], lambda k: pad(x, 0.0)[j + k] * w[k, i]))
    z = b.tensor([4, 7])
    b.eqs.define(z[i, j], reduce_("sum", [3], lambda k: x[j + k] * w[k, i // 2]))
    (padded,), (divided,) = ([q for q in b.eqs.equations if q.target is t] for t in (y, z))
    ((_, of_pads),), ((_, plain),) = products_of([padded]), products_of([divided])
    assert is_padded(of_pads) and not is_padded(plain)
    assert divides([divided]) and not divides([padded])


# --- the matcher ---


def total(body: Expr, *over: Var, kind: str = "sum", where: Expr | None = None) -> Expr:
    return reduce_node(kind, over, body, where, body.dtype)


def operands(dtype: DType = F32) -> tuple[Tensor, Tensor]:
    return Tensor("a", dtype, (3, 4)), Tensor("b", dtype, (4, 5))


@pytest.mark.parametrize("dtype", [F32, F64, I32])
def test_contractions(dtype: DType) -> None:
    (a, b), (i, j, k) = operands(dtype), (Var(name, n) for name, n in (("i", 3), ("j", 5), ("k", 4)))
    contraction = contraction_of(EXPRESSIONS, total(a[i, k] * b[k, j], k))
    assert contraction is not None and contraction.summed == (k,) and contraction.factors == (a[i, k], b[k, j])
    computed = contraction_of(EXPRESSIONS, total((a[i, k] - a[i, 0]) * b[k, j], k))
    assert computed is not None and computed.factors[1] is b[k, j]


def test_what_is_no_contraction() -> None:
    (a, b), (i, j, k) = operands(), (Var(name, n) for name, n in (("i", 3), ("j", 5), ("k", 4)))
    short, other = operands(U32)
    for what, term in {
        "no sum": total(a[i, k] * b[k, j], k, kind="max"),
        "a condition": total(a[i, k] * b[k, j], k, where=apply("lt", k, j)),
        "no product": total(a[i, k] + b[k, j], k),
        "a factor that does not vary with what is summed over": total(a[i, k] * b[0, j], k),
        "one factor with no variable of its own": total(a[i, k] * a[i, k], k),
        "a dtype that the matrix product does not add up in": total(short[i, k] * other[k, j], k),
        "nothing summed over": total(a[i, 0] * b[0, j]),
        "a cast of the product": total(cast(a[i, k] * b[k, j], F64), k),
    }.items():
        assert contraction_of(EXPRESSIONS, term) is None, what


@pytest.mark.parametrize(
    ("stored", "to", "widens"), [(F16, F32, True), (BF16, F32, True), (F16, F64, False), (I32, F32, False)]
)
def test_what_the_product_widens_as_it_reads(stored: DType, to: DType, widens: bool) -> None:
    read = Tensor("a", stored, (3,))[0]
    factor = cast(read, to)
    assert as_stored(EXPRESSIONS, factor) is (read if widens else factor)
    assert isinstance(read, Read) and as_stored(EXPRESSIONS, read) is read


# --- the table ---


def lines_of(operation: str, arguments: int, dtype: DType) -> int:
    """Lines of text of a map that is this operation."""
    b = Builder("g")
    operands = [b.input((1024,), dtype) for _ in range(arguments)]
    b.output(b.map(lambda *v: apply(operation, *v), *operands, dtype=dtype))
    return lower_group(b.group(), host_target()).text.count("\n")


COPIES = 5
"""A map is written four times for blocks of vectors, and once with a mask."""


def instructions_of(operation: str) -> float:
    """Counts the instructions of an operation on a vector in the text of a map, for the dtype of which they are most."""
    floats = (
        F32
        if operation not in ("shift_left", "shift_right", "bit_and", "bit_or", "bit_xor", "and", "or", "not", "wrap")
        else I32
    )
    logical = BOOL if operation in ("and", "or", "not") else I32
    return (
        1
        + max(lines_of(operation, OPERATIONS[operation], d) - lines_of("neg", 1, I32) for d in (floats, logical))
        / COPIES
    )


def far_from(cost: Cost, counted: float) -> bool:
    return not counted / 3 - 4 <= cost.instructions <= 3 * counted + 4


WRITTEN = sorted(
    name
    for name, n in OPERATIONS.items()
    if n in (1, 2) and name not in ("cast", "bitcast", "within", "eq", "ne", "lt", "le", "gt", "ge")
)


@pytest.mark.parametrize("operation", WRITTEN)
def test_instructions_are_about_what_is_written(operation: str) -> None:
    assert not far_from(cost_of(operation), instructions_of(operation))


def test_an_operation_that_the_table_forgot_is_found() -> None:
    assert set(COSTS) <= set(OPERATIONS) and COSTS.keys() & WRITTEN
    assert far_from(Cost(), instructions_of("erf")) and far_from(Cost(200), instructions_of("exp"))


def test_what_is_long_as_code_takes_long() -> None:
    """Cycles and instructions of an operation are about the same code; and what sizes are computed with is done again all the same."""
    assert all(c.cycles >= 3 for c in COSTS.values() if c.instructions > 5)
    assert {name for name, c in COSTS.items() if c.of_sizes} == {"floordiv", "mod", "fmod", "trunc_div"}
    assert cost_of("floordiv").is_cheap and cost_of("add").is_cheap and not cost_of("exp").is_cheap
