"""The native loop against the interpreter, on tables that no compiler would emit: results, and every way a call can end."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyshape.dims import INT64_MAX, INT64_MIN, symbol
from anyshape.dtypes import parse_dtype
from anyshape.errors import AnyshapeError, OverflowedError, ShapeError, VerifyError
from anyshape.failure_report import template
from anyshape.vm.native.executor import NativeExecutor
from anyshape.vm.native.verify import verify_program
from anyshape.vm.program.table import ELEMENT_CODE, ELEMENTS, CheckRecord, Mode, Op, Program, ResultType, encode
from anyshape.vm.run import interpreter
from anyshape.vm.run.arena import CallMemory


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here no op is compiled."""


SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


@dataclass(eq=False)
class SumKernel:
    """Writes the sum of its scalars to its last buffer; a negative sum is error 1, one above 1000 an unknown status."""

    name: str = "sum"
    errors: tuple[str, ...] = (template("the sum is negative", "", ()),)
    entry: Any = None

    def __post_init__(self) -> None:
        self.entry = SIGNATURE(self.run)

    @staticmethod
    def run(scalars: int, buffers: int, scratch: int, part: int, parts: int) -> int:
        total = sum((ctypes.c_int64 * 2).from_address(scalars))
        if total < 0 or total > 1000:
            return 1 if total < 0 else 7
        ctypes.c_int64.from_address(ctypes.c_int64.from_address(buffers + 8).value).value = total
        return 0


KERNEL = SumKernel()
I64_RESULT = ResultType("y", parse_dtype("i64"))


def program(words: list[int], registers: int, results: int = 1, regions: int = 1, arguments: int = 1) -> Program:
    checks = (CheckRecord(("the number is wrong",), (), (), "n"),)
    names = tuple(f"x{k}" for k in range(arguments))
    code = np.array(words, np.int64)
    return Program(
        "made",
        code,
        registers,
        regions,
        kernels=(KERNEL,),
        checks=checks,
        results=(I64_RESULT,) * results,
        arguments=names,
    )


def outcome(run: Any) -> Any:
    """Results as lists, None, or the error and its text."""
    try:
        results = run()
    except AnyshapeError as e:
        return type(e), str(e)
    return None if results is None else [(r.dtype, r.shape, r.tolist()) for r in results]


def all_outcomes(p: Program, arguments: list[Any]) -> list[Any]:
    """What each executor makes of a program."""
    context = CallMemory(p.regions)
    native = NativeExecutor(p)
    own = native.context()
    runs = [lambda: interpreter.run(p, arguments, context), lambda: native.run(arguments, own)]
    return [outcome(run) for run in (*runs, runs[1])]


EDGES = (0, 1, -1, 2, -2, 3, 7, -5, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, 1 << 32, -(1 << 31), 3037000500)
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(-9, 9), st.integers(INT64_MIN, INT64_MAX))
SCALAR = [Op(k) for k in range(Op.ADD, Op.SELECT + 1)]  # type: ignore[call-arg]  # by number


@st.composite
def scalar_programs(draw: st.DrawFn) -> tuple[list[int], int]:
    """(words, registers): constants, then scalar instructions over what came before, then uses of some of it."""
    words: list[int] = []
    count = draw(st.integers(1, 5))
    for k in range(count):
        words += encode(Op.CONST, k, draw(NUMBERS))
    for _ in range(draw(st.integers(1, 20))):
        op = draw(st.sampled_from(SCALAR))
        arity = {Op.NOT: 1, Op.SELECT: 3}.get(op, 2)
        words += encode(op, count, *(draw(st.integers(0, count - 1)) for _ in range(arity)))
        count += 1
    place, size = count, count + 1
    words += encode(Op.CONST, size, 3) + encode(Op.OUTPUT, place, 0, (size,))
    for k in range(3):
        words += encode(Op.STORE, place, k, draw(st.integers(0, count - 1)), ELEMENT_CODE["i64"])
    if draw(st.booleans()):
        words += encode(Op.GUARD, draw(st.integers(0, count - 1)))
    if draw(st.booleans()):
        words += encode(Op.CHECK, draw(st.integers(0, count - 1)), 0)
    return words + encode(Op.RETURN), count + 2


