"""From equations to stores over one graph: map equations are inlined, movement becomes part of the accesses.

In: a `Group`. Out: `Inlined`: stores in an order that respects reads through memory, and the errors that checked
indices can raise. An intermediate stays in memory only where inlining would compute a reduction more than once, or
where several equations write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import BOOL, I64, DType, highest, lowest
from anyshape.equations import (
    Apply,
    Compaction,
    Const,
    Demand,
    Equation,
    Expr,
    Read,
    Reduce,
    Run,
    Scalar,
    Sorting,
    Step,
    Tensor,
    Update,
    Var,
)
from anyshape.equations.dependencies import reads, units
from anyshape.equations.expr import walk as walk_expr
from anyshape.equations.procedure import Program
from anyshape.errors import UnsupportedError
from anyshape.lower.cycles import Cycle
from anyshape.lower.dag import Access, Affine, Bound, Dag, LoopVar, Node, Ordered, Store, affine, walk
from anyshape.lower.kernel import Group, KernelError
from anyshape.lower.procedure import Procedure, lower_program
from anyshape.lower.recurrence import Steps

Env = dict[Var, Affine]


@dataclass
class Inlined:
    """Stores by stage: those of a stage read, through memory, only what earlier stages wrote."""

    dag: Dag
    stages: list[list[Store]]
    temporaries: tuple[Tensor, ...]
    errors: tuple[KernelError, ...]
    ordered: tuple[Ordered, ...] = ()
    """What comes after the stages, one element after the other."""
    recurrences: tuple[Steps, ...] = ()
    """What comes between the two."""
    procedures: tuple[Procedure, ...] = ()
    """In kernels of their own."""


def inline_group(group: Group) -> Inlined:
    return _Inliner(group).run()


def _simple(q: Equation) -> bool:
    """The index is distinct variables that cover the tensor, so that a read can be replaced by the value."""
    seen: set[Expr] = set()
    for i, n in zip(q.index, q.target.shape, strict=True):
        if isinstance(i, Var) and i.extent == n and i not in seen:
            seen.add(i)
        elif not (isinstance(i, Const) and i.value == 0 and n == 1):
            return False
    return True


@dataclass
class _Inliner:
    group: Group
    dag: Dag = field(default_factory=Dag)
    errors: list[KernelError] = field(default_factory=list)
    memo: dict[tuple[object, ...], Node] = field(default_factory=dict)
    inlined: dict[Tensor, Equation] = field(default_factory=dict)
    cycle: Cycle | None = None
    """The recurrence whose equations are being read."""
    spilled: list[Store] | None = None
    """Reductions that are computed into scratch, ahead of loops that cannot hold them; None where loops can."""
    pending: tuple[Bound, ...] = ()
    """Checks of indices into inlined tensors: whatever is loaded in their place carries them."""
    demanded: set[Affine] = field(default_factory=set)
    """Indices that are checked although they are no data, since nothing proved them in bounds."""
    around: list[LoopVar] = field(default_factory=list)
    """The variables of open loops, which are no reduction's."""

    def run(self) -> Inlined:
        defined: dict[Tensor, list[Equation]] = {}
        programs = {q.form.program: None for q in self.group.equations if isinstance(q.form, Run)}
        if programs:
            return self.procedures(tuple(programs))
        ordered = [q for q in self.group.equations if q.form is not None and not isinstance(q.form, Step)]
        for q in self.group.equations:
            if q.form is None:
                defined.setdefault(q.target, []).append(q)
        cycles = [q for q in self.group.equations if isinstance(q.form, Step)]
        forms = self._read_forms()
        indexed = self._indexed_by_data()
        kept: list[Tensor] = []
        for t, qs in defined.items():
            recomputes = len(forms.get(t, ())) > 1 and any(isinstance(e, Reduce) for e in walk_expr(qs[0].value))
            if any(e.tensor is t for q in qs for e in walk_expr(q.value) if isinstance(e, Read)):
                raise UnsupportedError(
                    f"{self.group.name}: {t.name} is read by its own equation, which is no recurrence"
                )
            stepped = any(q.target is t for q in cycles)
            # What reads nothing has no load that could carry the check of an index.
            unchecked = t in indexed and not any(isinstance(e, Read) for e in walk_expr(qs[0].value))
            if len(qs) == 1 and _simple(qs[0]) and not recomputes and not stepped and not unchecked:
                self.inlined[t] = qs[0]
            elif t not in self.group.outputs:
                kept.append(t)
        stores: list[Store] = []
        for t, qs in defined.items():
            if t in self.group.outputs or t in kept:
                stores += [self.store(q) for q in qs]
        recurrences = tuple(self.recurrence(unit) for unit in units(cycles))
        kept += [s.access.tensor for r in recurrences for s in r.stores if s.access.tensor not in r.temporaries]
        kept = [t for t in dict.fromkeys(kept) if t not in self.group.outputs]
        kept += [q.target for q in ordered if isinstance(q.form, Demand) and q.target not in self.group.outputs]
        last = self.ordered_all(ordered)
        spilled = self.spilled or []
        kept += [s.access.tensor for s in spilled]
        return Inlined(self.dag, _staged([*stores, *spilled]), tuple(kept), tuple(self.errors), last, recurrences)

    def procedures(self, programs: tuple[Program, ...]) -> Inlined:
        """Programs, which are kernels of their own."""
        if any(not isinstance(q.form, Run) for q in self.group.equations):
            raise UnsupportedError(f"{self.group.name}: steps need a kernel of their own")
        found = tuple(lower_program(p, self) for p in programs)
        kept = tuple(t for p in found for t in p.own if t not in self.group.outputs)
        return Inlined(self.dag, [], kept, tuple(self.errors), procedures=found)

    def place(self, t: Tensor, index: Sequence[Expr], env: Env) -> Access:
        """An element that is written."""
        at = [self.index(i, env, None) for i in index]
        return Access(t, _flatten(t, at), (), self._checks(t, at, None))

    def recurrence(self, unit: list[Equation]) -> Steps:
        """The stores of a cycle at one position, which a symbol stands for. What is only read at its own position has no others."""
        assert isinstance(unit[0].form, Step)
        made = {q.target for q in unit}
        for q in self.group.equations:
            if q.form is None and made & reads(q):
                raise UnsupportedError(f"{self.group.name}: {q.target.name} needs a kernel of its own")
        extent, backward = unit[0].form.along.extent, unit[0].form.backward
        self.cycle = cycle = Cycle(unit, dims.fresh("position"), self.group.outputs)
        self.memo = {}
        stores: list[Store] = []
        for q in cycle.stored:
            assert isinstance(q.form, Step)
            env: Env = {q.form.along: Affine((), cycle.position)}
            taken: list[LoopVar] = []
            for v in q.variables:
                if v not in env:
                    env[v] = self._bind(v, taken)
            value = self.value(q.value, env, None)
            index = [self.index(i, env, None) for i in q.index]
            target = cycle.momentary.get(q.target)
            if target is not None:
                del index[cycle.place(q.target)]
            t = target or q.target
            access = Access(t, _flatten(t, index), (), self._checks(t, index, None))
            variables = tuple(w for v in q.variables for w, _ in env[v].terms)
            stores.append(Store(access, value, variables))
        self.cycle = None
        late = frozenset(cycle.late)
        return Steps(cycle.position, extent, backward, tuple(stores), late, tuple(cycle.momentary.values()))

    def ordered_all(self, equations: list[Equation]) -> tuple[Ordered, ...]:
        """They follow all others, and read none of each other's targets."""
        if not equations:
            return ()
        made = {q.target for q in equations}
        others = {q.target for q in equations if not isinstance(q.form, Update)}
        for q in self.group.equations:
            if (made if q.form is None else others) & reads(q):
                raise UnsupportedError(f"{self.group.name}: {q.target.name} needs a kernel of its own")
        self.spilled, self.memo = [], {}
        return tuple(self.ordered(q) for q in equations)

    def ordered(self, q: Equation) -> Ordered:
        env: Env = {}
        taken: list[LoopVar] = []
        for v in (*q.variables, *q.over):
            env[v] = self._bind(v, taken)
        position = None
        if isinstance(q.form, (Compaction, Sorting)):
            position = self.dag.variable(q.form.along.extent)
            env[q.form.along] = Affine(((position, 1),))
        where = q.form.where if isinstance(q.form, Compaction) else None
        keep = None if where is None else self.value(where, env, None)
        value = self.value(q.value, env, keep)
        index = [self.index(i, env, None) for i in q.index]
        access = Access(q.target, _flatten(q.target, index), (), self._checks(q.target, index, None))
        if isinstance(q.form, Demand):
            value, access = self.dag.const(True, BOOL), self._demanded(q.target, value, q.form.message)
        variables, over = (tuple(w for v in vs for w, _ in env[v].terms) for vs in (q.variables, q.over))
        assert q.form is not None
        return Ordered(q.form, Store(access, value, variables), over, position, keep)

    def _demanded(self, t: Tensor, holds: Node, message: tuple[str | Size, ...]) -> Access:
        """An index that is in range if the condition holds."""
        self.errors.append(KernelError((f"{self.group.name}: ", *message)))
        zero = self.dag.op("select", I64, holds, self.dag.const(0, I64), self.dag.const(1, I64))
        return Access(t, Affine(), (), (Bound(Affine((), 0, ((zero, 1),)), 1, len(self.errors)),))

    def _read_forms(self) -> dict[Tensor, set[tuple[object, ...]]]:
        """The different indices each tensor is read at; a variable counts by its extent, not its name."""
        forms: dict[Tensor, set[tuple[object, ...]]] = {}
        for q in self.group.equations:
            for e in walk_expr(q.value):
                if isinstance(e, Read):
                    long = [i for i, n in zip(e.index, e.tensor.shape, strict=True) if n != 1]
                    plain = all(isinstance(i, Var) for i in long) and len(set(long)) == len(long)
                    forms.setdefault(e.tensor, set()).add(("plain",) if plain else e.index)
        return forms

    def _indexed_by_data(self) -> set[Tensor]:
        """Tensors with a read whose index is checked when the kernel runs."""
        found: set[Tensor] = set()
        for q in self.group.equations:
            for e in walk_expr(q.value):
                if isinstance(e, Read) and e.outside is None and any(map(_is_checked, e.index)):
                    found.add(e.tensor)
        return found

    def store(self, q: Equation) -> Store:
        env: Env = {}
        taken: list[LoopVar] = []
        for v in q.variables:
            env[v] = self._bind(v, taken)
        value = self.value(q.value, env, None)
        variables = tuple(env[v].terms[0][0] for v in q.variables if env[v].terms)
        index = [self.index(i, env, None) for i in q.index]
        checks = self._checks(q.target, index, None)
        return Store(Access(q.target, _flatten(q.target, index), (), checks), value, variables)

    def _bind(self, v: Var, taken: list[LoopVar]) -> Affine:
        if v.extent == 1:
            return Affine()
        loop = self.dag.pooled(v.extent, taken)
        taken.append(loop)
        return Affine(((loop, 1),))

    # indices

    def index(self, e: Expr, env: Env, guard: Node | None) -> Affine:
        if isinstance(e, Var):
            return env[e]
        if isinstance(e, Const) and not isinstance(e.value, float):
            return Affine((), int(e.value))
        if isinstance(e, Scalar):
            size = e.size
            return Affine((), size if isinstance(size, (int, dims.Dim)) else dims.select(size, 1, 0))
        if isinstance(e, Apply):
            found = self._index_of(e, env, guard)
            if found is not None:
                return found
        node = self.value(e, env, guard)
        if node.dtype != I64:
            node = self.dag.op("cast", I64, node)
        return Affine((), 0, ((node, 1),))

    def _index_of(self, e: Apply, env: Env, guard: Node | None) -> Affine | None:
        """The affine form of an operation, None if it has none."""
        if e.op == "within":
            index, extent = (self.index(a, env, guard) for a in e.args)
            if not _inside(index, extent.offset):
                self.demanded.add(index)
            return index
        if e.op in ("add", "sub", "neg", "mul", "floordiv", "mod", "min", "max"):
            parts = [self.index(a, env, guard) for a in e.args]
            if e.op == "neg":
                return parts[0].scaled(-1)
            a, b = parts
            if e.op == "add":
                return a + b
            if e.op == "sub":
                return a + b.scaled(-1)
            if e.op == "mul" and (a.is_constant or b.is_constant):
                return a.scaled(b.offset) if b.is_constant else b.scaled(a.offset)
            if a.is_constant and b.is_constant and not self._moves(a.offset) and not self._moves(b.offset):
                x, y = a.offset, b.offset
                sizes = {"floordiv": lambda: x // y, "mod": lambda: x % y, "min": lambda: dims.minimum(x, y)}
                return Affine((), sizes.get(e.op, lambda: dims.maximum(x, y))())
            return None
        if e.op == "select" and isinstance(e.args[0], Scalar) and isinstance(e.args[0].size, dims.Cond):
            c = e.args[0].size
            a, b = (self.index(x, env, guard) for x in e.args[1:])
            if a.lets != b.lets:
                return None
            variables = {v: None for v, _ in (*a.terms, *b.terms)}
            terms = [(v, dims.select(c, a.coefficient(v), b.coefficient(v))) for v in variables]
            return affine(terms, dims.select(c, a.offset, b.offset), a.lets)
        if e.op == "cast" and e.dtype == I64 and e.args[0].dtype == I64:
            return self.index(e.args[0], env, guard)
        return None

    def _moves(self, n: Size) -> bool:
        """Whether a size is one of the position of a recurrence, which it must depend on linearly."""
        return self.cycle is not None and self.cycle.position in dims.free_symbols(n)

    # values

    def value(self, e: Expr, env: Env, guard: Node | None) -> Node:
        key = (e.serial, guard, self.pending, tuple((v.serial, env[v]) for v in sorted(e.free, key=lambda v: v.serial)))
        node = self.memo.get(key)
        if node is None:
            node = self.memo[key] = self._value(e, env, guard)
        return node

    def _value(self, e: Expr, env: Env, guard: Node | None) -> Node:
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
            yes = self.value(e.args[1], env, self._and(guard, c))
            no = self.value(e.args[2], env, self._and(guard, self.dag.op("not", BOOL, c)))
            return self.dag.op("select", dtype, c, yes, no)
        return self.dag.op(e.op, dtype, *(self.value(a, env, guard) for a in e.args))

    def _and(self, a: Node | None, b: Node) -> Node:
        return b if a is None else self.dag.op("and", BOOL, a, b)

    def _affine_value(self, a: Affine) -> Node:
        dag = self.dag
        parts: list[Node] = []
        for n, c in (*((dag.var(v, I64), c) for v, c in a.terms), *a.lets):
            parts.append(n if c == 1 else dag.op("mul", I64, n, dag.dim(c, I64)))
        if a.offset != 0 or not parts:
            parts.append(dag.dim(a.offset, I64))
        total = parts[0]
        for p in parts[1:]:
            total = dag.op("add", I64, total, p)
        return total

    def constant(self, e: Read) -> Node | None:
        """A constant of one element is a literal, so that the code generator sees it (x / 8 becomes x * 0.125).

        Not integers: as indices they keep their checks.
        """
        array = self.group.constants.get(e.tensor)
        if array is None or array.size != 1 or e.outside is not None or e.tensor.dtype.is_integer:
            return None
        value = array.reshape(-1)[0]
        return self.dag.const(bool(value) if e.tensor.dtype == BOOL else float(value), e.tensor.dtype)

    def read(self, e: Read, env: Env, guard: Node | None) -> Node:
        literal = self.constant(e)
        if literal is not None:
            return literal
        index = [self.index(i, env, guard) for i in e.index]
        outside = None if e.outside is None else self.value(e.outside, env, guard)
        if self.cycle is not None and e.tensor in self.cycle.targets:
            return self.cycle_read(self.cycle, e, index, guard)
        q = self.inlined.get(e.tensor)
        bounds = tuple(
            Bound(i, n)
            for i, n in zip(index, e.tensor.shape, strict=True)
            if (outside is not None or (guard is not None and not self._checkable(i))) and not _inside(i, n)
        )
        checks = () if outside is not None else self._checks(e.tensor, index, guard)
        if q is None:
            load = self.dag.load(Access(e.tensor, _flatten(e.tensor, index), bounds, (*self.pending, *checks)))
            return load if outside is None or not bounds else self._outside(bounds, load, outside)
        inner = dict(zip(q.index, index, strict=True))
        if bounds or checks:
            within = self._within((*bounds, *checks))
            guard = self._and(guard, within)
        outer, self.pending = self.pending, (*self.pending, *checks)
        value = self.value(q.value, {v: i for v, i in inner.items() if isinstance(v, Var)}, guard)
        self.pending = outer
        return value if outside is None or not bounds else self._outside(bounds, value, outside)

    def cycle_read(self, cycle: Cycle, e: Read, index: list[Affine], guard: Node | None) -> Node:
        """What the cycle itself computes: at the same position the value, or what is kept of it; else through memory."""
        back = cycle.back(e.tensor, index)
        q = cycle.inlined.get(e.tensor)
        if q is not None and back == 0:
            inner = {v: i for v, i in zip(q.index, index, strict=True) if isinstance(v, Var)}
            assert isinstance(q.form, Step)
            return self.value(q.value, {**inner, q.form.along: Affine((), cycle.position)}, guard)
        t = e.tensor
        if back == 0 and t in cycle.momentary:
            index = [i for k, i in enumerate(index) if k != cycle.place(t)]
            t = cycle.momentary[t]
        bounds = tuple(
            Bound(i, n)
            for i, n in zip(index, t.shape, strict=True)
            if guard is not None and not self._checkable(i) and not _inside(i, n)
        )
        checks = (*self.pending, *self._checks(t, index, guard))
        load = self.dag.load(Access(t, _flatten(t, index), bounds, checks))
        if back is None or back == 0:
            cycle.late.add(load)
        return load

    def _outside(self, bounds: tuple[Bound, ...], value: Node, outside: Node) -> Node:
        return self.dag.op("select", value.dtype, self._within(bounds), value, outside)

    def _within(self, bounds: tuple[Bound, ...]) -> Node:
        condition: Node | None = None
        for b in bounds:
            i = self._affine_value(b.index)
            low = self.dag.op("ge", BOOL, i, self.dag.const(0, I64))
            high = self.dag.op("lt", BOOL, i, self.dag.dim(b.extent, I64))
            condition = self._and(self._and(condition, low), high)
        assert condition is not None
        return condition

    def _checks(self, t: Tensor, index: list[Affine], guard: Node | None) -> tuple[Bound, ...]:
        """Indices that are data, or that nothing proved, are checked when the kernel runs."""
        found: list[Bound] = []
        for axis, (i, n) in enumerate(zip(index, t.shape, strict=True)):
            if self._checkable(i):
                text = f"{self.group.name}: an index is out of range for axis {axis} of {t.name} with size "
                self.errors.append(KernelError((text, n)))
                found.append(Bound(i, n, len(self.errors), guard))
        return tuple(found)

    def _checkable(self, i: Affine) -> bool:
        return _has_load(i) or i in self.demanded

    def reduce(self, e: Reduce, env: Env, guard: Node | None) -> Node:
        node = self._reduce(e, env, guard)
        if self.spilled is None or not any(n.kind == "red" for n in walk([node])):
            return node
        variables = tuple(sorted(node.domain, key=lambda v: v.number))
        tensor = Tensor(f"spilled{len(self.spilled)}", node.dtype, tuple(v.extent for v in variables))
        place = _flatten(tensor, [Affine(((v, 1),)) for v in variables])
        self.spilled.append(Store(Access(tensor, place), node, variables))
        return self.dag.load(self.spilled[-1].access)

    def _reduce(self, e: Reduce, env: Env, guard: Node | None) -> Node:
        taken = [
            w for v in sorted(e.free, key=lambda v: v.serial) for w in sorted(env[v].domain, key=lambda w: w.number)
        ] + self.around
        inner = dict(env)
        bound: list[LoopVar] = []
        for v in e.vars:
            inner[v] = self._bind(v, taken)
            bound += [w for w, _ in inner[v].terms]
        where = None if e.where is None else self.value(e.where, inner, guard)
        body = self.value(e.body, inner, guard if where is None else self._and(guard, where))
        kind = e.kind
        if kind in ("any", "all") and body.dtype != BOOL:
            body = self.dag.op("ne", BOOL, body, self.dag.const(0, body.dtype))
        if where is not None:
            body = self.dag.op("select", body.dtype, where, body, self.dag.const(neutral(kind, body.dtype), body.dtype))
        if kind in ("argmax", "argmin"):
            return self._first(kind[3:], body, _position([inner[v] for v in e.vars], e.vars), tuple(bound), where)
        if not bound:
            return body
        return self.dag.red(kind, tuple(bound), body, body.dtype)

    def _first(self, kind: str, body: Node, at: Affine, bound: tuple[LoopVar, ...], where: Node | None) -> Node:
        """argmax as two reductions: the least position, of those wanted, whose value is the maximum, or NaN (which then is it)."""
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
    """What an element that is left out contributes."""
    if kind in ("sum", "any"):
        return False if kind == "any" else 0
    if kind in ("prod", "all"):
        return True if kind == "all" else 1
    return lowest(dtype) if kind.endswith("max") else highest(dtype)


def _flatten(t: Tensor, index: list[Affine]) -> Affine:
    return _row_major(index, t.shape)


def _position(index: list[Affine], variables: tuple[Var, ...]) -> Affine:
    return _row_major(index, [v.extent for v in variables])


def _row_major(index: Sequence[Affine], extents: Sequence[Size]) -> Affine:
    total = Affine()
    stride: Size = 1
    for i, n in zip(reversed(index), reversed(extents), strict=True):
        total = total + i.scaled(stride)
        stride = stride * n
    return total


def _is_checked(index: Expr) -> bool:
    return any(isinstance(e, Read) or (isinstance(e, Apply) and e.op == "within") for e in walk_expr(index))


def _has_load(i: Affine) -> bool:
    return any(n.kind == "load" for n in walk([n for n, _ in i.lets]))


def _inside(i: Affine, n: Size) -> bool:
    """Provably 0 <= i < n: a variable of that extent, or an affine form whose ends are inside."""
    if i.lets:
        return False
    if len(i.terms) == 1 and i.terms[0][1] == 1 and i.offset == 0 and i.terms[0][0].extent == n:
        return True
    if len(i.terms) == 1 and i.offset == 0 and not isinstance(i.terms[0][1], int):
        # an open broadcast, select(n == 1, 0, v): that n is 1 or v's extent was checked where it was decided
        return dims.bounds(i.terms[0][1]) == (0, 1)
    low = high = i.offset
    for v, c in i.terms:
        if not isinstance(c, int):
            return False
        if c > 0:
            high = high + (v.extent - 1) * c
        else:
            low = low + (v.extent - 1) * c
    return dims.ge(low, 0) is True and dims.lt(high, n) is True


def _staged(stores: list[Store]) -> list[list[Store]]:
    """Stage by what is read through memory: a store to a tensor that another one loads comes first."""
    written = {s.access.tensor for s in stores}
    reads: dict[Store, set[Tensor]] = {}
    for s in stores:
        loads = [n.data.tensor for n in walk(s.roots) if n.kind == "load"]
        reads[s] = {t for t in loads if t in written}
    stages: list[list[Store]] = []
    left = list(stores)
    while left:
        blocked = {s.access.tensor for s in left}
        ready = [s for s in left if not reads[s] & blocked]
        if not ready:
            raise UnsupportedError("the equations of a group depend on each other in a cycle")
        stages.append(ready)
        left = [s for s in left if s not in ready]
    return stages
