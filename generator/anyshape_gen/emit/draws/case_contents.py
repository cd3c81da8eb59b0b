"""Infers constraints on the contents of the inputs of a random call: ranges of indices, ascending rows, first and last elements.

In: an op's analysis, the names that are drawn, and a printer of expressions of them. Out: texts for `Case`. They are inferred from
asserts on values, and from indices in the kernel; contents that still violate an assert are drawn again at run time.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape_gen.emit.draws.constraints import all_of
from anyshape_gen.emit.draws.inlining import is_expression
from anyshape_gen.emit.text.module import quoted
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import (
    BinOp,
    Call,
    Compare,
    Comprehension,
    Exact,
    Expr,
    Int,
    Item,
    Name,
    Reduction,
    TensorRead,
    Unary,
)
from anyshape_gen.model.spec import Dim
from anyshape_gen.model.traverse import free_names, walk

Spell = Callable[[Expr], str]


def content_constraints(a: OpAnalysis, drawn: set[str], spell: Spell) -> dict[str, list[str]]:
    """Builds arguments of `Case`, each a list of entries; empty where there is no constraint."""
    return {"ranges": _ranges(a, drawn, spell), **_ordered(a, drawn, spell)}


def _ranges(a: OpAnalysis, drawn: set[str], spell: Spell) -> list[str]:
    """Builds the ranges of inputs that the kernel uses as wrapped indices, or that an assert bounds: `"index": (-n, n)`."""
    ranges: dict[str, str] = {}
    known = drawn | {p.name for p in a.spec.params}
    for q in a.kernel.equations if a.kernel is not None else ():
        tested = {
            n.tensor for c in q.filters for n in walk(c) if isinstance(n, TensorRead)
        }  # drawn on both sides of a test
        for node in walk(q):
            match node:
                case Call("wrap", (TensorRead(tensor) | Comprehension(TensorRead(tensor)), _), _) if tensor in tested:
                    continue
                case Call("wrap", (TensorRead(tensor), n), _) if is_expression(n) and free_names(n) <= drawn:
                    ranges[tensor] = f"{quoted(tensor)}: ({spell(Unary('-', n))}, {spell(n)})"
                case Call("wrap", (Comprehension(TensorRead(tensor)), n), _) if (
                    is_expression(n) and free_names(n) <= drawn
                ):
                    size = f"min({spell(n)}, default=1)"
                    ranges[tensor] = f"{quoted(tensor)}: (-{size}, {size})"
    for check in a.reading:
        for node in walk(check.cond):
            match node:
                case Compare(low, (("<=", TensorRead(tensor)), ("<" | "<=" as op, high))):
                    if free_names(low) | free_names(high) <= known:
                        more = " + 1" if op == "<=" else ""
                        ranges[tensor] = f"{quoted(tensor)}: ({spell(low)}, {spell(high)}{more})"
    return list(ranges.values())


def _ordered(a: OpAnalysis, drawn: set[str], spell: Spell) -> dict[str, list[str]]:
    """Collects inputs whose rows must ascend, and those whose first or last element an assert fixes."""
    rising: dict[str, None] = {}
    ends: dict[str, dict[int, str]] = {}
    known = drawn | {p.name for p in a.spec.params}
    for part in (p for check in a.reading for p in all_of(check.cond)):
        match part:
            case Reduction("all", Compare(TensorRead() as here, ((("<=" | "<"), TensorRead() as there),)), _, ()):
                if _is_before(here, there):
                    rising[here.tensor] = None
            case Compare(TensorRead() as read, (("==", value),)) if free_names(value) <= known:
                if (end := _end(a, read)) is not None:
                    ends.setdefault(read.tensor, {})[end] = spell(value)
    pairs = [f"{quoted(name)}: ({e.get(0)}, {e.get(1)})" for name, e in ends.items()]
    return {"rising": [quoted(name) for name in rising], "ends": pairs}


def _end(a: OpAnalysis, read: TensorRead) -> int | None:
    """Returns 0 for a read of the first element of a vector, 1 for its last."""
    o = a.spec.input(read.tensor)
    match o.signature.pieces if o is not None else (), _items(read):
        case (Dim(_, False),), (Int(0),):
            return 0
        case (Dim(n, False),), (BinOp("-", Name(m), Int(1)),) if n == m:
            return 1
    return None


def _items(read: TensorRead) -> tuple[Item, ...]:
    """Returns the indices of a read, one for each dim."""
    return tuple(i for p in read.parts if isinstance(p, Exact) for i in p.items)


def _is_before(a: TensorRead, b: TensorRead) -> bool:
    """Whether b is the element after a in the same row."""
    here, behind = _items(a), _items(b)
    if a.tensor != b.tensor or not here or here[:-1] != behind[:-1]:
        return False
    last = here[-1]
    return is_expression(last) and behind[-1] == BinOp("+", last, Int(1))
