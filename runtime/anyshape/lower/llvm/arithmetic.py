"""The part of the builder that computes: numbers in, numbers out, nothing touches memory or the flow of control.

In: `Val`s and Python numbers (which become literals of the other operand's type). Out: new SSA values. Integer
literals are folded here, since no IR pass runs later.
"""

from __future__ import annotations

from collections.abc import Sequence

from .emitter import Emitter
from .types import I1, I32, I64, Operand, Type, Val, const, undefined

_INT_FOLD = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
_FLOAT_NAME = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
VALUE_AND_OVERFLOW = Type("{ i64, i1 }")


class Arithmetic(Emitter):
    """Operations on SSA values."""

    # operands

    def pair(self, a: Operand, b: Operand) -> tuple[Val, Val]:
        """Both operands as values of one type: a number takes the other's type, a scalar is spread over the lanes."""
        if isinstance(a, Val):
            b = b if isinstance(b, Val) else const(a.type, b)
        elif isinstance(b, Val):
            a = const(b.type, a)
        else:
            a, b = const(I64, a), const(I64, b)
        if a.type.lanes and not b.type.lanes:
            b = self.splat(b, a.type.lanes)
        elif b.type.lanes and not a.type.lanes:
            a = self.splat(a, b.type.lanes)
        if a.type != b.type:
            raise TypeError(f"operands of one type wanted, got {a} and {b}")
        return a, b

    def i64(self, value: Operand) -> Val:
        """An i64 scalar: numbers become literals, narrower integers are sign-extended."""
        if isinstance(value, Val):
            return value if value.type == I64 else self.convert("sext", value, I64)
        return const(I64, value)

    # arithmetic

    def _arith(self, op: str, a: Operand, b: Operand, flags: str) -> Val:
        x, y = self.pair(a, b)
        if x.type.is_float:
            spaced = f"{flags} " if flags else ""
            return self.emit(x.type, f"{_FLOAT_NAME[op]} {spaced}{x}, {y.name}")
        if isinstance(x.number, int) and isinstance(y.number, int):
            return const(x.type, _INT_FOLD[op](x.number, y.number))
        if op in ("add", "sub") and y.number == 0:
            return x
        if op == "add" and x.number == 0:
            return y
        if op == "mul":
            if y.number == 1 or x.number == 0:
                return x
            if x.number == 1 or y.number == 0:
                return y
        return self.emit(x.type, f"{op} {x}, {y.name}")

    def add(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("add", a, b, flags)

    def with_overflow(self, op: str, a: Operand, b: Operand) -> tuple[Val, Val]:
        """sadd uadd ssub usub smul umul of 64 bits, and whether the exact result needs more of them."""
        x, y = self.pair(a, b)
        pair = self.call_intrinsic(f"llvm.{op}.with.overflow", VALUE_AND_OVERFLOW, [x, y], "i64")
        return self.emit(I64, f"extractvalue {pair}, 0"), self.emit(I1, f"extractvalue {pair}, 1")

    def sub(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("sub", a, b, flags)

    def mul(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("mul", a, b, flags)

    def fdiv(self, a: Operand, b: Operand, flags: str = "") -> Val:
        return self._arith("div", a, b, flags)

    def neg(self, a: Val) -> Val:
        return self.emit(a.type, f"fneg {a}") if a.type.is_float else self.sub(const(a.type, 0), a)

    def binary(self, op: str, a: Operand, b: Operand) -> Val:
        """Any other two-operand instruction by name: and or xor shl lshr ashr sdiv udiv srem urem frem."""
        x, y = self.pair(a, b)
        return self.emit(x.type, f"{op} {x}, {y.name}")

    def and_(self, a: Operand, b: Operand) -> Val:
        return self.binary("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Val:
        return self.binary("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Val:
        return self.binary("xor", a, b)

    def not_(self, a: Val) -> Val:
        return self.binary("xor", a, const(a.type, 1 if a.type.element == "i1" else -1))

    def shl(self, a: Operand, b: Operand) -> Val:
        return self.binary("shl", a, b)

    def lshr(self, a: Operand, b: Operand) -> Val:
        return self.binary("lshr", a, b)

    def ashr(self, a: Operand, b: Operand) -> Val:
        return self.binary("ashr", a, b)

    def sdiv(self, a: Operand, b: Operand) -> Val:
        """Integer division toward zero; traps on /0: for divisors known to be positive (see vecmath for data)."""
        return self.binary("sdiv", a, b)

    def ceil_div(self, a: Operand, b: int) -> Val:
        """ceil(a / b) of a non-negative i64 and a positive literal."""
        x = self.add(self.i64(a), b - 1)
        if x.number is not None:
            return const(I64, int(x.number) // b)
        if b & (b - 1) == 0:
            return x if b == 1 else self.lshr(x, b.bit_length() - 1)
        return self.binary("udiv", x, b)

    def fma(self, a: Operand, b: Operand, c: Operand, exact: bool = False) -> Val:
        """a * b + c with one rounding. Where the machine has no such instruction: two, unless `exact` demands it."""
        x, y = self.pair(a, b)
        x, z = self.pair(x, c)
        if not self.target.fma and not exact:
            return self.add(self.mul(x, y), z)
        return self.call_intrinsic("llvm.fma", x.type, [x, y, z])

    def smin(self, a: Operand, b: Operand) -> Val:
        return self._int_extreme("llvm.smin", min, a, b)

    def smax(self, a: Operand, b: Operand) -> Val:
        return self._int_extreme("llvm.smax", max, a, b)

    def umin(self, a: Operand, b: Operand) -> Val:
        """The lesser of two integers without sign; no operand may be a negative literal."""
        return self._int_extreme("llvm.umin", min, a, b)

    def umax(self, a: Operand, b: Operand) -> Val:
        """The greater of two integers without sign; no operand may be a negative literal."""
        return self._int_extreme("llvm.umax", max, a, b)

    def _int_extreme(self, name: str, fold: object, a: Operand, b: Operand) -> Val:
        x, y = self.pair(a, b)
        if x.name == y.name:
            return x
        if isinstance(x.number, int) and isinstance(y.number, int):
            return x if (x.number < y.number) == (fold is min) else y
        return self.call_intrinsic(name, x.type, [x, y])

    def unary(self, name: str, a: Val) -> Val:
        """A one-operand intrinsic that the machine has: sqrt fabs floor ceil trunc roundeven."""
        return self.call_intrinsic(f"llvm.{name}", a.type, [a])

    # comparison and choice

    def compare(self, op: str, a: Operand, b: Operand, unsigned: bool = False) -> Val:
        """lt le gt ge eq ne; of floats ordered (false on NaN), except ne, which is true on NaN."""
        x, y = self.pair(a, b)
        if x.type.is_float:
            return self.emit(x.type.as_mask(), f"fcmp {_ORDERED[op]} {x}, {y.name}")
        kind = (_UNSIGNED if unsigned else _SIGNED)[op]
        return self.emit(x.type.as_mask(), f"icmp {kind} {x}, {y.name}")

    def fcmp(self, predicate: str, a: Operand, b: Operand) -> Val:
        """A float comparison by LLVM's own predicate: uno, ord, ult, ueq ..."""
        x, y = self.pair(a, b)
        return self.emit(x.type.as_mask(), f"fcmp {predicate} {x}, {y.name}")

    def select(self, cond: Val, a: Operand, b: Operand) -> Val:
        x, y = self.pair(a, b)
        if cond.type.lanes and not x.type.lanes:
            x, y = self.splat(x, cond.type.lanes), self.splat(y, cond.type.lanes)
        if x.name == y.name:
            return x
        return self.emit(x.type, f"select {cond}, {x}, {y}")

    # conversion

    def convert(self, op: str, a: Val, to: Type) -> Val:
        """sext zext trunc fpext fptrunc sitofp uitofp fptosi fptoui bitcast ptrtoint inttoptr; lanes follow `a`."""
        to = to if op == "bitcast" else to.vector(a.type.lanes)
        if a.type == to:
            return a
        if str(a.type) == str(to):
            return Val(a.name, to)
        if a.type.is_half and op == "fpext":
            real = self.emit(a.type, f"bitcast {a} to {a.type.as_float}")
            return self.emit(to, f"fpext {a.type.as_float} {real.name} to {to}")
        if to.is_half and op == "fptrunc":
            real = self.emit(to, f"fptrunc {a} to {to.as_float}")
            return self.emit(to, f"bitcast {to.as_float} {real.name} to {to}")
        return self.emit(to, f"{op} {a} to {to}")

    def bitcast(self, a: Val, to: Type) -> Val:
        return self.convert("bitcast", a, to)

    def saturate_to_int(self, a: Val, to: Type, unsigned: bool = False) -> Val:
        """Float to integer toward zero; what does not fit becomes the nearest end, NaN 0."""
        name = "llvm.fptoui.sat" if unsigned else "llvm.fptosi.sat"
        result = to.vector(a.type.lanes)
        return self.call_intrinsic(name, result, [a], overload=f"{result.suffix}.{a.type.suffix}")

    # vectors

    def splat(self, a: Operand, lanes: int, element: Type | None = None) -> Val:
        """A scalar in every lane; a number needs `element`."""
        if not isinstance(a, Val):
            if element is None:
                raise TypeError("splat of a Python number needs its element type")
            return const(element.vector(lanes), a)
        if a.type.lanes:
            return a
        if a.number is not None:
            return const(a.type.vector(lanes), a.number)
        vector = a.type.vector(lanes)
        first = self.emit(vector, f"insertelement {vector} poison, {a}, i32 0")
        return self.emit(vector, f"shufflevector {first}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def extract(self, a: Val, lane: int | Val) -> Val:
        index = lane if isinstance(lane, Val) else const(I32, lane)
        return self.emit(a.type.scalar, f"extractelement {a}, {index}")

    def insert(self, a: Val, item: Val, lane: int | Val) -> Val:
        index = lane if isinstance(lane, Val) else const(I32, lane)
        return self.emit(a.type, f"insertelement {a}, {item}, {index}")

    def shuffle(self, a: Val, b: Val | None, lanes: Sequence[int]) -> Val:
        """Lanes picked from `a` then `b` by number; -1 is a lane nobody reads."""
        other = b if b is not None else undefined(a.type)
        picked = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        return self.emit(a.type.vector(len(lanes)), f"shufflevector {a}, {other}, <{len(lanes)} x i32> <{picked}>")

    def reduce(self, kind: str, a: Val, flags: str = "", start: Operand | None = None) -> Val:
        """All lanes into one: fadd fmul (any order) add mul and or xor [su]max [su]min fmax fmin fmaximum fminimum."""
        scalar = a.type.scalar
        name = f"llvm.vector.reduce.{kind}"
        if kind in ("fadd", "fmul"):
            first = start if isinstance(start, Val) else const(scalar, -0.0 if kind == "fadd" else 1.0)
            return self.call_intrinsic(name, scalar, [first, a], overload=a.type.suffix, flags=flags or "reassoc")
        return self.call_intrinsic(name, scalar, [a], overload=a.type.suffix, flags=flags)
