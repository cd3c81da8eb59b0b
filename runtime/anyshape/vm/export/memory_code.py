"""Code of sizes in bytes, and of the caller's arena while a call uses it.

In: an open function or module. Out: code. The arena is a stack of regions; one that grows moves to its top.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dtypes import DType
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.overflow import with_overflow
from anyshape.lower.llvm.types import I1, I64, PTR, Val, const
from anyshape.vm.run.arena import ALIGNMENT

USED, BYTES, BASE, NEEDED = 0, 1, 2, 3
"""Words of the arena of a call: bytes in use, whole multiples of the alignment that it has, its address, and the bytes that it should have
had; 0 as long as it is large enough."""


def define_growth(module: Module) -> None:
    """Defines what makes a region larger: `(region, size, keeps, arena) -> whether there was room`. A region is its address and bytes."""
    arguments = [("region", PTR), ("size", I64), ("keeps", I1), ("arena", PTR)]
    module.define("region_grow", I1, arguments, _grow, inline=False)


def _grow(f: FunctionBuilder) -> None:
    """Behind what is in use, or in place if the region is the last there; larger than demanded by half, where there is room, since a loop
    may demand more in each iteration."""
    region, size, keeps, arena = f.args
    with f.if_(f.compare("ne", f.load(arena, I64, NEEDED), 0)):
        f.ret(const(I1, 0))
    address, capacity = f.load(region, I64), f.load(region, I64, 1)
    used, base = f.load(arena, I64, USED), f.load(arena, I64, BASE)
    is_last = f.compare("eq", f.add(address, capacity), f.add(base, used))
    before = f.select(is_last, f.sub(used, capacity), used)
    padded, over = aligned(f, size)
    room = f.sub(f.load(arena, I64, BYTES), before)
    with f.if_(f.or_(over, f.compare("gt", padded, room))):
        most, beyond = with_overflow(f, "sadd", before, padded)
        f.store(f.select(f.or_(over, beyond), const(I64, -1), most), arena, NEEDED)
        f.ret(const(I1, 0))
    half, _ = aligned(f, f.add(capacity, f.binary("lshr", capacity, 1)))
    taken = f.smin(f.smax(padded, half), room)
    start = f.add(base, before)
    with f.if_(f.and_(keeps, f.compare("ne", start, address))):
        f.memmove(f.convert("inttoptr", start, PTR), f.convert("inttoptr", address, PTR), capacity)
    f.store(start, region)
    f.store(taken, region, 1)
    f.store(f.add(before, taken), arena, USED)
    f.ret(const(I1, 1))


def aligned(f: FunctionBuilder, size: Val) -> tuple[Val, Val]:
    """The next multiple of the alignment, and whether it is beyond 64 bits."""
    padded, over = with_overflow(f, "sadd", size, const(I64, ALIGNMENT - 1))
    return f.and_(padded, const(I64, -ALIGNMENT)), over


def byte_count(f: FunctionBuilder, sizes: Sequence[Val], dtype: DType) -> tuple[Val, Val]:
    """The bytes of a tensor, and whether they are beyond 64 bits, or would be if the dims that are 0 were 1: as NumPy has it."""
    size, beyond = const(I64, dtype.itemsize), const(I1, 0)
    for n in sizes:
        size, over = with_overflow(f, "smul", size, f.smax(n, 1))
        beyond = f.or_(beyond, over)
    empty = const(I1, 0)
    for n in sizes:
        empty = f.or_(empty, f.compare("le", n, 0))
    return f.select(empty, const(I64, 0), size), beyond
