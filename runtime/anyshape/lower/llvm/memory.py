"""The part of the builder that touches memory: addresses, plain and masked loads and stores, gather and scatter.

In: a pointer, an index in elements, an element type. Out: loaded values. The default alignment is that of the element,
so that any slice of an array may be an operand.
"""

from __future__ import annotations

from .arithmetic import Arithmetic
from .types import I1, I8, I32, I64, PTR, VOID, Operand, Type, Val, const, const_vector, undefined


class Memory(Arithmetic):
    """Loads and stores."""

    def gep(self, base: Val, index: Operand, element: Type) -> Val:
        """The address of element `index` of `base`; the element type gives the size, so i64 arrays cannot go wrong."""
        i = index if isinstance(index, Val) else const(I64, index)
        if i.number == 0 and not i.type.lanes:  # a vector of zeros still makes a vector of addresses
            return base
        result = PTR.vector(i.type.lanes)
        return self.emit(result, f"getelementptr {element.scalar}, {base}, {i}")

    def load(self, base: Val, type_: Type, index: Operand = 0, align: int = 0, again: bool = False) -> Val:
        """Load `type_` (a vector takes its lanes from consecutive elements) at element `index`.

        `again`: even if it is loaded already. LLVM makes one of equal loads; but one of memory that stays as it is while the function runs,
        which it must then, is of another kind."""
        address = self.gep(base, index, type_)
        kind = ", !invariant.load !{}" if again else ""
        return self.emit(type_, f"load {type_}, {address}, align {align or type_.bytes}{kind}")

    def store(self, value: Val, base: Val, index: Operand = 0, align: int = 0) -> None:
        address = self.gep(base, index, value.type)
        self.line(f"store {value}, {address}, align {align or value.type.bytes}")

    def store_past_caches(self, value: Val, place: Val) -> None:
        """A vector at a multiple of its size, into memory itself: what lies there is not read first, nothing else leaves a cache for it.
        Other threads may see it only after `end_past_caches`."""
        size = value.type.bytes * value.type.lanes
        self.line(f"store {value}, {place}, align {size}, !nontemporal !{{i32 1}}")

    def end_past_caches(self) -> None:
        """Stores past the caches are in memory ahead of any that follow: elsewhere than on x86 those of a release wait for them anyway."""
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

    def masked_load(
        self, base: Val, type_: Type, mask: Val, index: Operand = 0, passthru: Val | None = None, align: int = 0
    ) -> Val:
        """Load the lanes of `mask`; the others are `passthru` (zero unless given) and their memory is not touched."""
        address = self.gep(base, index, type_)
        other = passthru if passthru is not None else const(type_, 0)
        arguments = [address, const(I32, align or type_.bytes), mask, other]
        return self.call_intrinsic("llvm.masked.load", type_, arguments, f"{type_.suffix}.p0")

    def masked_store(self, value: Val, base: Val, mask: Val, index: Operand = 0, align: int = 0) -> None:
        address = self.gep(base, index, value.type)
        alignment = const(I32, align or value.type.bytes)
        self.call_intrinsic(
            "llvm.masked.store", VOID, [value, address, alignment, mask], overload=f"{value.type.suffix}.p0"
        )

    def gather(self, base: Val, type_: Type, indices: Val, mask: Val | None = None, passthru: Val | None = None) -> Val:
        """Load `type_` from `base[indices]`, indices an i64 or i32 vector counted in elements."""
        addresses = self.gep(base, indices, type_)
        where = mask if mask is not None else const(type_.as_mask(), 1)
        other = passthru if passthru is not None else const(type_, 0)
        arguments = [addresses, const(I32, type_.bytes), where, other]
        return self.call_intrinsic("llvm.masked.gather", type_, arguments, f"{type_.suffix}.v{type_.lanes}p0")

    def pick(self, base: Val, type_: Type, indices: Val) -> Val:
        """The same where all lanes exist, by one instruction or by a load each, whichever the target is faster with."""
        from anyshape.lower.llvm.target_probe import gathers  # which asks about code that is made so

        if gathers(self.target):
            return self.gather(base, type_, indices)
        row = undefined(type_)
        for lane in range(type_.lanes):
            row = self.insert(row, self.load(self.gep(base, self.extract(indices, lane), type_), type_.scalar), lane)
        return row

    def every(self, base: Val, type_: Type, step: int, index: Operand = 0) -> Val:
        """Load lane i from element `index + i * step`, by whole vectors that touch nothing before the first of them or past the last."""
        lanes = type_.lanes
        last, row = (lanes - 1) * step, undefined(type_)
        base = self.gep(base, index, type_)
        for part in range(step):
            first = min(part * lanes, last - lanes + 1)
            places = [(i, i * step - first) for i in range(lanes) if part * lanes <= i * step < (part + 1) * lanes]
            picks = list(range(lanes))
            for i, place in places:
                picks[i] = lanes + place
            row = self.shuffle(row, self.load(base, type_, first), picks)
        return row

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

    def prefetch(self, address: Val, to_write: bool) -> None:
        """Asks for the cache line of an address, which need not be valid."""
        hint = [address, const(I32, int(to_write)), const(I32, 3), const(I32, 1)]
        self.call_intrinsic("llvm.prefetch", VOID, hint, overload="p0")

    def memset_zero(self, base: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memset", VOID, [base, const(I8, 0), byte_count, const(I1, 0)], "p0.i64")

    def memmove(self, to: Val, source: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memmove", VOID, [to, source, byte_count, const(I1, 0)], "p0.p0.i64")

    def memcpy(self, to: Val, source: Val, byte_count: Val) -> None:
        self.call_intrinsic("llvm.memcpy", VOID, [to, source, byte_count, const(I1, 0)], "p0.p0.i64")
