"""The table: what is encoded is decoded again, damage is refused, and the text of a program is stable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import ADD, DOUBLE, FLATTEN, SHAPE_OF, STATIC_SUM, call
from hypothesis import given
from hypothesis import strategies as st

import anyshape
from anyshape.errors import VerifyError
from anyshape.vm import compile, disassemble
from anyshape.vm.program.table import FORMATS, Op, decode, encode

WORDS = st.integers(-(1 << 62), 1 << 62)


@st.composite
def instructions(draw: st.DrawFn) -> tuple[Op, tuple[Any, ...]]:
    op = draw(st.sampled_from(list(Op)))
    operands = [
        draw(WORDS) if letter != "*" else tuple(draw(st.lists(st.integers(0, 99), max_size=4)))
        for letter in FORMATS[op]
    ]
    return op, tuple(operands)


@given(st.lists(instructions(), max_size=12))
def test_what_is_encoded_is_decoded(listed: list[tuple[Op, tuple[Any, ...]]]) -> None:
    words = [w for op, operands in listed for w in encode(op, *operands)]
    assert [(op, o) for _, op, o in decode(words)] == listed


@pytest.mark.parametrize("words", [[99, 2], [int(Op.ADD), 3, 1], [int(Op.CONST), 5, 0, 1], [int(Op.CONST), 4, 0]])
def test_a_damaged_table_is_refused(words: list[int]) -> None:
    with pytest.raises(VerifyError):
        list(decode(words))


def test_every_opcode_has_a_format() -> None:
    assert set(FORMATS) == set(Op)


GOLDEN = """\
program main(x, y)
  r0 = dim x[0]
  r1 = dim x[1]
  r2 = dim y[0]
  r3 = 1
  r4 = r0 >= r3
  guard r4
  r5 = 1000
  r6 = r0 <= r5
  check r6  # n at most 1000
  r7 = 4
  r8 = r1 == r7
  check r8  # x.shape[1] == 4
  r9 = r2 == r7
  check r9  # y.shape[0] == 4
  r10 = 0
  r11 = 3
  r12 = r0 + r11
  r13 = r12 // r7
  r14 = 64
  r15 = r13 * r14
  r16 = region 0, r15
  r17 = output total: f32[r0]
  r18 = output shape: i64[r3]
  r19 = argument x
  r20 = argument y
  invoke add(r0; r19, r20, r16; scratch r10)
  invoke sum(r0; r16, r17; scratch r10)
  r21 = r0 * r7
  store i64 r18[0] = r21
  return"""


def test_disassembly() -> None:
    x, y = anyshape.input("x", "f32[n, 4]"), anyshape.input("y", "f32[4]")
    a = call(ADD, x, y)
    f = anyshape.function([x, y], {"total": call(STATIC_SUM, a, axes=(1,)), "shape": call(SHAPE_OF, call(FLATTEN, a))})
    exe = compile(f, fuse=False, dims={"n": (0, 1000)})  # too few for more than one thread
    (program,) = exe.plan.programs
    assert disassemble(program) == GOLDEN


def test_shape_arithmetic_needs_no_kernel() -> None:
    x = anyshape.input("x", "f32[n, m]")
    f = anyshape.function([x], call(ADD, call(SHAPE_OF, call(DOUBLE, x)), call(SHAPE_OF, x)))
    exe = compile(f)
    assert exe.report.kernels == 0
    np.testing.assert_array_equal(exe(np.zeros((3, 5), np.float32)), [6, 10])
