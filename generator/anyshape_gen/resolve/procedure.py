"""Resolves procedures: dtypes of variables and arrays, every read and store matched to its tensor, domains of loops.

In: an `OpSpec` with a procedure. Out: `ResolvedProcedure`, and findings where a dtype, a shape or an index does not fit. Expressions are
resolved by the resolver of kernels: a variable is a tensor of rank 0, an array a tensor of the shape that the procedure defines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from anyshape.dtypes import is_dtype_name, parse_dtype
from anyshape_gen.model.analysis import OutputShape, ResolvedProcedure, ValueKind
from anyshape_gen.model.body_nodes import Branch, Break, For, Kernel, Procedure, Set, Step, Store, While
from anyshape_gen.model.nodes import (
    Assert,
    Bool,
    Call,
    Comprehension,
    Exact,
    Expr,
    Generator,
    Index,
    Int,
    Item,
    Name,
    Node,
    Over,
    Reduction,
    Slice,
    Star,
    TensorRead,
    VecLit,
)
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import rebuild, unbacked_sizes, walk
from anyshape_gen.resolve.element_dtypes import ADAPTING, FRACTION, wide
from anyshape_gen.resolve.kernel import KernelResolver
from anyshape_gen.resolve.kinds import generator_over, kind_of
from anyshape_gen.resolve.values import Scratch
from anyshape_gen.resolve.variables import Vars

K = ValueKind


class ProcedureResolver(KernelResolver):
    """Resolves one procedure."""

    steps = True

    def __init__(
        self,
        spec: OpSpec,
        procedure: Procedure,
        *,
        kinds: Mapping[str, ValueKind],
        outputs: tuple[OutputShape, ...],
        findings: Findings,
        reading: tuple[Assert, ...] = (),
    ) -> None:
        super().__init__(spec, Kernel(()), kinds=kinds, outputs=outputs, findings=findings, reading=reading)
        self.procedure = procedure
        self.variables: dict[str, str] = {}
        self.unbacked = unbacked_sizes(spec.shape)
        self.scope = Vars()

    def resolve_steps(self) -> ResolvedProcedure | None:
        """Resolves the procedure; None (with findings) where that fails."""
        before = len(self.findings.items)
        asserts = tuple(replace(n, cond=self._value(n.cond, Vars(), report=True)) for n in self.kernel.asserts)
        for name in self.unbacked:
            self._variable(name, "i64", K.INT)
        steps = self.block(self.procedure.steps)
        if len(self.findings.items) > before:
            return None
        arrays = tuple(self._tensor(name) for name in self.scratch if name not in self.variables)
        return ResolvedProcedure(
            steps, dict(self.variables), arrays, {name: b.high for name, b in self.unbacked.items()}, asserts
        )

    # --- names

    def _variable(self, name: str, dtype: str, kind: ValueKind) -> None:
        self.variables[name] = self.dtypes.held[name] = dtype
        self.scratch[name] = Scratch([])
        self.kinds[name] = kind

    def local(self, node: Any, hidden: frozenset[str] = frozenset()) -> Any:
        """Substitutes `v[()]` for every variable in an expression or item."""
        match node:
            case Name(id=name) if name in self.variables and name not in hidden:
                return Index(node, (), span=node.span)
            case Index(base=Name(id=name), items=()) if name in self.variables:
                return node
            case Comprehension() | Reduction():
                inner = hidden | {t.name for g in node.generators for t in g.targets}
                return rebuild(node, lambda part: self.local(part, inner))
        return rebuild(node, lambda part: self.local(part, hidden))

    def value(self, node: Expr) -> Expr:
        return self._value(self.local(node), self.scope, report=True)

    # --- steps

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(self.step(s) for s in steps)

    def step(self, step: Step) -> Step:
        match step:
            case Set(value=Call("array", (shape, value), ())):
                return self.array(step, shape, value)
            case Set():
                return self.set(step)
            case For():
                return self.loop(step)
            case While(cond=cond, limit=limit, body=body):
                return replace(step, cond=self.value(cond), limit=self.value(limit), body=self.block(body))
            case Branch(cond=cond, then=then, other=other):
                return replace(step, cond=self.value(cond), then=self.block(then), other=self.block(other))
            case Break():
                return step

    def array(self, step: Set, shape: Item, value: Item) -> Step:
        name, value = step.targets[0].tensor, filling(value, self.spec)
        assert not isinstance(shape, (Star, Slice)) and not isinstance(value, (Star, Slice))
        for part in walk(shape):
            if isinstance(part, Name) and (part.id in self.variables or part.id in self.scope.extents):
                text = f"the shape of '{name}' must be computed from dims and parameters; '{part.id}' is known only while the steps run"
                self.findings.add(part.span, text)
        places: list[tuple[bool, Expr | None]] = []
        for e in _extents(shape, self.kinds):
            if not isinstance(e, Slice):
                places.append((isinstance(e, Star), e.value if isinstance(e, Star) else e))
        value = self.value(value)
        dtype = self._dtype(name, value)
        known = self.scratch.get(name)
        if known is not None and (known.places != places or self.dtypes.held[name] != dtype):
            self.findings.add(step.span, f"'{name}' is created again with another shape or dtype")
        self.scratch.setdefault(name, Scratch(list(places)))
        self.dtypes.held.setdefault(name, dtype)
        return replace(step, value=Call("array", (shape, value), span=step.value.span))

    def set(self, step: Set) -> Step:
        values = step.value.items if len(step.targets) > 1 and isinstance(step.value, VecLit) else (step.value,)
        if len(values) != len(step.targets) or any(isinstance(v, (Star, Slice)) for v in values):
            text = f"{len(step.targets)} names need as many values: `a, b = [e, f]`"
            self.findings.add(step.span, text)
            return step
        resolved = [self.value(v) for v in values if not isinstance(v, (Star, Slice))]
        for target, written, value in zip(step.targets, values, resolved):
            if target.items is None:
                self._declare(target, value, kind_of(written, self.kinds))
        whole = resolved[0] if len(resolved) == 1 else VecLit(tuple(resolved), span=step.value.span)
        return replace(step, targets=tuple(self.target(t) for t in step.targets), value=whole)

    def _declare(self, target: Store, value: Expr, kind: ValueKind) -> None:
        name, known = target.tensor, self.variables.get(target.tensor)
        if known is None:
            dtype = self._dtype(name, value)
            self._variable(name, dtype, K.INT if kind == K.ANY and dtype in ("i64", "i32") else kind)
            return
        dtype = self.dtypes.of(value)
        is_cut = dtype == FRACTION and is_dtype_name(known) and not parse_dtype(known).is_float
        if is_cut or (dtype not in ADAPTING and wide(dtype) != wide(known)):
            self.findings.add(target.span, f"'{name}' is {known}, but is set to {dtype} here: write {known}(…)")

    def target(self, target: Store) -> Store:
        items = tuple(self.local(i) for i in target.items or ())
        placed = replace(target, items=items)
        parts = self._match_target(placed, self._reader(self.scope, report=True))
        element = None if target.element is None else self.value(target.element)
        return replace(placed, element=element, parts=parts)

    # --- loops

    def loop(self, step: For) -> Step:
        generator = Generator(step.targets, self.local(step.domain), span=step.span)
        over = generator_over(generator, self.kinds)
        domain = self.value(step.domain)
        self._check_domain(step, over, domain)
        outer, kinds = dict(self.scope.extents), dict(self.kinds)
        for target in step.targets:
            self.kinds[target.name] = K.VECTOR if target.run else K.INT
            shown = domain if over in (Over.EXTENT, Over.EXTENTS) else None
            self.scope.extents[target.name] = shown or Name(f"<{target.name}>")
            self.scope.runs |= {target.name} if target.run else set()
        body = self.block(step.body)
        self.scope.extents = outer
        self.kinds = {n: k for n, k in self.kinds.items() if n in kinds or n in self.variables}
        return replace(step, domain=domain, body=body, over=over)

    def _check_domain(self, step: For, over: Over, domain: Expr) -> None:
        if len(step.targets) > 1:
            self.findings.add(step.span, "a loop of a procedure has one variable: `for v in …`")
        match step.domain:
            case Call("argsort", (Comprehension(_, (g,), ()) as keys,), _) if len(g.targets) == 1:
                assert isinstance(domain, Call) and isinstance(domain.args[0], Comprehension)
                self._check_room(keys, domain.args[0])
            case Call("argsort", _, _):
                self.findings.add(step.domain.span, "a loop in sorted order is `for v in argsort([key for l in n])`")
            case _ if over is Over.ITEMS and kind_of(step.domain, self.kinds) != K.VECTOR:
                text = "a loop runs over a number of iterations, a range, an order (argsort), or a vector of sizes"
                self.findings.add(step.domain.span, text)

    def _check_room(self, written: Comprehension, keys: Comprehension) -> None:
        """Checks that an array is read at each of a data-dependent number of keys: its size bounds their number."""
        (g,) = keys.generators
        if not any(isinstance(n, TensorRead) for n in walk(g.domain)):
            return
        own = g.targets[0].name
        for read in _reads(keys.element):
            if any(isinstance(p, Exact) and p.items == (Name(own),) for p in read.parts):
                return
        text = f"the greatest number of keys is not known: a key must read an array at '{own}'"
        self.findings.add(written.span, text)


def _reads(e: Node) -> Iterator[TensorRead]:
    return (n for n in walk(e) if isinstance(n, TensorRead))


def _extents(shape: Expr, kinds: Mapping[str, ValueKind]) -> tuple[Item, ...]:
    if isinstance(shape, VecLit):
        return shape.items
    return (Star(shape),) if kind_of(shape, kinds) == K.VECTOR else (shape,)


def filling(value: Item, spec: OpSpec) -> Item:
    """Returns the initial elements of an array: the value that the step has, or zeros where it has a dtype instead."""
    variables = {rule.var for rule in spec.dtypes}
    if isinstance(value, Name) and (value.id in variables or is_dtype_name(value.id)):
        return (
            Bool(False, span=value.span)
            if value.id == "bool"
            else Call(value.id, (Int(0, span=value.span),), span=value.span)
        )
    return value
