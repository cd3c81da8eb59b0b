"""Code of the result allocator: functions of the direct entry that allocate memory of results and take it back.

In: an allocator's words (`allocator.py`) and a size in bytes; the caller holds the interpreter's lock. Out: the address of so many bytes,
or null. NumPy frees and grows arrays over them by the same functions. A general allocator takes a size that it has not seen from wherever
there is room: not in the caches, perhaps not even in a page yet, after a search. This one gives the bytes freed last first, whatever the
size that is asked for.

Blocks lie side by side, each with a header; free ones are in a ring through the allocator, the one freed last in front, and are joined with
free neighbours (Knuth, The Art of Computer Programming, volume 1, section 2.5: boundary tags). A block is cut from the low end, so that
results that are dropped at once lie in the same place, one after the other.

There are two allocators: of a piece that was touched when the process began, for results below `LARGE`, and of the *store*, a range of
addresses without memory, for larger ones and for what finds no room in the first. Of what was allocated in the store, at most `KEPT` bytes
wait to be used again; what is freed beyond that goes back to the system.
"""

from __future__ import annotations

import mmap

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I8, I32, I64, PTR, VOID, Val, const, null
from anyshape.vm.native.fields import field
from anyshape.vm.native.layout import Word
from anyshape.vm.native.objects import FLAGS, HANDLER, OWNS, WRITABLE

SIZE, BEFORE, NEXT, LAST = 0, 1, 2, 3
"""Words of a block's head: bytes of the block with its head, and the flag IN_USE; bytes of the block in front of it; if it is free, its
neighbours in the ring, which are heads or the allocator."""
START, END, CAPSULE, TOP, OUT, KEEP = 0, 1, 4, 5, 6, 7
"""Words of an allocator, beside NEXT and LAST: where blocks begin and end, the capsule by which NumPy finds the functions below, the end
of what was allocated since memory was given back, the bytes in use, and those that may wait at most. The last three are the store's."""
ALLOCATOR_WORDS = 8
"""Words of an allocator; the words of the store follow those of the first one."""
IN_USE = 1
HEAD = 64
TRIES = 8
"""Free blocks that a search tries before the last block of the memory, which is the largest as a rule."""
LARGE = 1 << 20
"""Bytes from which on a result lies in the store."""
STORED = 1 << 16
"""Bytes from which on a result that finds no room in the first piece lies in the store; NumPy allocates smaller ones."""
GRAIN = 1 << 16
"""Bytes: memory goes back to the system in whole multiples of this. No system has larger pages, but those that it breaks up by itself."""
DONT_NEED = getattr(mmap, "MADV_DONTNEED", 4)
POPULATE_WRITE = 23
"""Advice to madvise(2), Linux from 5.14 on: puts memory behind addresses and leaves contents alone. Other systems refuse it."""
DOMAIN = 389047
"""Domain of NumPy's memory in tracemalloc."""
ALLOCATED = {
    "anyshape_allocate": (PTR, [("allocator", PTR), ("size", I64)]),
    "anyshape_allocate_zero": (PTR, [("allocator", PTR), ("count", I64), ("size", I64)]),
    "anyshape_reallocate": (PTR, [("allocator", PTR), ("memory", PTR), ("size", I64)]),
    "anyshape_free": (VOID, [("allocator", PTR), ("memory", PTR), ("size", I64)]),
}
"""Functions that NumPy calls for an array over the allocator's memory, in the order of `PyDataMem_Handler`."""
TOUCH, TOUCHED = "anyshape_touch", "anyshape_touched"
"""Functions for memory that is touched before it is allocated: the first touches it, without the interpreter's lock; the second puts
down how far it is touched, with the lock."""
PIECE = 1 << 21
"""Bytes that are touched at once; in between, other threads may map memory."""
NEW = [("state", PTR), ("dtype", PTR), ("rank", I64), ("dims", PTR), ("size", I64)]


