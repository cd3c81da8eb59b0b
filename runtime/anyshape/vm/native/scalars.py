"""The loop's handlers of scalar instructions: arithmetic that notices overflow, comparisons, choice.

In: the open loop, at the block of an opcode. Out: the code of its handler. In the careful loop every register has a word beside it
that says whether its value was lost to an overflow; a lost value spreads through arithmetic, but not out of a side that `select`,
`and` and `or` do not need.
"""

from __future__ import annotations

from anyshape.dims import INT64_MIN
from anyshape.lower.llvm.types import I1, I64, Val, const
from anyshape.vm.native.frame import Frame
from anyshape.vm.program.table import Op

_ARITHMETIC = {Op.ADD: "sadd", Op.SUB: "ssub", Op.MUL: "smul"}
_COMPARISON = {Op.EQ: "eq", Op.NE: "ne", Op.LT: "lt", Op.LE: "le", Op.GT: "gt", Op.GE: "ge"}
FALSE = const(I1, 0)


def scalar(frame: Frame, op: Op) -> bool:
    """Emits the handler of a scalar instruction; False for any other."""
    if op in _ARITHMETIC:
        _arithmetic(frame, _ARITHMETIC[op])
    elif op in _COMPARISON:
        f = frame.f
        _strict(frame, f.convert("zext", f.compare(_COMPARISON[op], frame.register(1), frame.register(2)), I64))
    elif op in (Op.FLOORDIV, Op.MOD):
        _division(frame, op)
    elif op in (Op.MIN, Op.MAX):
        extreme = frame.f.smin if op is Op.MIN else frame.f.smax
        _strict(frame, extreme(frame.register(1), frame.register(2)))
    elif op in (Op.AND, Op.OR):
        _connective(frame, op)
    elif op is Op.NOT:
        f = frame.f
        value = f.convert("zext", f.compare("eq", frame.register(1), 0), I64)
        frame.write(value, frame.lost(1) if frame.careful else None)
    elif op is Op.SELECT:
        _select(frame)
    else:
        return False
    return True


def _strict(frame: Frame, value: Val, overflow: Val = FALSE) -> None:
    """d = value, lost if an operand is."""
    if not frame.careful:
        frame.write(value)
        return
    f = frame.f
    lost = f.or_(f.or_(frame.lost(1), frame.lost(2)), overflow)
    frame.write(f.select(lost, const(I64, 0), value), lost)


def _arithmetic(frame: Frame, name: str) -> None:
    f = frame.f
    value, overflow = f.with_overflow(name, frame.register(1), frame.register(2))
    if not frame.careful:
        frame.leave_if(overflow, frame.overflowed)
    _strict(frame, value, overflow)


def _division(frame: Frame, op: Op) -> None:
    """Floored; 0 where the divisor is 0. Divisors 0 and -1 never reach the machine's division, which would trap."""
    f = frame.f
    a, b = frame.register(1), frame.register(2)
    zero, minus = f.compare("eq", b, 0), f.compare("eq", b, -1)
    divisor = f.select(f.or_(zero, minus), const(I64, 1), b)
    quotient = f.sdiv(a, divisor)
    rest = f.sub(a, f.mul(quotient, divisor))
    crossed = f.and_(f.compare("ne", rest, 0), f.compare("lt", f.xor(rest, divisor), 0))
    if op is Op.MOD:
        value = f.select(crossed, f.add(rest, divisor), rest)
        _strict(frame, f.select(f.or_(zero, minus), const(I64, 0), value))
        return
    value = f.sub(quotient, f.convert("zext", crossed, I64))
    value = f.select(minus, f.neg(a), f.select(zero, const(I64, 0), value))
    overflow = f.and_(minus, f.compare("eq", a, INT64_MIN))
    if not frame.careful:
        frame.leave_if(overflow, frame.overflowed)
    _strict(frame, value, overflow)


def _connective(frame: Frame, op: Op) -> None:
    """Either side alone decides `and` if it is false, `or` if it is true, whatever became of the other."""
    f = frame.f
    a, b = (f.compare("ne", frame.register(k), 0) for k in (1, 2))
    value = f.and_(a, b) if op is Op.AND else f.or_(a, b)
    if not frame.careful:
        frame.write(f.convert("zext", value, I64))
        return
    p, q = frame.lost(1), frame.lost(2)
    decides_a, decides_b = (f.not_(a), f.not_(b)) if op is Op.AND else (a, b)
    decided = f.or_(f.and_(decides_a, f.not_(p)), f.and_(decides_b, f.not_(q)))
    lost = f.and_(f.or_(p, q), f.not_(decided))
    value = f.select(decided, const(I1, 1 if op is Op.OR else 0), value)
    frame.write(f.select(lost, const(I64, 0), f.convert("zext", value, I64)), lost)


def _select(frame: Frame) -> None:
    f = frame.f
    cond = f.compare("ne", frame.register(1), 0)
    value = f.select(cond, frame.register(2), frame.register(3))
    if not frame.careful:
        frame.write(value)
        return
    lost = f.or_(frame.lost(1), f.select(cond, frame.lost(2), frame.lost(3)))
    frame.write(f.select(lost, const(I64, 0), value), lost)
