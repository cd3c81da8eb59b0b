"""The code at the beginning of a program: what arguments are, and what must hold of them."""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.dims import Cond, Dim, bounds, free_symbols, fresh
from anyshape.dims import eq as equal
from anyshape.errors import UnsupportedError
from anyshape.graph.value import Value
from anyshape.types import ListType
from anyshape.vm.compiling.emission import Emission
from anyshape.vm.compiling.kernels import THREADS
from anyshape.vm.compiling.list_arguments import Reader
from anyshape.vm.program.table import CheckRecord, Op


@dataclass(eq=False)
class Entry(Emission):
    """Dims of arguments are read, checked and named."""

    def entry(self) -> None:
        """Dims of arguments become symbols; then what must hold of them; then elements that symbols stand for."""
        owed: list[tuple[Value, int, int]] = []
        bound: list[tuple[Dim, Value, int]] = []
        for k, p in enumerate(self.f.params):
            for axis, n in enumerate(p.type.shape or ()):
                r = self.code.pure(Op.DIM, k, axis)
                if isinstance(n, Dim) and n.is_symbol and not self.code.is_defined(n):
                    self.code.define(n, r)
                    bound.append((n, p, axis))
                else:
                    owed.append((p, axis, r))
        if THREADS in self.liveness.symbols:
            self.code.define(THREADS, self.code.new(Op.THREADS))
        for s, p, axis in bound:
            self.entry_bounds(s, p, axis)  # first: all later conditions are simplified by what these assume
        for p, axis, r in owed:
            self.entry_size(p, axis, r)
        self.collect_checks()
        self.flush()
        for p in self.f.params:
            self.load_symbols(p)
        for k, p in enumerate(self.f.params):
            handle = self.list_argument(k, p) if isinstance(p.type, ListType) else None
            if handle is not None:
                self.lists[p] = handle

    def list_argument(self, k: int, p: Value) -> int | None:
        """The handle of a parameter that is a list, if it is needed."""
        if p not in self.liveness.values or not isinstance(p.type, ListType):
            return None
        return Reader(self, p.name, self.code.pure(Op.ARGUMENT, k)).read(p.type)

    def collect_checks(self) -> None:
        """What nodes demand, each once, to be checked when it can be."""
        seen: set[Cond] = set()
        for check in (*self.f.checks, *(c for node in self.f.nodes for c in node.checks)):
            if check.cond not in seen:
                seen.add(check.cond)
                self.pending.append(check)

    def entry_size(self, p: Value, axis: int, got: int) -> None:
        """The size of an argument that its type fixes."""
        assert p.type.shape is not None
        wanted = p.type.shape[axis]
        unbound = [str(s) for s in free_symbols(wanted) if not self.code.is_defined(s)]
        if unbound:
            raise UnsupportedError(
                f"input {p.name}: {p.type}: nothing binds {', '.join(sorted(unbound))}; "
                "give each symbol a dim of its own in some input"
            )
        size = _size_symbol(p, axis)
        self.code.define(size, got)
        parts: tuple[str | Dim | Cond, ...] = (f"input {p.name}: dim {axis} must be {wanted}", ", got ", size)
        if not isinstance(wanted, int):
            parts = (f"input {p.name}: dim {axis} must be {wanted} = ", wanted, ", got ", size)
        self.check(equal(size, wanted), parts, equation=f"{p.name}.shape[{axis}] == {wanted}")

    def entry_bounds(self, s: Dim, p: Value, axis: int) -> None:
        """What the type says of a symbol: a variant's assumption makes the call go elsewhere, anything else is an error."""
        low, high = bounds(s)
        r = self.code.register(s)
        if s in self.assumed:
            self.code.emit(Op.GUARD, self.code.pure(Op.GE, r, self.code.register(low or 0)))
        elif low is not None and low > 0:
            self.bound_check(Op.GE, r, low, s, p, axis)
        if high is not None:
            self.bound_check(Op.LE, r, high, s, p, axis)

    def bound_check(self, op: Op, r: int, edge: int, s: Dim, p: Value, axis: int) -> None:
        sign = "at least" if op is Op.GE else "at most"
        record = CheckRecord(
            (f"input {p.name}: dim {axis} ({s}) must be {sign} {edge}, got ", s), (s,), (r,), f"{s} {sign} {edge}"
        )
        self.checks.append(record)
        self.code.emit(Op.CHECK, self.code.pure(op, r, self.code.register(edge)), len(self.checks) - 1)


def _size_symbol(p: Value, axis: int) -> Dim:
    """A symbol for the actual size of an argument's axis, used in messages."""
    return fresh(f"{p.name}_size{axis}_", low=0)