def add_allocator(module: Module) -> None:
    """Defines `new_array`, TOUCH, TOUCHED, and for NumPy the functions of `ALLOCATED`."""
    module.declare("PyMem_RawMalloc", PTR, [I64])
    module.declare("PyMem_RawCalloc", PTR, [I64, I64])
    module.declare("PyMem_RawRealloc", PTR, [PTR, I64])
    module.declare("PyMem_RawFree", VOID, [PTR])
    module.declare("PyTraceMalloc_Track", I32, [I32, PTR, I64])
    module.declare("madvise", I32, [PTR, I64, I32])
    block = [("allocator", PTR), ("block", PTR)]
    module.define("take_block", PTR, [("allocator", PTR), ("size", I64)], _take)
    module.define("cut", PTR, [*block, ("wanted", I64)], _cut)
    module.define("give_back", PTR, block, _give_back)
    module.define("store_back", VOID, block, _store_back)
    written = (_allocate, _allocate_zero, _reallocate, _free)
    for (name, (result, arguments)), write in zip(ALLOCATED.items(), written, strict=True):
        module.define(name, result, arguments, write, internal=False)
    module.define(TOUCH, I64, [("begin", I64), ("pieces", I64)], _touch, internal=False)
    module.define(TOUCHED, VOID, [("allocator", PTR), ("end", I64)], _touched, internal=False)
    module.define("stored_array", PTR, NEW, _stored_array)
    module.define("new_array", PTR, NEW, _new_array)


def _address(f: FunctionBuilder, block: Val, offset: Val) -> Val:
    return f.gep(block, offset, I8)


def _is_null(f: FunctionBuilder, pointer: Val) -> Val:
    return f.compare("eq", f.convert("ptrtoint", pointer, I64), 0)


def _join(f: FunctionBuilder, one: Val, next_: Val) -> None:
    """Makes `next_` follow `one` in the ring."""
    f.store(next_, one, NEXT)
    f.store(one, next_, LAST)


def _bytes(f: FunctionBuilder, block: Val) -> Val:
    return f.and_(f.load(block, I64, SIZE), ~IN_USE)


def _is_free(f: FunctionBuilder, block: Val) -> Val:
    return f.compare("eq", f.and_(f.load(block, I64, SIZE), IN_USE), 0)


def _take(f: FunctionBuilder) -> None:
    """Returns the address of `size` bytes, at least one, or null. Nearly 2**63 bytes are, with a head, more than a signed word holds; as
    an unsigned number they are more than any block has."""
    allocator, size = f.args
    least = f.and_(f.add(size, 2 * HEAD - 1), -HEAD)
    with f.for_range(0, TRIES, carried=[f.load(allocator, PTR, NEXT)], at_least_once=True) as each:
        (block,) = each.carried
        with f.if_(f.compare("eq", f.convert("ptrtoint", block, I64), f.convert("ptrtoint", allocator, I64))):
            f.ret(null())
        with f.if_(f.compare("ge", f.load(block, I64, SIZE), least, unsigned=True)):
            f.ret(f.call("cut", PTR, [allocator, block, least]))
        each.next(f.load(block, PTR, NEXT))
    end = f.load(allocator, PTR, END)
    block = _address(f, end, f.sub(0, f.load(end, I64, BEFORE)))
    with f.if_(f.and_(_is_free(f, block), f.compare("ge", f.load(block, I64, SIZE), least, unsigned=True))):
        f.ret(f.call("cut", PTR, [allocator, block, least]))
    f.ret(null())


def _cut(f: FunctionBuilder) -> None:
    """Allocates the low end of a free block, or all of it if the rest would be a head without memory."""
    _, block, least = f.args
    size, last, next_ = f.load(block, I64, SIZE), f.load(block, PTR, LAST), f.load(block, PTR, NEXT)
    left = f.sub(size, least)
    with f.if_else(f.compare("gt", left, HEAD)) as branch:
        with branch.then():
            rest = _address(f, block, least)
            f.store(left, rest, SIZE)
            f.store(least, rest, BEFORE)
            f.store(left, _address(f, block, size), BEFORE)
            _join(f, last, rest)
            _join(f, rest, next_)
            branch.give(least)
        with branch.otherwise():
            _join(f, last, next_)
            branch.give(size)
    f.store(f.or_(branch.results[0], IN_USE), block, SIZE)
    f.ret(f.gep(block, HEAD, I8))


