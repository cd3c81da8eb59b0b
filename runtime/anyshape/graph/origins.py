"""What messages call a symbol that nobody named: the place it was read off, `x.shape[0]` or `s[1]`.

Names that `fresh` makes count what a process has made, and say nothing to anybody; no message may show one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import cached_property

from anyshape.dims import ANONYMOUS, Dim, legible_name
from anyshape.graph.function import Function, topological
from anyshape.graph.text import is_anonymous
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Element, Node, Value


def origins(values: Iterable[tuple[str, Value]]) -> dict[Dim, str]:
    """The name of each anonymous symbol: the position at which it first stands alone. Names that two positions would share are numbered."""
    names: dict[Dim, str] = {}
    taken: set[str] = set()
    for label, v in values:
        positions: list[tuple[Element, str, str]] = [
            (n, f"shape[{axis}]", ".") for axis, n in enumerate(v.type.shape or ())
        ]
        positions += [(e, f"[{k}]" if v.type.rank else "", "") for k, e in enumerate(v.contents or ())]
        for n, place, dot in positions:
            if isinstance(n, Dim) and n.is_symbol and n not in names and is_anonymous(n):
                names[n] = _numbered(label, f"{dot}{place}", taken)
    return names


def _numbered(label: str, place: str, taken: set[str]) -> str:
    return unused(f"{label}{place}", taken, lambda k: f"{label}#{k}{place}")


class Names:
    """The names of one function's anonymous symbols, computed when the first is asked for."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.elsewhere: dict[Dim, str] = {}
        """Symbols that stand alone nowhere, such as a size that only sums mention, by what they were made as."""

    @cached_property
    def names(self) -> dict[Dim, str]:
        return origins(labelled_values(self.f))

    def __getitem__(self, s: Dim) -> str:
        if not is_anonymous(s):
            return s.name
        name = self.names.get(s) or self.elsewhere.get(s)
        if name is None:
            label = s.name.rpartition(".")[0] or "size"
            name = self.elsewhere[s] = _numbered(label, "", {*self.names.values(), *self.elsewhere.values()})
        return name


def labelled_values(f: Function) -> Iterator[tuple[str, Value]]:
    """Every value of a function, those of its regions included, with what a message calls it."""
    for p in f.params:
        yield p.name, p
    for node in f.nodes:
        for region in node.regions:
            yield from labelled_values(region)
        for v in node.outputs:
            yield node.op.name, v


def reworded(text: str, node: Node, printed: Set[str] = frozenset()) -> str:
    """A message about a call, its anonymous symbols called by what they were read off: an operand, or what it is computed from. Others
    among those that were `printed` are any size, `?`."""
    asked = set(ANONYMOUS.findall(text))
    if not asked:
        return text
    names: dict[str, str] = {}
    known = {} if node.op.control is not None else origins(_with_operands(node))  # what regions capture has no names
    names.update((s.name, name) for s, name in known.items())
    if not asked <= names.keys():
        names = {s.name: name for s, name in origins(_behind(node)).items()} | names
    names = {name: legible_name(name) for name in printed} | names
    return ANONYMOUS.sub(lambda m: names.get(m.group(), m.group()), text)


def _with_operands(node: Node) -> Iterator[tuple[str, Value]]:
    names = [i.name for i in node.op.inputs for _ in range(node.variadic_count() if i.variadic else 1)]
    names += [p.name for p in node.op.operands]
    for name, v in zip(names, node.inputs):
        if v is not None:
            yield v.name or name, v


def _behind(node: Node) -> Iterator[tuple[str, Value]]:
    """Everything that the operands are computed from: inputs first, then results in order."""
    nodes = topological([v for v in node.inputs if v is not None])
    for p in dict.fromkeys(v for n in (*nodes, node) for v in n.inputs if v is not None and v.is_param):
        yield p.name, p
    for n in nodes:
        for v in n.outputs:
            yield n.op.name, v
