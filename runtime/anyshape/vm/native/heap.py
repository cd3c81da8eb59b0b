"""Heap of lists and their elements in the native loop: functions that make, hold, change and free counted objects.

In: an open module. Out: functions in it, on a state and handles. An object's handle is the address behind its head; heads are linked, so
that what a call leaves behind when it fails is found. Memory comes from Python's raw allocator, which any thread may call without its lock.
A list may take all memory in small pieces, and a system gives those although it does not have them: so after so many bytes the system is
asked whether there is more.

    head, before the handle:  the object made before this, the one made after, holders, kind
    a list, at the handle:    elements, room for how many, address of their handles
    a block, at the handle:   its bytes
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I64, PTR, VOID, Val, const
from anyshape.vm.native.layout import Word
from anyshape.vm.run import available

OLDER, NEWER, HOLDERS, KIND = -4, -3, -2, -1
LENGTH, ROOM, TABLE = 0, 1, 2
NEWEST, HELD, UNASKED = 0, 1, 2
HEAP_WORDS = 3
HEAD_BYTES, LIST_BYTES = 32, 24
FIRST_ROOM = 4
MOST = 1 << 62
OVERHEAD = 64
"""Bytes that an object takes beside its contents: the head, and the allocator's own."""


class ObjectKind(IntEnum):
    BLOCK = 0
    LIST = 1


_OBJECT = [("state", PTR), ("object", PTR)]


def heap_imports() -> dict[str, int]:
    """Addresses of Python's raw allocator, and of the function that says how much memory may be taken."""
    names = ("PyMem_RawMalloc", "PyMem_RawRealloc", "PyMem_RawFree")
    own = {n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0 for n in names}
    return {**own, "anyshape_spendable": ctypes.cast(_SPENDABLE, ctypes.c_void_p).value or 0}


_SPENDABLE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda size: available.spendable(size))


def add_heap(module: Module) -> None:
    """Defines `heap_new`, `heap_release`, `heap_own`, `heap_insert`, `heap_erase`, and for Python `anyshape_forget`."""
    module.declare("PyMem_RawMalloc", PTR, [I64])
    module.declare("PyMem_RawRealloc", PTR, [PTR, I64])
    module.declare("PyMem_RawFree", VOID, [PTR])
    module.declare("anyshape_spendable", I64, [I64])
    module.define("heap_afford", I1, [("state", PTR), ("size", I64)], _afford, inline=False)
    new = [("state", PTR), ("size", I64), ("kind", I64)]
    module.define("heap_new", PTR, new, _new, inline=False)
    module.define("heap_free", VOID, _OBJECT, _free, inline=False)
    module.define("heap_release", VOID, _OBJECT, _release, inline=False)
    module.define("heap_own", PTR, _OBJECT, _own, inline=False)
    insert = [*_OBJECT, ("at", I64), ("element", I64)]
    module.define("heap_insert", I1, insert, _insert, inline=False)
    module.define("heap_erase", VOID, [*_OBJECT, ("at", I64)], _erase, inline=False)
    module.define("anyshape_forget", VOID, [("state", PTR)], _forget, internal=False)


def is_null(f: FunctionBuilder, pointer: Val) -> Val:
    return f.compare("eq", f.convert("ptrtoint", pointer, I64), 0)


def _word(f: FunctionBuilder, pointer: Val) -> Val:
    return f.convert("ptrtoint", pointer, I64)


def _pointer(f: FunctionBuilder, word: Val) -> Val:
    return f.convert("inttoptr", word, PTR)


def move(f: FunctionBuilder, to: Val, source: Val, size: Val) -> None:
    f.call_intrinsic("llvm.memmove", VOID, [to, source, size, const(I1, 0)], "p0.p0.i64")


def _afford(f: FunctionBuilder) -> None:
    """Returns whether so many bytes may be taken."""
    state, size = f.args
    heap = f.load(state, PTR, Word.HEAP)
    left = f.sub(f.load(heap, I64, UNASKED), size)
    with f.if_(f.compare("ge", left, 0)):
        f.store(left, heap, UNASKED)
        f.ret(const(I1, 1))
    granted = f.call("anyshape_spendable", I64, [size])
    f.store(f.smax(f.sub(granted, size), 0), heap, UNASKED)
    f.ret(f.compare("ne", granted, 0))


