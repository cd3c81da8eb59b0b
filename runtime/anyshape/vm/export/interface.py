"""Interface of an exported model: the names that C callers see, and where dims stand in the tables that its functions share.

In: a function, and the name of the model. Out: an `Interface`. A dim of the caller is a symbol of the inputs' shapes; every axis of an
input is an expression of them, and has a word in one row of all dims, as every axis of a result has in another row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.dims import Dim, Size, bounds, free_symbols
from anyshape.dtypes import DType
from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.origins import Names
from anyshape.graph.value import Value
from anyshape.types import ListType

# of C11 and C++20, and the parameters that functions of the header have
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
    not not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict return short signed sizeof static
    static_assert static_cast struct switch template this throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq arena arena_bytes weights inputs outputs output shape status pool threads main
"""
_RESERVED = frozenset(_WORDS.split())


@dataclass(frozen=True, slots=True)
class CallerDim:
    """A dim that callers pass. `label` is what messages call it, `c_name` the parameter."""

    symbol: Dim
    label: str
    c_name: str


@dataclass(frozen=True, slots=True)
class InterfaceTensor:
    """An input or an output. `first`: the place of its first dim among those of all inputs, or of all outputs. The shape of an output is
    one of symbols that other values may define."""

    name: str
    c_name: str
    dtype: DType
    shape: tuple[Size, ...]
    first: int

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Interface:
    """`name` begins the names of all that the object defines for others."""

    name: str
    dims: tuple[CallerDim, ...]
    inputs: tuple[InterfaceTensor, ...]
    outputs: tuple[InterfaceTensor, ...]

    @property
    def input_words(self) -> int:
        """Number of dims of all inputs."""
        return sum(t.rank for t in self.inputs)

    @property
    def output_words(self) -> int:
        return sum(t.rank for t in self.outputs)


def interface(f: Function, name: str) -> Interface:
    """Names what callers see. Raises UnsupportedError for an input or an output that is no tensor of known rank."""
    inputs = _tensors("input", [(p.name, p) for p in f.params])
    outputs = _tensors("output", list(zip(f.result_names, f.results, strict=True)))
    names, symbols = Names(f), dict[Dim, None]()
    for t in inputs:
        for n in t.shape:
            if isinstance(n, Dim):
                symbols.update(dict.fromkeys(sorted(free_symbols(n), key=lambda s: s.uid)))
    labels = [names[s] for s in symbols]
    c_names = unique(labels)
    dims = tuple(CallerDim(s, label, c) for s, label, c in zip(symbols, labels, c_names, strict=True))
    return Interface(name, dims, inputs, outputs)


def _tensors(what: str, values: Sequence[tuple[str, Value]]) -> tuple[InterfaceTensor, ...]:
    tensors, first = list[InterfaceTensor](), 0
    for (name, v), c_name in zip(values, unique([name for name, _ in values]), strict=True):
        if isinstance(v.type, ListType):
            raise UnsupportedError(
                f"{what} {name}: {v.type}: export takes tensors only, and no lists; pass the elements of the list"
            )
        if v.type.shape is None:
            raise UnsupportedError(
                f"{what} {name}: {v.type}: export takes tensors of known rank only; say its rank in the model"
            )
        tensors.append(InterfaceTensor(name, c_name, v.type.dtype, v.type.shape, first))
        first += len(v.type.shape)
    return tuple(tensors)


def unique(labels: Sequence[str]) -> list[str]:
    """Makes identifiers of C, no two alike."""
    taken: set[str] = set()
    names = []
    for label in labels:
        plain = re.sub(r"\W+", "_", label, flags=re.ASCII).strip("_") or "dim"
        if plain[0].isdigit() or plain in _RESERVED:
            plain = f"d_{plain}"
        name, k = plain, 2
        while name in taken:
            name, k = f"{plain}_{k}", k + 1
        taken.add(name)
        names.append(name)
    return names


def checked_name(name: str) -> str:
    """The name of a model, if it can begin names in C. Raises ArgumentError."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name) or name in _RESERVED or name.startswith("anyshape_"):
        raise ArgumentError(
            f"name must be at most 100 letters, digits and _, a letter first, and no word of C or C++, got {name!r}"
        )
    return name


def name_from(text: str) -> str:
    """A name of a model made of any text, as that of a file."""
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    plain = plain[:90]
    return (
        plain
        if plain[:1].isalpha() and plain not in _RESERVED and not plain.startswith("anyshape_")
        else f"model_{plain}".strip("_")
    )


def bounds_text(s: Dim) -> str:
    """The sizes that a dim may have."""
    low, high = bounds(s)
    return f"at least {low or 0}" if high is None else f"{low or 0} to {high}"
