"""Shape code: what the instructions compute is what the dims say, in the table."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshape.dims import (
    Cond,
    Dim,
    and_,
    bcast,
    ceil_div,
    eq,
    evaluate,
    ge,
    lt,
    maximum,
    minimum,
    ne,
    not_,
    or_,
    select,
    symbol,
)
from anyshape.dtypes import parse_dtype
from anyshape.errors import OverflowedError
from anyshape.vm.compiling.shape_code import ShapeCode
from anyshape.vm.program.table import ELEMENT_CODE, Op, Program, ResultType, encode
from anyshape.vm.run import interpreter
from anyshape.vm.run.arena import CallMemory

N, M, K = (symbol(s, low=None) for s in "nmk")


PLAIN = [operator.add, operator.sub, operator.mul, minimum, maximum, bcast, ceil_div]


def symbolic(a: Any, b: Any) -> bool:
    return isinstance(a, Dim) or isinstance(b, Dim)


def sizes() -> st.SearchStrategy[Any]:
    leaf = st.sampled_from([N, M, K]) | st.integers(-3, 5)

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        pair = st.tuples(inner, inner)
        condition = st.sampled_from([eq, ne, lt, ge])
        truth = st.tuples(condition, pair).map(lambda t: t[0](*t[1]))
        both = st.tuples(st.sampled_from([and_, or_]), truth, truth).map(lambda t: t[0](t[1], not_(t[2])))
        quotient = pair.map(lambda t: t[0] // t[1] if symbolic(*t) or t[1] else 0)
        remainder = pair.map(lambda t: t[0] % t[1] if symbolic(*t) or t[1] else 0)
        chosen = st.tuples(truth | both, pair).map(lambda t: select(t[0], *t[1]))
        plain = st.tuples(st.sampled_from(PLAIN), pair).map(lambda t: t[0](*t[1]))
        return plain | quotient | remainder | chosen

    return st.recursive(leaf, grow, max_leaves=8)


def program(words: list[int], registers: int) -> Program:
    result = (ResultType("y", parse_dtype("i64")),)
    code = np.array(words, np.int64)
    return Program("test", code, registers, 1, results=result, arguments=("v",))


def results(p: Program, *arrays: Any) -> Any:
    """What the program gives first."""
    got = interpreter.run(p, arrays, CallMemory(1))
    assert got is not None
    return got[0].tolist()


def computing(*expressions: Any) -> Program:
    code = ShapeCode()
    address = code.new(Op.ARGUMENT, 0)
    for k, s in enumerate((N, M, K)):
        code.define(s, code.new(Op.LOAD, address, k, ELEMENT_CODE["i64"]))
    registers = [code.register(e) for e in expressions]
    out = code.new(Op.OUTPUT, 0, (code.register(len(registers)),))
    for k, r in enumerate(registers):
        code.emit(Op.STORE, out, k, r, ELEMENT_CODE["i64"])
    code.emit(Op.RETURN)
    return program(code.words, code.count)


@given(st.lists(sizes(), min_size=1, max_size=4), st.tuples(*[st.integers(-6, 9)] * 3))
def test_instructions_compute_what_dims_say(expressions: list[Any], values: tuple[int, int, int]) -> None:
    known = dict(zip((N, M, K), values))
    expected = [e if isinstance(e, int) else int(evaluate(e, known)) for e in expressions]
    assert results(computing(*expressions), np.array(values)) == expected


def test_subexpressions_are_computed_once() -> None:
    p = computing((N * M) // 3, maximum(N * M, K), (N * M) // 3 + K)
    assert sum(op is Op.MUL for _, op, _ in p.instructions()) == 1
    assert sum(op is Op.FLOORDIV for _, op, _ in p.instructions()) == 1


def test_arithmetic_is_checked() -> None:
    with pytest.raises(OverflowedError):
        results(computing(N * N * N), np.array([1 << 40, 0, 0]))


def test_jumps_make_loops() -> None:
    """y = sum of 0 … n-1, by a loop in the table."""
    code = ShapeCode()
    n = code.new(Op.LOAD, code.new(Op.ARGUMENT, 0), 0, ELEMENT_CODE["i64"])
    i, total, one = code.new(Op.CONST, 0), code.new(Op.CONST, 0), code.new(Op.CONST, 1)
    head = len(code.words)
    more = code.new(Op.LT, i, n)
    body = [*encode(Op.ADD, total, total, i), *encode(Op.ADD, i, i, one), *encode(Op.JUMP, head)]
    end = len(code.words) + len(encode(Op.UNLESS, 0, 0)) + len(body)
    code.emit(Op.UNLESS, more, end)
    code.words += body
    out = code.new(Op.OUTPUT, 0, ())
    code.emit(Op.STORE, out, 0, total, ELEMENT_CODE["i64"])
    code.emit(Op.RETURN)
    p = program(code.words, code.count)
    assert results(p, np.array([10])) == 45


def test_conditions_become_truth_values() -> None:
    c = and_(ge(N, M), ne(K, 3))
    assert isinstance(c, Cond)
    assert results(computing(select(c, 1, 0)), np.array([4, 4, 2])) == [1]
