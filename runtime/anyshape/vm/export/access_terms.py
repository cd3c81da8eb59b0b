"""Indices of equations as sizes of `anyshape.dims`, over the caller's dims, variables of loops and numbers that a run reads.

In: expressions of equations. Out: sizes and conditions. What has no such form, as an element that is read, is a symbol of its own, the same
for the same expression; an index that the kernel compares with its dim is a symbol of which that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anyshape import dims
from anyshape.dims import Cond, Dim, NestedTooDeep, Size, symbol
from anyshape.dtypes import I64
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Var
from anyshape.equations.traversal import walk

_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a, "floordiv": dims.floordiv,
    "mod": dims.mod, "min": dims.minimum, "max": dims.maximum, "abs": lambda a: dims.maximum(a, -a), "cast": lambda a: a,
}  # fmt: skip
_MODULAR = frozenset({"add", "sub", "mul", "neg", "cast", "and", "or", "not", "select"})
"""Operations whose result modulo 2^64 follows from their operands modulo 2^64"""
_COMPARISONS = {"eq": dims.eq, "ne": dims.ne, "lt": dims.lt, "le": dims.le, "gt": dims.gt, "ge": dims.ge}
_LOGICAL: dict[str, Callable[..., Any]] = {"and": dims.and_, "or": dims.or_, "not": dims.not_}


@dataclass(eq=False)
class AccessTerms:
    """The terms of one kernel. `sizes`: the symbols of its equations in the caller's dims; `data` makes a symbol of these
    bounds."""

    sizes: Mapping[Dim, Size]
    data: Callable[[int | None, int | None], Dim]
    variables: dict[Dim, Size] = field(default_factory=dict)
    """Extents of variables of loops: each is at least 0, and less"""
    tested: dict[Dim, Size] = field(default_factory=dict)
    """Dims that the kernel compares indices with, by the symbols for these"""
    _symbols: dict[Expr | Dim, Dim] = field(default_factory=dict)

    def size(self, e: Size) -> Size:
        """A size of the equations in the caller's dims."""
        if not isinstance(e, Dim):
            return e
        unknown = {s: self._unknown(s) for s in dims.free_symbols(e) if s not in self.sizes}
        return dims.substitute(e, {**self.sizes, **unknown})

    def condition(self, c: bool | Cond) -> bool | Cond:
        unknown = {s: self._unknown(s) for s in dims.free_symbols(c) if s not in self.sizes}
        return dims.substitute(c, {**self.sizes, **unknown})

    def variable(self, v: Var) -> Dim:
        if v not in self._symbols:
            self._symbols[v] = symbol(f"i{len(self.variables)}", 0)
            self.variables[self._symbols[v]] = self.size(v.extent)
        return self._symbols[v]

    def index(self, e: Expr) -> Size:
        """The index as a size; an opaque symbol where it has no other form."""
        try:
            known = self._number(e)
        except NestedTooDeep:
            known = None
        return self._unknown(e) if known is None else known

    def operands(self, e: Expr) -> list[Size]:
        """The operands in an index that have to fit 64 bits, since an operation that is no sum, difference or product reads them. What is
        compared with a dim is left out, and elements that are read."""
        listed: dict[Size, None] = {}
        left = [e]
        while left:
            n = left.pop()
            if not isinstance(n, Apply) or self._is_tested(n):
                continue
            left += n.args
            if n.op not in _MODULAR:
                listed.update(dict.fromkeys(self.index(a) for a in n.args if isinstance(a, Apply) and _is_place(a)))
        return [p for p in listed if isinstance(p, Dim)]

    def truth(self, e: Expr) -> bool | Cond | None:
        """The condition on sizes; None where it depends on anything else."""
        if isinstance(e, Const):
            return e.value if isinstance(e.value, bool) else None
        if isinstance(e, Scalar):
            return self.condition(e.size) if isinstance(e.size, (bool, Cond)) else None
        if not isinstance(e, Apply):
            return None
        if e.op in _LOGICAL:
            truths = [self.truth(a) for a in e.args]
            return None if None in truths else _LOGICAL[e.op](*truths)
        if e.op in _COMPARISONS and all(map(_is_place, e.args)):
            return _COMPARISONS[e.op](*map(self.index, e.args))
        return None

    def _number(self, e: Expr) -> Size | None:
        match e:
            case Var():
                return self.variable(e)
            case Const(value=value):
                return value if type(value) is int else None
            case Scalar(size=size):
                return None if isinstance(size, Cond) else self.size(size)
            case Apply(args=(_, n)) if self._is_tested(e):
                return self._test(e, self.index(n))
            case Apply(op="wrap", args=(i, n)):
                at, extent = self.index(i), self.index(n)
                return dims.select(dims.lt(at, 0), at + extent, at)
            case Apply(op="select", args=(cond, yes, no)):
                test = self.truth(cond)
                if test is None:
                    test = dims.eq(self._unknown(cond), 0)
                return dims.select(test, self.index(yes), self.index(no))
            case Apply(op=op, args=args) if op in _NUMBERS and all(map(_is_place, (e, *args))):
                numbers: Size = _NUMBERS[op](*map(self.index, args))
                return numbers
        return None

    def _is_tested(self, e: Apply) -> bool:
        """Whether the kernel compares the index with a dim: one that is data, or that was not proved."""
        return e.op == "within" or (e.op == "wrap" and any(isinstance(part, Read) for part in walk(e.args[0])))

    def _test(self, e: Expr, n: Size) -> Dim:
        index = self._unknown(e)
        self.tested[index] = n
        return index

    def _unknown(self, e: Expr | Dim) -> Dim:
        if e not in self._symbols:
            self._symbols[e] = self.data(*(dims.bounds(e) if isinstance(e, Dim) else (None, None)))
        return self._symbols[e]


def _is_place(e: Expr) -> bool:
    """Whether it is an integer that is computed in 64 bits, or one that is read."""
    return e.dtype in (None, I64) or (e.dtype.is_integer and isinstance(e, (Read, Reduce)))
