"""The table: its rows are sound and each executor has a handler for each, what is encoded is decoded again, damage is refused, and the
text of a program is stable."""

from __future__ import annotations

import inspect
import string
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from handmade import ADD, DOUBLE, FLATTEN, SHAPE_OF, STATIC_SUM, call
from hypothesis import given
from hypothesis import strategies as st

import anyshape
from anyshape.errors import VerifyError
from anyshape.vm import compile, disassemble
from anyshape.vm.native.loop import HANDLERS
from anyshape.vm.program.table import Instruction, Mode, Op, Program, decode, encode, handlers
from anyshape.vm.run import interpreter
from tests.instruction_page import PAGE, written

WORDS = st.integers(-(1 << 62), 1 << 62)


@st.composite
def instructions(draw: st.DrawFn) -> tuple[Op, tuple[Any, ...]]:
    op = draw(st.sampled_from(list(Op)))
    operands = [
        draw(WORDS) if p.mode is not Mode.LIST else tuple(draw(st.lists(st.integers(0, 99), max_size=4)))
        for p in op.parameters
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


def faults(rows: Iterable[Instruction]) -> Iterator[str]:
    """What of a table would be said wrongly in code, text or page."""
    for row in rows:
        names, modes = [p.name for p in row.parameters], [p.mode for p in row.parameters]
        fields = [name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(row.text) if name]
        if set(fields) != set(names) or len(set(names)) != len(names):
            yield f"{row.name}: the text tells of {fields}, and there are {names}"
        if [n for n in names if n == "d"] != ["d"] * row.writes or Mode.WRITTEN in modes[1:]:
            yield f"{row.name}: d is what is written, and first"
        if sorted(modes, key=lambda m: m is Mode.LIST) != modes:
            yield f"{row.name}: something follows a list"
        if Mode.SPREADING in modes and not row.writes:
            yield f"{row.name}: nothing is written that could be lost"
        if not row.effect:
            yield f"{row.name}: what does it do?"


def test_rows_are_sound() -> None:
    assert list(faults(Op)) == []


class Wrong(Instruction):
    """Rows that are not."""

    DOUBLED = 1, "d= a~ a~", "twice", "{d} = {a}"
    LATE = 2, "a d=", "later"
    BEHIND = 3, "d= words* a", "behind"
    NOWHERE = 4, "a~", "lost"
    SILENT = 5, "", ""
    UNTOLD = 6, "a", "hides", "untold"


def test_rows_that_are_not_sound_are_noticed() -> None:
    assert [f.split(":")[0] for f in faults(Wrong)] == list(Wrong.__members__)
    with pytest.raises((RuntimeError, ValueError)):

        class Unreadable(Instruction):
            ODD = 7, "a?~", "odd"


def test_each_executor_has_one_handler_for_each_row() -> None:
    walked = vars(interpreter._CallFrame)
    assert set(handlers(Op, walked)) == set(HANDLERS) == set(Op)
    for rows, *rooms in (
        ([*Op, Wrong.LATE], walked), (list(Op)[1:], walked), (Op, walked, {"do_late": 0}), (Op, walked, {"do_add": 0}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="not one handler for one instruction: do_"):
            handlers(rows, *rooms)


def misnamed(rows: Iterable[Instruction], room: Any) -> list[str]:
    """Handlers of the interpreter that do not take what their rows read, by name."""
    taken = {r: [n for n in inspect.signature(getattr(room, r.handler)).parameters if n != "self"] for r in rows}
    return [r.handler for r, names in taken.items() if names != [p.name for p in r.parameters[r.writes :]]]


def test_handlers_take_what_rows_read() -> None:
    assert misnamed(Op, interpreter._CallFrame) == []

    class Other(interpreter._CallFrame):
        def do_jump(self, from_: int) -> None: ...

    assert misnamed(Op, Other) == ["do_jump"]


def test_the_page_lists_the_rows() -> None:
    page = PAGE.read_text()
    assert written(page, Op) == page, "python -m tests.instruction_page writes it"
    assert written(page, [*Op][1:]) != page


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


def test_registers_of_a_list_are_printed_one_by_one() -> None:
    code = np.array(encode(Op.CALL, 0, (1, 2)) + encode(Op.GIVE, 3, ()), np.int64)
    text = disassemble(Program("p", code, 3, 0))
    assert [line.strip() for line in text.splitlines()[1:]] == ["call r0, r1, r2", "give 3,"]


def test_shape_arithmetic_needs_no_kernel() -> None:
    x = anyshape.input("x", "f32[n, m]")
    f = anyshape.function([x], call(ADD, call(SHAPE_OF, call(DOUBLE, x)), call(SHAPE_OF, x)))
    exe = compile(f)
    assert exe.report.kernels == 0
    np.testing.assert_array_equal(exe(np.zeros((3, 5), np.float32)), [6, 10])