def _new(f: FunctionBuilder) -> None:
    """Makes an object that is held once and links it in front of older ones; a list is empty. Null if there is no memory."""
    state, size, kind = f.args
    with f.if_(f.compare("lt", size, 0)):
        f.ret(_pointer(f, const(I64, 0)))
    with f.if_(f.not_(f.call("heap_afford", I1, [state, f.add(f.smin(size, MOST), OVERHEAD)]))):
        f.ret(_pointer(f, const(I64, 0)))
    memory = f.call("PyMem_RawMalloc", PTR, [f.add(size, HEAD_BYTES)])
    with f.if_(is_null(f, memory)):
        f.ret(memory)
    handle = f.gep(memory, const(I64, HEAD_BYTES // 8), I64)
    heap = f.load(state, PTR, Word.HEAP)
    older = f.load(heap, I64, NEWEST)
    for value, place in ((older, OLDER), (const(I64, 0), NEWER), (const(I64, 1), HOLDERS), (kind, KIND)):
        f.store(value, handle, place)
    with f.if_(f.compare("ne", older, 0)):
        f.store(_word(f, handle), _pointer(f, older), NEWER)
    with f.if_(f.compare("ne", kind, ObjectKind.BLOCK)):
        for place in (LENGTH, ROOM, TABLE):
            f.store(const(I64, 0), handle, place)
    f.store(_word(f, handle), heap, NEWEST)
    f.store(f.add(f.load(heap, I64, HELD), 1), heap, HELD)
    f.ret(handle)


def _free(f: FunctionBuilder) -> None:
    """Frees an object's memory, but not the objects that it holds."""
    state, gone = f.args
    heap = f.load(state, PTR, Word.HEAP)
    older, newer = f.load(gone, I64, OLDER), f.load(gone, I64, NEWER)
    with f.if_(f.compare("ne", older, 0)):
        f.store(newer, _pointer(f, older), NEWER)
    with f.if_else(f.compare("ne", newer, 0)) as branch:
        with branch.then():
            f.store(older, _pointer(f, newer), OLDER)
        with branch.otherwise():
            f.store(older, heap, NEWEST)
    with f.if_(f.compare("ne", f.load(gone, I64, KIND), ObjectKind.BLOCK)):
        f.call("PyMem_RawFree", VOID, [f.load(gone, PTR, TABLE)])
    f.store(f.sub(f.load(heap, I64, HELD), 1), heap, HELD)
    f.call("PyMem_RawFree", VOID, [f.gep(gone, const(I64, -(HEAD_BYTES // 8)), I64)])
    f.ret()


def _release(f: FunctionBuilder) -> None:
    """Takes one hold off an object, and frees it after the last. The recursion is as deep as lists are nested, which types say."""
    state, object_ = f.args
    left = f.sub(f.load(object_, I64, HOLDERS), 1)
    f.store(left, object_, HOLDERS)
    with f.if_(f.compare("ne", left, 0)):
        f.ret()
    with f.if_(f.compare("ne", f.load(object_, I64, KIND), ObjectKind.BLOCK)):
        table = f.load(object_, PTR, TABLE)
        with f.for_range(0, f.load(object_, I64, LENGTH)) as each:
            f.call("heap_release", VOID, [state, f.load(table, PTR, each.index)])
    f.call("heap_free", VOID, [state, object_])
    f.ret()


def _own(f: FunctionBuilder) -> None:
    state, shared = f.args
    with f.if_(f.compare("eq", f.load(shared, I64, HOLDERS), 1)):
        f.ret(shared)
    copy = f.call("heap_new", PTR, [state, const(I64, LIST_BYTES), const(I64, ObjectKind.LIST)])
    with f.if_(is_null(f, copy)):
        f.ret(copy)
    length = f.load(shared, I64, LENGTH)
    with f.if_(f.compare("ne", length, 0)):
        size = f.shl(f.add(length, FIRST_ROOM), 3)
        table, source = f.call("PyMem_RawMalloc", PTR, [size]), f.load(shared, PTR, TABLE)
        with f.if_(is_null(f, table)):
            f.ret(table)
        f.store(_word(f, table), copy, TABLE)
        f.store(f.add(length, FIRST_ROOM), copy, ROOM)
        f.store(length, copy, LENGTH)
        move(f, table, source, f.shl(length, 3))
        with f.for_range(0, length) as each:
            element = f.load(table, PTR, each.index)
            f.store(f.add(f.load(element, I64, HOLDERS), 1), element, HOLDERS)
    f.store(f.sub(f.load(shared, I64, HOLDERS), 1), shared, HOLDERS)
    f.ret(copy)


def _insert(f: FunctionBuilder) -> None:
    """Inserts an element, with room that doubles; returns whether there was memory."""
    state, list_, at, element = f.args
    length, room = f.load(list_, I64, LENGTH), f.load(list_, I64, ROOM)
    with f.if_(f.compare("eq", length, room)):
        wider = f.add(f.shl(room, 1), FIRST_ROOM)
        with f.if_(f.not_(f.call("heap_afford", I1, [state, f.shl(wider, 3)]))):
            f.ret(const(I1, 0))
        table = f.call("PyMem_RawRealloc", PTR, [f.load(list_, PTR, TABLE), f.shl(wider, 3)])
        with f.if_(is_null(f, table)):
            f.ret(const(I1, 0))
        f.store(_word(f, table), list_, TABLE)
        f.store(wider, list_, ROOM)
    here = f.gep(f.load(list_, PTR, TABLE), at, I64)
    move(f, f.gep(here, const(I64, 1), I64), here, f.shl(f.sub(length, at), 3))
    f.store(element, here)
    f.store(f.add(length, 1), list_, LENGTH)
    f.ret(const(I1, 1))


def _erase(f: FunctionBuilder) -> None:
    state, list_, at = f.args
    left = f.sub(f.load(list_, I64, LENGTH), 1)
    here = f.gep(f.load(list_, PTR, TABLE), at, I64)
    gone = f.load(here, PTR)
    move(f, here, f.gep(here, const(I64, 1), I64), f.shl(f.sub(left, at), 3))
    f.store(left, list_, LENGTH)
    f.call("heap_release", VOID, [state, gone])
    f.ret()


def _forget(f: FunctionBuilder) -> None:
    """Frees every object of a call that ended early."""
    (state,) = f.args
    heap = f.load(state, PTR, Word.HEAP)
    with f.for_range(0, f.load(heap, I64, HELD)) as _:
        f.call("heap_free", VOID, [state, f.load(heap, PTR, NEWEST)])
    f.ret()
