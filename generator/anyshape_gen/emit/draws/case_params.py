"""Emits draws of parameters, by their kinds and by the constraints of asserts.

In: a writer, and a parameter. Out: its draw, and the draws that it depends on, in the writer's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyshape_gen.emit.draws.case_sizes import each_between, mostly, mostly_equal
from anyshape_gen.emit.draws.case_text import dtypes, local
from anyshape_gen.emit.draws.case_writer import CaseWriter
from anyshape_gen.emit.rules.relations import literal
from anyshape_gen.emit.text.module import quoted, tuple_text, use
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.nodes import Call, Compare, Expr, Int, Name, NoneLit, Str
from anyshape_gen.model.spec import ParamSpec, Run
from anyshape_gen.model.traverse import free_names


def param(w: CaseWriter, p: ParamSpec) -> None:
    """Emits the draw of a parameter, once."""
    if p.kind.base == "strs" and isinstance(p.default, NoneLit):
        w.new(p.name, "None")  # only examples have values of it
    elif p.name not in w.drawn:
        w.open.add(p.name)
        if p.name in w.resolved and w.default_is_known(p):
            w.draw_first(p.default)
        if p.kind.base not in DRAWS:
            raise NotExecuted(p, f"a random call with a parameter of kind {p.kind.base}")
        drawn, default = DRAWS[p.kind.base](w, p), w.default(p)
        w.open.remove(p.name)
        if p.kind.base in ("ints", "axes"):
            drawn = f"{use('Vec')}({drawn})"
        if p.name in w.resolved and default is not None:
            w.passed[p.name] = f"{p.name}_given"
            w.code.add(f"{p.name}_given = d.default({drawn})")
            drawn = f"{default} if {p.name}_given is None else {p.name}_given"
        w.new(p.name, drawn)
        for k, e in w.constraints.items(p.name, lambda e: free_names(e) <= w.drawn):
            w.code.add(f"{local(p.name)} = d.with_item({local(p.name)}, {k}, {w.spell(e)})")


def _count(w: CaseWriter, p: ParamSpec) -> str:
    """Returns the length of a list; an open name is drawn with the first list whose length it is."""
    length = p.kind.length
    if length is None:
        return mostly(w, Call("len", (Name(p.name),)), "d.length(3)", size=True)
    if isinstance(length, Name):
        w.new(length.id, f"d.length({_most(w, length.id)})")
    return w.spell(length)


def _most(w: CaseWriter, length: str) -> str:
    """Returns the greatest length of a list: a list of axes, which are distinct, is no longer than the rank."""
    shared = any(q.kind.base == "axes" and q.kind.length == Name(length) for q in w.spec.params)
    return f"min(3, {w.rank(w.spec.inputs[0])})" if shared and w.spec.inputs else "3"


def _int(w: CaseWriter, p: ParamSpec) -> str:
    any_other = "d.positives(1)[0]" if w.constraints.positive(p.name) else "d.integer()"
    if (of := w.constraints.divides(p.name, lambda e: free_names(e) <= w.drawn)) is not None:
        return f"d.divisor({w.spell(of)})"
    drawn = mostly(w, Name(p.name), any_other)
    if drawn != any_other:
        return drawn
    bounds = w.constraints.bounds(Name(p.name), lambda e: free_names(e) <= w.drawn)
    if bounds is None or bounds.high is None or (isinstance(bounds.high, Int) and isinstance(bounds.low, Int)):
        return drawn
    low = w.spell(bounds.low) if bounds.low is not None else "None"
    return f"d.between({low}, {w.spell(bounds.high)})"


def _axes(w: CaseWriter, p: ParamSpec) -> str:
    rank = w.rank(w.spec.inputs[0]) if w.spec.inputs else "3"
    if p.of is not None and p.name in free_names(p.of):
        w.code.add("more = d.length(2)")
        return f"d.axes(more, {rank} + more)"
    if p.kind.length is not None:
        return f"d.axes({_count(w, p)}, {rank})"
    w.code.add(f"some = d.length({rank})")
    return f"d.axes(some, {rank})"


def _ints(w: CaseWriter, p: ParamSpec) -> str:
    """Returns the draw by the first function of INTS that applies."""
    return next(text for way in INTS if (text := way(w, p)) is not None)


def _partition(w: CaseWriter, p: ParamSpec) -> str | None:
    total = _sums_to(w, p.name)
    return f"d.partition({w.spell(total)})" if total is not None and free_names(total) <= w.drawn else None


def _like(w: CaseWriter, p: ParamSpec) -> str | None:
    alike = w.constraints.like(p.name, lambda e: free_names(e) <= w.drawn)
    return f"d.like({w.spell(alike[0])}, {tuple_text(map(w.text.text, alike[1]))})" if alike is not None else None


def _regrouped(w: CaseWriter, p: ParamSpec) -> str | None:
    """Draws the shape of a view: other dims with as many elements."""
    grouped = w.spec.view and isinstance(p.kind.length, Name)
    return f"d.regrouped({_first_shape(w)})" if grouped else None


def _ints_between(w: CaseWriter, p: ParamSpec) -> str | None:
    bounds = w.constraints.bounds(Name(p.name), lambda e: w.known(e, Name(p.name)))
    if bounds is None or (bounds.high is None and isinstance(bounds.low, Int)):
        return None
    return each_between(w, bounds, _count(w, p))


def _any_ints(w: CaseWriter, p: ParamSpec) -> str | None:
    kind = "positives" if w.constraints.positive(p.name) else "sizes" if w.constraints.not_negative(p.name) else "ints"
    return mostly_equal(w, p.name, f"d.{kind}({_count(w, p)})")


INTS: tuple[Callable[[CaseWriter, ParamSpec], str | None], ...] = (
    _partition,
    _like,
    _regrouped,
    _ints_between,
    _any_ints,
)
"""Functions that draw a list of numbers, the most specific first"""


def _first_shape(w: CaseWriter) -> str:
    pieces = w.spec.inputs[0].signature.pieces
    match pieces:
        case (Run(name),):
            return local(name)
    raise NotExecuted(w.spec, "a random shape for this signature")


def _sums_to(w: CaseWriter, name: str) -> Expr | None:
    for s in w.constraints.parts:
        match s:
            case Compare(Call("sum", (Name(id),), ()), (("==", total),)) if id == name:
                return total
    return None


def _truth(w: CaseWriter, p: ParamSpec) -> str:
    return "d.truth()"


def _float(w: CaseWriter, p: ParamSpec) -> str:
    default = literal(p.default) if p.default is not None else None
    drawn = f"d.real({default!r})" if isinstance(default, (int, float)) else "d.real(None)"
    return f"abs({drawn})" if w.constraints.not_negative(p.name) else drawn


def _floats(w: CaseWriter, p: ParamSpec) -> str:
    return f"tuple(d.real(1.0) for _ in range({_count(w, p)}))"


def _str(w: CaseWriter, p: ParamSpec) -> str:
    """Draws a string among those of the examples, since hardly any other is valid."""
    values = [str(v.value) for e in w.spec.examples for name, v in e.arguments if name == p.name]
    return _member([*values, *([p.default.value] if isinstance(p.default, Str) else [])])


def _enum(w: CaseWriter, p: ParamSpec) -> str:
    return _member(p.kind.members)


def _dtype(w: CaseWriter, p: ParamSpec) -> str:
    return _member(dtypes(p))


def _member(texts: Iterable[str]) -> str:
    return f"d.member({tuple_text(map(quoted, dict.fromkeys(texts)))})"


def _axis(w: CaseWriter, p: ParamSpec) -> str:
    return f"d.free_axis({w.rank(w.spec.inputs[0])})"


DRAWS: dict[str, Callable[[CaseWriter, ParamSpec], str]] = {
    "int": _int,
    "number": _int,
    "bool": _truth,
    "float": _float,
    "str": _str,
    "enum": _enum,
    "dtype": _dtype,
    "axis": _axis,
    "axes": _axes,
    "ints": _ints,
    "floats": _floats,
}
"""Functions that draw a parameter, by its kind; strings are taken from examples."""
