"""Emits draws of dims and runs, by the constraints of asserts.

In: a writer, and the name of a dim or a run. Out: the text of its draw.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape_gen.emit.draws.case_text import may_subtract, run_of
from anyshape_gen.emit.draws.case_writer import CaseWriter
from anyshape_gen.emit.draws.constraints import ANY, Between, unconditional
from anyshape_gen.emit.text.module import quoted, tuple_text, use
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.nodes import Call, Compare, Expr, Index, Int, Name
from anyshape_gen.model.traverse import free_names
from anyshape_gen.resolve.kinds import kind_of


def run(w: CaseWriter, name: str, length: Expr | None = None) -> str:
    """Draws a run by the first function of RUNS that applies."""
    return next(text for way in RUNS if (text := way(w, name, length)) is not None)


def _each_of(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    each = w.constraints.each(name, lambda e: w.known(e, Name(name)))
    if not each or (length is not None and not free_names(length) <= w.drawn):
        return None
    count = f", {w.spell(length)}" if length is not None else ""
    return f"{use('Vec')}(d.each_of({tuple_text(map(w.spell, each))}{count}))"


def _of_a_number(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    """Draws a run whose length the signature has as a number, each dim by itself."""
    if not isinstance(length, Int):
        return None
    return f"{use('Vec')}({tuple_text([number(w, Index(Name(name), (Int(k),)), name) for k in range(length.value)])})"


def _of_a_length(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    """Draws a run whose length is computed from drawn names, or from params, which are then drawn first."""
    if length is None or isinstance(length, Name) or not free_names(length) <= w.drawn | w.params.keys():
        return None
    w.draw_first(length)
    count = w.spell(length)
    one = f"d.positives({count})" if w.constraints.positive(name) else f"d.dim({quoted(name)}) for _ in range({count})"
    return run_between(w, name, count) or mostly_equal(w, name, f"{use('Vec')}({one})")


def _repeated(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    for s in w.constraints.parts:
        match s:
            case Compare(Name(id), (("==", Int(value)),)) if id == name:
                return f"d.repeated({value})"
            case Compare(Call("prod", (Name(id),), ()), (("==", Int(1)),)) if id == name:
                return "d.repeated(1)"
    return None


def _broadcasting(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    to = [w.spell(e) for e in w.constraints.broadcasts_to(name, lambda e: w.known(e, Name(name)))]
    return f"d.broadcasting_to({to[0] if len(to) == 1 else f'd.member({tuple_text(to)})'})" if to else None


def _between(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    return run_between(w, name, None)


def _broadcast_of(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    narrow = w.constraints.broadcast_of(name, lambda e: free_names(e) <= w.drawn)
    return f"d.broadcast_of({w.spell(narrow)})" if narrow is not None else None


def _any_run(w: CaseWriter, name: str, length: Expr | None) -> str | None:
    count = mostly(w, Call("len", (Name(name),)), "d.length(3)", size=True, of_vectors=False)
    return mostly_equal(w, name, f"d.run({quoted(name)})" if count == "d.length(3)" else run_of(name, count))


RUNS: tuple[Callable[[CaseWriter, str, Expr | None], str | None], ...] = (
    _each_of, _of_a_number, _of_a_length, _repeated, _broadcasting, _between, _broadcast_of, _any_run
)  # fmt: skip
"""Functions that draw a run, the most specific first"""


def run_between(w: CaseWriter, name: str, count: str | None) -> str | None:
    """Draws a run that others bound, dim by dim; `count`: its length, by default that of the vector that bounds it."""
    bounds = w.constraints.bounds(Name(name), lambda e: free_names(e) <= w.drawn)
    if bounds is None or (isinstance(bounds.low, Int) and bounds.high is None):
        return None
    vectors = [e for e in (bounds.low, bounds.high) if e is not None and kind_of(e, w.a.kinds) is ValueKind.VECTOR]
    if not vectors and count is None:
        return None
    return f"{use('Vec')}({each_between(w, bounds, count or f'len({w.spell(vectors[0])})', low=Int(0))})"


def each_between(w: CaseWriter, b: Between, count: str, low: Expr | None = None) -> str:
    ends = [w.spell(e) if e is not None else "None" for e in (b.low or low, b.high)]
    return f"d.each_between({count}, {', '.join(ends)})"


def size(w: CaseWriter, name: str) -> str:
    """Draws one dim."""
    for what, e in (("divisor", w.constraints.divides), ("multiple", w.constraints.multiple)):
        if (by := e(name, lambda e: w.known(e, Name(name)))) is not None:
            return f"d.{what}({w.spell(by)})"
    return number(w, Name(name), name)


def number(w: CaseWriter, subject: Expr, name: str) -> str:
    any_dim = f"d.dim({quoted(name)})"
    drawn = mostly(w, subject, any_dim, size=True)
    bounds = w.constraints.bounds(subject, lambda e: free_names(e) <= w.drawn) if drawn == any_dim else None
    if bounds is None or (isinstance(bounds.low, Int) and bounds.high is None):
        return drawn
    return (
        f"d.between({', '.join(w.spell(e) if e is not None else 'None' for e in (bounds.low or Int(0), bounds.high))})"
    )


def mostly_equal(w: CaseWriter, name: str, any_other: str) -> str:
    """Draws a vector that the asserts require, and rarely any other."""
    equal = w.constraints.equal(Name(name), lambda e: w.known(e, Name(name)))
    values = [v for v in equal if v is not None and kind_of(unconditional(v), w.a.kinds) is ValueKind.VECTOR]
    words = [w.spell(v).replace(ANY.id, any_other) for v in values]
    return f"d.mostly({tuple_text(words)}, lambda: {any_other})" if values else any_other


def mostly(w: CaseWriter, subject: Expr, any_other: str, size: bool = False, of_vectors: bool = True) -> str:
    """Draws a value that the asserts require of the subject, and rarely any other. `of_vectors`: also by vectors that are not drawn yet."""

    def known(e: Expr) -> bool:
        later = {w.params[n].kind.base for n in free_names(e) - w.drawn if n in w.params}
        return w.known(e, subject) and (of_vectors or later.isdisjoint(("ints", "axes")))

    values = w.constraints.values(subject, known)
    if not values:
        return any_other
    for v in values:
        w.draw_first(v)
    words = [any_other if v is None else _value(w, v, size).replace(ANY.id, any_other) for v in values]
    return f"d.mostly({tuple_text(words)}, lambda: {any_other})"


def _value(w: CaseWriter, e: Expr, size: bool) -> str:
    """Prints a value; a size is at least 0."""
    if not size or not (free_names(e) & set(w.params) or may_subtract(e)):
        return w.spell(e)
    return f"max(0, {w.spell(e)})"