def _give_back(f: FunctionBuilder) -> None:
    """Frees a block and joins it with free neighbours; returns the joined block."""
    allocator, block = f.args
    size = _bytes(f, block)
    behind = _address(f, block, size)
    with f.if_else(_is_free(f, behind)) as branch:
        with branch.then():
            _join(f, f.load(behind, PTR, LAST), f.load(behind, PTR, NEXT))
            branch.give(f.add(size, f.load(behind, I64, SIZE)))
        with branch.otherwise():
            branch.give(size)
    (size,) = branch.results
    before = _address(f, block, f.sub(0, f.load(block, I64, BEFORE)))
    with f.if_else(_is_free(f, before)) as branch:
        with branch.then():
            _join(f, f.load(before, PTR, LAST), f.load(before, PTR, NEXT))
            branch.give(before, f.add(size, f.load(before, I64, SIZE)))
        with branch.otherwise():
            branch.give(block, size)
    block, size = branch.results
    f.store(size, block, SIZE)
    f.store(size, _address(f, block, size), BEFORE)
    first = f.load(allocator, PTR, NEXT)
    _join(f, allocator, block)
    _join(f, block, first)
    f.ret(block)


def _store_back(f: FunctionBuilder) -> None:
    """Frees a block of the store, and gives memory back to the system if too much waits: of the last block what lies furthest behind, of
    another one the freed block itself, since only that is known to have memory."""
    allocator, came = f.args
    size = _bytes(f, came)
    block = f.call("give_back", PTR, [allocator, came])
    out, top = f.sub(f.load(allocator, I64, OUT), size), f.load(allocator, I64, TOP)
    f.store(out, allocator, OUT)
    waiting = f.sub(f.sub(top, f.load(allocator, I64, START)), out)
    surplus = f.sub(waiting, f.load(allocator, I64, KEEP))
    with f.if_(f.compare("le", surplus, 0)):
        f.ret()
    begin, behind = (f.convert("ptrtoint", _address(f, b, const(I64, HEAD)), I64) for b in (came, block))
    is_last = f.compare("eq", _end(f, block), f.load(allocator, I64, END))
    low = f.select(is_last, f.umax(behind, f.sub(top, surplus)), begin)
    high = f.select(is_last, top, f.add(begin, f.sub(size, HEAD)))
    low, high = f.and_(f.add(low, GRAIN - 1), -GRAIN), f.and_(high, -GRAIN)
    with f.if_(f.compare("lt", low, high)):
        with f.if_(is_last):
            f.store(low, allocator, TOP)
        f.call("madvise", I32, [f.convert("inttoptr", low, PTR), f.sub(high, low), const(I32, DONT_NEED)])
    f.ret()


def _end(f: FunctionBuilder, block: Val) -> Val:
    return f.convert("ptrtoint", _address(f, block, _bytes(f, block)), I64)


def _reaches(f: FunctionBuilder, allocator: Val, end: Val) -> None:
    """Puts down that there is memory up to this address."""
    f.store(f.umax(f.load(allocator, I64, TOP), end), allocator, TOP)


def _touch(f: FunctionBuilder) -> None:
    """Has the system put memory behind addresses, piece by piece; returns how far there is memory then."""
    begin, pieces = f.args
    with f.for_range(0, pieces) as each:
        at = f.add(begin, f.mul(each.index, PIECE))
        refused = f.call(
            "madvise", I32, [f.convert("inttoptr", at, PTR), const(I64, PIECE), const(I32, POPULATE_WRITE)]
        )
        with f.if_(f.compare("ne", refused, 0)):
            f.ret(at)
    f.ret(f.add(begin, f.mul(pieces, PIECE)))


def _touched(f: FunctionBuilder) -> None:
    allocator, end = f.args
    _reaches(f, allocator, end)
    f.ret()


def _head(f: FunctionBuilder, memory: Val) -> Val:
    return f.gep(memory, -HEAD, I8)


def _is_ours(f: FunctionBuilder, allocator: Val, memory: Val) -> Val:
    at = f.convert("ptrtoint", memory, I64)
    start, end = f.load(allocator, I64, START), f.load(allocator, I64, END)
    return f.and_(f.compare("ge", at, start), f.compare("lt", at, end))


def _allocate(f: FunctionBuilder) -> None:
    f.ret(f.call("PyMem_RawMalloc", PTR, [f.arg("size")]))


def _allocate_zero(f: FunctionBuilder) -> None:
    f.ret(f.call("PyMem_RawCalloc", PTR, [f.arg("count"), f.arg("size")]))