@given(scalar_programs())
@settings(max_examples=300, deadline=None)
def test_scalar_instructions_agree(code: tuple[list[int], int]) -> None:
    first, *rest = all_outcomes(program(*code), [np.zeros(1)])
    assert all(o == first for o in rest)


BINARY = [op for op in SCALAR if op not in (Op.NOT, Op.SELECT)]


@pytest.mark.parametrize("op", BINARY)
def test_every_pair_of_edges(op: Op) -> None:
    for a in EDGES:
        for b in EDGES:
            words = encode(Op.CONST, 0, a) + encode(Op.CONST, 1, b) + encode(op, 2, 0, 1) + encode(Op.CONST, 3, 1)
            words += encode(Op.OUTPUT, 4, 0, (3,)) + encode(Op.STORE, 4, 0, 2, 0) + encode(Op.RETURN)
            first, *rest = all_outcomes(program(words, 5), [np.zeros(1)])
            assert all(o == first for o in rest), (a, b)


def stored(*middle: list[int]) -> Program:
    """r0 = 1, r1 = 0, r2 = the greatest number, r3 = r2 + r0, which overflows; what `middle` leaves in r9 is the result."""
    words = encode(Op.CONST, 0, 1) + encode(Op.CONST, 1, 0) + encode(Op.CONST, 2, INT64_MAX) + encode(Op.ADD, 3, 2, 0)
    words += [w for m in middle for w in m]
    words += encode(Op.OUTPUT, 10, 0, (0,)) + encode(Op.STORE, 10, 0, 9, 0) + encode(Op.RETURN)
    return program(words, 11)


@pytest.mark.parametrize(
    ("middle", "expected"),
    [
        (encode(Op.SELECT, 9, 1, 3, 2), INT64_MAX),
        (encode(Op.SELECT, 9, 0, 3, 2), None),
        (encode(Op.SELECT, 9, 3, 0, 0), None),
        (encode(Op.AND, 9, 3, 1), 0),
        (encode(Op.AND, 9, 1, 3), 0),
        (encode(Op.AND, 9, 3, 0), None),
        (encode(Op.OR, 9, 3, 0), 1),
        (encode(Op.OR, 9, 0, 3), 1),
        (encode(Op.OR, 9, 1, 3), None),
        (encode(Op.MUL, 9, 3, 1), None),
        (encode(Op.MIN, 9, 3, 1), None),
        (encode(Op.SUB, 3, 2, 0) + encode(Op.ADD, 9, 3, 0), INT64_MAX),
    ],
)
def test_overflow_matters_only_where_it_is_needed(middle: list[int], expected: int | None) -> None:
    first, *rest = all_outcomes(stored(middle), [np.zeros(1)])
    assert all(o == first for o in rest)
    if expected is None:
        assert first[0] is OverflowedError
    else:
        assert first[0][2] == [expected]


def test_what_is_lost_in_one_call_is_a_number_in_the_next() -> None:
    words = encode(Op.CONST, 0, INT64_MAX) + encode(Op.ARGUMENT, 1, 0) + encode(Op.LOAD, 2, 1, 0, ELEMENT_CODE["i64"])
    words += encode(Op.ADD, 3, 0, 2) + encode(Op.CONST, 4, 1) + encode(Op.OUTPUT, 5, 0, (4,))
    words += encode(Op.STORE, 5, 0, 3, ELEMENT_CODE["i64"]) + encode(Op.RETURN)
    native = NativeExecutor(program(words, 6))
    context = native.context()
    for added, last in ((1, None), (0, INT64_MAX), (1, None), (-1, INT64_MAX - 1)):
        got = outcome(lambda added=added: native.run([np.array([added])], context))
        assert got[0] is OverflowedError if last is None else got[0][2] == [last]


