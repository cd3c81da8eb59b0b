"""Code of dims and conditions: the shape functions of a whole program as scalar instructions, each subexpression computed once.

In: sizes and conditions, and the registers of symbols. Out: registers. Dims are hash-consed, so a dict finds common subexpressions;
instructions are shared too, for sums that have a prefix in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyshape.dims import INT64_MAX, Atom, Cond, Dim, Size, free_symbols
from anyshape.errors import VerifyError
from anyshape.vm.program.table import InstructionOperand, Op, encode

_ATOMS = {"min": Op.MIN, "max": Op.MAX, "floordiv": Op.FLOORDIV, "mod": Op.MOD}


class ShapeCode:
    """Emitter of instructions into `words`. `register(e)` is the register that holds a dim or a condition."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.count = 0
        self._known: dict[object, int] = {}
        self._emitted: dict[tuple[Op, tuple[InstructionOperand, ...]], int] = {}
        self._constants: dict[InstructionOperand, InstructionOperand] = {}
        """values of registers that are always the same"""

    def emit(self, op: Op, *operands: InstructionOperand) -> None:
        self.words += encode(op, *operands)

    def new(self, op: Op, *operands: InstructionOperand) -> int:
        """Emits an instruction that writes a new register; the register."""
        r = self.count
        self.count += 1
        self.emit(op, r, *operands)
        return r

    def pure(self, op: Op, *operands: InstructionOperand) -> int:
        """Emits an instruction like `new`, but equal ones once, and none whose result constants decide. For instructions that depend on
        their operands alone."""
        key = (op, operands)
        if key not in self._emitted:
            decided = self._decided(op, operands)
            self._emitted[key] = self.new(op, *operands) if decided is None else self.register(decided)
            if op == Op.CONST:
                self._constants[self._emitted[key]] = operands[0]
        return self._emitted[key]

    def _decided(self, op: Op, operands: tuple[InstructionOperand, ...]) -> int | None:
        """The result of a sum or a maximum of constants, which is what the memory plan of a static program is made of."""
        constants = [self._constants.get(r) for r in operands]
        if op not in (Op.ADD, Op.MAX) or any(not isinstance(n, int) for n in constants):
            return None
        a, b = (n for n in constants if isinstance(n, int))
        result = a + b if op == Op.ADD else max(a, b)
        return result if result <= INT64_MAX else None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forgets, at its end, the registers of what is computed within: a jump may have left that code out."""
        known, emitted = dict(self._known), dict(self._emitted)
        try:
            yield
        finally:
            self._known, self._emitted = known, emitted

    def unset(self) -> int:
        """A new register, which `move` writes, maybe at several places."""
        self.count += 1
        return self.count - 1

    def move(self, to: int, register: int) -> None:
        self.emit(Op.MAX, to, register, register)

    def zeroed(self) -> int:
        """A new register that holds 0."""
        register = self.unset()
        self.move(register, self.register(0))
        return register

    def unless(self, register: int) -> int:
        """Emits a jump that is taken if the register is 0; `land` sets its target."""
        self.emit(Op.UNLESS, register, 0)
        return len(self.words) - 1

    def jump(self, to: int = 0) -> int:
        self.emit(Op.JUMP, to)
        return len(self.words) - 1

    def land(self, jump: int) -> None:
        """Makes the next instruction the target of a jump."""
        self.words[jump] = len(self.words)

    def define(self, symbol: Dim, register: int) -> None:
        self._known[symbol] = register

    def is_defined(self, e: Size | Cond | bool) -> bool:
        """Tests whether every symbol of e has a register."""
        return all(s in self._known for s in free_symbols(e))

    def register(self, e: Size | Cond | bool) -> int:
        if isinstance(e, int):
            return self.pure(Op.CONST, int(e))
        known = self._known.get(e)
        if known is None:
            known = self._condition(e) if isinstance(e, Cond) else self._polynomial(e)
            self._known[e] = known
        return known

    def _polynomial(self, p: Dim) -> int:
        atom = p.atom
        if atom is not None:
            return self._atom(atom)
        total: int | None = None
        for monomial, c in sorted(p.terms, key=lambda t: t[1] < 0):  # a positive term first: then -1 is a subtraction
            if not monomial:
                product = self.register(abs(c))
            else:
                product = self._product(monomial)
                if abs(c) != 1:
                    product = self.pure(Op.MUL, product, self.register(abs(c)))
            if total is None:
                total = product if c > 0 else self.pure(Op.SUB, self.register(0), product)
            else:
                total = self.pure(Op.ADD if c > 0 else Op.SUB, total, product)
        assert total is not None
        return total

    def _product(self, monomial: tuple[Atom, ...]) -> int:
        product = self.register(monomial[0].dim)
        for a in monomial[1:]:
            product = self.pure(Op.MUL, product, self.register(a.dim))
        return product

    def _atom(self, a: Atom) -> int:
        if a.kind == "symbol":
            raise VerifyError(f"nothing defines the dim {a.name} before it is needed")
        if a.kind == "select":
            c, x, y = (self.register(arg) for arg in a.args)
            return self.pure(Op.SELECT, c, x, y)
        if a.kind == "bcast":
            first, second = (self.register(arg) for arg in a.args)
            return self.pure(Op.SELECT, self.pure(Op.EQ, first, self.register(1)), second, first)
        return self._chain(_ATOMS[a.kind], [self.register(arg) for arg in a.args])

    def _condition(self, c: Cond) -> int:
        if c.kind in ("eq", "ge"):
            return self._comparison(c)
        if c.kind == "not":
            return self.pure(Op.NOT, self.register(c.args[0]))
        return self._chain(Op.AND if c.kind == "and" else Op.OR, [self.register(a) for a in c.args])

    def _comparison(self, c: Cond) -> int:
        """p == 0 and p >= 0 as a comparison of p's positive part with its negative one: no difference that could overflow."""
        p = c.args[0]
        plus: Size = 0
        minus: Size = 0
        for monomial, k in p.terms:
            part: Size = abs(k)
            for a in monomial:
                part = part * a.dim
            if k > 0:
                plus = plus + part
            else:
                minus = minus + part
        op = Op.EQ if c.kind == "eq" else Op.GE
        return self.pure(op, self.register(plus), self.register(minus))

    def _chain(self, op: Op, registers: list[int]) -> int:
        first = registers[0]
        for r in registers[1:]:
            first = self.pure(op, first, r)
        return first
