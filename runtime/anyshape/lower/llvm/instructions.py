"""LLVM's instructions as text in basic blocks: memory, arithmetic, comparison, conversion, lanes of vectors, calls.

In: typed operands. Out: the blocks of one function, whose control flow is `builder.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from ..target import Target
from .types import I1, I8, I32, I64, PTR, VOID, Type, Val, ValLike, const, const_vector, undefined

Declare = Callable[[str, Type, Sequence[Type]], None]


class BasicBlock:
    """A basic block: its label and lines; phis are kept apart because a loop's are known only at its end."""

    __slots__ = ("label", "lines", "phis", "terminated")

    def __init__(self, label: str) -> None:
        self.label = label
        self.phis: list[str] = []
        self.lines: list[str] = []
        self.terminated = False


_INT_FOLD = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
_FLOAT_NAME = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


_OfTwo = Callable[["InstructionBuilder", ValLike, ValLike], Val]


def _instruction(op: str) -> _OfTwo:
    return lambda self, a, b: self.binary(op, a, b)


def _extreme(op: str) -> _OfTwo:
    return lambda self, a, b: self.int_extreme(op, a, b)


class InstructionBuilder:
    """Appends instructions to the current block, `block`, and returns their results."""

    def __init__(self, target: Target, name: str, declare_intrinsic: Declare) -> None:
        self.target = target
        self.name = name
        self.blocks: list[BasicBlock] = []
        self._declare_intrinsic = declare_intrinsic
        self._count = 0
        self.start(BasicBlock("entry"))

    def start(self, block: BasicBlock) -> None:
        """Go on emitting in `block`, which becomes the next one of the text."""
        self.blocks.append(block)
        self.block = block

    def resume(self, block: BasicBlock) -> None:
        """Go on emitting in a block that is in the text already."""
        self.block = block

    def end(self, text: str) -> None:
        """Append the last line of a block: a branch or a return."""
        self.line(text)
        self.block.terminated = True

    def fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        if self.block.terminated:
            raise TypeError(f"function {self.name}: {text!r} follows the end of its block")
        self.block.lines.append(text)

    def emit(self, type_: Type, text: str) -> Val:
        """Append an instruction with a result."""
        result = Val(self.fresh(), type_)
        self.line(f"{result.name} = {text}")
        return result

    def call(self, name: str, result: Type, args: Sequence[Val]) -> Val:
        """Call a function of this module, or one announced by `Module.declare`."""
        return self._call(f"@{name}", result, args)

    def call_pointer(self, address: Val, result: Type, args: Sequence[Val]) -> Val:
        return self._call(address.name, result, args)

    def _call(self, callee: str, result: Type, args: Sequence[Val], flags: str = "") -> Val:
        text = f"call {flags + ' ' if flags else ''}{result} {callee}({', '.join(map(str, args))})"
        if result == VOID:
            self.line(text)
            return Val("void", VOID)
        return self.emit(result, text)

    def call_intrinsic(self, name: str, result: Type, args: Sequence[Val], overload: str = "", flags: str = "") -> Val:
        """Call an LLVM intrinsic; `overload` is its type suffix, by default that of the result."""
        full = name if name.startswith(("llvm.x86.", "llvm.aarch64.")) else f"{name}.{overload or result.suffix}"
        self._declare_intrinsic(full, result, [arg.type for arg in args])
        return self._call(f"@{full}", result, args, flags)

    # memory

    def gep(self, base: Val, index: ValLike, element: Type) -> Val:
        """The address of element `index` of `base`; the element type gives the size, so i64 arrays cannot go wrong."""
        i = index if isinstance(index, Val) else const(I64, index)
        if i.number == 0 and not i.type.lanes:  # a vector of zeros still makes a vector of addresses
            return base
        result = PTR.vector(i.type.lanes)
        return self.emit(result, f"getelementptr {element.scalar}, {base}, {i}")

    def opaque(self, pointer: Val) -> Val:
        """Hides from LLVM how a pointer changes in the loops around: it would keep an address for each of many places beside it up to date,
        in memory."""
        return self.emit(pointer.type, f"freeze {pointer}")

    def load(self, base: Val, type_: Type, index: ValLike = 0, align: int = 0, again: bool = False) -> Val:
        """Loads `type_` (a vector takes its lanes from consecutive elements) at element `index`.

        `again`: even if the value is loaded already. LLVM merges equal loads, but not with one of another kind: one of memory that does not
        change while the function runs, which must be true then.
        """
        address = self.gep(base, index, type_)
        kind = ", !invariant.load !{}" if again else ""
        return self.emit(type_, f"load {type_}, {address}, align {align or type_.bytes}{kind}")

    def store(self, value: Val, base: Val, index: ValLike = 0, align: int = 0) -> None:
        address = self.gep(base, index, value.type)
        self.line(f"store {value}, {address}, align {align or value.type.bytes}")

    def store_past_caches(self, value: Val, place: Val) -> None:
        """Stores a vector at a multiple of its size into memory itself: the line is not read first, and no other line is evicted. Other
        threads may see it only after `end_past_caches`."""
        size = value.type.bytes * value.type.lanes
        self.line(f"store {value}, {place}, align {size}, !nontemporal !{{i32 1}}")

    def end_past_caches(self) -> None:
        """Orders stores past the caches ahead of any that follow: elsewhere than on x86 those of a release wait for them anyway."""
        if self.target.triple.startswith("x86_64"):
            self._declare_intrinsic("llvm.x86.sse.sfence", VOID, [])
            self._call("@llvm.x86.sse.sfence", VOID, [])

    def iota(self, element: Type, lanes: int) -> Val:
        """0, 1, 2 ... as a literal."""
        return const_vector(element, list(range(lanes)))

    def tail_mask(self, count: Val, lanes: int, offset: int = 0) -> Val:
        """True in the lanes below `count - offset` (an i64, clamped to the lanes by the comparison itself)."""
        element = I32 if count.type == I32 else I64
        places = const_vector(element, list(range(offset, offset + lanes)))
        return self.compare("lt", places, count)

    def masked_load(self, base: Val, type_: Type, mask: Val, index: ValLike = 0, align: int = 0) -> Val:
        """Loads the lanes of `mask`; the others are zero and their memory is not touched."""
        arguments = [self.gep(base, index, type_), const(I32, align or type_.bytes), mask, const(type_, 0)]
        return self.call_intrinsic("llvm.masked.load", type_, arguments, f"{type_.suffix}.p0")

    def masked_store(self, value: Val, base: Val, mask: Val, index: ValLike = 0) -> None:
        arguments = [value, self.gep(base, index, value.type), const(I32, value.type.bytes), mask]
        self.call_intrinsic("llvm.masked.store", VOID, arguments, f"{value.type.suffix}.p0")

    def gather(self, base: Val, type_: Type, indices: Val, mask: Val | None = None) -> Val:
        """Load `type_` from `base[indices]`, indices an i64 or i32 vector counted in elements."""
        addresses = self.gep(base, indices, type_)
        where = mask if mask is not None else const(type_.as_mask(), 1)
        arguments = [addresses, const(I32, type_.bytes), where, const(type_, 0)]
        return self.call_intrinsic("llvm.masked.gather", type_, arguments, f"{type_.suffix}.v{type_.lanes}p0")

    def scatter(self, value: Val, base: Val, indices: Val, mask: Val | None = None) -> None:
        """Store lane i of `value` to `base[indices[i]]`; of equal indices the last lane wins."""
        addresses = self.gep(base, indices, value.type)
        where = mask if mask is not None else const(value.type.as_mask(), 1)
        self.call_intrinsic(
            "llvm.masked.scatter",
            VOID,
            [value, addresses, const(I32, value.type.bytes), where],
            overload=f"{value.type.suffix}.v{value.type.lanes}p0",
        )

    def prefetch(self, address: Val, to_write: bool, into: Literal[1, 2] = 1) -> None:
        """Prefetches the cache line of an address, which need not be valid, into the first or the second cache."""
        hint = [address, const(I32, int(to_write)), const(I32, 4 - into), const(I32, 1)]
        self.call_intrinsic("llvm.prefetch", VOID, hint, overload="p0")

    def memset_zero(self, base: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memset", VOID, [base, const(I8, 0), byte_count, const(I1, 0)], "p0.i64")

    def memmove(self, to: Val, source: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memmove", VOID, [to, source, byte_count, const(I1, 0)], "p0.p0.i64")

    def memcpy(self, to: Val, source: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memcpy", VOID, [to, source, byte_count, const(I1, 0)], "p0.p0.i64")

    # memory that threads share: atomic operations on integers, `seq_cst` being one total order over all threads

    def atomic_load(self, base: Val, type_: Type, index: ValLike = 0, order: str = "seq_cst") -> Val:
        address = self.gep(base, index, type_)
        return self.emit(type_, f"load atomic {type_}, {address} {order}, align {type_.bytes}")

    def atomic_store(self, value: Val, base: Val, index: ValLike = 0, order: str = "seq_cst") -> None:
        address = self.gep(base, index, value.type)
        self.line(f"store atomic {value}, {address} {order}, align {value.type.bytes}")

    def atomic_update(self, op: str, base: Val, value: Val, index: ValLike = 0) -> Val:
        """Applies `op` of LLVM's atomicrmw (add, umin, …) with the value; returns the value before."""
        address = self.gep(base, index, value.type)
        return self.emit(value.type, f"atomicrmw {op} {address}, {value} seq_cst, align {value.type.bytes}")

    def compare_exchange(self, base: Val, expected: ValLike, new: ValLike, type_: Type, index: ValLike = 0) -> Val:
        """Stores `new` if `expected` is in memory; returns whether it was (i1)."""
        address = self.gep(base, index, type_)
        old, value = (v if isinstance(v, Val) else const(type_, v) for v in (expected, new))
        pair = self.fresh()
        self.line(f"{pair} = cmpxchg {address}, {old}, {value} seq_cst seq_cst, align {type_.bytes}")
        return self.emit(I1, f"extractvalue {{ {type_}, i1 }} {pair}, 1")

    # operands

    def pair(self, a: ValLike, b: ValLike) -> tuple[Val, Val]:
        """Makes both operands values of one type: a number takes the other's type, a scalar is spread over the lanes."""
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

    def i64(self, value: ValLike) -> Val:
        """An i64 scalar: numbers become literals, narrower integers are sign-extended."""
        if isinstance(value, Val):
            return value if value.type == I64 else self.convert("sext", value, I64)
        return const(I64, value)

    # arithmetic

    def _arith(self, op: str, a: ValLike, b: ValLike, flags: str) -> Val:
        x, y = self.pair(a, b)
        if x.type.is_float:
            spaced = f"{flags} " if flags else ""
            return self.emit(x.type, f"{_FLOAT_NAME[op]} {spaced}{x}, {y.name}")
        number = None
        if isinstance(x.number, int) and isinstance(y.number, int):
            number = _INT_FOLD[op](x.number, y.number)
            if x.is_literal and y.is_literal:
                return const(x.type, number)
        if op in ("add", "sub") and y.number == 0:
            return x
        if op == "add" and x.number == 0:
            return y
        if op == "mul":
            if y.number == 1 or x.number == 0:
                return x
            if x.number == 1 or y.number == 0:
                return y
        return replace(self.emit(x.type, f"{op} {x}, {y.name}"), number=number)

    def add(self, a: ValLike, b: ValLike, flags: str = "") -> Val:
        return self._arith("add", a, b, flags)

    def sub(self, a: ValLike, b: ValLike, flags: str = "") -> Val:
        return self._arith("sub", a, b, flags)

    def mul(self, a: ValLike, b: ValLike, flags: str = "") -> Val:
        return self._arith("mul", a, b, flags)

    def fdiv(self, a: ValLike, b: ValLike, flags: str = "") -> Val:
        return self._arith("div", a, b, flags)

    def neg(self, a: Val) -> Val:
        return self.emit(a.type, f"fneg {a}") if a.type.is_float else self.sub(const(a.type, 0), a)

    def binary(self, op: str, a: ValLike, b: ValLike) -> Val:
        """Emits a two-operand instruction by its name: and or xor shl lshr ashr sdiv udiv srem urem frem. A divisor whose number is known
        is a literal, by which division takes few cycles, unless the other operand is one."""
        x, y = self.pair(a, b)
        if op.endswith(("div", "rem")) and y.number is not None and x.number is None:
            y = const(y.type, y.number)
        return self.emit(x.type, f"{op} {x}, {y.name}")

    and_, or_, xor, shl, lshr, ashr = map(_instruction, ("and", "or", "xor", "shl", "lshr", "ashr"))

    def not_(self, a: Val) -> Val:
        return self.binary("xor", a, const(a.type, 1 if a.type.element == "i1" else -1))

    def sdiv(self, a: ValLike, b: ValLike) -> Val:
        """Integer division toward zero; traps on /0: for divisors known to be positive (see vecmath for data)."""
        return self.binary("sdiv", a, b)

    def ceil_div(self, a: ValLike, b: int) -> Val:
        """ceil(a / b) of a non-negative i64 and a positive literal."""
        x = self.add(self.i64(a), b - 1)
        number = None if x.number is None else int(x.number) // b
        if number is not None and x.is_literal:
            return const(I64, number)
        if b & (b - 1) == 0:
            return x if b == 1 else replace(self.lshr(x, b.bit_length() - 1), number=number)
        return replace(self.binary("udiv", x, b), number=number)

    def fma(self, a: ValLike, b: ValLike, c: ValLike, exact: bool = False) -> Val:
        """a * b + c with one rounding. Where the machine has no such instruction: two, unless `exact` demands it."""
        x, y = self.pair(a, b)
        x, z = self.pair(x, c)
        if not self.target.fma and not exact:
            return self.add(self.mul(x, y), z)
        return self.call_intrinsic("llvm.fma", x.type, [x, y, z])

    def fma_f16(self, a: Val, b: Val, c: Val) -> Val:
        """a * b + c of f16, of a processor that has an instruction for it, which rounds once."""
        x, y, z = map(self._as_half, (a, b, c))
        product = self.emit(a.type, f"fmul contract {a.type.as_float} {x}, {y}")
        return self._as_bits(self.emit(a.type, f"fadd contract {a.type.as_float} {product.name}, {z}"))

    def add_f16(self, a: Val, b: Val) -> Val:
        """a + b of f16, of a processor that has an instruction for it."""
        x, y = map(self._as_half, (a, b))
        return self._as_bits(self.emit(a.type, f"fadd {a.type.as_float} {x}, {y}"))

    def _as_half(self, a: Val) -> str:
        """The name of a float of 16 bits as LLVM's own type has it."""
        return self.emit(a.type, f"bitcast {a} to {a.type.as_float}").name

    def _as_bits(self, a: Val) -> Val:
        """Such a value as all others are represented."""
        return self.emit(a.type, f"bitcast {a.type.as_float} {a.name} to {a.type}")

    smin, smax, umin, umax = map(_extreme, ("smin", "smax", "umin", "umax"))
    """The lesser and the greater of two integers, with and without sign. Without, no operand may be a negative literal."""

    def int_extreme(self, name: str, a: ValLike, b: ValLike) -> Val:
        """smin smax umin umax of two integers, computed here if both are literals."""
        x, y = self.pair(a, b)
        if x.name == y.name:
            return x
        if isinstance(x.number, int) and isinstance(y.number, int):
            return x if (x.number < y.number) == name.endswith("min") else y
        return self.call_intrinsic(f"llvm.{name}", x.type, [x, y])

    def unary(self, name: str, a: Val) -> Val:
        """A one-operand intrinsic that the machine has: sqrt fabs floor ceil trunc roundeven."""
        return self.call_intrinsic(f"llvm.{name}", a.type, [a])

    # comparison and choice

    def compare(self, op: str, a: ValLike, b: ValLike, unsigned: bool = False) -> Val:
        """lt le gt ge eq ne; of floats ordered (false on NaN), except ne, which is true on NaN."""
        x, y = self.pair(a, b)
        if x.type.is_float:
            return self.emit(x.type.as_mask(), f"fcmp {_ORDERED[op]} {x}, {y.name}")
        kind = (_UNSIGNED if unsigned else _SIGNED)[op]
        return self.emit(x.type.as_mask(), f"icmp {kind} {x}, {y.name}")

    def fcmp(self, predicate: str, a: ValLike, b: ValLike) -> Val:
        """A float comparison by LLVM's own predicate: uno, ord, ult, ueq ..."""
        x, y = self.pair(a, b)
        return self.emit(x.type.as_mask(), f"fcmp {predicate} {x}, {y.name}")

    def select(self, cond: Val, a: ValLike, b: ValLike) -> Val:
        x, y = self.pair(a, b)
        if cond.type.lanes and not x.type.lanes:
            x, y = self.splat(x, cond.type.lanes), self.splat(y, cond.type.lanes)
        if x.name == y.name:
            return x
        return self.emit(x.type, f"select {cond}, {x}, {y}")

    # conversion

    def convert(self, op: str, a: Val, to: Type) -> Val:
        """Emits sext zext trunc fpext fptrunc sitofp uitofp fptosi fptoui bitcast ptrtoint inttoptr; lanes follow `a`."""
        to = to if op == "bitcast" else to.vector(a.type.lanes)
        if a.type == to:
            return a
        if str(a.type) == str(to):
            return Val(a.name, to)
        if a.type.is_half and op == "fpext":
            return self.emit(to, f"fpext {a.type.as_float} {self._as_half(a)} to {to}")
        if to.is_half and op == "fptrunc":
            return self._as_bits(self.emit(to, f"fptrunc {a} to {to.as_float}"))
        return self.emit(to, f"{op} {a} to {to}")

    def bitcast(self, a: Val, to: Type) -> Val:
        return self.convert("bitcast", a, to)

    # vectors

    def splat(self, a: ValLike, lanes: int, element: Type | None = None) -> Val:
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
        """Selects lanes from `a` then `b` by number; -1 is a lane that is not used."""
        other = b if b is not None else undefined(a.type)
        picked = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        return self.emit(a.type.vector(len(lanes)), f"shufflevector {a}, {other}, <{len(lanes)} x i32> <{picked}>")

    def reduce(self, kind: str, a: Val, flags: str = "", start: ValLike | None = None) -> Val:
        """Reduces all lanes to one: fadd fmul (any order) add mul and or xor [su]max [su]min fmax fmin fmaximum fminimum."""
        scalar = a.type.scalar
        name = f"llvm.vector.reduce.{kind}"
        if kind in ("fadd", "fmul"):
            first = start if isinstance(start, Val) else const(scalar, -0.0 if kind == "fadd" else 1.0)
            return self.call_intrinsic(name, scalar, [first, a], overload=a.type.suffix, flags=flags or "reassoc")
        return self.call_intrinsic(name, scalar, [a], overload=a.type.suffix, flags=flags)
