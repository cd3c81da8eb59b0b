"""Checks compositions: every name is known where it is read, calls fit the called ops, in dtypes too, and loops and branches define names.

In: an op's analysis, the specs of all ops. Out: findings.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.check.compose_calls import Block, ExpressionChecker
from anyshape_gen.check.compose_dtypes import check_compose_dtypes
from anyshape_gen.model.analysis import OpAnalysis, ValueKind
from anyshape_gen.model.body_nodes import Branch, Break, For, Set, Step, Store, While
from anyshape_gen.model.nodes import Assert, Call, Expr, Index, Item, Name, Node, VecLit
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import walk
from anyshape_gen.resolve.composing import TENSORS, called_ops

K = ValueKind


def check_compositions(ops: tuple[OpAnalysis, ...], findings: Findings) -> None:
    """Checks all composed ops of an analysis."""
    specs = {a.spec.name: a.spec for a in ops}
    _one_op_a_sign(specs, findings)
    for a in ops:
        if a.spec.compose is not None:
            before = len(findings.items)
            _Checker(a, specs, findings).check()
            _no_circle(a.spec, specs, findings)
            if len(findings.items) == before:
                check_compose_dtypes(a, specs, findings)


def _one_op_a_sign(specs: Mapping[str, OpSpec], findings: Findings) -> None:
    first: dict[tuple[str, int], OpSpec] = {}
    for spec in specs.values():
        if spec.operator:
            other = first.setdefault((spec.operator, len(spec.inputs)), spec)
            if other is not spec:
                findings.add(spec.span, f"'{spec.operator}' is already the operator of '{other.name}', at {other.span}")


def _no_circle(spec: OpSpec, specs: Mapping[str, OpSpec], findings: Findings) -> None:
    """Checks that no body calls its own op, by itself or through other composed ops."""
    reached: dict[str, str] = {}
    waiting = [(spec.name, "")]
    while waiting:
        name, through = waiting.pop()
        for called in sorted(called_ops(specs[name], specs) - set(reached)):
            reached[called] = through or called
            waiting.append((called, through or called))
    if spec.name in reached:
        by = reached[spec.name]
        findings.add(
            spec.span, f"op '{spec.name}' is composed of itself" + (f", through '{by}'" if by != spec.name else "")
        )


class _Checker(ExpressionChecker):
    """Checks one body, step by step."""

    def __init__(self, a: OpAnalysis, specs: Mapping[str, OpSpec], findings: Findings) -> None:
        super().__init__(a, specs, findings)
        self.defined: dict[str, Node] = {}

    def _is_asked_below(self, statement: Assert) -> bool:
        """Whether an assert reads no elements, or an op that is called with what it reads, under the same names, has it too."""
        bases = (n.base for n in walk(statement.cond) if isinstance(n, Index))
        read = {base.id for base in bases if isinstance(base, Name) and base.id in self.of.inputs}
        if not read:
            return True
        assert self.spec.compose is not None
        for call in (n for n in walk(self.spec.compose) if isinstance(n, Call) and n.func in self.specs):
            callee = self.specs[call.func]
            passed = {o.name for o, arg in zip(callee.inputs, call.args) if isinstance(arg, Name) and arg.id == o.name}
            asked = [(s.cond, s.message) for s in callee.shape if isinstance(s, Assert)]
            if read <= passed and (statement.cond, statement.message) in asked:
                return True
        return False

    def check(self) -> None:
        assert self.spec.compose is not None
        for statement in self.spec.shape:
            if isinstance(statement, Assert) and not self._is_asked_below(statement):
                self.findings.add(
                    statement.span,
                    "an assert of a composed op reads elements only where an op that it calls has the same assert, of the same inputs",
                )
        block = Block({**self.of.inputs, **self.of.matrices})
        self.steps(self.spec.compose.steps, block)
        for operand in self.spec.outputs:
            self.read.add(operand.name)
            expected = K.TENSORS if operand.signature.variadic else K.TENSOR
            got = block.scope.get(operand.name) if operand.name in self.defined else None
            if got is None:
                why = block.elsewhere.get(operand.name)
                text = f"the composition does not define the output '{operand.name}'" + (f": {why}" if why else "")
                self.findings.add(operand.span, text, self.defined)
            elif got != expected:
                words = ("several tensors", "one") if expected is K.TENSORS else ("one tensor", "several")
                self.findings.add(
                    operand.span, f"the output '{operand.name}' is {words[0]}, and the body gives {words[1]}"
                )
        for name, node in (*self.defined.items(), *((m.name, m) for m in self.spec.bilinear)):
            if name not in self.read:
                self.findings.add(
                    node.span, f"'{name}' is {'computed' if name in self.defined else 'given'} but never used"
                )

    # --- steps

    def steps(self, steps: tuple[Step, ...], block: Block) -> None:
        for step in steps:
            match step:
                case Set(op="=") if all(t.items is None for t in step.targets):
                    self._assign(step, block)
                case Set(targets=(target,), op="+=", value=VecLit(items=(element,))) if target.items is None:
                    self._collect(target, element, block)
                case Set(op="+=", targets=(Store(items=None),)):
                    self.findings.add(step.span, "`+=` collects one tensor in each iteration of a loop: `ys += [e]`")
                case Set():
                    self.findings.add(
                        step.span,
                        "a composed op defines tensors and cannot change one: write `name = op(…)`, or `ys += [e]` in a loop",
                    )
                case For():
                    self._for(step, block)
                case While():
                    self._while(step, block)
                case Branch():
                    self._branch(step, block)
                case Break():
                    self.findings.add(
                        step.span, "a loop of a composed op has no `break`; its range or its `while` condition ends it"
                    )

    def _assign(self, step: Set, block: Block) -> None:
        value = step.value
        kind = self.tensor(value, block)
        if kind not in (*TENSORS, K.ANY):
            self.findings.add(
                value.span, "this is no tensor; values computed from sizes and parameters are defined in `shape:`"
            )
            kind = K.ANY
        if len(step.targets) > 1:
            self._several(step, kind, block)
            kind = K.TENSOR
        for target in step.targets:
            self._makes(target, kind, block)

    def _several(self, step: Set, kind: ValueKind, block: Block) -> None:
        called = self.of.called(step.value, block.scope) if isinstance(step.value, Call) else None
        if called is not None and not any(o.signature.variadic for o in called.outputs):
            if len(called.outputs) != len(step.targets):
                plural = "" if len(called.outputs) == 1 else "s"
                text = f"'{called.name}' has {len(called.outputs)} output{plural}, but {len(step.targets)} names are assigned"
                self.findings.add(step.span, text)
        elif kind not in (K.TENSORS, K.ANY):
            self.findings.add(step.span, "this is one tensor, but several names are assigned")

    def _makes(self, target: Store, kind: ValueKind, block: Block) -> None:
        name = target.tensor
        taken = (
            "an input"
            if name in self.of.inputs
            else "a matrix"
            if name in self.of.matrices
            else "a parameter"
            if self.spec.param(name)
            else "a dim or size"
        )
        if name in self.of.inputs or name in self.of.matrices or name in self.of.rule:
            self.findings.add(target.span, f"'{name}' is already the name of {taken}")
        self.defined.setdefault(name, target)
        block.scope[name] = kind
        block.defined.add(name)
        block.elsewhere.pop(name, None)

    def _collect(self, target: Store, element: Item, block: Block) -> None:
        self.one(element, block)
        if block.collected is None:
            self.findings.add(target.span, "`ys += [e]` is allowed directly in a loop only, not in a branch or outside")
        elif target.tensor in block.scope or target.tensor in block.collected:
            self.findings.add(target.span, f"'{target.tensor}' is already defined; a loop collects under a new name")
        else:
            self.defined.setdefault(target.tensor, target)
            block.collected[target.tensor] = target
            block.elsewhere[target.tensor] = "a loop collects it, so it is defined after the loop only"

    def _for(self, step: For, block: Block) -> None:
        domain = step.domain
        ends = domain.args if isinstance(domain, Call) and domain.func == "range" else (domain,)
        for end in ends:
            if self.tensor(end, block) not in (K.TENSOR, K.INT, K.ANY):
                self.findings.add(step.span, "a loop of a composed op is `for t in n` or `for t in range(a, b)`")
        inner = block.inside({})
        if len(step.targets) != 1 or step.targets[0].run:
            self.findings.add(step.span, "a loop of a composed op is `for t in n` or `for t in range(a, b)`")
        for target in step.targets:
            if target.name in self.of.rule or target.name in block.scope:
                self.findings.add(
                    target.span, f"'{target.name}' is already defined; use another name for the loop's variable"
                )
            inner.scope[target.name] = K.TENSOR
        self._iteration(step, inner, block)

    def _while(self, step: While, block: Block) -> None:
        self._condition(step.cond, block)
        if self.tensor(step.limit, block) not in (K.TENSOR, K.INT, K.ANY):
            self.findings.add(step.limit.span, "the limit of a loop is a number of iterations")
        self._iteration(step, block.inside({}), block)

    def _iteration(self, step: For | While, inner: Block, block: Block) -> None:
        assert inner.collected is not None
        self.steps(step.body, inner)
        carried = {n for n in inner.defined if n in block.scope}
        for name in sorted(carried):
            self._one_carried(name, inner, step)
        self._leave(
            inner.defined - carried, f"it is assigned in each iteration of the loop in line {step.span.line}", block
        )
        for name in inner.collected:
            block.scope[name] = K.TENSOR
            block.elsewhere.pop(name, None)
        block.defined |= carried | set(inner.collected)
        if isinstance(step, While):
            self._condition(step.cond, Block({**block.scope}, block.elsewhere))
        if not carried and not inner.collected:
            self.findings.add(step.span, "this loop has no result: it changes no name and collects nothing")

    def _one_carried(self, name: str, inner: Block, step: Step) -> None:
        if inner.scope[name] not in (K.TENSOR, K.ANY):
            self.findings.add(
                step.span, f"'{name}' is several tensors; results of loops and branches are single tensors"
            )

    def _branch(self, step: Branch, block: Block) -> None:
        static = self._condition(step.cond, block)
        then, other = block.inside(), block.inside()
        self.steps(step.then, then)
        self.steps(step.other, other)
        both = then.defined & other.defined
        kept = both | {n for n in then.defined | other.defined if n in block.scope}
        for name in sorted(kept):
            self.kept(name, then, other, step, static)
            block.scope[name] = (then if name in then.defined else other).scope[name]
            block.elsewhere.pop(name, None)
        self._leave(
            (then.defined | other.defined) - kept,
            f"only one side of the `if` in line {step.span.line} assigns it",
            block,
        )
        block.defined |= kept
        if not kept:
            self.findings.add(step.span, "this branch has no result: its sides assign no name that is known after it")

    def kept(self, name: str, then: Block, other: Block, step: Branch, static: bool) -> None:
        """Checks a name that is known after a branch."""
        kinds = {side.scope[name] for side in (then, other)} - {K.ANY}
        if len(kinds) > 1:
            self.findings.add(step.span, f"'{name}' is one tensor on one side of this `if`, and several on the other")
        elif not static:
            self._one_carried(name, then if name in then.defined else other, step)

    def _leave(self, names: set[str], why: str, block: Block) -> None:
        for name in names:
            block.elsewhere.setdefault(name, why)

    def _condition(self, cond: Expr, block: Block) -> bool:
        """Checks a condition, and returns whether it is decided when the body is built."""
        kind = self.tensor(cond, block)
        if kind not in (K.TENSOR, K.BOOL, K.ANY):
            self.findings.add(
                cond.span,
                "a condition is a bool tensor with one element, or a comparison of values that the rule knows",
            )
        return kind not in TENSORS and self.of.is_static(cond)
