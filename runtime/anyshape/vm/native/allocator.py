"""The result allocator of a process: two pieces of memory, their words, and what NumPy finds the functions of `allocator_code.py` by.

In: the addresses of those functions. Out: the address of an allocator, or 0 where there is no memory for one; its store is the other. All
of it stays as long as the process lives, since arrays may be freed after everything else; so does the code of the functions: none is
unloaded once the interpreter ends.
"""

from __future__ import annotations

import ctypes
import mmap
import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from anyshape.vm.native.allocator_code import (
    ALLOCATED,
    ALLOCATOR_WORDS,
    BEFORE,
    CAPSULE,
    END,
    HEAD,
    IN_USE,
    KEEP,
    LAST,
    NEXT,
    OUT,
    SIZE,
    START,
    TOP,
)
from anyshape.vm.run.arena import NEAR, bring_near
from anyshape.vm.run.policies import Policy, in_use

BYTES = 1 << 21
"""Bytes of the first piece: one huge page, where the system has huge pages."""
STORE = 1 << 30
"""Bytes of addresses that the store has; memory is behind those where something was allocated. NumPy allocates what finds no room."""
ALLOWED = 8
"""Factor: a process has a store if it may have so many times as many addresses."""
KEPT = 1 << 28
"""Bytes of the store that wait, at most, to be allocated again."""
_PAGE = 1 << 12
_NOT_RESERVED = 0x4000 if sys.platform == "linux" else 0
"""MAP_NORESERVE, which `mmap` does not name: addresses that nobody uses count as no memory, or a fork may be refused for want of it."""
_CAPSULE = b"mem_handler"
"""Name of the capsule, by which NumPy finds the handler in it."""


class DataMemHandler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ALLOCATED),
    )


def new_allocator(address: Callable[[str], int]) -> int:
    """The address of a new allocator, or 0. `address` gives that of a function by its name. The first piece is touched here, so that no
    call waits for its pages."""
    if not in_use(Policy.ALLOCATOR):
        return 0
    try:
        memory = mmap.mmap(-1, 2 * BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return 0
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system may be built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    mapped = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = mapped + -mapped % BYTES
    for at in range(start - mapped, start - mapped + BYTES, _PAGE):
        memory[at] = 0
    words = (ctypes.c_int64 * (2 * ALLOCATOR_WORDS))()
    allocator = ctypes.addressof(words)
    store = allocator + 8 * ALLOCATOR_WORDS
    functions = [address(name) for name in ALLOCATED]
    _begin(allocator, start, start + BYTES - HEAD, -1)
    kept = [memory, words, _handled(allocator, functions)]
    _put(store, {NEXT: store, LAST: store})
    if (addresses := _addresses()) is not None:
        start = ctypes.addressof(ctypes.c_char.from_buffer(addresses))
        _begin(store, start, start + STORE - HEAD, KEPT)
        kept += [addresses, _handled(store, functions)]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return allocator


def _addresses() -> mmap.mmap | None:
    """The addresses of the store; None where a process has few: then NumPy allocates large results."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if not in_use(Policy.STORE) or (limit != resource.RLIM_INFINITY and limit < ALLOWED * STORE):
        return None
    with suppress(OSError, ValueError):
        return mmap.mmap(-1, STORE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NOT_RESERVED)
    return None


def results_near(allocator: int) -> None:
    """Reads the low end of the allocator's memory, where allocation begins (`arena.NEAR`)."""
    if allocator:
        bring_near(ctypes.c_int64.from_address(allocator + 8 * START).value, NEAR)


def store_of(allocator: int) -> int:
    """The address of the store's allocator; 0 if there is none."""
    return allocator and allocator + 8 * ALLOCATOR_WORDS


def _handled(allocator: int, functions: Sequence[int]) -> object:
    """Makes the handler by which NumPy finds the functions, with this allocator for their context. The result must be kept alive."""
    handler = DataMemHandler(b"anyshape", 1, allocator, *functions)
    capsule = _new_capsule(ctypes.addressof(handler), _CAPSULE, None)
    _put(allocator, {CAPSULE: id(capsule)})
    return handler, capsule


def _begin(allocator: int, start: int, end: int, keep: int) -> None:
    """Makes one free block between two that are allocated for good, so that no block has to be joined with what lies beyond them."""
    first = start + HEAD
    _put(start, {SIZE: HEAD | IN_USE})
    _put(first, {SIZE: end - first, BEFORE: HEAD, NEXT: allocator, LAST: allocator})
    _put(end, {SIZE: HEAD | IN_USE, BEFORE: end - first})
    _put(allocator, {START: start, END: end, NEXT: first, LAST: first, TOP: first, OUT: 0, KEEP: keep})


def _put(at: int, words: dict[int, int]) -> None:
    for place, value in words.items():
        ctypes.c_int64.from_address(at + 8 * place).value = value


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
