"""What allocates memory to results, as tests read it, and a model whose results are of any size."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np

import anyshape
from anyshape import ops
from anyshape.vm import Executable, compile
from anyshape.vm.native.allocator_code import BEFORE, END, HEAD, IN_USE, NEXT, OUT, SIZE, START, TOP


class ResultAllocator:
    """The words of an allocator, read."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.start, self.end = word(address, START), word(address, END)

    def has(self, array: np.ndarray[Any, Any]) -> bool:
        return bool(self.start <= array.ctypes.data < self.end)

    def blocks(self) -> list[tuple[int, bool]]:
        """Bytes and whether they are allocated, from the low end on; the heads and the ring say the same."""
        blocks, at, before = [], self.start, 0
        free = set()
        while at <= self.end:
            size = word(at, SIZE)
            assert word(at, BEFORE) == before
            blocks.append((size & ~IN_USE, bool(size & IN_USE)))
            if not size & IN_USE:
                free.add(at)
            before = size & ~IN_USE
            at += before
        assert at == self.end + HEAD
        at, ring = word(self.address, NEXT), set()
        while at != self.address:
            ring.add(at)
            at = word(at, NEXT)
        assert ring == free
        assert all(one[1] or other[1] for one, other in pairwise(blocks)), "free neighbours are joined"
        return blocks[1:-1]

    def out(self) -> int:
        """Bytes that are allocated, as its words say."""
        return word(self.address, OUT)

    def waiting(self) -> int:
        """Bytes below the end of what was allocated or touched that are not allocated, the first head among them."""
        return word(self.address, TOP) - self.start - self.out()

    def is_whole(self) -> bool:
        """Whether nobody has anything."""
        return self.blocks() == [(self.end - self.start - HEAD, False)]


def word(at: int, place: int) -> int:
    return ctypes.c_int64.from_address(at + 8 * place).value


def doubling() -> Executable:
    """Warm: the first call may have memory to grow, or threads to start, and goes another way."""
    x = anyshape.input("x", "f32[n]")
    exe = compile(anyshape.function([x], ops.add(x, x)), threads=1)
    exe(ones(1))
    return exe


def ones(n: int) -> np.ndarray[Any, Any]:
    return np.ones(n, np.float32)
