"""Base addresses of tensors: operands in the caller's buffers, everything else in the scratch of the kernel or on its stack.

In: tensors, sizes. Out: base addresses, each computed once, ahead of all loops; how much scratch is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.lower.emit.values.elementwise import memory_type
from anyshape.lower.emit.values.levels import Levels
from anyshape.lower.emit.values.sizes import SizeTable
from anyshape.lower.llvm.types import I8, I64, PTR, Val


class Memory:
    """`operands` are the numbers of tensors in the table of buffers; scratch from byte `start` on is free."""

    def __init__(self, levels: Levels, sizes: SizeTable, operands: Mapping[Tensor, int], start: Size = 0) -> None:
        self._levels, self._sizes, self._operands = levels, sizes, operands
        self._offsets: dict[Tensor, Size] = {}
        self._slots: dict[Tensor, Val] = {}
        self._end: Size = start
        self._most: Size = 0
        self._padded: set[Tensor] = set()
        self._bounds: dict[Dim, Size] = {}
        self._shared: tuple[Val, Mapping[Tensor, Size]] | None = None
        """The address of the caller's scratch, and the tensors in it."""

    @property
    def bytes(self) -> Size:
        """Bytes of scratch that the kernel needs."""
        return dims.maximum(self._most, self._end)

    def of_callee(self, levels: Levels, sizes: SizeTable) -> Memory:
        """The memory of a function which the kernel calls: its scratch is behind what is taken."""
        return Memory(levels, sizes, self._operands, self._end)

    def of_step(self, levels: Levels, sizes: SizeTable, shared: Val, start: int, bounds: Mapping[Dim, Size]) -> Memory:
        """The memory of a function that has scratch of its own, and whose caller's is at `shared`."""
        memory = Memory(levels, sizes, self._operands, start)
        memory._shared, memory._padded = (shared, self._offsets), set(self._padded)
        memory._bounds = {**self._bounds, **bounds}
        return memory

    def cover(self, callee: Memory) -> None:
        """Extends the scratch to that of a function which the kernel calls."""
        self._end = dims.maximum(self._end, callee.bytes)

    def has(self, t: Tensor) -> bool:
        return t in self._offsets or t in self._operands or (self._shared is not None and t in self._shared[1])

    def is_padded(self, t: Tensor) -> bool:
        """Whether every row has room past its end: it is read in whole vectors."""
        return t in self._padded

    def base(self, t: Tensor) -> Val:
        if t in self._slots:
            return self._slots[t]
        levels, f, key = self._levels, self._levels.f, ("base", t)
        address = levels.find(key)
        if address is not None:
            return address
        offset, scratch = self._offsets.get(t), f.args[2]
        if offset is None and self._shared is not None:
            scratch, around = self._shared
            offset = around.get(t)
        if offset is None:
            with levels.at(0):
                return levels.remember(key, f.load(f.args[1], PTR, self._operands[t]))
        bytes_ = self._sizes.of(offset)
        with levels.at(0):
            return levels.remember(key, f.gep(scratch, bytes_, I8))

    def range_of(self, t: Tensor) -> tuple[Val, Val] | None:
        """The addresses at which an operand begins and ends, as integers; None for what is no operand."""
        if t not in self._operands:
            return None
        f = self._levels.f
        elements: Size = 1
        for n in t.shape:
            elements = elements * n
        bytes_ = self._sizes.of(elements * memory_type(t.dtype).bytes)
        begin = f.convert("ptrtoint", f.load(f.args[1], PTR, self._operands[t]), I64)
        return begin, f.add(begin, bytes_)

    def move(self, t: Tensor, base: Val) -> None:
        """Has a tensor begin elsewhere, at the current level and further in."""
        self._levels.remember(("base", t), base)

    def hold(self, scalars: Iterable[Tensor]) -> None:
        """Puts tensors of rank 0 on the stack, where they are zero at first, to be held in registers."""
        for t in scalars:
            self._slots[t] = self._levels.f.slot(memory_type(t.dtype))

    def bound(self, symbol: Dim, most: Size) -> None:
        """Has scratch be as large as for this value of a symbol, which is known inside of loops only."""
        self._bounds[symbol] = most

    def reserve(self, dtype: DType, elements: Size) -> Tensor:
        """Reserves scratch, 64-byte aligned, with room for a block of vectors past its end."""
        elements = dims.substitute(elements, self._bounds)
        tensor = Tensor(f"scratch{len(self._offsets)}", dtype, (elements,))
        self._offsets[tensor] = self._end
        slack = self._levels.f.target.vector_bytes * 4 + 63
        self._end = self._end + (elements * memory_type(dtype).bytes + slack) // 64 * 64
        return tensor

    def take(self, bytes_: Size) -> Val:
        """Reserves scratch that is no tensor's; returns its address."""
        bytes_ = dims.substitute(bytes_, self._bounds)
        address = self._levels.f.gep(self._levels.f.args[2], self._sizes.of(self._end), I8)
        self._end = self._end + (bytes_ + 63) // 64 * 64
        return address

    def place(self, t: Tensor, elements: Size | None = None, padded: bool = False) -> None:
        """Puts a tensor into scratch; `elements` if they are fewer than its shape has."""
        if elements is None:
            elements = 1
            for n in t.shape:
                elements = elements * n
        self._offsets[t] = self._offsets.pop(self.reserve(t.dtype, elements))
        if padded:
            self._padded.add(t)

    def overlay(self, t: Tensor, under: Tensor) -> None:
        """Puts a tensor where another one is."""
        self._offsets[t] = self._offsets[under]

    @contextmanager
    def freed(self) -> Iterator[None]:
        """Frees the scratch that the code inside takes, once it is emitted."""
        start = self._end
        yield
        self._end, self._most = start, dims.maximum(self._most, self._end)
