"""Sizes of torch as dims, and dims as sizes of torch, for the rules of ops.

In: the ints and SymInts of a call. Out: dims for them, one for each expression of torch; of the dims that a rule gives, ints and SymInts
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import torch

from anyshape.dims import Atom, Cond, Dim, Size, bounds, definitions, free_symbols, symbol
from anyshape.frontends.torch.symbols import LARGEST, is_number, ranges_of


class FakeSizes:
    """The sizes of one call of a fake kernel. `numbers` are for expressions that count as numbers."""

    def __init__(self, numbers: Mapping[Any, int] | None = None) -> None:
        self.numbers = numbers or {}
        self.dims: dict[Any, Dim] = {}
        """dims by expressions of torch"""
        self.values: dict[Dim, Any] = {}
        """SymInts, by dims"""

    def dim(self, n: Any) -> Size:
        """The dim of a size."""
        if isinstance(n, int):
            return n
        if is_number(n):
            return int(n)
        expr = n.node.expr
        if expr in self.numbers:
            return self.numbers[expr]
        if expr not in self.dims:
            low, high = ranges_of({expr: n.node.shape_env.bound_sympy(expr)})[str(expr)]
            name = str(expr) if expr.is_Symbol else f"({expr})"
            self.dims[expr] = symbol(name, low, high)
            self.values[self.dims[expr]] = n
        return self.dims[expr]

    def known(self) -> dict[Any, Any]:
        """The SymInts of which torch has an example, by expressions."""
        return {expr: self.values[d] for expr, d in self.dims.items() if self.values[d].node.has_hint()}

    def count(self, dims: Sequence[Size]) -> None:
        """Makes sizes without a value of the symbols in these dims that data decide. Torch demands that each is a size of a result: of
        `n + k` the whole is one, and k what n leaves of it."""
        unknown = dict.fromkeys(s for n in dims for s in sorted(free_symbols(n), key=str) if s not in self.values)
        if not unknown:
            return
        defined = definitions(enumerate(dims), self.values)
        for d in dict.fromkeys((*defined, *unknown)):
            definition = defined.get(d)
            low, high = bounds(d)
            if definition is None or definition.is_alone:
                self.values[d] = _unbacked(low, high)
            else:
                rest = self.size(definition.rest)
                self.values[d] = (_unbacked(None, None) - rest) // definition.factor
                torch._check(self.values[d] >= (low or 0), lambda d=d: f"{d} counts elements")

    def knows(self, e: Size | Cond | bool) -> bool:
        return free_symbols(e) <= self.values.keys()

    def size(self, e: Size) -> Any:
        """The size of torch for a dim."""
        if not isinstance(e, Dim):
            return e
        return sum(c * prod(map(self._atom, monomial)) for monomial, c in e.terms)

    def _atom(self, atom: Atom) -> Any:
        if atom.kind == "symbol":
            return self.values[atom.dim]
        if atom.kind == "select":
            condition, then, otherwise = atom.args
            return self._choice(self.truth(condition), then, otherwise)
        args = [self.size(a) for a in atom.args]
        if atom.kind == "bcast":
            return args[1] if _is_one(args[0]) else args[0]
        return reduce(_OPERATIONS[atom.kind], args)

    def _choice(self, condition: Any, then: Size, otherwise: Size) -> Any:
        """One of two sizes: a guard where torch knows an example of the condition, else a size that is either."""
        if isinstance(condition, torch.SymBool) and not condition.node.has_hint():
            return torch.sym_ite(condition, self.size(then), self.size(otherwise))
        return self.size(then if condition else otherwise)

    def truth(self, c: Cond | bool) -> Any:
        """The condition of torch, a bool or a SymBool, for one on dims."""
        if not isinstance(c, Cond):
            return c
        if c.kind == "not":
            return torch.sym_not(self.truth(c.args[0]))
        if c.kind in ("and", "or"):
            return reduce(lambda a, b: a & b if c.kind == "and" else a | b, map(self.truth, c.args))
        terms = c.args[0].terms
        left = sum(k * prod(map(self._atom, m)) for m, k in terms if k > 0)
        right = sum(-k * prod(map(self._atom, m)) for m, k in terms if k < 0)
        return left == right if c.kind == "eq" else left >= right


def _unbacked(low: int | None, high: int | None) -> Any:
    most = high if high is not None and high < LARGEST else None
    return torch.library.get_ctx().new_dynamic_size(min=max(low or 0, 0), max=most)


def _is_one(size: Any) -> bool:
    """Whether a size is 1; one of which torch knows nothing counts as another."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return bool(guard_or_false(size == 1))


_OPERATIONS: dict[str, Any] = {
    "min": torch.sym_min,
    "max": torch.sym_max,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
}
