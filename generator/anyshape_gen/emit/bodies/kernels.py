"""Emits kernel builders: one function for each op, with one `eqs.define` for each equation of the spec.

In: an op's analysis. Out: the text of `<op>_kernel`, and the names of the rule that it reads, which the relation binds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anyshape.dtypes import parse_dtype
from anyshape_gen.emit.bodies.kernel_reads import index
from anyshape_gen.emit.bodies.kernel_reductions import loop, of_tensor
from anyshape_gen.emit.bodies.kernel_scope import joined as all_of
from anyshape_gen.emit.bodies.kernel_text import KernelText
from anyshape_gen.emit.rules.relations import attribute_name, attributes_of
from anyshape_gen.emit.rules.rule_text import source_of, wrapped
from anyshape_gen.emit.text.layout import WIDTH
from anyshape_gen.emit.text.module import Code, Emitted, characters, escaped, joined, quoted, tuple_text, use
from anyshape_gen.emit.text.names import KERNEL_NAMES, kernel_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.accesses import accesses
from anyshape_gen.model.analysis import (
    IndexVar,
    OpAnalysis,
    ResolvedEquation,
    ResolvedKernel,
    Role,
    UnbackedSize,
)
from anyshape_gen.model.body_nodes import Equation
from anyshape_gen.model.nodes import (
    Assert,
    Call,
    Comprehension,
    Expr,
    Function,
    Generator,
    Name,
    Node,
    Over,
    Reduction,
    Slice,
    Star,
    TensorRead,
    Unary,
)
from anyshape_gen.model.printer import equation_text, to_text
from anyshape_gen.model.traverse import walk, walk_all
from anyshape_gen.parse.values import DTYPES
from anyshape_gen.resolve.numbering import chooses_tensor

KNOWN = KERNEL_NAMES
LONG = 96
"""The most characters of an equation that messages quote as a whole"""

_UPDATES = {"=": "set", "set": "set", "+=": "add", "-=": "sub", "*=": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True)
class KernelCode:
    """A kernel builder, and the names that it reads from the relation."""

    text: Emitted
    bound: tuple[str, ...]
    hoisted: Mapping[str, Expr]
    """Sizes that the relation computes for it, since they are checked, or depend on facts of the relation"""


def dtype_keys(a: OpAnalysis) -> dict[str, str]:
    """Returns {dtype variable: key in Equations.dtypes}; the key of a variable that a parameter decides is `param:<name>`."""
    keys = {}
    for rule in a.spec.dtypes:
        key = rule.var
        if isinstance(rule.expr, Name):
            key = f"param:{rule.expr.id}"
        keys[rule.var] = key
    return keys


def kernel(a: OpAnalysis) -> KernelCode:
    """Emits the builder. Raises NotExecuted."""
    assert a.kernel is not None
    return KernelEmitter(a, a.kernel).emit()


class KernelEmitter:
    """Emits one kernel builder."""

    def __init__(self, a: OpAnalysis, kernel: ResolvedKernel) -> None:
        self.a, self.kernel = a, kernel
        tensors = frozenset([o.name for o in (*a.spec.inputs, *a.spec.outputs)] + [s.name for s in kernel.scratch])
        functions = frozenset(f.name for f in a.kernel_functions)
        self.text = KernelText(a.kinds, attributes_of(a), dtype_keys(a), tensors, functions)
        self.text.rules.of(a.spec)
        self.text.unproved = frozenset(id(n) for k, n in enumerate(accesses(kernel)) if k in a.unproved)
        self.text.lazy = frozenset(id(n) for k, n in enumerate(accesses(kernel)) if k in a.lazy)
        known = {o.name: o.signature.dtype for o in (*a.spec.inputs, *a.spec.outputs)}
        known |= {s.name: s.dtype for s in kernel.scratch}
        self.text.narrow = narrow_tensors(a, known)
        self.code = Code()
        self.scratch = {s.name: s for s in kernel.scratch}
        self.loops: tuple[str, ...] = ()

    def emit(self) -> KernelCode:
        self._begin()
        self._equations(self.kernel.equations, ())
        for unbacked in self.kernel.unbacked:
            self._unbacked(unbacked)
        return self._finish()

    def _begin(self) -> None:
        self.code.indent()
        for function in self.a.kernel_functions:
            self._function(function)
        for check in self.kernel.asserts:
            self._demand(check)

    def _finish(self, unbacked: Iterable[str] = ()) -> KernelCode:
        """Puts the head of the builder before its body; `unbacked` are sizes that the body sets."""
        head = Code()
        head.comment(source_of(self.a.spec))
        head.add(f"def {self.a.spec.name}_kernel(eqs: {use('Equations')}, bound: {use('Bound')}) -> None:")
        head.indent()
        self._locals(head)
        body = joined("\n", (head.text(), self.code.text()))
        return KernelCode(body, (*self.text.used, *unbacked), dict(self.text.hoisted))

    def _locals(self, head: Code) -> None:
        """Emits locals for the names of the rule and the tensors that the equations read."""
        unpack(head, [(kernel_name(n), f"bound.{attribute_name(n)}") for n in self.text.used])
        tensors = [o for o in (*self.a.spec.inputs, *self.a.spec.outputs) if o.name in self.text.used_tensors]
        makers = ["tensors" if o.signature.variadic else "tensor" for o in tensors]
        unpack(head, [(kernel_name(o.name), f'eqs.{m}("{o.name}")') for o, m in zip(tensors, makers)])
        if any("rule." in line for line in self.code.lines):
            head.add(f"rule = {use('Rule')}(eqs.op)")

    def _function(self, f: Function) -> None:
        args = ", ".join(f"{kernel_name(x)}: {use('Any')}" for x in f.args)
        self.code.add(f"def {kernel_name(f.name)}({args}) -> {use('Any')}:")
        self.code.indent()
        before = dict(self.text.variables)
        for x in f.args:
            self.text.variables[x] = False
        for assign in f.body:
            for name in assign.names:
                self.text.variables[name] = False
            self.code.add(f"{', '.join(map(kernel_name, assign.names))} = {self.text.text(assign.value)}")
        self.code.add(f"return {self.text.text(f.result)}")
        self.text.variables = before
        self.code.dedent()
        self.code.add()

    # --- equations

    def _equations(self, equations: tuple[ResolvedEquation, ...], outer: tuple[Expr, ...]) -> None:
        """Emits equations; static conditions become Python's `if`, and `if not c` after `if c` becomes `else`."""
        last: Expr | None = None
        at = 0
        while at < len(equations):
            inner = equations[at].conditions[len(outer) :]
            if not inner:
                self._equation(equations[at])
                at, last = at + 1, None
                continue
            if not outer:
                self._shared_scratch(equations)
            cond = inner[0]
            end = at
            while end < len(equations) and equations[end].conditions[len(outer) :][:1] == (cond,):
                end += 1
            is_else = last is not None and cond == Unary("not", last)
            self.code.add("else:" if is_else else f"if {self._static(cond)}:")
            self.code.indent()
            self._equations(equations[at:end], (*outer, cond))
            self.code.dedent()
            at, last = end, None if is_else else cond

    def _shared_scratch(self, equations: tuple[ResolvedEquation, ...]) -> None:
        """Emits scratches that equations under different conditions define before all of these."""
        for name in list(self.scratch):
            own = [q for q in equations if q.target.tensor == name]
            if len({q.conditions for q in own}) > 1:
                self._scratches(own)

    def _static(self, cond: Expr) -> str:
        return self.text.text(cond)

    def _equation(self, q: ResolvedEquation) -> None:
        text = self.text
        text.variables = {}
        self._scratches([e for e in self.kernel.equations if e.cycle == q.cycle] if q.cycle >= 0 else [q])
        elements = [v for v in q.vars if v.role is Role.ELEMENT]
        for v in elements:
            self.code.add(f"for {kernel_name(v.name)} in {self._numbers(v)}:")
            self.code.indent()
        text.numbers = {v.name for v in elements}
        self._variables([v for v in q.around if v.role is Role.LOOP])
        inside = self._own_variables(q.generators)
        self._variables([*q.within])
        own = self._over(q, inside)
        target = text.name(q.target.tensor)
        if q.target.element is not None:
            target = f"{target}[{text.text(q.target.element)}]"
        if id(q.target) in text.unproved:
            target = f"{use('checked')}({target})"
        self.code.add(self._statement(q, f"{target}{index(text, q.parts)}", _literal(self._source(q)), own))
        for _ in elements:
            self.code.dedent()

    def _source(self, q: ResolvedEquation) -> str:
        """Returns the place of an equation, with its text if it may fail on some data; of a long one only the part that may fail."""
        failing = [to_text(node) for node in walk(q) if self._may_fail(node)]
        if _has_data(q.parts):
            failing.insert(0, to_text(q.target))
        if not failing:
            return source_of(q.target)
        op = "=" if q.op == "set" else q.op
        whole = equation_text(Equation(q.target, op, q.value, generators=q.generators, filters=q.filters))
        quoted_text = whole if len(whole) <= LONG else ", ".join(dict.fromkeys(failing))
        return f"{source_of(q.target)}: {quoted_text}"

    def _may_fail(self, node: Node) -> bool:
        return id(node) in self.text.unproved or (isinstance(node, TensorRead) and _has_data(node.parts))

    def _numbers(self, v: IndexVar) -> str:
        """Emits the range of the numbers of tensors that each have an equation."""
        sequence = self.a.spec.sequence
        if sequence is None:
            return f"range({self.text.text(v.extent)})"
        return f"{use('rules')}.numbers_of({self.text.name(sequence.name)})"

    def _statement(self, q: ResolvedEquation, target: str, source: str, own: str) -> str:
        """Emits the call that defines an equation, which depends on its right side, and on whether its left side is computed indices."""
        text = self.text
        match q.value:
            case Comprehension(element, generators, conditions):
                return f"eqs.compact({target}, {loop(text, generators, element, conditions)}, source={source})"
            case Call("argsort", (Comprehension(element, generators, ()),), keywords):
                order = "".join(f", {name}={text.text(value)}" for name, value in keywords)
                return f"eqs.argsort({target}, {loop(text, generators, element, ())}{order}, source={source})"
        sequence = self.a.spec.sequence
        if sequence is not None and isinstance(q.value, Reduction) and chooses_tensor(q.value, q.value.generators[0]):
            each = f"lambda {kernel_name(q.value.generators[0].targets[0].name)}: {of_tensor(text, q.value)}"
            return f'eqs.gather({target}, "{q.value.kind}", {text.name(sequence.name)}, {each}, {source})'
        if q.recurrence is not None:
            order = ", backward=True" if q.backward else ""
            cycle = f", cycle={q.cycle}" if q.cycle else ""
            return (
                f"eqs.step({target}, {text.text(q.value)}, {kernel_name(q.recurrence)}{order}{cycle}, source={source})"
            )
        if q.op != "=" or any(isinstance(node, TensorRead) for node in walk_all(q.parts)):
            return f'eqs.update({target}, "{_UPDATES[q.op]}", {text.text(q.value)}, {source}{own})'
        return f"eqs.define({target}, {text.text(q.value)}, {source})"

    def _demand(self, check: Assert) -> None:
        self.text.variables = {}
        parts = check.message.parts if check.message is not None else (f"the rule of {self.a.spec.name} does not hold",)
        message = tuple_text(quoted(p) if isinstance(p, str) else self.text.text(p) for p in parts)
        source = _literal(f"{source_of(check)}: {to_text(check.cond)} does not hold")
        self.code.add(f"eqs.demand({self.text.text(check.cond)}, {message}, {source})")

    def _unbacked(self, unbacked: UnbackedSize) -> None:
        self.text.variables = {}
        self.text.used[unbacked.name] = None
        value = self.text.text(unbacked.value)
        self.code.add(f"eqs.unbacked({kernel_name(unbacked.name)}, {value}, {quoted(source_of(unbacked))})")

    def _variables(self, loops: list[IndexVar]) -> None:
        if not loops:
            return
        makers = []
        for v in loops:
            maker = "indices" if v.run else "index"
            extent = self.text.hoist(f"{v.name}_extents" if v.run else f"{v.name}_extent", v.extent)
            makers.append(f'eqs.{maker}("{v.name}", {extent})')
        for v in loops:
            self.text.variables[v.name] = v.run
        unpack(self.code, [(kernel_name(v.name), m) for v, m in zip(loops, makers)])

    def _own_variables(self, generators: Iterable[Generator]) -> list[str]:
        """Emits the variables of an update's generators. Returns the conditions that those over ranges are inside."""
        inside = []
        for g in generators:
            (target,) = g.targets
            if g.over is Over.RANGE:
                inside.append(self._range(g, target.name))
            else:
                self._variables([IndexVar(target.name, target.run, g.domain)])
        return inside

    def _over(self, q: ResolvedEquation, inside: list[str]) -> str:
        """Emits the arguments that say what an update goes over, and where it is made."""
        if not q.generators:
            return ""
        own = tuple_text(f"{'*' if t.run else ''}{kernel_name(t.name)}" for g in q.generators for t in g.targets)
        where = all_of(self.text, "and", q.filters) if q.filters else inside.pop() if inside else ""
        for test in reversed(inside):
            where = f"{use('where')}({test}, lambda: {where}, False)"
        return f", over={own}" + (f", where={where}" if where else "")

    def _range(self, g: Generator, name: str) -> str:
        """Emits a variable over a range; returns the name of the condition that it is inside, where the ends depend on other variables."""
        text = self.text
        assert isinstance(g.domain, Call)
        ends = [text.text(x) for x in g.domain.args if not isinstance(x, (Star, Slice))]
        if len(ends) not in (1, 2):
            raise NotExecuted(g, "a range with a step")
        inside = f"{name}_inside"
        while inside in text.variables or inside in text.kinds or inside in text.tensors:
            inside += "_"
        low, high = ends if len(ends) == 2 else ("0", ends[0])
        self.code.add(f'{kernel_name(name)}, {kernel_name(inside)} = {use("range_index")}("{name}", {low}, {high})')
        text.variables[name] = text.variables[inside] = False
        return kernel_name(inside)

    def _scratches(self, equations: list[ResolvedEquation]) -> None:
        """Emits the scratches that equations define, unless they are emitted already."""
        for q in equations:
            s = self.scratch.pop(q.target.tensor, None)
            if s is not None:
                dtype = self.text.dtype_named(s.dtype)
                self.code.add(f'{kernel_name(s.name)} = eqs.scratch("{s.name}", {dtype}, {self.text.text(s.shape)})')


def narrow_tensors(a: OpAnalysis, dtypes: Mapping[str, str]) -> frozenset[str]:
    """Selects the tensors whose elements may be integers other than i64, by their dtypes or dtype variables."""
    choices = {rule.var: rule.choices or DTYPES for rule in a.spec.dtypes}
    return frozenset(
        name
        for name, dtype in dtypes.items()
        if any(t != "i64" and parse_dtype(t).is_integer for t in choices.get(dtype, (dtype,)))
    )


def unpack(code: Code, pairs: list[tuple[str, str]]) -> None:
    """Emits `a, b = x, y`, or one assignment on each line where that is too long."""
    if not pairs:
        return
    line = f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}"
    if len(characters(line)) + 4 * code.depth <= WIDTH:
        code.add(line)
        return
    for name, value in pairs:
        code.add(f"{name} = {value}")


def _literal(text: str) -> str:
    return quoted(text) if len(text) <= LONG else wrapped("".join(map(escaped, text)), is_format=False)


def _has_data(parts: Iterable[Node]) -> bool:
    """Whether an index is computed from elements, or is counted from the end."""
    return any(isinstance(n, TensorRead) or (isinstance(n, Call) and n.func == "wrap") for n in walk_all(parts))
