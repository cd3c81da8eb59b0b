"""The part of the builder for memory that threads share: atomic loads, stores, exchanges and counts.

In: an address (the first element of a pointer), an integer type, an ordering of LLVM's memory model. Out: values as they were in memory.
"""

from __future__ import annotations

from .memory import Memory
from .types import I1, Operand, Type, Val, const


class Atomics(Memory):
    """Atomic operations on integers. The default ordering, `seq_cst`, is one total order over all threads."""

    def atomic_load(self, base: Val, type_: Type, index: Operand = 0, order: str = "seq_cst") -> Val:
        address = self.gep(base, index, type_)
        return self.emit(type_, f"load atomic {type_}, {address} {order}, align {type_.bytes}")

    def atomic_store(self, value: Val, base: Val, index: Operand = 0, order: str = "seq_cst") -> None:
        address = self.gep(base, index, value.type)
        self.line(f"store atomic {value}, {address} {order}, align {value.type.bytes}")

    def atomic_update(self, op: str, base: Val, value: Val, index: Operand = 0) -> Val:
        """`op` of LLVM's atomicrmw (add, umin, …) with the value; gives what was there before."""
        address = self.gep(base, index, value.type)
        return self.emit(value.type, f"atomicrmw {op} {address}, {value} seq_cst, align {value.type.bytes}")

    def compare_exchange(self, base: Val, expected: Operand, new: Operand, type_: Type, index: Operand = 0) -> Val:
        """Puts `new` where `expected` is, if it is there: whether it was (i1)."""
        address = self.gep(base, index, type_)
        old, value = (v if isinstance(v, Val) else const(type_, v) for v in (expected, new))
        pair = self.fresh()
        self.line(f"{pair} = cmpxchg {address}, {old}, {value} seq_cst seq_cst, align {type_.bytes}")
        return self.emit(I1, f"extractvalue {{ {type_}, i1 }} {pair}, 1")