def test_a_check_that_fails_may_tell_of_a_number_that_was_lost() -> None:
    n = symbol("n")
    record = CheckRecord(("n is ", n), (n,), (3,), "n")
    first, *rest = all_outcomes(replace(stored(encode(Op.CHECK, 1, 0)), checks=(record,)), [np.zeros(1)])
    assert first == (ShapeError, "n is 0") and all(o == first for o in rest)


@pytest.mark.parametrize("name", list(ELEMENT_CODE))
def test_loads_and_stores_of_every_type(name: str) -> None:
    code = ELEMENT_CODE[name]
    dtype = parse_dtype(name).numpy
    bits = 8 * ELEMENTS[code][2]
    for value in {0, 1, -1, 1 << (bits - 1), (1 << bits) - 1, -(1 << (bits - 1)), (1 << (bits - 1)) - 1}:
        if INT64_MIN <= value <= INT64_MAX:
            words = encode(Op.CONST, 0, value) + encode(Op.CONST, 1, 4) + encode(Op.OUTPUT, 2, 0, (1,))
            words += encode(Op.STORE, 2, 0, 0, 0) + encode(Op.STORE, 2, 1, 0, code) + encode(Op.RETURN)
            first, *rest = all_outcomes(program(words, 3), [np.zeros(1)])
            assert [w[0] if isinstance(w, tuple) else w[0][2][:1] for w in rest] == [
                first[0] if isinstance(first, tuple) else first[0][2][:1]
            ] * len(rest)
        array = np.array([value % (1 << bits)], f"u{bits // 8}").view(dtype if name != "bool" else np.uint8)
        words = encode(Op.ARGUMENT, 0, 0) + encode(Op.LOAD, 1, 0, 0, code) + encode(Op.CONST, 2, 1)
        words += encode(Op.OUTPUT, 3, 0, (2,)) + encode(Op.STORE, 3, 0, 1, 0) + encode(Op.RETURN)
        first, *rest = all_outcomes(program(words, 4), [array])
        assert all(o == first for o in rest)


@given(st.integers(-30, 30), st.integers(-3, 9), st.booleans())
@example(5, 0, True)
@settings(max_examples=60, deadline=None)
def test_a_loop_with_a_kernel_and_a_region_in_it(start: int, iterations: int, wild: bool) -> None:
    """r0 counts down; every turn a region of another size takes a kernel's result, which is added up."""
    start = start * 100 if wild else start
    words = (
        encode(Op.CONST, 0, iterations) + encode(Op.CONST, 1, start) + encode(Op.CONST, 2, 0) + encode(Op.CONST, 3, 1)
    )
    words += encode(Op.CONST, 4, 64)
    top = len(words)
    body = encode(Op.MUL, 6, 4, 0) + encode(Op.ADD, 6, 6, 4) + encode(Op.REGION, 7, 0, 6)
    body += encode(Op.INVOKE, 0, 7, (0, 1), (7, 7)) + encode(Op.LOAD, 8, 7, 0, 0) + encode(Op.ADD, 2, 2, 8)
    body += encode(Op.SUB, 0, 0, 3)
    test = encode(Op.GT, 5, 0, 9)
    end = top + len(test) + len(encode(Op.UNLESS, 5, 0)) + len(body) + len(encode(Op.JUMP, 0))
    words += test + encode(Op.UNLESS, 5, end) + body + encode(Op.JUMP, top)
    words += encode(Op.OUTPUT, 10, 0, (3,)) + encode(Op.STORE, 10, 0, 2, 0) + encode(Op.RETURN)
    p = program(encode(Op.CONST, 9, 0) + shifted(words, 4), 11)
    first, *rest = all_outcomes(p, [np.zeros(1)])
    assert all(o == first for o in rest)
    if iterations > 0 and start < 0 and iterations + start < 0:
        assert first == (ShapeError, "the sum is negative")


