"""Marks variables that number tensors of a variadic: which tensor an equation reads or defines is decided when its kernel is built.

In: the variables of a left side, its parts, and the resolved right side. Out: the variables, those that number tensors marked; and
messages about reads whose tensor is not known when the kernel is built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from anyshape_gen.model.analysis import IndexVar, Role
from anyshape_gen.model.nodes import (
    Comprehension,
    Expr,
    Generator,
    Name,
    Node,
    Offset,
    Over,
    Part,
    Reduction,
    TensorRead,
)
from anyshape_gen.model.source import Span
from anyshape_gen.model.traverse import children, walk


def numbering(
    variables: tuple[IndexVar, ...], parts: tuple[Part, ...], value: Expr, counts: Mapping[str, Expr]
) -> tuple[IndexVar, ...]:
    """Marks variables that are no loops, since each tensor gets an equation of its own: those of ragged dims, and those that select a
    tensor of a variadic and have its number of tensors as extent. `counts` are the numbers of tensors of the variadics."""
    extents = {v.name: v.extent for v in variables}
    numbers = {p.element.id for p in parts if isinstance(p, Offset) and isinstance(p.element, Name)}
    for read in _choices(value):
        if isinstance(read.element, Name) and extents.get(read.element.id) == counts.get(read.tensor):
            numbers.add(read.element.id)
    return tuple(replace(v, role=Role.ELEMENT) if v.name in numbers else v for v in variables)


def chooses_tensor(e: Reduction | Comprehension, g: Generator) -> bool:
    """Whether the variable of a generator selects the tensor of a variadic that is read."""
    if g.over is not Over.EXTENT or len(g.targets) != 1:
        return False
    return any(g.targets[0].name in _names(read) for read in _choices(e))


def unnumbered(
    node: Node, known: Collection[str], counts: Mapping[str, Expr], domains: Mapping[str, Expr] | None = None
) -> Iterator[tuple[Span, str]]:
    """Yields messages about reads of a tensor that is not known when the kernel is built; `known` are the names that are known then, and
    `domains` are the domains of the variables of the reductions around."""
    around = dict(domains or {})
    if isinstance(node, TensorRead) and node.element is not None:
        count = counts[node.tensor]
        if any(isinstance(n, TensorRead) for n in walk(node.element)):
            yield node.span, f"an element of a tensor cannot select a tensor of '{node.tensor}'"
            return
        for name in dict.fromkeys(_names(node)):
            if name not in known and around.get(name) != count:
                over = f"'{count.id}'" if isinstance(count, Name) else f"the number of '{node.tensor}'"
                yield (
                    node.span,
                    (
                        f"'{name}' varies at run time and cannot select a tensor of '{node.tensor}'; "
                        f"a variable that does must run over {over}"
                    ),
                )
    if isinstance(node, Reduction):
        around |= {g.targets[0].name: g.domain for g in node.generators if g.over is Over.EXTENT}
    for child in children(node):
        yield from unnumbered(child, known, counts, around)


def _names(read: TensorRead) -> list[str]:
    return [n.id for n in walk(read.element) if isinstance(n, Name)] if read.element is not None else []


def _choices(node: Node) -> Iterator[TensorRead]:
    """Yields reads of a tensor of a variadic."""
    for n in walk(node):
        if isinstance(n, TensorRead) and n.element is not None:
            yield n