def _reallocate(f: FunctionBuilder) -> None:
    """Moves the array of an `ndarray.resize` to the process's heap."""
    allocator, memory, size = f.args
    with f.if_(f.not_(_is_ours(f, allocator, memory))):
        f.ret(f.call("PyMem_RawRealloc", PTR, [memory, size]))
    moved = f.call("PyMem_RawMalloc", PTR, [size])
    with f.if_(_is_null(f, moved)):
        f.ret(moved)
    f.memmove(moved, memory, f.umin(size, f.sub(_bytes(f, _head(f, memory)), HEAD)))
    _take_back(f, allocator, memory)
    f.ret(moved)


def _free(f: FunctionBuilder) -> None:
    allocator, memory, _ = f.args
    with f.if_(_is_ours(f, allocator, memory)):
        _take_back(f, allocator, memory)
        f.ret()
    f.call("PyMem_RawFree", VOID, [memory])
    f.ret()


def _take_back(f: FunctionBuilder, allocator: Val, memory: Val) -> None:
    with f.if_else(f.compare("ge", f.load(allocator, I64, KEEP), 0)) as branch:
        with branch.then():
            f.call("store_back", VOID, [allocator, _head(f, memory)])
        with branch.otherwise():
            f.call("give_back", PTR, [allocator, _head(f, memory)])


def _new_array(f: FunctionBuilder) -> None:
    """Returns a new array of `size` bytes, over the allocator's memory or over NumPy's; or null, with Python's error set."""
    state, *_, size = f.args
    allocator = f.load(state, PTR, Word.ALLOCATOR)
    with f.if_(f.or_(_is_null(f, allocator), f.compare("le", size, 0))):
        f.ret(_array_over(f, null(), 0))
    with f.if_(f.compare("ge", size, LARGE)):
        f.ret(f.call("stored_array", PTR, f.args))
    memory = f.call("take_block", PTR, [allocator, size])
    with f.if_(_is_null(f, memory)):
        f.ret(f.call("stored_array", PTR, f.args))
    array = _array_over(f, memory, WRITABLE)
    with f.if_(_is_null(f, array)):
        f.call("give_back", PTR, [allocator, _head(f, memory)])
        f.ret(array)
    _hand_over(f, allocator, array, memory)
    f.ret(array)


def _stored_array(f: FunctionBuilder) -> None:
    """Returns a new array over memory of the store, or over NumPy's; or null, with Python's error set."""
    state, *_, size = f.args
    store = f.gep(f.load(state, PTR, Word.ALLOCATOR), ALLOCATOR_WORDS, I64)
    with f.if_(f.compare("lt", size, STORED)):
        f.ret(_array_over(f, null(), 0))
    memory = f.call("take_block", PTR, [store, size])
    with f.if_(_is_null(f, memory)):
        f.ret(_array_over(f, null(), 0))
    block = _head(f, memory)
    f.store(f.add(f.load(store, I64, OUT), _bytes(f, block)), store, OUT)
    _reaches(f, store, _end(f, block))
    array = _array_over(f, memory, WRITABLE)
    with f.if_(_is_null(f, array)):
        f.call("store_back", VOID, [store, block])
        f.ret(array)
    _hand_over(f, store, array, memory)
    f.ret(array)


def _hand_over(f: FunctionBuilder, allocator: Val, array: Val, memory: Val) -> None:
    """Makes the array the owner of the memory, which is given back once the last array over it is gone."""
    flags, capsule = field(f, array, FLAGS), f.load(allocator, PTR, CAPSULE)
    f.store(f.or_(f.load(flags, I32), OWNS), flags)
    f.call("Py_IncRef", VOID, [capsule])
    f.store(capsule, field(f, array, HANDLER))
    f.call("PyTraceMalloc_Track", I32, [const(I32, DOMAIN), memory, f.arg("size")])


def _array_over(f: FunctionBuilder, memory: Val, flags: int) -> Val:
    """Returns NumPy's array over the memory, or over its own memory for null. The array keeps the reference to the dtype taken here."""
    f.call("Py_IncRef", VOID, [f.arg("dtype")])
    type_, rank = f.load(f.arg("state"), PTR, Word.ARRAY_TYPE), f.convert("trunc", f.arg("rank"), I32)
    asked = [type_, f.arg("dtype"), rank, f.arg("dims"), null(), memory, const(I32, flags), null()]
    return f.call("anyshape_new_array", PTR, asked)
