"""Expands searches: `t[i] = search(c for k in n)` becomes a recurrence that finds the place in as many steps as n has binary digits.

In: the spec of an op. Out: its kernel with equations in place of each search, and findings of searches that stand elsewhere. A step adds
a power of two to the place found so far, the largest first, if c holds at the position before the new place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.body_nodes import Annotation, Equation, Kernel, Store
from anyshape_gen.model.build import add, call, multiply, subtract
from anyshape_gen.model.functions import CONSTANTS
from anyshape_gen.model.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Generator,
    IfExp,
    Index,
    Int,
    Item,
    Name,
    Node,
    Reduction,
    Star,
    Target,
)
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import bound_by, rebuild, walk_all
from anyshape_gen.resolve.kinds import kind_of

DIGITS, MOST = 4, 16
"""Binary digits of a size are counted by so many, and a size has at most MOST of these groups: it is less than 2 ** 63."""
FORM = "`t[i] = search(c for k in n)`"


def check_searches(spec: OpSpec, findings: Findings) -> None:
    """Checks that a search is the whole right side of an equation, over one dim."""
    whole = {id(e.value) for e in _equations(spec) if _finds(e)}
    bodies: list[Node] = [*spec.params, *spec.shape, *spec.defines]
    bodies += [body for body in (spec.kernel, spec.procedure, spec.compose) if body is not None]
    for node in walk_all(bodies):
        if isinstance(node, Call) and node.func == "search":
            findings.add(node.span, f"'search' is of a condition: {FORM}")
        elif isinstance(node, Reduction) and node.kind == "search":
            if id(node) not in whole:
                text = f"a search must be the whole right side of an equation of a kernel, {FORM}; others can read t"
                findings.add(node.span, text)
            elif len(node.generators) != 1 or node.conditions or not _is_dim(node.generators[0]):
                text = f"a search goes over the positions of one dim, {FORM}, without an `if` and not over a range"
                findings.add(node.generators[0].span, text)


def _equations(spec: OpSpec) -> tuple[Equation, ...]:
    return spec.kernel.equations if spec.kernel is not None else ()


def _finds(e: Equation) -> bool:
    """Whether an equation is a search in all of a tensor's elements, or in those at some constant places."""
    plain = e.target.element is None and all(isinstance(_bare(i), (Name, Int)) for i in e.target.items or ())
    is_search = isinstance(e.value, Reduction) and e.value.kind == "search"
    return is_search and e.op == "=" and not e.generators and e.target.items is not None and plain


def _bare(item: Item) -> Item:
    return item.value if isinstance(item, Star) else item


def _is_dim(g: Generator) -> bool:
    return len(g.targets) == 1 and not g.targets[0].run and not isinstance(g.domain, (Call, Comprehension))


def with_searches(spec: OpSpec, kinds: Mapping[str, ValueKind], findings: Findings) -> Kernel | None:
    """Returns the op's kernel, with recurrences in place of its searches."""
    if spec.kernel is None or not any(map(_finds, spec.kernel.equations)):
        return spec.kernel
    tensors = {e.target.tensor for e in spec.kernel.equations} | {o.name for o in (*spec.inputs, *spec.outputs)}
    kinds = {**kinds, **{e.target.tensor: ValueKind.INT for e in spec.kernel.equations if e.target.items is None}}
    expanded: list[Equation] = []
    for e in spec.kernel.equations:
        if not _finds(e):
            expanded.append(e)
            continue
        assert isinstance(e.value, Reduction)
        domain = e.value.generators[0].domain
        if kind_of(domain, kinds) is not ValueKind.INT:
            findings.add(domain.span, f"a search goes over the positions of one dim, {FORM}, and this is no size")
            continue
        known = {*kinds, *tensors, *CONSTANTS}
        recurrence = list(_recurrence(e, e.value, known))
        tensors |= {q.target.tensor for q in recurrence}
        expanded += recurrence
    return replace(spec.kernel, equations=tuple(expanded))


def _recurrence(e: Equation, search: Reduction, known: set[str]) -> Iterator[Equation]:
    """Yields the equations of a search: the powers of two, the next place to try, the place found so far, the last of these."""
    used = known | {n.id for n in walk_all([e]) if isinstance(n, Name)} | bound_by(search.generators)
    named = (f"{e.target.tensor}_by", f"{e.target.tensor}_at", f"{e.target.tensor}_next", "step", "digits")
    by, at, next_, s, q = (_free(name, used) for name in named)
    items = tuple(i for i in e.target.items or () if isinstance(v := _bare(i), Name) and v.id not in known)
    n = search.generators[0].domain
    digit = Compare(BinOp("**", Int(2**DIGITS), Name(q)), (("<=", n),))
    count = Reduction("count", digit, (Generator((Target(q),), call("range", Int(1), Int(MOST))),))
    steps = multiply((Int(DIGITS), add(count, Int(1))))

    def element(name: str, *index: Item) -> Expr:
        return Index(Name(name), index)

    def equation(name: str, index: tuple[Item, ...], value: Expr, note: Annotation | None = None) -> Equation:
        return Equation(Store(name, None, index, span=e.target.span), "=", value, note, e.conditions, span=e.span)

    before = IfExp(Compare(Name(s), ((">", Int(0)),)), element(at, subtract(Name(s), Int(1)), *items), Int(0))
    new = element(next_, Name(s), *items)
    position = call("clamp", subtract(new, Int(1)), Int(0), subtract(n, Int(1)))
    holds = _placed(search.element, {search.generators[0].targets[0].name: position})
    inside = (Compare(n, ((">", Int(0)),)), Compare(new, (("<=", n),)))
    power = call("shift_left", call("i64", Int(1)), subtract(subtract(steps, Int(1)), Name(s)))
    yield equation(by, (Name(s),), power, Annotation("i64", (steps,), span=e.span))
    yield equation(next_, (Name(s), *items), call("i64", add(before, element(by, Name(s)))))
    yield equation(at, (Name(s), *items), IfExp(BoolOp("and", inside), IfExp(holds, new, before), before))
    last = element(at, subtract(steps, Int(1)), *items)
    yield replace(e, value=last)


def _free(name: str, used: set[str]) -> str:
    """Returns the name, or a longer one where it is used."""
    while name in used:
        name += "_"
    used.add(name)
    return name


def _placed(node: Any, values: Mapping[str, Expr]) -> Any:
    """Puts values in place of names, but where a comprehension binds these."""
    if isinstance(node, Name):
        return replace(value, span=node.span) if (value := values.get(node.id)) is not None else node
    if isinstance(node, (Comprehension, Reduction)):
        values = {name: v for name, v in values.items() if name not in bound_by(node.generators)}
    return rebuild(node, lambda child: _placed(child, values))
