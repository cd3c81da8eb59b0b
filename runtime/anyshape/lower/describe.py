"""The schedule tree as text: for golden tests, `--show` and people.

In: a `Group`. Out: one line per loop and action. Dims and tensors keep their names here, unlike in the kernel's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyshape.dims import anonymous_names
from anyshape.equations.text import operation_text
from anyshape.lower.analyse.windows import Staged
from anyshape.lower.depth import room_for
from anyshape.lower.ir.dag import (
    Access,
    Affine,
    Constant,
    DagNode,
    Load,
    LoopIndex,
    LoopVar,
    Operation,
    Reduction,
    SizeValue,
)
from anyshape.lower.ir.procedure import Assign, Break, Choose, InOrder, Lowered, LoweredProcedure, Repeat, SizeIs, Sort
from anyshape.lower.ir.stores import Ordered, Store
from anyshape.lower.kernel import Group
from anyshape.lower.lowering import nodes_of
from anyshape.lower.schedule.blocked import Blocked
from anyshape.lower.schedule.kernel_schedule import Phase, schedule_group
from anyshape.lower.schedule.products import (
    ColumnOperand,
    ComputedColumns,
    GatheredRows,
    InMemory,
    Product,
    RowOperand,
    WindowColumns,
    WindowRows,
)
from anyshape.lower.schedule.recurrence import Recurrence, RowForm, StepForm
from anyshape.lower.schedule.tree import Loop, Scope


def describe(group: Group) -> str:
    """The schedule of a group: scopes are shared loops, `along` marks the vector variable, `keep` goes to scratch."""
    text = _Text()
    with room_for(nodes_of(group)), anonymous_names():
        for p in schedule_group(group).phases:
            text.phase(p)
    return "\n".join(text.lines) + "\n"


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[DagNode, str] = {}

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * (self.depth + depth) + text)

    def phase(self, p: Phase) -> None:
        match p:
            case Scope():
                self.scope(p, 0)
            case Product():
                self.product(p)
            case Blocked():
                self.blocked(p)
            case Recurrence():
                self.recurrence(p)
            case Ordered():
                self.ordered(p)
            case LoweredProcedure(actions):
                self.block(actions, 0)

    def blocked(self, b: Blocked) -> None:
        """Describes the loops around: batches, then blocks of rows."""
        self.line(0, f"each {', '.join(f'{symbol} in {n}' for symbol, n in b.batch)}:" if b.batch else "once:")
        self.depth += 1
        for step in b.ahead:
            self.phase(step)
        self.line(0, f"block of {b.count} rows from {b.first} in {b.rows}:")
        self.depth += 1
        for step in b.steps:
            self.phase(step)
        for t, under in b.over.items():
            self.line(0, f"{t.name} lies over {under.name}")
        self.depth -= 2

    def recurrence(self, r: Recurrence) -> None:
        """Describes the loop over positions, outside of its phases or inside of its rows."""
        form, at = r.form, r.positions
        around, vector = (form.variables, form.vector) if isinstance(form, RowForm) else (form.around, None)
        if around:
            self.line(0, f"for {_variables(around, vector)}:")
            self.depth += 1
        if r.rows is not None:
            self.line(0, f"block of {r.rows.count} rows from {r.rows.first} in {r.rows.all}:")
            self.depth += 1
        if isinstance(form, StepForm) and form.ahead is not None:
            self.line(0, f"block of {form.ahead.count} positions from {form.ahead.first} in {at.extent}:")
            self.depth += 1
            for step in form.ahead.whole:
                self.phase(step)
        self.line(0, f"steps {at.symbol} in {at.extent}{' backward' if at.backward else ''}:")
        self.depth += 1
        if isinstance(form, StepForm):
            self.steps(form)
        if isinstance(form, RowForm):
            for s in form.stores:
                self.line(0, f"{'carry ' if s.access.tensor in form.dropped else ''}{self.store(s)}")
        self.depth = 0

    def steps(self, form: StepForm) -> None:
        for condition, steps in ((form.where, form.steps), (None, form.otherwise)):
            if form.where is not None:
                self.line(0, f"if {self.spell(condition)}:" if condition is not None else "else:")
            self.depth += form.where is not None
            for step in steps:
                self.phase(step)
            self.depth -= form.where is not None

    def product(self, p: Product) -> None:
        self.names[p.sum] = f"r{len(self.names)}"
        batch = "".join(f" {v} in {v.extent}," for v in p.batch)
        a, b = self.operand(p.a, p.words is not None), self.operand(p.b)
        if p.windows is not None:
            b += f", {_staged(p.windows.staged)}"
        self.line(
            0, f"product{batch} rows {p.m} in {p.m.extent}, columns {p.n} in {p.n.extent}, sum {p.k} in {p.k.extent}:"
        )
        self.line(1, f"{self.names[p.sum]} = {a} * {b}")
        for s in p.ahead:
            self.line(1, f"ahead {self.store(s)}")
        for c in p.known:
            self.line(1, f"packed {c.tensor.name} = sums of {self.access(c.of)}")
        for s in p.stores:
            self.line(1, self.store(s))

    def operand(self, x: RowOperand | ColumnOperand, of_words: bool = False) -> str:
        match x:
            case InMemory(access, constant):
                return f"{self.access(access)}{' prepacked' if constant is not None else ''}"
            case GatheredRows(value, over, rows) | WindowRows(value, over, rows):
                is_read = isinstance(x, GatheredRows) and x.in_place is not None
                how = "read in place" if is_read else "gathered"
                if is_read and of_words:
                    how = "gathered, or by matrix tiles read from a copy of lines,"
                return f"({self.spell(value)}) {how} for {_variables(rows, None)} over {_variables(over, None)}"
            case ComputedColumns(value, over) | WindowColumns(value, over):
                return f"({self.spell(value)}) packed over {', '.join(f'{v} in {v.extent}' for v in over)}"

    def ordered(self, o: Ordered) -> None:
        variables = (*o.store.variables, *o.over)
        kept = "" if o.where is None else f" if {self.spell(o.where)}"
        if o.demanded is not None:
            kept = f" that {' and '.join(self.spell(p.whole) for p in o.demanded.parts)}"
        self.line(0, f"{type(o.form).__name__.lower()} {_variables(variables, None)}{kept}:")
        self.line(1, self.store(o.store))

    def block(self, actions: Sequence[Lowered], depth: int) -> None:
        for a in actions:
            self.action(a, depth)

    def action(self, a: Lowered, depth: int) -> None:
        match a:
            case SizeIs(symbol, value):
                self.line(depth, f"{symbol} = {self.spell(value)}")
            case Assign(op, store):
                sign = "=" if op == "set" else f"{op}="
                over = f" for {_variables(store.variables, None)}" if store.variables else ""
                self.line(depth, f"{self.access(store.access)} {sign} {self.spell(store.value)}{over}")
            case Sort(ordered, _):
                self.line(depth, f"sorting {_variables(ordered.over, None)}:")
                self.line(depth + 1, self.store(ordered.store))
            case Repeat(variable, body):
                self.line(depth, f"one after the other {_variables((variable,), None)}:")
                self.block(body, depth + 1)
            case InOrder(sort, loop):
                self.line(depth, "the first, and all where more are asked for, of")
                self.action(sort, depth)
                self.action(loop, depth)
            case Choose(condition, then, other):
                self.line(depth, f"if {self.spell(condition)}:")
                self.block(then, depth + 1)
                if other:
                    self.line(depth, "else:")
                    self.block(other, depth + 1)
            case Break(loop):
                self.line(depth, f"leave {loop}")

    def scope(self, scope: Scope, depth: int) -> None:
        if scope.usual is not None:
            tests = [f"{n} == {count}" for n, count in scope.usual.extents]
            tests += [f"{n} <= {count}" for n, count in scope.usual.most]
            self.line(depth, f"if {' and '.join(tests)}:")
            self.scope(scope.usual.scope, depth + 1)
            self.line(depth, "else:")
            self.scope(replace(scope, usual=None), depth + 1)
            return
        inside = depth
        if scope.variables:
            transposed = f", transposed {scope.transposed}" if scope.transposed is not None else ""
            staged = f", {_staged(scope.windows.staged)}" if scope.windows is not None else ""
            if scope.folded is not None:
                staged = f", {_staged(scope.folded.staged)}, one dim after the other"
            if scope.groups is not None:
                staged = f", {scope.groups.rows} in groups of {', '.join(map(str, scope.groups.scopes))}"
            self.line(depth, f"for {_variables(scope.variables, scope.vector)}{transposed}{staged}:")
            inside += 1
        for step in scope.steps:
            if isinstance(step, Loop):
                self.loop(step, inside)
            else:
                self.scope(step, inside)
        for t in scope.fills:
            self.line(inside, f"scratch {self.spell(t.node)} for {_variables(t.variables, None)}")

    def loop(self, step: Loop, depth: int) -> None:
        inside = depth
        if step.variables:
            self.line(depth, f"loop {_variables(step.variables, step.vector)}:")
            inside += 1
        for inner in step.inside:
            self.loop(inner, inside)
        for r in step.reductions:
            self.names[r] = f"r{len(self.names)}"
        for n in step.keep:
            self.line(inside, f"keep {self.spell(n)}")
            self.names[n] = f"kept{len(self.names)}"
        for r in step.reductions:
            self.line(inside, f"{self.names[r]} = {r.kind} {self.spell(r.body)}")
        for s in step.stores:
            self.line(inside, self.store(s))

    def store(self, s: Store) -> str:
        return f"{self.access(s.access)} = {self.spell(s.value)}"

    def access(self, x: Access) -> str:
        marks = " masked" if x.bounds else ""
        marks += " checked" if x.checks else ""
        return f"{x.tensor.name}[{self.affine(x.address)}{marks}]"

    def affine(self, x: Affine) -> str:
        parts = [str(v) if c == 1 else f"{v}*{_factor(c)}" for v, c in x.terms]
        parts += [self.spell(n) if c == 1 else f"{self.spell(n)}*{_factor(c)}" for n, c in x.lets]
        if x.offset != 0 or not parts:
            parts.append(str(x.offset))
        return " + ".join(parts)

    def spell(self, n: DagNode) -> str:
        if n in self.names:
            return self.names[n]
        match n:
            case Constant(known) | SizeValue(known) | LoopIndex(known):
                return str(known)
            case Load(access):
                return self.access(access)
            case Reduction(kind, variables, body):
                return f"{kind}({', '.join(map(str, variables))}: {self.spell(body)})"
            case Operation(name, args):
                return operation_text(name, n.dtype, [self.spell(a) for a in args])


def _staged(staged: Staged) -> str:
    return f"windows of {staged.access.tensor.name} over {', '.join(f'{m.position} by {m.tap}' for m in staged.moving)}"


def _factor(c: object) -> str:
    text = str(c)
    return f"({text})" if " " in text else text


def _variables(variables: tuple[LoopVar, ...], vector: LoopVar | None) -> str:
    if not variables:
        return "once"
    return ", ".join(f"{v} in {v.extent}{' along' if v is vector else ''}" for v in variables)
