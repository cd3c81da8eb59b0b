"""The loop's handlers of instructions on lists. In: the open loop, at the block of an opcode. Out: the code of its handler, over `heap`."""

from __future__ import annotations

from collections.abc import Callable

from anyshape.lower.llvm.types import I1, I64, PTR, VOID, Val, const
from anyshape.vm.native.frame import Frame
from anyshape.vm.native.heap import HOLDERS, LENGTH, LIST_BYTES, TABLE, Kind, is_null, move
from anyshape.vm.native.layout import End
from anyshape.vm.program.table import Op


def _object(frame: Frame, k: int) -> Val:
    return frame.f.convert("inttoptr", frame.register(k), PTR)


def _made(frame: Frame, made: Val) -> None:
    """A handle into the first register, or the end of the turn where there was no memory."""
    frame.leave_if(is_null(frame.f, made), lambda: frame.leave(End.MEMORY))
    frame.write(frame.f.convert("ptrtoint", made, I64))


def _list(frame: Frame) -> None:
    _made(frame, frame.f.call("heap_new", PTR, [frame.state, const(I64, LIST_BYTES), const(I64, Kind.LIST)]))


def _block(frame: Frame) -> None:
    frame.liveness(1)
    _made(frame, frame.f.call("heap_new", PTR, [frame.state, frame.register(1), const(I64, Kind.BLOCK)]))


def _retain(frame: Frame) -> None:
    f, held = frame.f, _object(frame, 0)
    f.store(f.add(f.load(held, I64, HOLDERS), 1), held, HOLDERS)


def _release(frame: Frame) -> None:
    frame.f.call("heap_release", VOID, [frame.state, _object(frame, 0)])


def _own(frame: Frame) -> None:
    _made(frame, frame.f.call("heap_own", PTR, [frame.state, _object(frame, 1)]))


def _length(frame: Frame) -> None:
    frame.write(frame.f.load(_object(frame, 1), I64, LENGTH))


def _insert(frame: Frame) -> None:
    f = frame.f
    fits = f.call("heap_insert", I1, [frame.state, _object(frame, 0), frame.register(1), frame.register(2)])
    frame.leave_if(f.not_(fits), lambda: frame.leave(End.MEMORY))


def _erase(frame: Frame) -> None:
    frame.f.call("heap_erase", VOID, [frame.state, _object(frame, 0), frame.register(1)])


def _element(frame: Frame) -> None:
    frame.write(frame.f.load(frame.f.load(_object(frame, 1), PTR, TABLE), I64, frame.register(2)))


def _rows(frame: Frame) -> None:
    f = frame.f
    frame.liveness(0, 1, 2, 3, 4, 5)
    to, to_step, source, step, size = (frame.register(k) for k in range(5))
    with f.for_range(0, frame.register(5)) as each:
        there = f.convert("inttoptr", f.add(to, f.mul(each.index, to_step)), PTR)
        here = f.convert("inttoptr", f.add(source, f.mul(each.index, step)), PTR)
        move(f, there, here, size)


LIST_HANDLERS: dict[Op, Callable[[Frame], None]] = {
    Op.LIST: _list, Op.BLOCK: _block, Op.RETAIN: _retain, Op.RELEASE: _release, Op.OWN: _own, Op.LENGTH: _length, Op.INSERT: _insert,
    Op.ERASE: _erase, Op.ELEMENT: _element, Op.ROWS: _rows,
}  # fmt: skip