def shifted(words: list[int], by: int) -> list[int]:
    """Moves instructions `by` words on: jumps follow."""
    out: list[int] = []
    at = 0
    while at < len(words):
        instruction = words[at : at + words[at + 1]]
        if instruction[0] in (Op.JUMP, Op.UNLESS):
            instruction = [*instruction[:-1], instruction[-1] + by]
        out += instruction
        at += len(instruction)
    return out


def test_dims_copies_and_two_results() -> None:
    words = encode(Op.DIM, 0, 0, 0) + encode(Op.DIM, 1, 1, 1) + encode(Op.ARGUMENT, 2, 1) + encode(Op.CONST, 3, 8)
    words += encode(Op.MUL, 4, 1, 3) + encode(Op.OUTPUT, 5, 1, (1,)) + encode(Op.OUTPUT, 6, 0, (0, 1, 0))
    words += encode(Op.VIEW, 7, 2, 4) + encode(Op.COPY, 5, 7, 4) + encode(Op.STORE, 6, 0, 1, 0) + encode(Op.RETURN)
    arguments = [np.zeros((1, 2)), np.arange(10, dtype=np.int64).reshape(2, 5)]
    native = NativeExecutor(program(words, 8, results=2, arguments=2))
    got = native.run(arguments, native.context())
    assert got is not None
    assert got[0].shape == (1, 5, 1) and got[0].ravel()[0] == 5 and got[1].tolist() == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "words",
    [
        encode(Op.CONST, 9, 0) + encode(Op.RETURN),
        encode(Op.CONST, 0, 0),
        encode(Op.JUMP, 1) + encode(Op.RETURN),
        encode(Op.GIVE, 0, (0,)) + encode(Op.RETURN),
        encode(Op.CALL, 0, ()) + encode(Op.RETURN),
    ],
)
def test_a_table_that_refers_to_nothing_is_refused(words: list[int]) -> None:
    with pytest.raises(VerifyError):
        verify_program(program(words, 4))


@pytest.mark.parametrize("op", Op)
def test_operands_that_refer_to_nothing_are_refused(op: Op) -> None:
    p = replace(program([], 4), constants=(np.zeros(1),), returns=1)

    def verified(changed: str = "", number: int = 0) -> None:
        numbers = [number if q.name == changed else 0 for q in op.parameters]
        operands = [(n,) if q.mode is Mode.LIST else n for q, n in zip(op.parameters, numbers)]
        verify_program(replace(p, code=np.array([*encode(op, *operands), *encode(Op.RETURN)])), functions=1)

    verified()
    for q in op.parameters:
        for number in {"number": (), "axis": (-1,)}.get(q.of, (-1, 99)):
            with pytest.raises(VerifyError, match=f"{op.name} at word 0: there is no {q.of} {number}"):
                verified(q.name, number)


def test_a_region_that_cannot_grow_is_not_used_again() -> None:
    """The old memory of the region has been given back by then."""
    words = (
        encode(Op.DIM, 0, 0, 0) + encode(Op.REGION, 1, 0, 0) + encode(Op.CONST, 2, 1) + encode(Op.OUTPUT, 3, 0, (2,))
    )
    words += encode(Op.STORE, 3, 0, 1, 0) + encode(Op.RETURN)
    native = NativeExecutor(program(words, 4))
    context = native.context()
    huge = np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 55,), (0,))
    assert native.run([np.zeros(100)], context) is not None
    with pytest.raises(AnyshapeError, match="cannot allocate"):
        native.run([huge], context)
    assert context.regions[0].address == 0
    got = native.run([np.zeros(50)], context)
    assert got is not None and got[0][0] == context.regions[0].address != 0
