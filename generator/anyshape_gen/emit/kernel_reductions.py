"""Reductions: over extents, over the tensors of a variadic, over the items of vectors, over ranges that index variables bound.

In: resolved reductions. Out: calls of `reduce_`, `reduce_range` and `fold`.
"""

from __future__ import annotations

from anyshape_gen.emit.kernel_reads import ReadText
from anyshape_gen.emit.kernel_scope import chain
from anyshape_gen.emit.names import kernel_name
from anyshape_gen.emit.refusal import NotExecuted
from anyshape_gen.emit.rule_text import ATOM, MUL
from anyshape_gen.nodes import Call, Expr, Generator, Over, Reduction, Slice, Star, TensorRead
from anyshape_gen.numbering import chooses_tensor
from anyshape_gen.traverse import free_names, walk

_FOLDED = ("sum", "prod", "max", "min", "any", "all")
_NESTABLE = ("sum", "prod", "max", "min", "any", "all", "count")


class ReductionText(ReadText):
    """Spells reductions."""

    def reduction(self, e: Reduction) -> str:
        if e.kind not in (*_NESTABLE, "argmax", "argmin", "first", "last"):
            raise NotExecuted(e, f"{e.kind} of elements")
        if chooses_tensor(e, e.generators[0]):
            return self._over_tensors(e, e.generators[0])
        single = len(e.generators) == 1 and e.generators[0].over in (Over.EXTENT, Over.RANGE)
        if (e.keywords or e.kind in ("first", "last")) and not (single and self.is_size(e.generators[0].domain)):
            raise NotExecuted(e, f"the last of equal ones, or the first, of more than one variable ({e.kind})")
        if e.keywords:
            last = "".join(f", {name}={self.text(value)}" for name, value in e.keywords)
            return self._fold(e.kind, e.generators, e.element, e.conditions)[:-1] + f"{last})"
        if self._is_partial(e.generators):
            return self._partial(e, e.generators[0])
        if len(e.generators) == 1 and e.generators[0].over is Over.ITEMS:
            return self._over_items(e, e.generators[0])
        if len(e.generators) > 1 and not self._is_one_loop(e.generators):
            return self._nested(e)
        return self._fold(e.kind, e.generators, e.element, e.conditions)

    def _is_one_loop(self, generators: tuple[Generator, ...]) -> bool:
        """Whether no range depends on a variable, and a run comes last."""
        named: set[str] = set()
        for g in generators:
            if free_names(g.domain) & named or self._is_partial((g,)):
                return False
            named |= {target.name for target in g.targets}
        return not any(g.targets[0].run for g in generators[:-1])

    def _nested(self, e: Reduction) -> str:
        """A reduction of reductions: where an inner range depends on an outer variable, and for runs."""
        if e.kind not in _NESTABLE:
            raise NotExecuted(e, f"{e.kind} over several runs, or over ranges that depend on each other,")
        inner = Reduction(e.kind, e.element, e.generators[1:], e.conditions, span=e.span)
        outer = Reduction("sum" if e.kind == "count" else e.kind, inner, e.generators[:1], span=e.span)
        return self.reduction(outer)

    def _is_partial(self, generators: tuple[Generator, ...]) -> bool:
        """A range whose ends depend on index variables, and on nothing that is read."""
        return (
            len(generators) == 1
            and generators[0].over is Over.RANGE
            and not self.is_size(generators[0].domain)
            and not any(isinstance(node, TensorRead) for node in walk(generators[0].domain))
        )

    def _partial(self, e: Reduction, g: Generator) -> str:
        assert isinstance(g.domain, Call)
        ends = [self.text(x) for x in g.domain.args if not isinstance(x, (Star, Slice))]
        low, high = ends if len(ends) == 2 else ("0", ends[0])
        before = dict(self.variables)
        name = kernel_name(g.targets[0].name)
        self.variables[g.targets[0].name] = False
        body = self.text(e.element)
        test = chain("and_", [self.text(c) for c in e.conditions]) if e.conditions else ""
        self.variables = before
        where = f", where=lambda {name}: {test}" if test else ""
        return f'reduce_range("{e.kind}", {low}, {high}, lambda {name}: {body}{where})'

    def _over_tensors(self, e: Reduction, g: Generator) -> str:
        """Over the tensors of a variadic: folded while the kernel is built."""
        return f'fold("{e.kind}", ({self.of_tensor(e)} for {kernel_name(g.targets[0].name)} in range({self.text(g.domain)})))'

    def of_tensor(self, e: Reduction) -> str:
        """What a reduction over tensors takes of one of them."""
        if e.conditions or e.keywords or e.kind not in _FOLDED:
            raise NotExecuted(e, f"{e.kind} over some tensors" if e.conditions else f"{e.kind} over tensors")
        name, rest = e.generators[0].targets[0].name, e.generators[1:]
        self.numbers.add(name)
        text = self.text(Reduction(e.kind, e.element, rest, span=e.span) if rest else e.element)
        self.numbers.discard(name)
        return text

    def _over_items(self, e: Reduction, g: Generator) -> str:
        """Over the items of vectors, of which there are as many as a rank says: folded while the kernel is built."""
        if e.conditions or e.kind not in _FOLDED:
            raise NotExecuted(e, f"{e.kind} over some items of vectors" if e.conditions else f"{e.kind} of items")
        domains = g.domain.args if isinstance(g.domain, Call) and g.domain.func == "zip" else (g.domain,)
        texts = [self.run(x) for x in domains if not isinstance(x, (Star, Slice))]
        if len(texts) != len(g.targets):
            raise NotExecuted(g, "items taken apart in another way than `for a, b in zip(v, w)`")
        before = dict(self.variables)
        self.variables.update((target.name, False) for target in g.targets)
        names = ", ".join(kernel_name(target.name) for target in g.targets)
        body = self.text(e.element)
        self.variables = before
        domain = texts[0] if len(texts) == 1 else f"zip({', '.join(texts)})"
        return f'fold("{e.kind}", ({body} for {names} in {domain}))'

    def _fold(self, kind: str, generators: tuple[Generator, ...], element: Expr, conditions: tuple[Expr, ...]) -> str:
        return f'reduce_("{kind}", {self.loop(generators, element, conditions)})'

    def loop(self, generators: tuple[Generator, ...], element: Expr, conditions: tuple[Expr, ...]) -> str:
        """`extents, lambda names: element, where=lambda names: condition`."""
        before, shifted = dict(self.variables), dict(self.shifted)
        extents, names = [], []
        for g in generators:
            extent, name = self._domain(g)
            extents.append(extent)
            names.append(name)
        sizes = extents[0][1:] if len(extents) == 1 and extents[0].startswith("*") else f"[{', '.join(extents)}]"
        body = self.text(element)
        test = chain("and_", [self.text(c) for c in conditions]) if conditions else ""
        self.variables, self.shifted = before, shifted
        parameters = ", ".join(names)
        where = f", where=lambda {parameters}: {test}" if test else ""
        return f"{sizes}, lambda {parameters}: {body}{where}"

    def _domain(self, g: Generator) -> tuple[str, str]:
        """The extent, `*` before a vector of them, and the parameter of the lambda."""
        if len(g.targets) != 1 or g.over not in (Over.EXTENT, Over.EXTENTS, Over.RANGE):
            raise NotExecuted(g, "a reduction over the items of vectors")
        target = g.targets[0]
        if not self.is_size(g.domain):
            raise NotExecuted(g, "a range whose ends are read (instead, `for k in n if low <= k < high`)")
        if g.over is Over.RANGE:
            return self._range(g, target.name)
        domain = self.at_least(g.domain, ATOM) if target.run else self.text(g.domain)
        self.variables[target.name] = target.run
        return (f"*{domain}", f"*{kernel_name(target.name)}") if target.run else (domain, kernel_name(target.name))

    def _range(self, g: Generator, name: str) -> tuple[str, str]:
        match g.domain:
            case Call("range", (stop,), ()) if not isinstance(stop, (Star, Slice)):
                extent = f"rule.max(0, {self.text(stop)})"
            case Call("range", (start, stop), ()) if not isinstance(start, (Star, Slice)) and not isinstance(
                stop, (Star, Slice)
            ):
                extent = f"rule.max(0, {self.text(stop)} - {self.at_least(start, MUL)})"
                self.shifted[name] = f"({kernel_name(name)} + {self.at_least(start, MUL)})"
            case _:
                raise NotExecuted(g, "a range with a step")
        self.variables[name] = False
        return extent, kernel_name(name)
