"""The direct entry: a built-in function of Python, made of LLVM text, that is a whole call of an executable.

In: a target. Out: a module with `anyshape_call(self, arguments, count)`; `self` is the array that holds a state. It compares each
argument's type, dtype, rank and flags with what the program takes, points the loop to its elements and dims, runs, makes results and
has memory grow as the loop asks for that, and gives the interpreter's lock back while kernels run. It returns a list of results, or None:
then ENDED says why, and Python does the same call again, without this entry. It never raises.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I32, I64, PTR, VOID, Val, const
from anyshape.lower.target import Target
from anyshape.vm.native.allocator_code import add_allocator
from anyshape.vm.native.destination_check import DESTINATION, END, can_be_given, end_of
from anyshape.vm.native.fields import field, has, rank_of
from anyshape.vm.native.frame import HEAD
from anyshape.vm.native.layout import ARGUMENT_WORDS, RESULT_WORDS, End, Word
from anyshape.vm.native.objects import DATA, DENSE, DIMS, TYPE
from anyshape.vm.native.pool_layout import PoolWord
from anyshape.vm.native.ticker import NO_THREAD, ClockWord

_DECLARED = {
    "anyshape_run": (I64, [PTR]),
    "anyshape_wake": (VOID, [PTR]),
    "anyshape_new_array": (PTR, [PTR, PTR, I32, PTR, PTR, PTR, I32, PTR]),
    "anyshape_grow": (I64, [PTR]),
    "PyEval_SaveThread": (PTR, []),
    "PyEval_RestoreThread": (VOID, [PTR]),
    "PyList_New": (PTR, [I64]),
    "PyList_SetItem": (I32, [PTR, I64, PTR]),
    "Py_IncRef": (VOID, [PTR]),
    "Py_DecRef": (VOID, [PTR]),
    "PyErr_Clear": (VOID, []),
}
BIND = [("state", PTR), ("arguments", PTR), ("count", I64)]
CALL = [("self", PTR), ("arguments", PTR), ("count", I64)]
MAKE = [("state", PTR), ("list", PTR)]


def entry_module(target: Target) -> Module:
    """Makes the module of the direct entry, which imports `anyshape_run`."""
    module = Module(target)
    for name, (result, types) in _DECLARED.items():
        module.declare(name, result, types)
    module.define("bind", I1, BIND, _bind)
    module.define("end_of", I64, END, end_of)
    module.define("can_be_given", I1, DESTINATION, can_be_given)
    add_allocator(module)
    module.define("make_result", I1, MAKE, _make_result)
    module.define("run_unlocked", I64, [("state", PTR)], _run_unlocked)
    module.define("anyshape_call", PTR, CALL, _call, internal=False)
    return module


def _bind(f: FunctionBuilder) -> None:
    """Compares all arguments with what the program takes and writes their addresses and dims into the state; returns whether all fit."""
    state, arguments, count = f.args
    with f.if_(f.compare("ne", count, f.load(state, I64, Word.ARGUMENT_COUNT))):
        f.ret(const(I1, 0))
    array_type = f.load(state, I64, Word.ARRAY_TYPE)
    types, bound = f.load(state, PTR, Word.ARGUMENT_TYPES), f.load(state, PTR, Word.ARGUMENTS)
    with f.for_range(0, count) as each:
        item, pair = f.load(arguments, PTR, each.index), f.shl(each.index, 1)
        fit = f.gep(types, f.mul(each.index, ARGUMENT_WORDS), I64)
        with f.if_(f.compare("ne", f.load(field(f, item, TYPE), I64), array_type)):
            f.ret(const(I1, 0))
        fits = f.and_(has(f, item, fit, DENSE), f.compare("eq", rank_of(f, item), f.load(fit, I64, 1)))
        with f.if_(f.not_(fits)):
            f.ret(const(I1, 0))
        to = f.gep(bound, pair, I64)
        f.store(f.load(field(f, item, DATA), I64), to)
        f.store(f.load(field(f, item, DIMS), I64), to, 1)
    f.ret(const(I1, 1))


def _make_result(f: FunctionBuilder) -> None:
    """Makes the result that the loop returned for, or takes the caller's destination, and puts it into the list and into RESULTS; returns
    whether that succeeded."""
    state, results = f.args
    at = f.load(state, PTR, Word.AT)
    number, rank = f.load(at, I64, HEAD + 1), f.load(at, I64, HEAD + 2)
    names, registers = f.gep(at, HEAD + 3, I64), f.load(state, PTR, Word.REGISTERS)
    dims = f.load(state, PTR, Word.FRAME)
    with f.for_range(0, rank, carried=[const(I64, 1)]) as each:
        extent = f.load(registers, I64, f.load(names, I64, each.index))
        f.store(extent, dims, each.index)
        each.next(f.mul(each.carried[0], extent))
    (elements,) = each.results
    type_ = f.gep(f.load(state, PTR, Word.RESULT_TYPES), f.mul(number, RESULT_WORDS), I64)
    destination = f.load(f.load(state, PTR, Word.DESTINATIONS), PTR, number)
    with f.if_else(f.compare("ne", f.convert("ptrtoint", destination, I64), 0)) as branch:
        with branch.then():
            with f.if_(f.not_(f.call("can_be_given", I1, [state, destination, number]))):
                f.ret(const(I1, 0))
            f.call("Py_IncRef", VOID, [destination])
            branch.give(destination)
        with branch.otherwise():
            dtype = f.load(type_, PTR)
            bytes_ = f.mul(elements, f.load(type_, I64, 1))
            array = f.call("new_array", PTR, [state, dtype, rank, dims, bytes_])
            with f.if_(f.compare("eq", f.convert("ptrtoint", array, I64), 0)):
                f.call("PyErr_Clear", VOID, [])
                f.ret(const(I1, 0))
            branch.give(array)
    (array,) = branch.results
    f.call("PyList_SetItem", I32, [results, number, array])
    f.store(f.load(field(f, array, DATA), I64), f.load(state, PTR, Word.RESULTS), number)
    f.ret(const(I1, 1))


def _run_unlocked(f: FunctionBuilder) -> None:
    """Runs the loop. Kernels run without the interpreter's lock; where no kernel runs, the lock is kept."""
    (state,) = f.args
    f.store(const(I64, 1), state, Word.HOLD)
    end = f.call("anyshape_run", I64, [state])
    with f.if_(f.compare("ne", end, End.BLOCKING)):
        f.ret(end)
    f.store(const(I64, 0), state, Word.HOLD)
    thread = f.call("PyEval_SaveThread", PTR, [])
    end = f.call("anyshape_run", I64, [state])
    f.call("PyEval_RestoreThread", VOID, [thread])
    f.ret(end)


