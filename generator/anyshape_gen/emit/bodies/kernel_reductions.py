"""Emits reductions: over extents, over the tensors of a variadic, over the items of vectors, over ranges that index variables bound.

In: resolved reductions. Out: calls of `reduce_`, `reduce_range` and `fold`.
"""

from __future__ import annotations

from anyshape_gen.emit.bodies.kernel_reads import run
from anyshape_gen.emit.bodies.kernel_scope import KernelScope, joined
from anyshape_gen.emit.rules.rule_text import ATOM, MUL
from anyshape_gen.emit.text.module import use
from anyshape_gen.emit.text.names import kernel_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.nodes import Call, Expr, Generator, Over, Reduction, Slice, Star, TensorRead
from anyshape_gen.model.traverse import free_names, walk
from anyshape_gen.resolve.numbering import chooses_tensor

_FOLDED = ("sum", "prod", "max", "min", "any", "all")
_NESTABLE = ("sum", "prod", "max", "min", "any", "all", "count")


def reduction(s: KernelScope, e: Reduction) -> str:
    if e.kind not in (*_NESTABLE, "argmax", "argmin", "first", "last"):
        raise NotExecuted(e, f"{e.kind} of elements")
    if chooses_tensor(e, e.generators[0]):
        return _over_tensors(s, e, e.generators[0])
    single = len(e.generators) == 1 and e.generators[0].over in (Over.EXTENT, Over.RANGE)
    if (e.keywords or e.kind in ("first", "last")) and not (single and s.is_size(e.generators[0].domain)):
        raise NotExecuted(e, f"{e.kind} over more than one variable")
    if e.keywords:
        last = "".join(f", {name}={s.text(value)}" for name, value in e.keywords)
        return _fold(s, e.kind, e.generators, e.element, e.conditions)[:-1] + f"{last})"
    if _is_partial(s, e.generators):
        return _partial(s, e, e.generators[0])
    if len(e.generators) == 1 and e.generators[0].over is Over.ITEMS:
        return _over_items(s, e, e.generators[0])
    if len(e.generators) > 1 and not _is_one_loop(s, e.generators):
        return _nested(s, e)
    return _fold(s, e.kind, e.generators, e.element, e.conditions)


def _is_one_loop(s: KernelScope, generators: tuple[Generator, ...]) -> bool:
    """Whether no range depends on a variable, and no variable follows a run."""
    named: set[str] = set()
    for g in generators:
        if free_names(g.domain) & named or _is_partial(s, (g,)):
            return False
        named |= {target.name for target in g.targets}
    return not any(g.targets[0].run for g in generators[:-1])


def _nested(s: KernelScope, e: Reduction) -> str:
    """Emits a reduction of reductions: where an inner range depends on an outer variable, and for runs."""
    if e.kind not in _NESTABLE:
        raise NotExecuted(e, f"{e.kind} over several runs, or over ranges that depend on each other,")
    inner = Reduction(e.kind, e.element, e.generators[1:], e.conditions, span=e.span)
    outer = Reduction("sum" if e.kind == "count" else e.kind, inner, e.generators[:1], span=e.span)
    return reduction(s, outer)


def _is_partial(s: KernelScope, generators: tuple[Generator, ...]) -> bool:
    """Whether the generator is a range whose ends depend on index variables, and on no element that is read."""
    return (
        len(generators) == 1
        and generators[0].over is Over.RANGE
        and not s.is_size(generators[0].domain)
        and not s.is_steady(generators[0].domain)
        and not any(isinstance(node, TensorRead) for node in walk(generators[0].domain))
    )


def _partial(s: KernelScope, e: Reduction, g: Generator) -> str:
    assert isinstance(g.domain, Call)
    ends = [s.text(x) for x in g.domain.args if not isinstance(x, (Star, Slice))]
    low, high = ends if len(ends) == 2 else ("0", ends[0])
    before = dict(s.variables)
    name = kernel_name(g.targets[0].name)
    s.variables[g.targets[0].name] = False
    body = s.text(e.element)
    test = joined(s, "and", e.conditions) if e.conditions else ""
    s.variables = before
    where = f", where=lambda {name}: {test}" if test else ""
    return f'{use("reduce_range")}("{e.kind}", {low}, {high}, lambda {name}: {body}{where})'


def _over_tensors(s: KernelScope, e: Reduction, g: Generator) -> str:
    """Emits a reduction over the tensors of a variadic, which is unrolled while the kernel is built."""
    return f'{use("fold")}("{e.kind}", ({of_tensor(s, e)} for {kernel_name(g.targets[0].name)} in range({s.text(g.domain)})))'


