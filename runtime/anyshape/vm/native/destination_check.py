"""Check of a destination: two functions of the direct entry that decide whether a result can be computed in the caller's array.

In: a state whose arguments are bound, with the dims of the result in the frame. Out: yes, or no: then Python raises what is wrong,
or computes elsewhere and copies. A destination must be an array of the result's dtype and dims, dense and writable, and share no memory
with an argument or with another destination; it may be the argument of the same dims that the program may overwrite with the result.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I1, I64, PTR, Val, const
from anyshape.vm.native.fields import field, has, rank_of
from anyshape.vm.native.frame import HEAD
from anyshape.vm.native.layout import ARGUMENT_WORDS, RESULT_WORDS, Word
from anyshape.vm.native.objects import DATA, DIMS, TYPE, WRITABLE

END = [("start", I64), ("dims", PTR), ("rank", I64), ("size", I64)]
DESTINATION = [("state", PTR), ("place", PTR), ("number", I64)]


def end_of(f: FunctionBuilder) -> None:
    """Returns the end address of dense elements of `size` bytes that begin at `start`."""
    start, dims, rank, size = f.args
    with f.for_range(0, rank, carried=(size,)) as each:
        each.next(f.mul(each.carried[0], f.load(dims, I64, each.index)))
    f.ret(f.add(start, each.results[0]))


def can_be_given(f: FunctionBuilder) -> None:
    state, place, number = f.args
    types, destinations = f.load(state, PTR, Word.RESULT_TYPES), f.load(state, PTR, Word.DESTINATIONS)
    type_ = f.gep(types, f.mul(number, RESULT_WORDS), I64)
    _refuse(f, f.compare("ne", f.load(field(f, place, TYPE), I64), f.load(state, I64, Word.ARRAY_TYPE)))
    _refuse(f, f.not_(has(f, place, type_, WRITABLE)))
    rank, dims = f.load(f.load(state, PTR, Word.AT), I64, HEAD + 2), f.load(state, PTR, Word.FRAME)
    _refuse(f, f.compare("ne", rank_of(f, place), rank))
    own = f.load(field(f, place, DIMS), PTR)
    with f.for_range(0, rank) as each:
        _refuse(f, f.compare("ne", f.load(own, I64, each.index), f.load(dims, I64, each.index)))
    start = f.load(field(f, place, DATA), I64)
    end = f.call("end_of", I64, [start, own, rank, f.load(type_, I64, 1)])
    _apart_from_arguments(f, state, (own, rank), (start, end), f.load(type_, I64, 2))
    with f.for_range(0, f.load(state, I64, Word.RESULT_COUNT)) as each:
        other = f.load(destinations, PTR, each.index)
        there = f.compare("ne", f.convert("ptrtoint", other, I64), 0)
        with f.if_(f.and_(there, f.compare("ne", each.index, number))):
            _refuse(f, f.compare("ne", f.load(field(f, other, TYPE), I64), f.load(state, I64, Word.ARRAY_TYPE)))
            size = f.load(f.gep(types, f.mul(each.index, RESULT_WORDS), I64), I64, 1)
            at = f.load(field(f, other, DATA), I64)
            until = f.call("end_of", I64, [at, f.load(field(f, other, DIMS), PTR), rank_of(f, other), size])
            _refuse_overlap(f, start, end, at, until)
    f.ret(const(I1, 1))


def _apart_from_arguments(
    f: FunctionBuilder, state: Val, shape: tuple[Val, Val], memory: tuple[Val, Val], overwritten: Val
) -> None:
    """Refuses memory that overlaps an argument, unless it is all of the argument `overwritten`, in the same shape (dims and rank)."""
    (dims, rank), (start, end) = shape, memory
    bound, types = f.load(state, PTR, Word.ARGUMENTS), f.load(state, PTR, Word.ARGUMENT_TYPES)
    with f.for_range(0, f.load(state, I64, Word.ARGUMENT_COUNT)) as each:
        pair, fit = f.gep(bound, f.shl(each.index, 1), I64), f.gep(types, f.mul(each.index, ARGUMENT_WORDS), I64)
        at = f.load(pair, I64)
        until = f.call("end_of", I64, [at, f.load(pair, PTR, 1), f.load(fit, I64, 1), f.load(fit, I64, 2)])
        is_whole = f.and_(f.compare("eq", start, at), f.compare("eq", end, until))
        is_own = f.and_(f.compare("eq", each.index, overwritten), f.compare("eq", f.load(fit, I64, 1), rank))
        with f.if_(f.not_(f.and_(is_whole, is_own))):
            _refuse_overlap(f, start, end, at, until)
        with f.if_(is_own), f.for_range(0, rank) as axis:
            own = f.load(f.load(pair, PTR, 1), I64, axis.index)
            _refuse(f, f.and_(is_whole, f.compare("ne", own, f.load(dims, I64, axis.index))))


def _refuse(f: FunctionBuilder, cond: Val) -> None:
    with f.if_(cond):
        f.ret(const(I1, 0))


def _refuse_overlap(f: FunctionBuilder, start: Val, end: Val, at: Val, until: Val) -> None:
    _refuse(f, f.and_(f.compare("lt", start, until), f.compare("lt", at, end)))
