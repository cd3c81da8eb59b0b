"""Origins of the dims of a function: an input's dim, what is computed of such, or what only a run decides.

In: a function that is compiled, and its sizes. Out: for each a kind and words for people; sizes get the names that messages call them by.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique

from anyshape.dims import Cond, Dim, Size, bounds, free_symbols, substitute, symbol
from anyshape.graph.function import Function
from anyshape.graph.origins import Names
from anyshape.graph.text import is_anonymous
from anyshape.vm.compiling.kernels import THREADS
from anyshape.vm.report.causes import Causes


@unique
class DimOrigin(StrEnum):
    """An origin of a dim. `machine` is the number of threads, which sizes of scratch memory depend on."""

    CONSTANT = "constant"
    INPUT = "input"
    DERIVED = "derived"
    DATA = "data"
    MACHINE = "machine"


class DimOrigins:
    """Origins of the dims of one function and its regions, each under the name that messages call it by."""

    def __init__(self, f: Function, causes: Causes) -> None:
        self._names, self._causes, self._function = Names(f), causes, f
        self._spelled: dict[Dim, Dim] = {}
        """what stands for a symbol, and the symbol"""
        self._own = {self.named(s): s for s in f.symbols()}
        """symbols of the inputs' dims, by what stands for them"""

    def named(self, e: Size) -> Size:
        """The size with a name for each symbol."""
        return substitute(e, self._spellings(e))

    def named_condition(self, e: Cond) -> Cond | bool:
        """The condition with a name for each symbol."""
        return substitute(e, self._spellings(e))

    def _spellings(self, e: Size | Cond) -> Mapping[Dim, Dim]:
        names = {s: symbol(self._names[s], *bounds(s)) for s in free_symbols(e) if is_anonymous(s)}
        self._spelled.update((named, s) for s, named in names.items())
        return names

    def of(self, e: Size) -> DimOrigin:
        """The origin of a size that `named` returned."""
        if not isinstance(e, Dim):
            return DimOrigin.CONSTANT
        symbols = free_symbols(e)
        if not symbols <= self._own.keys() | {THREADS}:
            return DimOrigin.DATA
        if e is THREADS:
            return DimOrigin.MACHINE
        return DimOrigin.INPUT if e.is_symbol else DimOrigin.DERIVED

    def cause(self, s: Dim) -> str:
        """Says where a symbol comes from; `s` is one that `named` returned."""
        if s is THREADS:
            return "how many threads may share a kernel"
        if s not in self._own:
            return self._causes.of_dim(self._spelled.get(s, s))
        places = [
            f"{p.name}[{axis}]"
            for p in self._function.params
            for axis, n in enumerate(p.type.shape or ())
            if isinstance(n, Dim) and n is self._own[s]
        ]
        return ", ".join(places) or "a part of a dim of an input"
