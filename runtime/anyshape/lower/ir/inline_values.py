"""Expressions of equations as nodes of the graph: indices in affine form, values with what is inlined put in their places.

In: an expression, what its variables are, and the condition under which it is evaluated. Out: a node or an index, and the checks that
indices of data need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import BOOL, I64, DType, highest, lowest
from anyshape.equations import Apply, Const, Equation, Expr, Read, RecurrenceStep, Reduce, Scalar, Tensor, Var
from anyshape.equations.refusing import element_of, equation_text
from anyshape.equations.traversal import walk as walk_equation
from anyshape.lower.ir.clamped import Along, is_clamped
from anyshape.lower.ir.cycles import Cycle
from anyshape.lower.ir.dag import (
    Access,
    Affine,
    Constant,
    Dag,
    DagNode,
    IndexBound,
    Load,
    LoopVar,
    Reduction,
    walk,
)
from anyshape.lower.ir.exponentials import of_magnitude
from anyshape.lower.ir.index_forms import (
    OF_SIZES,
    divided,
    either,
    flatten,
    is_inside,
    is_never_positive,
    is_value_inside,
    row_major_position,
    without_computed,
)
from anyshape.lower.ir.known_operands import comparison, power
from anyshape.lower.ir.narrow_values import of_bits
from anyshape.lower.ir.polynomials import polynomial_step
from anyshape.lower.ir.position_blocks import PositionBlock
from anyshape.lower.ir.stores import Store
from anyshape.lower.kernel import Group, Index, KernelError, Origin

Env = dict[Var, Affine]


Element = tuple[Tensor, Sequence[Expr]]


@dataclass(frozen=True, slots=True, eq=False)
class ReadContext:
    """What holds where the value of an inlined tensor is read. The value is the same wherever its index is inside of the tensor, so all
    that matters of the reader is how its index is known to be inside: the conditions of the reader's own expression are left out."""

    guard: DagNode | None = None
    """The condition that the index is inside, where only the run knows."""
    inside: frozenset[tuple[Affine, Size]] = frozenset()
    """Indices, with the extents that they are inside of if `guard` holds."""
    pending: tuple[IndexBound, ...] = ()
    """Checks of indices into inlined tensors: the loads that replace the reads carry them."""


