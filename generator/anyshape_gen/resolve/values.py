"""Resolves right sides of equations: matches their reads to tensors.

In: an expression, the kernel's tensors, the variables of the equation. Out: the expression in which every read is a `TensorRead`;
extents of variables and scratches that follow from a read are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.nodes import (
    Call,
    Compare,
    Comprehension,
    Expr,
    Generator,
    Index,
    Int,
    Item,
    Name,
    Over,
    Reduction,
    Slice,
    Star,
    TensorRead,
)
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import Operand, OpSpec
from anyshape_gen.model.traverse import rebuild, walk
from anyshape_gen.resolve.extents import may_be_negative
from anyshape_gen.resolve.kinds import bind_generator, generator_over
from anyshape_gen.resolve.slots import Many, Matcher, One, Slot
from anyshape_gen.resolve.variables import Vars


@dataclass
class Scratch:
    """A scratch tensor as far as it is resolved: (is a run, extent) for each dim."""

    places: list[tuple[bool, Expr | None]]

    @property
    def slots(self) -> tuple[Slot, ...] | None:
        if any(extent is None for _, extent in self.places):
            return None
        return tuple(Many(e) if run else One(e) for run, e in self.places if e is not None)


class Tensors(Protocol):
    """The tensors of a kernel while it is resolved."""

    spec: OpSpec
    operands: dict[str, Operand]
    scratch: dict[str, Scratch]
    findings: Findings
    steps: bool
    """Whether they are those of a procedure, whose loops may have data-dependent numbers of iterations."""

    def slots(self, tensor: str, element: Expr | None) -> tuple[Slot, ...] | None: ...

    def matcher(self, tensor: str, element: Expr | None, variables: Vars) -> Matcher: ...


@dataclass
class ValueResolver:
    """Rebuilds a right side with its reads resolved; variables of a reduction are in scope inside it only."""

    kernel: Tensors
    variables: Vars
    scope: dict[str, ValueKind]
    report: bool

    def expr(self, node: Expr) -> Expr:
        match node:
            case Reduction() | Comprehension():
                return self._loop(node)
            case Index():
                return self._index(node)
        return rebuild(node, self._any)

    def item(self, item: Item) -> Item:
        """Resolves an index on a left side: a variable stays as it is, reads in any other expression are resolved."""
        changed = self._any(item)
        assert isinstance(changed, type(item)) or not isinstance(item, (Star, Slice))
        return changed

    def _any(self, node: Item) -> Item:
        return rebuild(node, self._any) if isinstance(node, (Star, Slice)) else self.expr(node)

    def _loop(self, node: Reduction | Comprehension) -> Expr:
        own = replace(self.variables, extents=dict(self.variables.extents), broadcast={})
        inner = ValueResolver(self.kernel, own, {}, False)
        inner.variables.runs = set(self.variables.runs)
        inner.scope = dict(self.scope)
        inner.report = self.report
        generators = inner.bind(node.generators)
        changed = rebuild(node, lambda part: part if part in node.generators else inner._any(part))
        within, generators = inner.ragged(generators)
        for name, extent in inner.variables.extents.items():
            if name in self.variables.extents and self.variables.extents[name] is None:
                self.variables.extents[name] = extent
        for name, extent in inner.variables.broadcast.items():
            if name in self.variables.extents:
                self.variables.broadcast.setdefault(name, extent)
        return replace(changed, generators=tuple(generators), conditions=(*within, *changed.conditions))

    def bind(self, generators: Iterable[Generator]) -> list[Generator]:
        """Resolves generators, and adds their variables, with the extents that they have."""
        resolved = []
        for generator in generators:
            over = generator_over(generator, self.scope)
            domain = self.expr(generator.domain)
            shown = domain if over in (Over.EXTENT, Over.EXTENTS) else None
            if over is Over.EXTENT and may_be_negative(generator.domain, self.kernel.spec):
                shown = Call("max", (domain, Int(0, span=domain.span)), (), span=domain.span)
                domain, over = Call("range", (domain,), (), span=domain.span), Over.RANGE
            bind_generator(generator, self.scope)
            for target in generator.targets:
                # A variable over items or over a range between two ends has no extent to propagate.
                self.variables.extents[target.name] = shown or Name(f"<{target.name}>")
            resolved.append(replace(generator, domain=domain, over=over))
            if over is Over.RANGE and not self.kernel.steps and self._reads(generator.domain):
                self.variables.extents[generator.targets[0].name] = None  # follows from its own reads
        return resolved

    def _reads(self, domain: Expr) -> bool:
        """Whether the ends of a range are read from tensors."""
        bases = [tensor_of(n.base) for n in walk(domain) if isinstance(n, Index)]
        return any(b is not None and (b[0] in self.kernel.operands or b[0] in self.kernel.scratch) for b in bases)

    def ragged(self, generators: list[Generator]) -> tuple[list[Expr], list[Generator]]:
        """Replaces ranges whose ends are read from tensors by the extent that their variable indexes, and adds conditions on the ends."""
        resolved: list[Generator] = []
        within: list[Expr] = []
        for g in generators:
            extents, domain = self.variables.extents, g.domain
            if g.over is Over.RANGE and g.targets[0].name in extents and not is_local(extents[g.targets[0].name]):
                name = Name(g.targets[0].name, span=g.span)
                extent = extents[name.id] or self.variables.broadcast.get(name.id)
                if extent is None:
                    if self.report:
                        text = f"'{name.id}' runs over a range whose ends are read from a tensor, so it must index a dim that is known"
                        text = f"{text}: x[{name.id}] of T[n] or T[*d, n], or of T[*d:1], a run of fixed length"
                        self.kernel.findings.add(g.span, text)
                    continue
                assert isinstance(domain, Call)
                ends = [a for a in domain.args if not isinstance(a, (Star, Slice))]
                within += [Compare(end, (("<=", name),), span=g.span) for end in ends[:-1]]
                within.append(Compare(name, (("<", ends[-1]),), span=g.span))
                g = replace(g, domain=extent, over=Over.EXTENT)
            resolved.append(g)
        return within, resolved

    def _index(self, node: Index) -> Expr:
        indexed = tensor_of(node.base)
        if indexed is None:
            return rebuild(node, self._any)
        tensor, element, outside = indexed
        known = self.kernel
        hidden = tensor in self.scope and node.items != ()  # a variable of a procedure is read by `v[()]`
        is_tensor = (tensor in known.operands or tensor in known.scratch) and not hidden
        if not is_tensor:
            return rebuild(node, self._any)
        operand = known.operands.get(tensor)
        if operand is not None and operand.signature.variadic and element is None:
            return rebuild(node, self._any)
        slots = known.slots(tensor, element)
        if slots is None:
            self._learn(tensor, node.items)
            return rebuild(node, self._any)
        matched = known.matcher(tensor, element, self.variables).match(node.items, slots)
        if isinstance(matched, str):
            if self.report:
                known.findings.add(node.span, f"the index of '{tensor}' does not fit: {matched}")
            return rebuild(node, self._any)
        parts = tuple(rebuild(part, self._any) for part in matched)
        absent = operand.signature.default if operand is not None else None
        element = None if element is None else self.expr(element)
        outside = None if outside is None else self.expr(outside)
        return TensorRead(tensor, element, parts, outside, absent, span=node.span)

    def _learn(self, tensor: str, items: tuple[Item, ...]) -> None:
        """Propagates known extents of variables to the dims of a scratch that they index, and back."""
        scratch = self.kernel.scratch[tensor]
        if len(items) != len(scratch.places):
            return
        for k, entry in enumerate(items):
            inner = entry.value if isinstance(entry, Star) else entry
            run, extent = scratch.places[k]
            if isinstance(inner, Name):
                known = self.variables.extents.get(inner.id)
                if extent is None and known is not None and isinstance(entry, Star) == run and not is_local(known):
                    scratch.places[k] = (run, known)
                elif extent is not None and inner.id in self.variables.extents and known is None:
                    self.variables.extents[inner.id] = extent


def is_local(extent: Expr | None) -> bool:
    return isinstance(extent, Name) and extent.id.startswith("<")


def tensor_of(base: Expr) -> tuple[str, Expr | None, Expr | None] | None:
    """Splits the base of an index, `x`, `xs[v]` or `pad(x, 0)`, into (tensor, element, outside)."""
    match base:
        case Name(id=name):
            return name, None, None
        case Index(base=Name(id=name), items=(element,)) if not isinstance(element, (Star, Slice)):
            return name, element, None
        case Call(func="pad", args=(inner, outside)) if not isinstance(inner, (Star, Slice)):
            within = tensor_of(inner)
            if within is not None and not isinstance(outside, (Star, Slice)):
                return within[0], within[1], outside
    return None
