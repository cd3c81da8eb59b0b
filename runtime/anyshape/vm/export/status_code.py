"""Status of a call, and the code that writes its text.

In: an open module. Out: functions of it that write messages. A status is `code, output, needed, length, text` (`header.py` has it in C).
A template of a message is text in which `NUMBER` and `TRUTH` stand for the next of a row of pairs: a value, and whether it was lost to an
overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum

from anyshape.dtypes import CHAR, DType
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import F32, F64, I1, I8, I32, I64, PTR, VOID, Val, const

BYTES = 512
"""Bytes of a status."""
NEEDED, LENGTH, TEXT = 1, 2, 24
"""The words of bytes that are needed and of the length of the text, and the byte at which the text begins."""
NUMBER, TRUTH = "\1", "\2"
BEYOND = "a number beyond 64 bits"


class Code(IntEnum):
    """Outcome of a call. The names are those of the header."""

    OK = 0
    SHAPE = 1
    """A size or an element is refused, as by a ShapeError."""
    OVERFLOW = 2
    """A size does not fit 64 bits."""
    ARENA = 3
    """The arena is too small, or is not at a multiple of 64 bytes: `needed` bytes are needed, at least."""
    OUTPUT = 4
    """The memory of output number `output` is too small: it needs `needed` bytes."""
    NULL = 5
    """A pointer is NULL that may not be."""
    WEIGHTS = 6
    """The weights are not those of this model."""
    TENSOR = 7
    """A tensor has another dtype, rank or layout than the model takes."""
    DEFECT = 8
    """A kernel ended in a way that it should not: a defect of anyshape."""
    PROCESSOR = 9
    """The processor lacks instructions of the code, of which there is that of several levels."""


DECLINED = -1
"""A variant of a program does not take these sizes; another one does."""


def template(text: str) -> str:
    """Text without the characters that stand for values."""
    return "".join("?" if c in "\0\1\2" else c for c in text)


class Messages:
    """The templates of one module, each defined once, and the functions that write them."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._names: dict[str, Val] = {}
        module.define("status_begin", VOID, [("status", PTR), ("code", I32)], _begin)
        module.define("status_put", VOID, [("status", PTR), ("character", I8)], _put, inline=False)
        module.define("status_say_number", VOID, [("status", PTR), ("number", I64)], _say_number, inline=False)
        module.define("status_scaled", F64, [("number", F64), ("power", I64)], _scaled, inline=False)
        digits = [("status", PTR), ("digits", I64), ("count", I64)]
        module.define("status_say_point", VOID, [*digits, ("before", I64)], _say_point, inline=False)
        module.define("status_say_digits", VOID, [*digits, ("exponent", I64)], self._say_digits, inline=False)
        module.define(
            "status_say_float", VOID, [("status", PTR), ("bits", I64), ("single", I1)], self._say_float, inline=False
        )
        module.define("status_say_character", VOID, [("status", PTR), ("character", I64)], _say_character, inline=False)
        module.define("status_say", VOID, [("status", PTR), ("text", PTR), ("values", PTR)], self._say, inline=False)

    def text(self, text: str) -> Val:
        """The address of a text, which ends with NUL."""
        if text not in self._names:
            self._names[text] = self.module.data(f"text{len(self._names)}", text.encode() + b"\0")
        return self._names[text]

    def begin(self, f: FunctionBuilder, status: Val, code: int) -> None:
        f.call("status_begin", VOID, [status, const(I32, code)])

    def say(self, f: FunctionBuilder, status: Val, text: str, values: Val | None = None) -> None:
        """Appends a text; `values`: the address of its row of pairs."""
        f.call("status_say", VOID, [status, self.text(text), status if values is None else values])

    def element(self, f: FunctionBuilder, status: Val, word: Val, dtype: DType, values: Val) -> None:
        """Appends an element as it is in a failure report: an i64, or the bits of an f64."""
        if dtype.is_float:
            single = const(I1, int(dtype.bits < F64.bits))
            f.call("status_say_float", VOID, [status, word, single])
        elif dtype is CHAR:
            f.call("status_say_character", VOID, [status, word])
        else:
            row(f, values, [(word, const(I1, 0))])
            self.say(f, status, TRUTH if dtype.is_bool else NUMBER, values)

    def _say_float(self, f: FunctionBuilder) -> None:
        """Appends a float with the fewest digits that stand for it alone, as Python and NumPy do; of an f64 of more than 15 digits, or of
        one beyond 1e-22 to 1e22, the last of 17 digits may be another one, for it is found by arithmetic on f64."""
        status, bits, single = f.args
        x = f.bitcast(bits, F64)
        nan, above, below = f.fcmp("uno", x, x), f.compare("eq", x, math.inf), f.compare("eq", x, -math.inf)
        for test, text in ((nan, "nan"), (above, "inf"), (below, "-inf")):
            with f.if_(test):
                self.say(f, status, text)
                f.ret()
        with f.if_(f.compare("eq", x, 0.0)):
            zero = f.select(f.compare("lt", bits, 0), self.text("-0.0"), self.text("0.0"))
            f.call("status_say", VOID, [status, zero, status])
            f.ret()
        with f.if_(f.compare("lt", x, 0.0)):
            f.call("status_put", VOID, [status, const(I8, ord("-"))])
        size = f.unary("fabs", x)
        exponent, digits, mantissa = f.alloca(I64, 1, 8), f.alloca(I64, 1, 8), f.alloca(I64, 1, 8)
        f.store(const(I64, 0), exponent)
        self._while(
            f, lambda: f.compare("ge", f.call("status_scaled", F64, [size, f.load(exponent, I64)]), 10.0), exponent, 1
        )
        self._while(
            f, lambda: f.compare("lt", f.call("status_scaled", F64, [size, f.load(exponent, I64)]), 1.0), exponent, -1
        )
        f.store(const(I64, 0), digits)
        most = f.select(single, const(I64, 9), const(I64, 17))
        top, again, done = f.new_block(), f.new_block(), f.new_block()
        f.jump(top)
        f.start(top)
        f.store(f.add(f.load(digits, I64), 1), digits)
        power = f.sub(f.load(exponent, I64), f.sub(f.load(digits, I64), 1))
        whole = f.unary("roundeven", f.call("status_scaled", F64, [size, power]))
        f.store(f.convert("fptosi", whole, I64), mantissa)
        back = f.call("status_scaled", F64, [whole, f.sub(const(I64, 0), power)])
        narrow = f.convert("fpext", f.convert("fptrunc", back, F32), F64)
        equal = f.compare("eq", f.select(single, narrow, back), size)
        f.branch(f.or_(equal, f.compare("ge", f.load(digits, I64), most)), done, again)
        f.start(again)
        f.jump(top)
        f.start(done)
        f.call("status_say_digits", VOID, [status, f.load(mantissa, I64), f.load(digits, I64), f.load(exponent, I64)])
        f.ret()

    @staticmethod
    def _while(f: FunctionBuilder, holds: Callable[[], Val], word: Val, step: int) -> None:
        """Adds to a word as long as a condition holds."""
        top, more, done = f.new_block(), f.new_block(), f.new_block()
        f.jump(top)
        f.start(top)
        f.branch(holds(), more, done)
        f.start(more)
        f.store(f.add(f.load(word, I64), step), word)
        f.jump(top)
        f.start(done)

    def _say_digits(self, f: FunctionBuilder) -> None:
        """Appends `1.25`, `3.0` or `1.5e-07` for digits, their number, and the power of ten of the first."""
        status, mantissa, digits, exponent = f.args
        small, large = f.compare("lt", exponent, -4), f.compare("ge", exponent, 16)
        with f.if_else(f.or_(small, large)) as form:
            with form.then():
                f.call("status_say_point", VOID, [status, mantissa, digits, const(I64, 1)])
                with f.if_else(f.compare("lt", exponent, 0)) as sign:
                    with sign.then():
                        self.say(f, status, "e-")
                    with sign.otherwise():
                        self.say(f, status, "e+")
                power = f.smax(exponent, f.sub(const(I64, 0), exponent))
                with f.if_(f.compare("lt", power, 10)):
                    self.say(f, status, "0")
                f.call("status_say_number", VOID, [status, power])
            with form.otherwise(), f.if_else(f.compare("lt", exponent, 0)) as below:
                with below.then():
                    self.say(f, status, "0.")
                    with f.for_range(f.add(exponent, 1), 0):
                        self.say(f, status, "0")
                    f.call("status_say_number", VOID, [status, mantissa])
                with below.otherwise():
                    f.call("status_say_point", VOID, [status, mantissa, digits, f.add(exponent, 1)])
                    with f.if_(f.compare("ge", f.add(exponent, 1), digits)):
                        self.say(f, status, ".0")
        f.ret()

    def _say(self, f: FunctionBuilder) -> None:
        status, text, values = f.args
        at, place = f.alloca(I64, 1, 8), f.alloca(I64, 1, 8)
        f.store(const(I64, 0), at)
        f.store(const(I64, 0), place)
        top, end = f.new_block(), f.new_block()
        value, truth, plain = f.new_block(), f.new_block(), f.new_block()
        f.jump(top)
        f.start(top)
        k = f.load(at, I64)
        character = f.load(text, I8, k)
        f.store(f.add(k, 1), at)
        f.switch(character, plain, [(0, end), (ord(NUMBER), value), (ord(TRUTH), truth)])
        f.start(value)
        pair = f.gep(values, f.load(place, I64), I64)
        f.store(f.add(f.load(place, I64), 2), place)
        with f.if_else(f.compare("ne", f.load(pair, I64, 1), 0)) as known:
            with known.then():
                self.say(f, status, BEYOND)
            with known.otherwise():
                f.call("status_say_number", VOID, [status, f.load(pair, I64)])
        f.jump(top)
        f.start(truth)
        held = f.load(f.gep(values, f.load(place, I64), I64), I64)
        f.store(f.add(f.load(place, I64), 2), place)
        spelled = f.select(f.compare("ne", held, 0), self.text("True"), self.text("False"))
        f.call("status_say", VOID, [status, spelled, status])
        f.jump(top)
        f.start(plain)
        f.call("status_put", VOID, [status, character])
        f.jump(top)
        f.start(end)
        f.ret()


