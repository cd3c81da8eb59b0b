"""Checks that calls in compositions fit in their dtypes, for every choice of dtypes that the signature allows.

In: an analysed op, the specs of all ops. Out: findings: operands of one call that are of several dtypes, or of one that the op that is
called does not take, and outputs of another dtype than the signature's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anyshape.dtypes import is_dtype_name
from anyshape.errors import DtypeError
from anyshape_gen.check.meeting import choices, computed_dtype
from anyshape_gen.model.analysis import OpAnalysis, ValueKind
from anyshape_gen.model.body_nodes import Branch, For, Set, Step, While
from anyshape_gen.model.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    IfExp,
    Index,
    Item,
    Name,
    NoneLit,
    Star,
    Unary,
    VecLit,
)
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Findings, Span
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.resolve.composing import TENSORS, Argument, Composer
from anyshape_gen.resolve.element_dtypes import UNKNOWN, WEAK, ElementDtypes

ANY = (UNKNOWN, WEAK)
"""Dtypes of what adapts, and of what nothing is known of."""


def check_compose_dtypes(a: OpAnalysis, specs: Mapping[str, OpSpec], findings: Findings) -> None:
    """Checks the body of an op for each choice of its dtypes; the first choice that does not fit is reported."""
    for dtypes in choices(a, {rule.var for rule in a.spec.dtypes}):
        body = _Body(a, specs, dtypes)
        body.check()
        for span, words in body.disagreements:
            findings.add(span, words)
        if body.disagreements:
            return


class _Body:
    """The dtypes of names of one body, for one choice of dtypes."""

    def __init__(self, a: OpAnalysis, specs: Mapping[str, OpSpec], dtypes: Mapping[str, str]) -> None:
        self.spec, self.of, self.dtypes = a.spec, Composer(a, specs), dtypes
        self.named = {o.name: self.own(o.signature.dtype) for o in a.spec.inputs}
        self.named |= dict.fromkeys(self.of.matrices, WEAK)
        self.kinds: dict[str, ValueKind] = {**self.of.inputs, **self.of.matrices}
        self.conditions = ElementDtypes(a.spec, {}, {}, dtypes)
        self.disagreements: list[tuple[Span, str]] = []

    def own(self, name: str) -> str:
        """The dtype that a name of the op's own signature stands for."""
        return self.dtypes.get(name, name if is_dtype_name(name) else UNKNOWN)

    def check(self) -> None:
        assert self.spec.compose is not None
        self.steps(self.spec.compose.steps)
        for output in self.spec.outputs:
            declared, dtype = self.own(output.signature.dtype), self.named.get(output.name, UNKNOWN)
            if dtype not in (*ANY, declared) and declared != UNKNOWN:
                where = self.where()
                self._report(
                    output.span, f"the output '{output.name}' is {declared}, and the body gives {dtype}{where}"
                )

    def _report(self, span: Span, words: str) -> None:
        if (span, words) not in self.disagreements:
            self.disagreements.append((span, words))

    def where(self) -> str:
        """Words for the choice of dtypes."""
        chosen = [f"{var} is {dtype}" for var, dtype in sorted(self.dtypes.items())]
        return f" where {' and '.join(chosen)}" if chosen else ""

    # --- steps

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Set(targets=targets, op="=", value=value):
                    dtypes = self.results(value) if len(targets) > 1 else [self.dtype(value)]
                    kind = self.of.kind(value, self.kinds) if len(targets) == 1 else ValueKind.TENSOR
                    for k, target in enumerate(targets):
                        self.named[target.tensor] = dtypes[k] if k < len(dtypes) else UNKNOWN
                        self.kinds[target.tensor] = kind
                case Set(targets=(target,), value=VecLit(items=(element,))):
                    self.named[target.tensor] = self.dtype(element)
                    self.kinds[target.tensor] = ValueKind.TENSOR
                case For(targets=targets, body=body):
                    self.named |= {t.name: "i64" for t in targets}
                    self.kinds |= dict.fromkeys((t.name for t in targets), ValueKind.TENSOR)
                    self.steps(body)
                case While(cond=cond, body=body):
                    self.dtype(cond)
                    self.steps(body)
                case Branch():
                    self._branch(step)

    def _branch(self, step: Branch) -> None:
        known = self.conditions.holds(step.cond)
        if known is None:
            self.dtype(step.cond)
        before, sides = dict(self.named), []
        for taken, side in ((True, step.then), (False, step.other)):
            if known in (None, taken):
                self.named = dict(before)
                self.steps(side)
                sides.append(self.named)
        self.named = {
            n: _either([side.get(n, UNKNOWN) for side in sides]) for n in dict.fromkeys(n for s in sides for n in s)
        }

    # --- expressions

    def dtype(self, e: Item) -> str:
        """The dtype of an expression; `WEAK` if it is no tensor."""
        if isinstance(e, Call) and self.of.called(e, self.kinds) is not None:
            return _either(self.results(e))
        if self.of.kind(e, self.kinds) not in TENSORS:
            return WEAK
        match e:
            case Name(id=name):
                return self.named.get(name, UNKNOWN)
            case Star(value=value):
                return self.dtype(value)
            case VecLit(items=items):
                return _either([self.dtype(i) for i in items])
            case IfExp(cond=cond, then=then, other=other):
                known = self.conditions.holds(cond)
                return _either(
                    [self.dtype(side) for side, taken in ((then, True), (other, False)) if known in (None, taken)]
                )
            case Index(base=Call() as base, items=(place,)) if self.of.kind(base, self.kinds) is ValueKind.TENSORS:
                results = self.results(base)
                at = getattr(place, "value", None)
                return results[at] if isinstance(at, int) and 0 <= at < len(results) else _either(results)
            case Index(base=base, items=(place,)):
                signed = self.of.signed("[]", 2)
                if self.of.kind(base, self.kinds) is ValueKind.TENSORS or signed is None:
                    return self.dtype(base)
                return self._signed(e, signed, (base, place))
            case BinOp(op=op, left=left, right=right) | Compare(first=left, rest=((op, right),)):
                return self._signed(e, self.of.signed(op, 2), (left, right))
            case Unary(op=op, operand=operand):
                return self._signed(e, self.of.signed(op, 1), (operand,))
            case BoolOp(op=op, items=items):
                return self._signed(e, self.of.signed(op, 2), items)
        return UNKNOWN

    def _signed(self, e: Item, called: OpSpec | None, operands: Sequence[Item]) -> str:
        if called is None:
            return UNKNOWN
        passed = [(o.name, v) for o, v in zip((*called.inputs, called.inputs[-1]), operands)]
        return _either(self._called(e, called, passed, {}))

    def results(self, e: Item) -> list[str]:
        """The dtypes of all results of a call."""
        called = self.of.called(e, self.kinds) if isinstance(e, Call) else None
        if called is None or not isinstance(e, Call):
            return []
        arguments = [x for x in self.of.arguments(called, e) if isinstance(x, Argument)]
        inputs = [(x.name, x.value) for x in arguments if x.param is None]
        named = {x.name: x.value for x in arguments if x.param is not None and x.param.kind.base == "dtype"}
        return self._called(e, called, inputs, named)

    def _called(
        self, e: Item, called: OpSpec, inputs: Sequence[tuple[str, Item]], named: Mapping[str, Item]
    ) -> list[str]:
        """The dtypes of the results of a call of an op with these inputs, and with these dtypes as parameters."""
        rules = {rule.var: rule for rule in called.dtypes}
        solved = dict(self._dtype_parameters(called, named))
        for name, value in inputs:
            operand = called.input(name)
            if operand is None or isinstance(value, NoneLit):
                continue
            declared, dtype = operand.signature.dtype, self.dtype(value)
            if dtype in ANY:
                continue
            allowed = (declared,) if is_dtype_name(declared) else rules[declared].choices if declared in rules else ()
            before = solved.setdefault(declared, dtype)
            text = to_text(e)
            if before not in (dtype, UNKNOWN):
                self._report(
                    e.span,
                    f"{before} and {dtype} meet in `{text}`{self.where()}: '{name}' of '{called.name}' has the dtype of another input; "
                    "cast one of them",
                )
                solved[declared] = UNKNOWN
            elif allowed and dtype not in allowed and dtype != "char":
                one = "" if len(allowed) == 1 else "one of "
                where = f"`{text}`{self.where()}"
                self._report(
                    e.span, f"'{name}' of '{called.name}' is {one}{', '.join(allowed)}, and {dtype} in {where}"
                )
        for rule in called.dtypes:
            if rule.expr is not None:
                try:
                    solved[rule.var] = computed_dtype(rule.expr, {v: d for v, d in solved.items() if d != UNKNOWN})
                except (DtypeError, KeyError):
                    solved[rule.var] = UNKNOWN
        outputs = [o.signature.dtype for o in called.outputs]
        return [solved.get(d, d if is_dtype_name(d) else UNKNOWN) for d in outputs]

    def _dtype_parameters(self, called: OpSpec, named: Mapping[str, Item]) -> Iterator[tuple[str, str]]:
        for p in called.params:
            if p.kind.base == "dtype":
                value = named.get(p.name, p.default)
                yield p.name, self.own(value.id) if isinstance(value, Name) else UNKNOWN


def _either(dtypes: Sequence[str]) -> str:
    """The dtype of what has one of these dtypes."""
    strong = {d for d in dtypes if d != WEAK}
    return strong.pop() if len(strong) == 1 else UNKNOWN if strong else WEAK
