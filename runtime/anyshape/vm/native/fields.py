"""Fields of array objects, read by the text of the direct entry."""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I32, I64, PTR, Val
from anyshape.vm.native.objects import DTYPE, FLAGS, KIND, RANK


def field(f: FunctionBuilder, item: Val, offset: int) -> Val:
    """Computes the address of a field."""
    return f.gep(item, offset, I8)


def rank_of(f: FunctionBuilder, item: Val) -> Val:
    return f.convert("sext", f.load(field(f, item, RANK), I32), I64)


def has(f: FunctionBuilder, item: Val, dtype: Val, flags: int) -> Val:
    """Tests whether an array has a dtype equal to the one whose address is stored at `dtype`, and all of the flags."""
    theirs, ours = f.load(field(f, item, DTYPE), PTR), f.load(dtype, PTR)
    same = f.compare("eq", f.load(field(f, theirs, KIND), I64), f.load(field(f, ours, KIND), I64))
    return f.and_(same, f.compare("eq", f.and_(f.load(field(f, item, FLAGS), I32), flags), flags))
