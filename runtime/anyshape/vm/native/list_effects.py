"""Handlers of the loop for instructions on lists.

In: the open loop, at the block of an opcode. Out: the code of its handler, over `heap`.
"""

from __future__ import annotations

from anyshape.lower.llvm.types import I1, I64, PTR, VOID, Val, const
from anyshape.vm.native.frame import Frame
from anyshape.vm.native.heap import HOLDERS, LENGTH, LIST_BYTES, TABLE, ObjectKind, is_null, move
from anyshape.vm.native.layout import End


def _write_handle(frame: Frame, handle: Val) -> None:
    """Writes a handle into the first register; where it is null, there was no memory, and the loop returns."""
    frame.leave_if(is_null(frame.f, handle), lambda: frame.leave(End.MEMORY))
    frame.write(frame.f.convert("ptrtoint", handle, I64))


def do_list(frame: Frame) -> None:
    _write_handle(
        frame, frame.f.call("heap_new", PTR, [frame.state, const(I64, LIST_BYTES), const(I64, ObjectKind.LIST)])
    )


def do_block(frame: Frame) -> None:
    _write_handle(
        frame, frame.f.call("heap_new", PTR, [frame.state, frame.register("size"), const(I64, ObjectKind.BLOCK)])
    )


def do_retain(frame: Frame) -> None:
    f, held = frame.f, frame.address("handle")
    f.store(f.add(f.load(held, I64, HOLDERS), 1), held, HOLDERS)


def do_release(frame: Frame) -> None:
    frame.f.call("heap_release", VOID, [frame.state, frame.address("handle")])


def do_own(frame: Frame) -> None:
    _write_handle(frame, frame.f.call("heap_own", PTR, [frame.state, frame.address("handle")]))


def do_length(frame: Frame) -> None:
    frame.write(frame.f.load(frame.address("handle"), I64, LENGTH))


def do_insert(frame: Frame) -> None:
    f = frame.f
    fits = f.call(
        "heap_insert", I1, [frame.state, frame.address("handle"), frame.register("position"), frame.register("element")]
    )
    frame.leave_if(f.not_(fits), lambda: frame.leave(End.MEMORY))


def do_erase(frame: Frame) -> None:
    frame.f.call("heap_erase", VOID, [frame.state, frame.address("handle"), frame.register("position")])


def do_element(frame: Frame) -> None:
    frame.write(frame.f.load(frame.f.load(frame.address("handle"), PTR, TABLE), I64, frame.register("position")))


def do_rows(frame: Frame) -> None:
    f = frame.f
    to, to_step, source, step, size = map(frame.register, ("to", "to_step", "address", "step", "size"))
    with f.for_range(0, frame.register("count")) as each:
        there = f.convert("inttoptr", f.add(to, f.mul(each.index, to_step)), PTR)
        here = f.convert("inttoptr", f.add(source, f.mul(each.index, step)), PTR)
        move(f, there, here, size)
