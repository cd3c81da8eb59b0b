"""State and memory that one call owns while the native loop runs it: everything that is not the program's.

In: a program's fixed tables. Out: `NativeContext`, one row of words that the loop reads and writes. Never shared by two calls at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyshape.failure_report import AREA, take
from anyshape.lower.llvm import polling
from anyshape.types import TensorType
from anyshape.vm.native.heap import HEAP_WORDS
from anyshape.vm.native.layout import RESULT_WORDS, Stop, Word
from anyshape.vm.native.objects import Methods
from anyshape.vm.program.address import address_of
from anyshape.vm.program.table import Op, Program
from anyshape.vm.run.arena import Region

Words = NDArray[np.int64]
AT, HOLD = int(Word.AT), int(Word.HOLD)
INSIDE, CALLED = int(Word.INSIDE), int(Word.CALLED)


_RESTORE = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(("PyErr_Restore", ctypes.pythonapi))


@dataclass(frozen=True, eq=False, kw_only=True)
class Tables:
    """Tables that all calls of a program share. `ranks`: how many dims of each argument are kept."""

    program: Program
    code: Words
    constants: Words
    kernels: Words
    argument_types: Words
    result_types: Words
    ranks: tuple[int, ...]
    kept: tuple[object, ...]
    """Objects whose addresses are in the tables."""
    varying: frozenset[int]
    """Regions whose size is not a number."""
    functions: Sequence[Tables]
    """Tables of the functions that the program and its functions call, by number."""


def tables_of(
    program: Program, types: Sequence[TensorType] | None, functions: Sequence[Tables] | None = None
) -> Tables:
    """Makes the tables of a program. `types` of the arguments make the direct entry possible; without them it takes no argument."""
    varying = (
        _varying(program) if functions is None else frozenset[int]()
    )  # of a function, there may be a thousand frames
    kernels = [ctypes.cast(k.entry, ctypes.c_void_p).value or 0 for k in program.kernels]
    if functions is None:
        all_tables: list[Tables] = []
        all_tables += [tables_of(f, None, all_tables) for f in program.functions]
        functions = all_tables
    constants = [address_of(c) for c in program.constants]
    dtypes = [np.dtype(t.dtype.numpy) for t in types or ()]
    argument_types = [
        w for d, t in zip(dtypes, types or ()) for w in (id(d), -1 if t.rank is None else t.rank, d.itemsize)
    ]
    results = [np.dtype(r.dtype.numpy) for r in program.results]
    overwritten = dict(reversed(program.overwrites))  # the first argument of each result
    ranks = [0] * len(program.arguments)
    for _, op, o in program.instructions():
        if op is Op.DIM and isinstance(o[1], int) and isinstance(o[2], int):
            ranks[o[1]] = max(ranks[o[1]], o[2] + 1)
    ranks = [max(rank, 0) for rank in program.passes] or ranks
    return Tables(
        program=program,
        code=_words(program.code),
        constants=_words(constants),
        kernels=_words(kernels),
        argument_types=_words(argument_types or [0, -1, 0] * len(program.arguments)),
        result_types=_words([w for k, d in enumerate(results) for w in (id(d), d.itemsize, overwritten.get(k, -1))]),
        ranks=tuple(ranks),
        kept=(*dtypes, *results),
        varying=varying,
        functions=functions,
    )


def _varying(program: Program) -> frozenset[int]:
    """The regions of which one call may need more than another."""
    instructions = [(op, o) for _, op, o in program.instructions()]
    numbers = {o[0] for op, o in instructions if op is Op.CONST}
    grown = [op.named(o) for op, o in instructions if op in (Op.REGION, Op.EXTEND)]
    return frozenset(o["region"] for o in grown if o["size"] not in numbers)


def _frame_words(program: Program) -> int:
    """The most words that the lists of an instruction have: a kernel's arguments, or the dims of a result while it is made."""
    lists = [[k for k in o if isinstance(k, tuple)] for _, _, o in program.instructions()]
    return max((sum(map(len, several)) for several in lists), default=0)


def _words(values: Sequence[int] | Words) -> Words:
    return np.ascontiguousarray(values, np.int64)


def _sizes(tables: Tables) -> dict[Word, int]:
    """Counts the words of each part of a context, in their order."""
    program = tables.program
    return {
        Word.REGISTERS: program.registers,
        Word.ARGUMENTS: 2 * len(program.arguments),
        Word.REGIONS: 2 * program.regions,
        Word.RESULTS: len(program.results),
        Word.FRAME: AREA + _frame_words(program),
        Word.LOST: program.registers,
        Word.DESTINATIONS: len(program.results),
        Word.HEAP: HEAP_WORDS,
        Word.CALLEES: len(tables.functions),
        Word.RETURNS: program.returns,
        Word.PASS: sum(1 + max(rank, 0) for rank in program.passes),
    }


