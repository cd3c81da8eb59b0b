"""Reads and stores of a kernel's equations, each index with its dim, and with what is known where it is evaluated.

In: equations. Out: `KernelAccess`es in the caller's dims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.equations import Compaction, Equation, RecurrenceStep, Run, Sorting
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor, Var
from anyshape.equations.program import Action, Each, Leave, Let, Order, Put, When
from anyshape.vm.export.access_terms import AccessTerms


class By(StrEnum):
    """What keeps an index in bounds."""

    LOOP = "loop"
    """The index is the variable of a loop over the dim."""
    RULE = "shape rule"
    """Proved, for all sizes that the op's rule accepts, when the op was generated."""
    TEST = "run-time test"
    """The kernel compares it with the dim, and ends the call where it is out of bounds."""
    PAD = "pad"
    """The kernel compares it with the dim, and reads nothing where it is out of bounds."""
    END = "end"
    """The index counts what a filter lets pass, and the kernel stops at the end of the dim."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One index and the dim that it has to be below. `operands`: what has to fit 64 bits for the kernel to compute this index."""

    index: Size
    dim: Size
    by: By
    operands: tuple[Size, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelAccess:
    """One read or store. `loops`: the variables that have a value where it is evaluated; `where`: conditions on sizes that hold there."""

    tensor: str
    _: KW_ONLY
    is_store: bool
    equation: str
    axes: tuple[Axis, ...]
    loops: tuple[Dim, ...]
    where: tuple[Cond, ...]


@dataclass(frozen=True, slots=True)
class _AccessScope:
    loops: tuple[Dim, ...] = ()
    where: tuple[Cond, ...] = ()

    def under(self, c: bool | Cond | None) -> _AccessScope:
        return replace(self, where=(*self.where, c)) if isinstance(c, Cond) and c not in self.where else self

    def inside(self, loops: Iterable[Dim]) -> _AccessScope:
        return replace(self, loops=tuple(dict.fromkeys((*self.loops, *loops))))


def accesses(equations: Iterable[Equation], terms: AccessTerms) -> list[KernelAccess]:
    """Lists the accesses of equations in their order, each once."""
    collected: dict[KernelAccess, None] = {}
    for q in equations:
        collected.update(dict.fromkeys(_Collection(terms, q.source).of(q)))
    return list(collected)


@dataclass(eq=False)
class _Collection:
    terms: AccessTerms
    source: str
    done: set[tuple[Expr, _AccessScope]] = field(default_factory=set)

    def of(self, q: Equation) -> Iterator[KernelAccess]:
        if isinstance(q.form, Run):
            yield from self._steps(q.form.program.actions, _AccessScope())
            return
        along = (q.form.along,) if isinstance(q.form, (Compaction, Sorting, RecurrenceStep)) else ()
        scope = self._with(_AccessScope(), (*q.variables, *q.over, *along))
        if q.where is not None:
            yield from self._visit(q.where, scope)
            scope = scope.under(self.terms.truth(q.where))
        stop = q.form.along if isinstance(q.form, Compaction) else None
        yield self._access(q.target, q.index, scope, is_store=True, stop=stop)
        for e in (*q.index, q.value):
            yield from self._visit(e, scope)

    def _with(self, scope: _AccessScope, variables: Iterable[Var]) -> _AccessScope:
        return scope.inside(self.terms.variable(v) for v in variables)

    def _visit(self, e: Expr, scope: _AccessScope) -> Iterator[KernelAccess]:
        if (e, scope) in self.done:
            return
        self.done.add((e, scope))
        match e:
            case Read(tensor=tensor, index=index, outside=outside):
                yield self._access(tensor, index, scope, is_padded=outside is not None)
                for child in index if outside is None else (*index, outside):
                    yield from self._visit(child, scope)
            case Reduce(vars=variables, body=body, where=where):
                scope = self._with(scope, variables)
                if where is not None:
                    yield from self._visit(where, scope)
                    scope = scope.under(self.terms.truth(where))
                yield from self._visit(body, scope)
            case Apply(op="select", args=(cond, yes, no)):
                yield from self._visit(cond, scope)
                test = self.terms.truth(cond)
                yield from self._visit(yes, scope.under(test))
                yield from self._visit(no, scope.under(None if test is None else dims.not_(test)))
            case Apply(args=args):
                for child in args:
                    yield from self._visit(child, scope)

    def _steps(self, actions: Sequence[Action], scope: _AccessScope) -> Iterator[KernelAccess]:
        """Accesses of a procedure. Its conditions are not assumed: they are on memory that its steps change."""
        for a in actions:
            match a:
                case Let(value=value):
                    yield from self._visit(value, scope)
                case Put(target=target, index=index, value=value, over=over):
                    inner = self._with(scope, over)
                    yield self._access(target, index, inner, is_store=True)
                    for e in (*index, value):
                        yield from self._visit(e, inner)
                case Order(over=over_one, key=key):
                    yield from self._visit(key, self._with(scope, (over_one,)))
                case When(condition=condition, then=then, other=other):
                    yield from self._visit(condition, scope)
                    yield from self._steps((*then, *other), scope)
                case Each(var=v, body=body):
                    yield from self._steps(body, self._with(scope, (v,)))
                case Leave():
                    pass

    def _access(
        self,
        tensor: Tensor,
        index: Sequence[Expr],
        scope: _AccessScope,
        *,
        is_store: bool = False,
        is_padded: bool = False,
        stop: Var | None = None,
    ) -> KernelAccess:
        axes = [self._axis(i, n) for i, n in zip(index, tensor.shape, strict=True)]
        if is_padded:
            axes = [x if x.by is By.LOOP else replace(x, by=By.PAD) for x in axes]
        axes = [replace(x, by=By.END) if i is stop else x for i, x in zip(index, axes)]
        return KernelAccess(
            tensor.name,
            is_store=is_store,
            equation=self.source,
            axes=tuple(axes),
            loops=scope.loops,
            where=scope.where,
        )

    def _axis(self, i: Expr, n: Size) -> Axis:
        index, dim = self.terms.index(i), self.terms.size(n)
        if _tested(index, self.terms):
            return Axis(index, dim, By.TEST, tuple(self.terms.operands(i)))
        is_variable = isinstance(index, Dim) and self.terms.variables.get(index) is dim
        by = By.LOOP if is_variable else By.RULE
        return Axis(index, dim, by, tuple(self.terms.operands(i)))


def _tested(index: Size, terms: AccessTerms) -> bool:
    return isinstance(index, Dim) and not terms.tested.keys().isdisjoint(dims.free_symbols(index))