def _call(f: FunctionBuilder) -> None:
    self_, arguments, count = f.args
    state = f.load(field(f, self_, DATA), PTR)

    def give_up(end: Val) -> None:
        none = f.load(state, PTR, Word.NONE)
        f.store(end, state, Word.ENDED)
        f.call("Py_IncRef", VOID, [none])
        f.ret(none)

    with f.if_(f.not_(f.call("bind", I1, [state, arguments, count]))):
        give_up(const(I64, End.ARGUMENTS))
    threads = f.load(state, I64, Word.THREADS)
    with f.if_(f.compare("gt", threads, 1)):
        workers = f.atomic_load(f.load(state, PTR, Word.POOL), I64, PoolWord.WORKERS, order="monotonic")
        with f.if_(f.compare("lt", workers, f.sub(threads, 1))):
            give_up(const(I64, End.ARGUMENTS))  # Python starts threads
    clock = f.load(state, PTR, Word.CLOCK)
    asleep = f.atomic_load(clock, I64, ClockWord.ASLEEP)
    with f.if_(f.compare("ne", asleep, 0)):
        with f.if_(f.compare("eq", asleep, NO_THREAD)):
            give_up(const(I64, End.ARGUMENTS))  # Python starts it
        f.call("anyshape_wake", VOID, [clock])
    with f.if_(f.compare("eq", f.load(state, I64, Word.BEGUN), 0)):
        f.store(f.load(f.load(state, PTR, Word.CANCELS), I64), state, Word.CANCELS_SEEN)
        f.store(const(I64, 0), state, Word.STOP)
    f.store(f.load(state, I64, Word.CODE), state, Word.AT)
    f.store(const(I64, 0), state, Word.INSIDE)
    results = f.call("PyList_New", PTR, [f.load(state, I64, Word.RESULT_COUNT)])
    with f.if_(f.compare("eq", f.convert("ptrtoint", results, I64), 0)):
        f.call("PyErr_Clear", VOID, [])
        give_up(const(I64, End.OUTPUT))
    _run_to_end(f, state, results, give_up)


def _run_to_end(f: FunctionBuilder, state: Val, results: Val, give_up: Callable[[Val], None]) -> None:
    again, after = f.new_block(), f.new_block()
    f.jump(again)
    f.start(again)
    end = f.call("run_unlocked", I64, [state])
    with f.if_(f.compare("eq", end, End.DONE)):
        f.ret(results)
    with f.if_(f.compare("eq", end, End.OUTPUT)):
        is_put = f.call("make_result", I1, [state, results])
        f.branch(is_put, again, after)
    with f.if_(f.compare("eq", end, End.REGION)):
        grown = f.call("anyshape_grow", I64, [state])
        f.branch(f.compare("ne", grown, 0), again, after)
    f.jump(after)
    f.start(after)
    f.call("Py_DecRef", VOID, [results])
    give_up(end)