def of_tensor(s: KernelScope, e: Reduction) -> str:
    """Emits the part of a reduction over tensors that reads one of them."""
    if e.conditions or e.keywords or e.kind not in _FOLDED:
        raise NotExecuted(e, f"{e.kind} over some tensors" if e.conditions else f"{e.kind} over tensors")
    name, rest = e.generators[0].targets[0].name, e.generators[1:]
    s.numbers.add(name)
    text = s.text(Reduction(e.kind, e.element, rest, span=e.span) if rest else e.element)
    s.numbers.discard(name)
    return text


def _over_items(s: KernelScope, e: Reduction, g: Generator) -> str:
    """Emits a reduction over the items of vectors, whose lengths are ranks: it is unrolled while the kernel is built."""
    if e.conditions or e.kind not in _FOLDED:
        raise NotExecuted(e, f"{e.kind} over some items of vectors" if e.conditions else f"{e.kind} of items")
    domains = g.domain.args if isinstance(g.domain, Call) and g.domain.func == "zip" else (g.domain,)
    texts = [run(s, x) for x in domains if not isinstance(x, (Star, Slice))]
    if len(texts) != len(g.targets):
        raise NotExecuted(g, "items that are unpacked otherwise than by `for a, b in zip(v, w)`")
    before = dict(s.variables)
    s.variables.update((target.name, False) for target in g.targets)
    names = ", ".join(kernel_name(target.name) for target in g.targets)
    body = s.text(e.element)
    s.variables = before
    domain = texts[0] if len(texts) == 1 else f"zip({', '.join(texts)})"
    return f'{use("fold")}("{e.kind}", ({body} for {names} in {domain}))'


def _fold(
    s: KernelScope, kind: str, generators: tuple[Generator, ...], element: Expr, conditions: tuple[Expr, ...]
) -> str:
    return f'{use("reduce_")}("{kind}", {loop(s, generators, element, conditions)})'


def loop(s: KernelScope, generators: tuple[Generator, ...], element: Expr, conditions: tuple[Expr, ...]) -> str:
    """Emits a loop: `extents, lambda names: element, where=lambda names: condition`."""
    before, shifted = dict(s.variables), dict(s.shifted)
    extents, names = [], []
    for g in generators:
        extent, name = _domain(s, g)
        extents.append(extent)
        names.append(name)
    sizes = extents[0][1:] if len(extents) == 1 and extents[0].startswith("*") else f"[{', '.join(extents)}]"
    body = s.text(element)
    test = joined(s, "and", conditions) if conditions else ""
    s.variables, s.shifted = before, shifted
    parameters = ", ".join(names)
    where = f", where=lambda {parameters}: {test}" if test else ""
    return f"{sizes}, lambda {parameters}: {body}{where}"


def _domain(s: KernelScope, g: Generator) -> tuple[str, str]:
    """Emits the extent, with `*` before a vector of them, and the parameter of the lambda."""
    if len(g.targets) != 1 or g.over not in (Over.EXTENT, Over.EXTENTS, Over.RANGE):
        raise NotExecuted(g, "a reduction over the items of vectors")
    target = g.targets[0]
    if (steady := s.steady_domain(g)) is not None:
        return steady
    if not s.is_size(g.domain):
        raise NotExecuted(g, "a range whose ends are read from tensors (write `for k in n if low <= k < high`)")
    if g.over is Over.RANGE:
        return _range(s, g, target.name)
    domain = s.at_least(g.domain, ATOM) if target.run else s.text(g.domain)
    s.variables[target.name] = target.run
    return (f"*{domain}", f"*{kernel_name(target.name)}") if target.run else (domain, kernel_name(target.name))


def _range(s: KernelScope, g: Generator, name: str) -> tuple[str, str]:
    match g.domain:
        case Call("range", (stop,), ()) if not isinstance(stop, (Star, Slice)):
            extent = f"rule.max(0, {s.text(stop)})"
        case Call("range", (start, stop), ()) if not isinstance(start, (Star, Slice)) and not isinstance(
            stop, (Star, Slice)
        ):
            extent = f"rule.max(0, {s.text(stop)} - {s.at_least(start, MUL)})"
            s.shifted[name] = f"({kernel_name(name)} + {s.at_least(start, MUL)})"
        case _:
            raise NotExecuted(g, "a range with a step")
    s.variables[name] = False
    return extent, kernel_name(name)
