"""Code of lists as arguments and results of a program.

In: the code generator, and a list's type. Out: loops in the table that read the words of `blocks.pack`, and write those of
`blocks.unpack`.
"""

from __future__ import annotations

from anyshape.dims import Dim, free_symbols, fresh
from anyshape.errors import UnsupportedError
from anyshape.types import DIFFERS, ListType, TensorType
from anyshape.vm.compiling.emission import Emission
from anyshape.vm.compiling.list_code import I64, counted, head
from anyshape.vm.compiling.shape_code import ShapeCode
from anyshape.vm.program.blocks import ALIGNMENT, BYTES, DIMS, RANK
from anyshape.vm.program.table import CheckRecord, Op


class Reader:
    """Reader of a list. `at`: a register with the address of the next word of the argument."""

    def __init__(self, g: Emission, name: str, address: int) -> None:
        self.g, self.code, self.name = g, g.code, name
        self.at = self.code.unset()
        self.code.move(self.at, address)

    def next(self, words: int) -> None:
        self.code.emit(Op.ADD, self.at, self.at, words)

    def read(self, t: ListType) -> int:
        """Emits the reading of a list; the register of its handle."""
        code = self.code
        word = code.register(8)
        handle = code.new(Op.LIST, int(isinstance(t.element, ListType)))
        count = code.new(Op.LOAD, self.at, 0, I64)
        self.next(word)
        with counted(code, count) as iteration:
            code.emit(Op.INSERT, handle, iteration, self.element(t.element))
        return handle

    def element(self, t: TensorType) -> int:
        if isinstance(t, ListType):
            return self.read(t)
        code = self.code
        size, rank = (code.new(Op.LOAD, self.at, k, I64) for k in (BYTES, RANK))
        self.check(t, rank)
        words = code.new(Op.MUL, code.new(Op.ADD, rank, code.register(DIMS)), code.register(8))
        start = head(code, t.rank, self.at)
        block = code.new(Op.BLOCK, code.new(Op.ADD, size, start))
        code.emit(Op.COPY, block, self.at, words)
        self.next(words)
        code.emit(Op.COPY, code.new(Op.VIEW, block, start), code.new(Op.LOAD, self.at, 0, I64), size)
        self.next(code.register(8))
        return block

    def check(self, t: TensorType, rank: int) -> None:
        """Emits checks of an element's dims; its rank and dtype were compared when it was packed."""
        for axis, n in enumerate(t.shape or ()):
            if n is DIFFERS:
                continue
            if not self.code.is_defined(n):
                names = ", ".join(sorted(str(s) for s in free_symbols(n)))
                raise UnsupportedError(
                    f"input {self.name}: nothing binds {names} of its elements, {t}; give each symbol a dim of a tensor that is an input, "
                    "or write ?, which differs from element to element"
                )
            got, expected = self.code.new(Op.LOAD, self.at, DIMS + axis, I64), self.code.register(n)
            size = fresh("size")
            known = f"{n} = " if isinstance(n, Dim) else ""
            value = fresh("wanted")
            parts = (f"input {self.name}: dim {axis} of an element must be {known}", value, ", got ", size)
            equation = f"dim {axis} of an element == {n}"
            self.g.checks.append(CheckRecord(parts, (size, value), (got, expected), equation))
            self.code.emit(Op.CHECK, self.code.new(Op.EQ, got, expected), len(self.g.checks) - 1)


class Writer:
    """Writer of a list that is a result: it is measured first, then copied."""

    def __init__(self, code: ShapeCode, t: ListType, handle: int) -> None:
        self.code, self.type, self.handle = code, t, handle

    def variable(self, start: int) -> int:
        register = self.code.unset()
        self.code.move(register, start)
        return register

    def write(self, first: int) -> None:
        """Emits two arrays: result `first` holds the words, the next one the elements."""
        code = self.code
        self.words, self.bytes = (self.variable(code.register(0)) for _ in range(2))
        self.measure(self.type, self.handle)
        self.to = self.variable(code.new(Op.OUTPUT, first, (self.words,)))
        self.data = self.variable(code.new(Op.OUTPUT, first + 1, (self.bytes,)))
        self.copy(self.type, self.handle)

    def measure(self, t: TensorType, handle: int) -> None:
        code = self.code
        if isinstance(t, ListType):
            code.emit(Op.ADD, self.words, self.words, code.register(1))
            with counted(code, code.new(Op.LENGTH, handle)) as iteration:
                self.measure(t.element, code.new(Op.ELEMENT, handle, iteration))
            return
        words = code.new(Op.ADD, code.new(Op.LOAD, handle, RANK, I64), code.register(DIMS))
        code.emit(Op.ADD, self.words, self.words, words)
        code.emit(Op.ADD, self.bytes, self.bytes, self.padded(handle))

    def padded(self, block: int) -> int:
        code, edge = self.code, self.code.register(ALIGNMENT)
        size = code.new(Op.ADD, code.new(Op.LOAD, block, BYTES, I64), code.register(ALIGNMENT - 1))
        return code.new(Op.MUL, code.new(Op.FLOORDIV, size, edge), edge)

    def copy(self, t: TensorType, handle: int) -> None:
        code, word = self.code, self.code.register(8)
        if isinstance(t, ListType):
            count = code.new(Op.LENGTH, handle)
            code.emit(Op.STORE, self.to, 0, count, I64)
            code.emit(Op.ADD, self.to, self.to, word)
            with counted(code, count) as iteration:
                self.copy(t.element, code.new(Op.ELEMENT, handle, iteration))
            return
        words = code.new(Op.ADD, code.new(Op.LOAD, handle, RANK, I64), code.register(DIMS))
        size = code.new(Op.MUL, words, word)
        code.emit(Op.COPY, self.to, handle, size)
        code.emit(Op.ADD, self.to, self.to, size)
        source = code.new(Op.VIEW, handle, head(code, t.rank, handle))
        code.emit(Op.COPY, self.data, source, code.new(Op.LOAD, handle, BYTES, I64))
        code.emit(Op.ADD, self.data, self.data, self.padded(handle))
