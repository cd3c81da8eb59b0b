"""Integer expressions for dims: hash-consed polynomials over opaque atoms, three-valued conditions on them, and facts.

In: ints, symbols, text. Out: `Size = int | Dim`. `==` and `hash` of a Dim are identity (`==` gives a `Sameness`), and equal expressions are
one object, so dims live in sets and dict keys; an operation whose result is a number returns a plain int.

    symbol(name, low=0, high=None) -> Dim      the same name, low and high give the same object; low=None: any integer
    fresh(prefix="?", low=0, high=None) -> Dim  a new symbol, equal to nothing else
    + - * // % of Dims and ints                 // and % floor, and are total: x // 0 == x % 0 == 0, since the rule carries the check
    ceil_div(a, b)  exact_div(a, b)  minimum(*xs)  maximum(*xs)  clamp(x, lo, hi)  select(c, a, b)
    bcast(a, b)                                 the broadcast of two dims: a if b == 1, b if a == 1, else a, which is checked to be b
    eq ne lt le gt ge (a, b) -> bool | Cond     a bool where bounds of symbols and polynomial reasoning decide it, else a Cond
    and_ or_ not_ (bool | Cond, …)              hash-consed too
    bounds(e) -> (low | None, high | None)      free_symbols(e | cond)   substitute(e | cond, {Dim: Size})
    evaluate(e | cond, {Dim: int})              str(e) reads like Python, for people
    Facts                                       equalities (union-find with substitution) and bounds learned from checks:
                                                facts.decide(cond) -> bool | Cond, facts.canonical(e) -> Size

Read access, for code that turns dims into something else (scalar instructions, bounds, text):

    dim.terms      tuple of (monomial, coefficient); a monomial is a tuple of atoms, powers repeated; () for constants
    atom.kind      symbol | min max floordiv mod bcast select
    atom.args      Sizes; (Cond, Size, Size) for select; two for floordiv, mod and bcast; two or more for min and max
    atom.name      of a symbol;  atom.low, atom.high: its bounds or None;  atom.dim: the Dim that is this atom alone
    dim.atom       the atom, where a dim is one atom alone, else None;  dim.kind, dim.args: its, or "poly" and ()
    cond.kind      eq (args[0] == 0) | ge (args[0] >= 0) | not (args[0] is an eq condition) | and | or
    cond.args      one Dim for eq and ge, one Cond for not, two or more Conds for and and or
"""

from anyshape.dims.atoms import bcast, clamp, maximum, minimum, select
from anyshape.dims.bound import bounds, nonneg, nonzero
from anyshape.dims.conditions import and_, eq, ge, gt, implied, le, lt, ne, not_, or_
from anyshape.dims.division import ceil_div, exact_div, floordiv, mod
from anyshape.dims.expr import Atom, Cond, Dim, Monomial, Sameness, Size, interned
from anyshape.dims.facts import Facts
from anyshape.dims.interning import MAX_DEPTH, NestedTooDeep
from anyshape.dims.record import SizeReader, SizeWriter
from anyshape.dims.solving import Definition, definitions, linear
from anyshape.dims.substitution import INT64_MAX, INT64_MIN, evaluate, free_symbols, substitute, value_text
from anyshape.dims.symbols import fresh, last_fresh, symbol
from anyshape.dims.text import (
    ANONYMOUS,
    anonymous_names,
    declare,
    element_name,
    exact_text,
    is_reworded,
    legible_name,
    parse_cond,
    parse_dim,
    template,
)
from anyshape.dims.ufuncs import of_ufunc

__all__ = [
    "ANONYMOUS", "INT64_MAX", "INT64_MIN", "MAX_DEPTH", "Atom", "Cond", "Definition", "Dim", "Facts", "Monomial",
    "NestedTooDeep", "Sameness", "Size", "SizeReader", "SizeWriter", "and_", "anonymous_names", "bcast", "bounds", "ceil_div", "clamp",
    "declare", "definitions", "element_name", "eq", "evaluate", "exact_div", "exact_text", "floordiv", "free_symbols", "fresh", "ge", "gt",
    "implied", "interned", "is_reworded", "last_fresh", "le", "legible_name", "linear", "lt", "maximum",
    "minimum", "mod", "ne", "nonneg", "nonzero", "not_", "of_ufunc", "or_", "parse_cond", "parse_dim", "select",
    "substitute", "symbol", "template", "value_text"
]  # fmt: skip
