"""Checks procedures: which names and elements their steps set and read, and where.

In: an `OpSpec` with a procedure, a `NameChecker`, the names in scope. Out: findings. A name may be read where every path through the
steps before has set it; a loop may have no iteration, so names that it sets are not known after it.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.check.names import NameChecker
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.body_nodes import Branch, Break, For, Procedure, Set, Step, Store, While
from anyshape_gen.model.nodes import (
    Call,
    Expr,
    Generator,
    Item,
    Node,
    Slice,
    Star,
    Target,
    Unary,
)
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import free_names, unbacked_sizes
from anyshape_gen.resolve.kinds import bind_generator, kind_of
from anyshape_gen.resolve.procedure import filling

K = ValueKind
SINGLE = (K.INT, K.FLOAT, K.BOOL)


def check_procedure(
    spec: OpSpec, procedure: Procedure, names: NameChecker, scope: Mapping[str, ValueKind], findings: Findings
) -> None:
    """Checks all steps of a procedure."""
    unbacked = unbacked_sizes(spec.shape)
    results = dict.fromkeys((o.name for o in spec.outputs), K.TENSOR)
    known = {name: kind for name, kind in scope.items() if name not in unbacked}
    names.outer = frozenset({**known, **results})
    checker = _Checker(spec, names, {**known, **results}, findings)
    after = checker.block(procedure.steps, set(), False)
    for operand in spec.outputs:
        if operand.name not in checker.written:
            findings.add(operand.span, f"the procedure never sets the output '{operand.name}'", checker.written)
    for name, statement in unbacked.items():
        names.used.add(name)
        if isinstance(statement.low, Unary):
            findings.add(
                statement.low.span, f"the lower bound of the size '{name}' is negative; every size is at least 0"
            )
        if name not in checker.first:
            findings.add(statement.span, f"the procedure never sets the size '{name}'")
        elif after is not None and name not in after:
            findings.add(statement.span, f"the procedure does not set the size '{name}' on every path to its end")
    for name, node in checker.first.items():
        if name not in names.used:
            findings.add(node.span, f"'{name}' is set but never read")


class _Checker:
    """Checks steps in order. `first`: the first step that sets each name; `written`: tensors of which elements are set; `loops`: variables
    of the loops around a step; `looped`: variables of all loops before it."""

    def __init__(self, spec: OpSpec, names: NameChecker, scope: dict[str, ValueKind], findings: Findings) -> None:
        self.spec, self.names, self.scope, self.findings = spec, names, scope, findings
        self.first: dict[str, Node] = {}
        self.written: set[str] = set()
        self.loops: set[str] = set()
        self.looped: set[str] = set()
        self.inputs = {o.name for o in spec.inputs}
        self.outputs = {o.name for o in spec.outputs}

    def block(self, steps: tuple[Step, ...], before: set[str], in_loop: bool) -> set[str] | None:
        """Returns the names that are set after the steps, if those of `before` are set before them; None if their end is not reached."""
        now: set[str] | None = set(before)
        for step in steps:
            if now is None:
                self.findings.add(step.span, "this step is never reached")
                return None
            now = self.step(step, now, in_loop)
        return now

    def step(self, step: Step, now: set[str], in_loop: bool) -> set[str] | None:
        match step:
            case Set():
                return self.assign(step, now)
            case For(targets=targets, domain=domain, body=body):
                self.loop(targets, domain, body, now)
            case While(cond=cond, limit=limit, body=body):
                self.expr(limit, now)
                self.expr(cond, now)
                self.block(body, now, True)
            case Branch(cond=cond, then=then, other=other):
                self.expr(cond, now)
                ends = [self.block(then, now, in_loop), self.block(other, now, in_loop)]
                left = [end for end in ends if end is not None]
                return set.intersection(*left) if left else None
            case Break():
                if not in_loop:
                    self.findings.add(step.span, "`break` is outside of every loop")
                return None
        return now

    def loop(self, targets: tuple[Target, ...], domain: Expr, body: tuple[Step, ...], now: set[str]) -> None:
        self.expr(domain, now)
        generator = Generator(targets, domain)
        outer = dict(self.scope)
        for target in generator.targets:
            self.names.hides(target.name, target)
            if target.name in self.first or target.name in self.loops:
                self.findings.add(target.span, f"'{target.name}' is already a variable")
        self.names.runs(generator, self.scope)
        bind_generator(generator, self.scope)
        self.loops |= {t.name for t in generator.targets}
        self.looped |= self.loops
        self.block(body, now, True)
        for target in generator.targets:
            self.loops.discard(target.name)
            if target.name in outer:
                self.scope[target.name] = outer[target.name]
            else:
                self.scope.pop(target.name, None)

    def expr(self, node: Expr, now: set[str]) -> None:
        for name in sorted(free_names(node) & set(self.first) - now):
            self.findings.add(node.span, f"'{name}' is not set on every path to this step")
        self.names.expr(node, self.scope, "kernel")

    # --- assignments

    def assign(self, step: Set, now: set[str]) -> set[str]:
        match step.value:
            case Call("array", (shape, value), ()):
                return self.array(step, shape, value, now)
        self.expr(step.value, now)
        assigned = set(now)
        for target in step.targets:
            if target.items is None:
                self.variable(step, target, now)
                assigned.add(target.tensor)
            else:
                self.element(target, now)
        return assigned

    def array(self, step: Set, shape: Item, value: Item, now: set[str]) -> set[str]:
        target = step.targets[0]
        self.names.called.add("array")
        for part in (shape, filling(value, self.spec)):
            if not isinstance(part, (Star, Slice)):
                self.expr(part, now)
        if len(step.targets) > 1 or target.items is not None or step.op != "=":
            self.findings.add(step.span, "an array is created by a step of its own: `a = array(shape, e)`")
            return now
        if not self.taken(target, K.TENSOR):
            self.first.setdefault(target.tensor, target)
            self.scope[target.tensor] = K.TENSOR
        return now | {target.tensor}

    def variable(self, step: Set, target: Store, now: set[str]) -> None:
        kind = kind_of(step.value, self.scope) if len(step.targets) == 1 else K.ANY
        if self.taken(target, kind):
            return
        if step.op != "=" and target.tensor not in now:
            self.findings.add(target.span, f"'{target.tensor}' is not set on every path to this step")
        self.first.setdefault(target.tensor, target)
        self.scope.setdefault(target.tensor, kind if kind in SINGLE else K.ANY)

    def taken(self, target: Store, kind: ValueKind) -> bool:
        """Whether the name already has another meaning, which is a finding."""
        name = target.tensor
        if name in self.first:
            if (self.scope.get(name) == K.TENSOR) != (kind == K.TENSOR):
                what = "an array" if self.scope.get(name) == K.TENSOR else "a variable"
                self.findings.add(target.span, f"'{name}' is already {what}")
                return True
            return False
        words = {**dict.fromkeys(self.inputs, "an input"), **dict.fromkeys(self.outputs, "an output")}
        words |= dict.fromkeys(self.looped, "the variable of a loop")
        words |= dict.fromkeys(self.names.functions, "a function")
        if name in words:
            more = f"; a step sets its elements, `{name}[…] = …`" if name in self.outputs else ""
            self.findings.add(target.span, f"'{name}' is {words[name]}{more}")
        elif name in self.scope:
            what = "a parameter" if self.spec.param(name) else "a dim or a name of the rule"
            self.findings.add(target.span, f"'{name}' is already the name of {what}")
        else:
            return False
        return True

    def element(self, target: Store, now: set[str]) -> None:
        for item in target.items or ():
            if isinstance(item, Slice):
                self.findings.add(item.span, "a step sets one element, so its index cannot have `:`")
                continue
            self.expr(item.value if isinstance(item, Star) else item, now)
        name = target.tensor
        if target.element is not None:
            self.expr(target.element, now)
        if name in self.inputs:
            text = f"'{name}' is an input; a step sets elements of outputs and of arrays"
            self.findings.add(target.span, text)
        elif name in self.first and name not in now:
            self.findings.add(target.span, f"'{name}' is not set on every path to this step")
        elif name not in self.outputs and self.scope.get(name) != K.TENSOR:
            arrays = [n for n, kind in self.scope.items() if kind == K.TENSOR and n not in self.inputs]
            self.findings.unknown(target.span, "array", name, arrays)
        else:
            self.written.add(name)