def own_status(f: FunctionBuilder) -> Val:
    """The caller's status, or one of this call where it is NULL."""
    status, own = f.arg("status"), f.alloca(I64, BYTES // 8, 8)
    return f.select(f.compare("eq", f.convert("ptrtoint", status, I64), 0), own, status)


def _begin(f: FunctionBuilder) -> None:
    """Empties a status, and sets its code."""
    status, code = f.args
    f.store(code, status)
    f.store(const(I32, -1), status, 1)
    f.store(const(I64, 0), status, NEEDED)
    f.store(const(I64, 0), status, LENGTH)
    f.store(const(I8, 0), status, TEXT)
    f.ret()


def _put(f: FunctionBuilder) -> None:
    """Appends a character, if there is room."""
    status, character = f.args
    length = f.load(status, I64, LENGTH)
    with f.if_(f.compare("lt", length, BYTES - TEXT - 1)):
        to = f.gep(status, f.add(length, TEXT), I8)
        f.store(character, to)
        f.store(const(I8, 0), to, 1)
        f.store(f.add(length, 1), status, LENGTH)
    f.ret()


def _say_number(f: FunctionBuilder) -> None:
    """Appends a number in decimal digits."""
    status, number = f.args
    digits, left, count = f.alloca(I8, 24, 8), f.alloca(I64, 1, 8), f.alloca(I64, 1, 8)
    negative = f.compare("lt", number, 0)
    f.store(f.select(negative, f.sub(const(I64, 0), number), number), left)
    f.store(const(I64, 0), count)
    with f.if_(negative):
        f.call("status_put", VOID, [status, const(I8, ord("-"))])
    top, after = f.new_block(), f.new_block()
    f.jump(top)
    f.start(top)
    rest, k = f.load(left, I64), f.load(count, I64)
    digit = f.binary("urem", rest, 10)
    f.store(f.add(f.convert("trunc", digit, I8), const(I8, ord("0"))), digits, k)
    f.store(f.add(k, 1), count)
    quotient = f.binary("udiv", rest, 10)
    f.store(quotient, left)
    f.branch(f.compare("ne", quotient, 0), top, after)
    f.start(after)
    total = f.load(count, I64)
    with f.for_range(0, total) as each:
        f.call("status_put", VOID, [status, f.load(digits, I8, f.sub(f.sub(total, each.index), 1))])
    f.ret()


def _scaled(f: FunctionBuilder) -> None:
    """The number divided by a power of ten: in one step as far as that is exact, so that it is rounded once."""
    number, power = f.args
    x, left = f.alloca(F64, 1, 8), f.alloca(I64, 1, 8)
    f.store(number, x)
    f.store(f.smax(power, f.sub(const(I64, 0), power)), left)
    top, more, done = f.new_block(), f.new_block(), f.new_block()
    f.jump(top)
    f.start(top)
    f.branch(f.compare("gt", f.load(left, I64), 0), more, done)
    f.start(more)
    step = f.smin(f.load(left, I64), 22)
    with f.for_range(0, step, carried=[const(F64, 1.0)]) as each:
        each.next(f.mul(each.carried[0], 10.0))
    ten, now = each.results[0], f.load(x, F64)
    f.store(f.select(f.compare("gt", power, 0), f.fdiv(now, ten), f.mul(now, ten)), x)
    f.store(f.sub(f.load(left, I64), step), left)
    f.jump(top)
    f.start(done)
    f.ret(f.load(x, F64))


def _say_point(f: FunctionBuilder) -> None:
    """Appends digits with a point behind so many of them, if digits follow it; zeros where there are fewer."""
    status, digits, count, before = f.args
    with f.for_range(0, f.smax(count, before)) as each:
        with f.if_(f.compare("eq", each.index, before)):
            f.call("status_put", VOID, [status, const(I8, ord("."))])
        behind = f.sub(f.sub(count, 1), each.index)
        with f.for_range(0, behind, carried=[const(I64, 1)]) as power:
            power.next(f.mul(power.carried[0], 10))
        digit = f.binary("urem", f.binary("udiv", digits, power.results[0]), 10)
        present = f.select(f.compare("ge", behind, 0), digit, const(I64, 0))
        f.call("status_put", VOID, [status, f.add(f.convert("trunc", present, I8), const(I8, ord("0")))])
    f.ret()


def _say_character(f: FunctionBuilder) -> None:
    """Appends a character between quotes, in UTF-8."""
    status, character = f.args

    def put(byte: Val) -> None:
        f.call("status_put", VOID, [status, f.convert("trunc", byte, I8)])

    def part(shift: int) -> Val:
        return f.or_(f.and_(f.binary("lshr", character, shift), const(I64, 63)), const(I64, 128))

    put(const(I64, ord("'")))
    with f.if_(f.compare("lt", character, 1 << 7)):
        put(character)
    forms = ((1 << 7, 1 << 11, 0xC0, (0,)), (1 << 11, 1 << 16, 0xE0, (6, 0)), (1 << 16, 1 << 21, 0xF0, (12, 6, 0)))
    for low, high, head, shifts in forms:
        with f.if_(f.and_(f.compare("ge", character, low), f.compare("lt", character, high))):
            put(f.or_(f.binary("lshr", character, shifts[0] + 6), const(I64, head)))
            for shift in shifts:
                put(part(shift))
    put(const(I64, ord("'")))
    f.ret()


def row(f: FunctionBuilder, values: Val, pairs: Sequence[tuple[Val, Val]]) -> None:
    """Stores the pairs of a template: a value, and whether it was lost (i1)."""
    for k, (value, lost) in enumerate(pairs):
        f.store(value, values, 2 * k)
        f.store(f.convert("zext", lost, I64), values, 2 * k + 1)