class CalledByKernels(NamedTuple):
    """Addresses of functions of the loop that kernels call."""

    look: int
    share: int


class NativeContext:
    """The memory of one call. `words` begins with the state, its tables follow; `call` is the direct entry, if there is one."""

    __slots__ = (
        "__weakref__", "_begin", "_bound", "_called", "_cancels", "_cells", "_destinations", "_dims", "_path",
        "_places", "_registers", "_root", "call", "callees", "regions", "state", "tables", "words"
    )  # fmt: skip

    def __init__(self, tables: Tables, methods: Methods | None, called: CalledByKernels, root: int = 0) -> None:
        """`root`: the address of the state of the outermost call, 0 for itself."""
        program = tables.program
        self.tables, self._called, self._root = tables, called, root
        self.regions = [Region(k in tables.varying, k in program.roomy) for k in range(program.regions)]
        sizes = _sizes(tables)
        total = Word.COUNT + sum(sizes.values()) + sum(tables.ranks)
        self.words: Words = np.zeros(total, np.int64)
        self.state = address_of(self.words)
        self._places: dict[Word, int] = {}
        at = int(Word.COUNT)
        for word, size in sizes.items():
            self._places[word] = at
            self.words[word] = self.state + 8 * at
            at += size
        self.words[Word.FRAME] += 8 * AREA
        self._dims, self._destinations = at, self._places[Word.DESTINATIONS]
        self._bound, self._registers = (
            (self._places[Word.ARGUMENTS], self._places[Word.RESULTS]),
            self._places[Word.REGISTERS],
        )
        self._pass_arguments()
        self.callees: dict[int, NativeContext] = {}
        self._path: list[NativeContext] = []
        self._cells = self.words.data  # faster than the array itself, for one word
        self._begin = address_of(tables.code)
        self._point_to_tables()
        self.call: Any = None
        if methods is not None:
            self.words[Word.ALLOCATOR] = methods.allocator
            self.call = methods.function(self.words)

    def _point_to_tables(self) -> None:
        """Writes the words that stay as they are from call to call."""
        tables, words = self.tables, self.words
        fixed = {
            Word.CODE: tables.code, Word.CONSTANTS: tables.constants, Word.KERNELS: tables.kernels,
            Word.ARGUMENT_TYPES: tables.argument_types, Word.RESULT_TYPES: tables.result_types,
        }  # fmt: skip
        for word, table in fixed.items():
            words[word] = address_of(table)
        words[Word.ARGUMENT_COUNT] = len(tables.program.arguments)
        words[Word.RESULT_COUNT] = len(tables.program.results)
        words[Word.THREADS] = 1
        words[Word.CLOCK] = polling.ADDRESS
        words[Word.LOOK], words[Word.SHARE] = self._called
        words[Word.ROOT] = words[Word.ASKED] = self._root or self.state
        words[Word.CANCELS] = self.state + 8 * Word.CANCELS_SEEN
        words[self._places[Word.FRAME]] = self.state + 8 * Word.LOOK
        words[Word.ARRAY_TYPE], words[Word.NONE] = id(np.ndarray), id(None)

    def _pass_arguments(self) -> None:
        """Writes, for a function, where the words of its arguments go and where their dims are."""
        pair, dims, to = self._places[Word.ARGUMENTS], self._dims, self._places[Word.PASS]
        for rank in self.tables.program.passes:
            n = max(rank, 0)
            self.words[to : to + 1 + n] = [pair, *range(dims, dims + n)]
            self.words[pair + 1] = self.state + 8 * dims
            pair, dims, to = pair + 2, dims + n, to + 1 + n

    @property
    def innermost(self) -> NativeContext:
        """The frame that runs: of the call, or of a function that is called in it."""
        path = self._path
        while path and (path[-2] if len(path) > 1 else self).inside != path[-1].state:
            path.pop()
        last = path[-1] if path else self
        while called := last.inside:
            last = next(c for c in last.callees.values() if c.state == called)
            path.append(last)
        return last

    @property
    def inside(self) -> int:
        """The state of the call that is not over, or 0."""
        return int(self._cells[CALLED]) if self._cells[INSIDE] else 0

    def look_anew(self) -> None:
        """Forgets the path of frames that `innermost` keeps: another call begins."""
        self._path.clear()

    def add_callee(self, number: int) -> None:
        """Makes a frame for calls of a function from here; later calls use it again."""
        callee = NativeContext(self.tables.functions[number], None, self._called, int(self.words[Word.ROOT]))
        callee.words[Word.HEAP] = self.words[Word.HEAP]
        self.callees[number] = callee
        self.words[self._places[Word.CALLEES] + number] = callee.state

    def under(self, cancels: Any) -> None:
        """Takes the counter of cancellations: a call stops once the counter is another than when the call began."""
        self._cancels, self.words[Word.CANCELS] = cancels, ctypes.addressof(cancels)

    def begin(self, deadline: int) -> None:
        """Begins a call that is to stop at the deadline, in nanoseconds of the monotonic clock; 0: never."""
        counted = ctypes.c_int64.from_address(int(self.words[Word.CANCELS])).value
        for word, value in ((Word.STOP, 0), (Word.DEADLINE, deadline), (Word.CANCELS_SEEN, counted), (Word.BEGUN, 1)):
            self._cells[word] = value

    def stop(self) -> None:
        """Makes the call stop as cancelled; from any thread while the call is under way."""
        self._cells[int(Word.STOP)] = int(Stop.CANCELLED)

    def end(self) -> None:
        self._cells[int(Word.DEADLINE)] = self._cells[int(Word.BEGUN)] = 0

    def raised(self) -> None:
        """Raises what a signal's handler raised while the call ran."""
        error = [int(w) or None for w in self.words[Word.RAISED : Word.RAISED + 3]]
        self.words[Word.RAISED : Word.RAISED + 3] = 0
        _RESTORE(*error)

    @property
    def held(self) -> int:
        """The number of objects of lists that the call holds."""
        return int(self.words[self._places[Word.HEAP] + 1])

    def bind(self, arguments: Sequence[NDArray[Any]]) -> None:
        """Writes addresses and dims of the arguments; the next run of the loop begins the program."""
        cells, (pair, results) = self._cells, self._bound
        dims = self._dims
        for a, rank in zip(arguments, self.tables.ranks, strict=True):
            cells[pair], cells[pair + 1] = address_of(a), self.state + 8 * dims
            for n in a.shape[:rank]:
                cells[dims] = n
                dims += 1
            pair += 2
        cells[AT] = self._begin
        cells[HOLD] = cells[INSIDE] = 0
        self.look_anew()
        for k in range(results, results + len(self.tables.result_types) // RESULT_WORDS):
            cells[k] = 0

    def give(self, places: Sequence[Any]) -> None:
        """Writes the destinations of results, None where there is none; the direct entry checks them."""
        at = self._destinations
        for place in places:
            if place is not None:
                self._cells[at] = id(place)
            at += 1

    def take_back(self, count: int) -> None:
        """Takes all destinations out again."""
        for at in range(self._destinations, self._destinations + count):
            self._cells[at] = 0

    @property
    def at(self) -> int:
        """The word of the instruction at which the loop returned."""
        return int(self._cells[AT] - self._begin) // 8

    def register(self, number: int) -> int:
        return int(self._cells[self._registers + number])

    def failure(self) -> list[int]:
        """Reads the failure report of a kernel and clears it for the next one."""
        return take(self.words[self._places[Word.FRAME] :])

    def grow(self, number: int, size: int) -> None:
        region, pair = self._region(number)
        self.words[pair : pair + 2] = 0  # what the loop knows is given back, even if there is nothing in its place
        if size > region.capacity or not region.address:
            region.grow(size)
        self.words[pair], self.words[pair + 1] = region.address, region.capacity

    def extend(self, number: int, size: int) -> None:
        """Grows a region and keeps its contents."""
        region, pair = self._region(number)
        self.words[pair : pair + 2] = 0
        region.extend(size)
        self.words[pair], self.words[pair + 1] = region.address, region.capacity

    def _region(self, number: int) -> tuple[Region, int]:
        """The region that a number stands for now (the loop swaps regions), and the place of its address and capacity."""
        pair = self._places[Word.REGIONS] + 2 * number
        address = int(self.words[pair])
        region = self.regions[number]
        if region.address != address:
            region = next(r for r in self.regions if r.address == address)
        return region, pair

    def put_result(self, number: int, array: NDArray[Any]) -> None:
        self._cells[self._bound[1] + number] = address_of(array)

    @property
    def bytes(self) -> int:
        return sum(r.capacity for r in self.regions) + sum(c.bytes for c in self.callees.values())
