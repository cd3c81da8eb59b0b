"""The loop's handlers of scalar instructions: arithmetic that notices overflow, comparisons, choice.

In: a frame at an instruction. Out: the code of its handler. Every register has a word beside it that
says whether its value was lost to an overflow; a lost value spreads through arithmetic, but not out of a side that `select`, `and` and
`or` do not need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from anyshape.dims import INT64_MIN
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.overflow import with_overflow
from anyshape.lower.llvm.types import I1, I64, Val, const


class ScalarFrame(Protocol):
    """What the handlers need of a frame: that of the loop (`frame.py`), or of one instruction of a program that is exported."""

    @property
    def f(self) -> FunctionBuilder: ...
    def register(self, name: str) -> Val: ...
    def lost(self, name: str) -> Val: ...
    def write(self, value: Val, lost: Val | None = None) -> None: ...


Handler = Callable[[ScalarFrame], None]


def _operands(frame: ScalarFrame) -> tuple[Val, Val]:
    return frame.register("a"), frame.register("b")


def _arithmetic(name: str) -> Handler:
    return lambda frame: frame.write(*with_overflow(frame.f, name, *_operands(frame)))


def _comparison(sign: str) -> Handler:
    return lambda frame: frame.write(frame.f.convert("zext", frame.f.compare(sign, *_operands(frame)), I64))


do_add, do_sub, do_mul = map(_arithmetic, ("sadd", "ssub", "smul"))
do_eq, do_ne, do_lt, do_le, do_gt, do_ge = map(_comparison, ("eq", "ne", "lt", "le", "gt", "ge"))


def do_min(frame: ScalarFrame) -> None:
    frame.write(frame.f.smin(*_operands(frame)))


def do_max(frame: ScalarFrame) -> None:
    frame.write(frame.f.smax(*_operands(frame)))


def _division(floordiv: bool) -> Handler:
    """Floored; 0 where the divisor is 0. Divisors 0 and -1 never reach the machine's division, which would trap."""

    def division(frame: ScalarFrame) -> None:
        f = frame.f
        a, b = _operands(frame)
        zero, minus = f.compare("eq", b, 0), f.compare("eq", b, -1)
        divisor = f.select(f.or_(zero, minus), const(I64, 1), b)
        quotient = f.sdiv(a, divisor)
        rest = f.sub(a, f.mul(quotient, divisor))
        crossed = f.and_(f.compare("ne", rest, 0), f.compare("lt", f.xor(rest, divisor), 0))
        if floordiv:
            value = f.sub(quotient, f.convert("zext", crossed, I64))
            value = f.select(minus, f.neg(a), f.select(zero, const(I64, 0), value))
            frame.write(value, f.and_(minus, f.compare("eq", a, INT64_MIN)))
        else:
            value = f.select(crossed, f.add(rest, divisor), rest)
            frame.write(f.select(f.or_(zero, minus), const(I64, 0), value))

    return division


do_floordiv, do_mod = map(_division, (True, False))


def _connective(decisive: bool) -> Handler:
    """Either side alone decides `and` if it is false, `or` if it is true, whatever became of the other."""

    def connective(frame: ScalarFrame) -> None:
        f = frame.f
        a, b = (f.compare("ne", v, 0) for v in _operands(frame))
        p, q = frame.lost("a"), frame.lost("b")
        decides_a, decides_b = (a, b) if decisive else (f.not_(a), f.not_(b))
        decided = f.or_(f.and_(decides_a, f.not_(p)), f.and_(decides_b, f.not_(q)))
        value = f.select(decided, const(I1, int(decisive)), f.or_(a, b) if decisive else f.and_(a, b))
        frame.write(f.convert("zext", value, I64), f.and_(f.or_(p, q), f.not_(decided)))

    return connective


do_and, do_or = map(_connective, (False, True))


def do_not(frame: ScalarFrame) -> None:
    f = frame.f
    frame.write(f.convert("zext", f.compare("eq", frame.register("a"), 0), I64))


def do_select(frame: ScalarFrame) -> None:
    f = frame.f
    cond = f.compare("ne", frame.register("cond"), 0)
    value, lost = (f.select(cond, read("then"), read("other")) for read in (frame.register, frame.lost))
    frame.write(value, lost)