@dataclass
class InlinedValues:
    """Lowers the expressions of a group. Subclasses decide what is inlined."""

    group: Group
    _: KW_ONLY
    dag: Dag = field(default_factory=Dag)
    errors: list[KernelError] = field(default_factory=list)
    memo: dict[tuple[object, ...], DagNode] = field(default_factory=dict)
    inlined: dict[Tensor, Equation] = field(default_factory=dict)
    cycle: Cycle | None = None
    """The recurrence whose equations are being read."""
    blocks: dict[Tensor, PositionBlock] = field(default_factory=dict)
    """What recurrences read of blocks of positions."""
    spilled: list[Store] | None = None
    """Reductions that are computed into scratch, ahead of loops that cannot hold them; None where loops can."""
    loops: dict[LoopVar, int] = field(default_factory=dict)
    """The order of these loops, in which the reductions lie in scratch."""
    context: ReadContext = field(default_factory=ReadContext)
    contexts: dict[tuple[object, ...], ReadContext] = field(default_factory=dict)
    demanded: set[Affine] = field(default_factory=set)
    """Indices that are checked although they are no data, since nothing proved them in bounds."""
    around: list[LoopVar] = field(default_factory=list)
    """The variables of open loops, which are no reduction's."""
    current: Equation | None = None
    """The equation that is being read, which errors name."""

    def bind(self, v: Var, taken: list[LoopVar]) -> Affine:
        if v.extent == 1:
            return Affine()
        loop = self.dag.pooled(v.extent, taken)
        taken.append(loop)
        return Affine(((loop, 1),))

    # indices

    def index(self, e: Expr, env: Env, guard: DagNode | None) -> Affine:
        if isinstance(e, Var):
            return env[e]
        if isinstance(e, Const) and not isinstance(e.value, float):
            return Affine((), int(e.value))
        if isinstance(e, Scalar):
            size = e.size
            return Affine((), size if isinstance(size, (int, dims.Dim)) else dims.select(size, 1, 0))
        if isinstance(e, Apply):
            form = self._index_of(e, env, guard)
            if form is not None:
                return form
        node = self.value(e, env, guard)
        if node.dtype != I64:
            node = self.dag.op("cast", I64, node)
        return Affine((), 0, ((node, 1),))

    def _index_of(self, e: Apply, env: Env, guard: DagNode | None) -> Affine | None:
        """The affine form of an operation, None if it has none."""
        if e.op == "within":
            index, extent = (self.index(a, env, guard) for a in e.args)
            if not is_inside(index, extent.offset):
                self.demanded.add(index)
            return index
        if e.op == "neg":
            return self.index(e.args[0], env, guard).scaled(-1)
        if e.op in ("add", "sub", "mul", *OF_SIZES):
            a, b = (self.index(x, env, guard) for x in e.args)
            return self._of_two(e.op, a, b)
        if e.op == "select" and isinstance(e.args[0], Scalar) and isinstance(e.args[0].size, dims.Cond):
            a, b = (self.index(x, env, guard) for x in e.args[1:])
            return either(e.args[0].size, a, b)
        if e.op == "select":
            c = self.value(e.args[0], env, guard)
            return self.index(e.args[1 if c.value else 2], env, guard) if isinstance(c, Constant) else None
        if e.op == "cast" and e.dtype == I64 and e.args[0].dtype == I64:
            return self.index(e.args[0], env, guard)
        return None

    def _of_two(self, op: str, a: Affine, b: Affine) -> Affine | None:
        if op == "add":
            return a + b
        if op == "sub":
            return a + b.scaled(-1)
        if op == "mul" and (a.is_constant or b.is_constant):
            return a.scaled(b.offset) if b.is_constant else b.scaled(a.offset)
        if op in ("floordiv", "mod") and b.is_constant:
            quotient, rest = divided(a, b.offset)
            if is_inside(rest, b.offset):
                return quotient if op == "floordiv" else rest
        if op in ("min", "max"):
            difference = a + b.scaled(-1) if op == "min" else b + a.scaled(-1)
            if is_never_positive(difference):
                return a
            if is_never_positive(difference.scaled(-1)):
                return b
        sizes = a.is_constant and b.is_constant and not self._moves(a.offset) and not self._moves(b.offset)
        return Affine((), OF_SIZES[op](a.offset, b.offset)) if sizes and op in OF_SIZES else None

    def _moves(self, n: Size) -> bool:
        """Whether a size depends on the position of a recurrence, on which it must depend linearly."""
        return self.cycle is not None and self.cycle.position in dims.free_symbols(n)

    # values

    def value(self, e: Expr, env: Env, guard: DagNode | None) -> DagNode:
        key = (e.serial, guard, self.context, tuple((v.serial, env[v]) for v in sorted(e.free, key=lambda v: v.serial)))
        node = self.memo.get(key)
        if node is None:
            node = self.memo[key] = self._value(e, env, guard)
        return node

    def _value(self, e: Expr, env: Env, guard: DagNode | None) -> DagNode:
        dtype = e.dtype if e.dtype is not None else I64
        if isinstance(e, Const):
            return self.dag.const(e.value, dtype)
        if isinstance(e, Scalar):
            return self.dag.dim(e.size, dtype)
        if isinstance(e, Var):
            return self._affine_value(env[e])
        if isinstance(e, Read):
            return self.read(e, env, guard)
        if isinstance(e, Reduce):
            return self.reduce(e, env, guard)
        assert isinstance(e, Apply)
        if e.op == "select":
            c = self.value(e.args[0], env, guard)
            if isinstance(c, Constant):
                return self.value(e.args[1 if c.value else 2], env, guard)
            yes = self.value(e.args[1], env, self._and(guard, c))
            no = self.value(e.args[2], env, self._and(guard, self.dag.op("not", BOOL, c)))
            return self.dag.op("select", dtype, c, yes, no)
        step = polynomial_step(e) if dtype.is_float and dtype.bits >= 32 else None
        if step is not None:
            x, rest, constant = step
            factors = (self.value(x, env, guard), self.value(rest, env, guard))
            return self.dag.op("fma", dtype, *factors, self.dag.const(constant, dtype))
        args = [self.value(a, env, guard) for a in e.args]
        holds = comparison(e.op, args)
        if holds is not None:
            return self.dag.const(holds, dtype)
        if e.op == "and" and any(isinstance(a, Constant) for a in args):
            return next(
                (a for a in args if isinstance(a, Constant) and not a.value), args[isinstance(args[0], Constant)]
            )
        if e.op == "pow" and dtype.is_float:
            other = power(self.dag, *args)
        else:
            other = of_bits(self.dag, e.op, dtype, args) or of_magnitude(self.dag, e.op, dtype, args)
        return self.dag.op(e.op, dtype, *args) if other is None else other

    def _and(self, a: DagNode | None, b: DagNode) -> DagNode:
        return b if a is None else self.dag.op("and", BOOL, a, b)

    def _affine_value(self, a: Affine) -> DagNode:
        dag = self.dag
        parts: list[DagNode] = []
        for n, c in (*((dag.var(v, I64), c) for v, c in a.terms), *a.lets):
            parts.append(n if c == 1 else dag.op("mul", I64, n, dag.dim(c, I64)))
        if a.offset != 0 or not parts:
            parts.append(dag.dim(a.offset, I64))
        total = parts[0]
        for p in parts[1:]:
            total = dag.op("add", I64, total, p)
        return total

    def constant(self, e: Read) -> DagNode | None:
        """A constant of one element is a literal, so that the code generator sees it (x / 8 becomes x * 0.125).

        Not integers: as indices they keep their checks.
        """
        array = self.group.constants.get(e.tensor)
        if array is None or array.size != 1 or e.outside is not None or e.tensor.dtype.is_integer:
            return None
        value = array.reshape(-1)[0]
        return self.dag.const(bool(value) if e.tensor.dtype == BOOL else float(value), e.tensor.dtype)

    def read(self, e: Read, env: Env, guard: DagNode | None) -> DagNode:
        literal = self.constant(e)
        if literal is not None:
            return literal
        index = [self.index(i, env, guard) for i in e.index]
        outside = None if e.outside is None else self.value(e.outside, env, guard)
        if self.cycle is not None and e.tensor in self.cycle.targets:
            return self.cycle_read(self.cycle, e, index, guard)
        q = self.inlined.get(e.tensor)
        bounds = tuple(
            IndexBound(i, n)
            for i, n in zip(index, e.tensor.shape, strict=True)
            if (outside is not None or guard is not None) and not self._surely_inside(i, n)
        )
        checks = () if outside is not None else self.checks(e.tensor, index, guard, (e.tensor, e.index))
        if q is None:
            t, place = e.tensor, None
            if (block := self.blocks.get(t)) is not None:
                known = [without_computed(i) for i in index]
                block.read.append(tuple(known))
                t, place = block.tensor, block.element(known)
            load = self.dag.load(Access(t, place or flatten(t, index), bounds, (*self.context.pending, *checks)))
            return load if outside is None or not bounds else self._outside(bounds, load, outside)
        inner = dict(zip(q.index, index, strict=True))
        outer, self.context = self.context, self._context(e.tensor, index, bounds, checks)
        with self.reading(q):
            value = self.value(q.value, {v: i for v, i in inner.items() if isinstance(v, Var)}, self.context.guard)
        self.context = outer
        return value if outside is None or not bounds else self._outside(bounds, value, outside)

    def _context(
        self, t: Tensor, index: list[Affine], bounds: tuple[IndexBound, ...], checks: tuple[IndexBound, ...]
    ) -> ReadContext:
        """The context of a tensor that is read at an index for which these conditions hold, as far as the current one does not imply
        them."""
        outer = self.context
        known = [(i, n) for i, n in zip(index, t.shape, strict=True) if (i, n) in outer.inside]
        asked = {(b.index, b.extent): b for b in (*bounds, *checks) if (b.index, b.extent) not in outer.inside}
        guard, inside = (outer.guard, outer.inside) if known else (None, frozenset[tuple[Affine, Size]]())
        if asked:
            within = self._within([*asked.values()])
            guard, inside = within if guard is None else self._and(guard, within), inside.union(asked)
        key = (guard, inside, pending := (*outer.pending, *checks))
        return self.contexts.setdefault(key, ReadContext(guard, inside, pending))

    def cycle_read(self, cycle: Cycle, e: Read, index: list[Affine], guard: DagNode | None) -> DagNode:
        """A read of what the cycle itself computes: at the same position the value, or what is kept of it; else through memory."""
        back = cycle.back(e.tensor, index)
        q = cycle.inlined.get(e.tensor)
        if q is not None and back == 0:
            inner = {v: i for v, i in zip(q.index, index, strict=True) if isinstance(v, Var)}
            assert isinstance(q.form, RecurrenceStep)
            with self.reading(q):
                return self.value(q.value, {**inner, q.form.along: Affine((), cycle.position)}, guard)
        t, spelled = e.tensor, list(e.index)
        if back == 0 and t in cycle.momentary:
            place = cycle.place(t)
            index = [i for k, i in enumerate(index) if k != place]
            del spelled[place]
            t = cycle.momentary[t]
        bounds = tuple(
            IndexBound(i, n)
            for i, n in zip(index, t.shape, strict=True)
            if guard is not None and not self._surely_inside(i, n)
        )
        checks = (*self.context.pending, *self.checks(t, index, guard, (e.tensor, e.index), spelled))
        load = self.dag.load(Access(t, flatten(t, index), bounds, checks))
        if back is None or back == 0:
            cycle.late.add(load)
        return load

    def _outside(self, bounds: tuple[IndexBound, ...], value: DagNode, outside: DagNode) -> DagNode:
        return self.dag.op("select", value.dtype, self._within(bounds), value, outside)

    def _within(self, bounds: Sequence[IndexBound]) -> DagNode:
        condition: DagNode | None = None
        for b in bounds:
            i = self._affine_value(b.index)
            low = self.dag.op("ge", BOOL, i, self.dag.const(0, I64))
            high = self.dag.op("lt", BOOL, i, self.dag.dim(b.extent, I64))
            condition = self._and(self._and(condition, low), high)
        assert condition is not None
        return condition

    def checks(
        self,
        t: Tensor,
        index: list[Affine],
        guard: DagNode | None,
        said: Element,
        spelled: Sequence[Expr] | None = None,
    ) -> tuple[IndexBound, ...]:
        """The checks of an index: of parts that are data, or that nothing proved, once for each.

        `said`: the element as equations have it; `spelled`: the expressions of the index, where they are not all of that element's.
        """
        bounds: list[IndexBound] = []
        for axis, (i, n, e) in enumerate(zip(index, t.shape, said[1] if spelled is None else spelled, strict=True)):
            if self._checkable(i, n, e) and (i, n) not in self.context.inside:
                words = ("index ", Index(), f" is out of range for axis {axis} of ", said[0], " with size ", n)
                bounds.append(IndexBound(i, n, self.refused(words, said), guard))
        return tuple(bounds)

    def refused(self, words: tuple[str | Size | Tensor | Index, ...], element: Element | None = None) -> int:
        """The number of an error in the current equation, at an element."""
        q = self.current
        assert q is not None
        origin = self.group.origins.get(q) or Origin(self.group.name)
        place = "" if element is None else element_of(*element, origin.names)
        self.errors.append(KernelError(origin, words, equation_text(q.source, place)))
        return len(self.errors)

    @contextmanager
    def reading(self, q: Equation) -> Iterator[None]:
        outer, self.current = self.current, q
        yield
        self.current = outer

    def _surely_inside(self, i: Affine, n: Size) -> bool:
        """Whether an index is inside of an axis whatever the variables are, and wherever an open recurrence stands."""
        if is_inside(i, n) or self.cycle is None or i.terms or i.lets:
            return is_inside(i, n)
        first = i.offset - self.cycle.position
        return dims.ge(first, 0) is True and dims.le(first + self.cycle.extent, n) is True

    def _checkable(self, i: Affine, n: Size, e: Expr) -> bool:
        """Whether an index is data that may be outside. What was read as data may be a position by now, if equations that compute it are
        inlined: a lookup by a range, say."""
        along = None if self.cycle is None else Along(self.cycle.position, self.cycle.extent)
        is_data = _has_load(i) or any(isinstance(part, Read) for part in walk_equation(e))
        return (is_data and not is_value_inside(i, n) and not is_clamped(i, n, along)) or i in self.demanded

    def reduce(self, e: Reduce, env: Env, guard: DagNode | None) -> DagNode:
        node = self._reduce(e, env, guard)
        if self.spilled is None or not any(isinstance(n, Reduction) for n in walk([node])):
            return node
        variables = tuple(sorted(node.domain, key=lambda v: (self.loops.get(v, len(self.loops)), v.number)))
        tensor = Tensor(f"spilled{len(self.spilled)}", node.dtype, tuple(v.extent for v in variables))
        place = flatten(tensor, [Affine(((v, 1),)) for v in variables])
        self.spilled.append(Store(Access(tensor, place), node, variables))
        return self.dag.load(self.spilled[-1].access)

    def _reduce(self, e: Reduce, env: Env, guard: DagNode | None) -> DagNode:
        taken = [
            w for v in sorted(e.free, key=lambda v: v.serial) for w in sorted(env[v].domain, key=lambda w: w.number)
        ] + self.around
        inner = dict(env)
        bound: list[LoopVar] = []
        for v in e.vars:
            inner[v] = self.bind(v, taken)
            bound += [w for w, _ in inner[v].terms]
        where = None if e.where is None else self.value(e.where, inner, guard)
        if isinstance(where, Constant) and where.value:
            where = None
        body = self.value(e.body, inner, guard if where is None else self._and(guard, where))
        kind = e.kind
        if kind in ("any", "all") and body.dtype != BOOL:
            body = self.dag.op("ne", BOOL, body, self.dag.const(0, body.dtype))
        if where is not None:
            body = self.dag.op("select", body.dtype, where, body, self.dag.const(neutral(kind, body.dtype), body.dtype))
        if kind in ("argmax", "argmin"):
            return self._first(
                kind[3:], body, row_major_position([inner[v] for v in e.vars], e.vars), tuple(bound), where
            )
        if not bound:
            return body
        return self.dag.red(kind, tuple(bound), body, body.dtype)

    def _first(
        self, kind: str, body: DagNode, at: Affine, bound: tuple[LoopVar, ...], where: DagNode | None
    ) -> DagNode:
        """Lowers argmax to two reductions: the least position whose value is the maximum, or NaN (which then is it)."""
        dag = self.dag
        if not bound and where is None:
            return dag.const(0, I64)
        best = dag.red(kind, bound, body, body.dtype) if bound else body
        hit = dag.op("eq", BOOL, body, best)
        if body.dtype.is_float:
            hit = dag.op("or", BOOL, hit, dag.op("ne", BOOL, body, body))
        if where is not None:
            hit = dag.op("and", BOOL, where, hit)
        position = dag.op("select", I64, hit, self._affine_value(at), dag.const(highest(I64), I64))
        return dag.red("min", bound, position, I64) if bound else position


def neutral(kind: str, dtype: DType) -> int | float | bool:
    """The element that contributes nothing to a reduction."""
    if kind in ("sum", "any"):
        return False if kind == "any" else 0
    if kind in ("prod", "all"):
        return True if kind == "all" else 1
    return lowest(dtype) if kind.endswith("max") else highest(dtype)


def _has_load(i: Affine) -> bool:
    return any(isinstance(n, Load) for n in walk([n for n, _ in i.lets]))
