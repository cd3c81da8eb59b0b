"""Handlers of the loop for calls. A frame is a state of its own; the loop calls itself, no deeper than `DEEPEST`.

In: the open loop, at the block of an opcode. Out: the code of its handler. Where the loop of a frame returns, because a region must grow,
say, the loops of all frames around it return for the same reason; when the outermost one goes on, so do all others down to that frame.
"""

from __future__ import annotations

from anyshape.lower.llvm.types import I64, PTR, const
from anyshape.vm.native.frame import Frame
from anyshape.vm.native.heap import is_null
from anyshape.vm.native.layout import End, Word
from anyshape.vm.program.table import DEEPEST


def do_call(frame: Frame) -> None:
    f, state = frame.f, frame.state
    frame.look_up()
    ((names, count),) = frame.lists()
    callee = f.load(f.load(state, PTR, Word.CALLEES), PTR, frame.register("function"))
    frame.leave_if(is_null(f, callee), lambda: frame.leave(End.CALL))
    with f.if_(f.compare("eq", f.load(state, I64, Word.INSIDE), 0)):
        depth = f.load(state, I64, Word.DEPTH)
        frame.leave_if(f.compare("ge", depth, DEEPEST), lambda: frame.leave(End.DEPTH))
        f.store(f.add(depth, 1), callee, Word.DEPTH)
        f.store(const(I64, 0), callee, Word.INSIDE)
        f.store(f.load(callee, I64, Word.CODE), callee, Word.AT)
        places = f.load(callee, PTR, Word.PASS)
        with f.for_range(0, count) as each:
            word = f.load(frame.registers, I64, f.load(names, I64, each.index))
            f.store(word, callee, f.load(places, I64, each.index))
        f.store(f.convert("ptrtoint", callee, I64), state, Word.CALLED)
        f.store(const(I64, 1), state, Word.INSIDE)
    for shared in (Word.HOLD, Word.THREADS, Word.POOL):
        f.store(f.load(state, I64, shared), callee, shared)
    end = f.call("anyshape_run", I64, [callee])
    with f.if_(f.compare("ne", end, End.DONE)):
        f.store(f.convert("ptrtoint", frame.at, I64), state, Word.AT)
        f.ret(end)
    f.store(const(I64, 0), state, Word.INSIDE)


def do_give(frame: Frame) -> None:
    (words,) = frame.lists()
    frame.copy_list(*words, frame.f.gep(frame.f.load(frame.state, PTR, Word.RETURNS), frame.operand("place"), I64))


def do_taken(frame: Frame) -> None:
    f = frame.f
    callee = f.load(frame.state, PTR, Word.CALLED)
    frame.write(f.load(f.load(callee, PTR, Word.RETURNS), I64, frame.operand("place")))
