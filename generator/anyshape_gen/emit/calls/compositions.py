"""Emits bodies of composed ops: for each op one function that calls other ops.

In: an op's analysis, the specs of all ops. Out: the text of `<op>_body` and of its `Composition`, and the names of the rule that it reads.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anyshape_gen.check.bilinear import growth_of
from anyshape_gen.emit.bodies.kernel_text import KernelText
from anyshape_gen.emit.bodies.kernels import dtype_keys
from anyshape_gen.emit.calls.api import python_name
from anyshape_gen.emit.calls.assigned import assigned, collected
from anyshape_gen.emit.rules.relations import NOT_LITERAL, attribute_name, attributes_of, literal
from anyshape_gen.emit.rules.rule_text import ATOM, RuleText, Spelled, source_of
from anyshape_gen.emit.text.module import Code, Emitted, joined, number_text, quoted, tuple_text, use
from anyshape_gen.emit.text.names import KERNEL_NAMES, constant_name, kernel_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import OpAnalysis, ValueKind
from anyshape_gen.model.body_nodes import Branch, For, Set, Step, While
from anyshape_gen.model.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Expr,
    IfExp,
    Index,
    Item,
    Name,
    NoneLit,
    Slice,
    Star,
    Unary,
    VecLit,
)
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.spec import OpSpec, ParamSpec
from anyshape_gen.model.traverse import free_names
from anyshape_gen.parse.values import DTYPES, OTHER_DTYPES
from anyshape_gen.resolve.composing import Argument, Composer
from anyshape_gen.resolve.float_defaults import of_floats, substituted

KNOWN = {
    **{name: module for name, module in KERNEL_NAMES.items() if module == "anyshape.equations.functions"},
    "as_expr": "anyshape.equations.expr",
    **dict.fromkeys(("Composing", "Composition"), "anyshape.graph.composition"),
    "AlgorithmDef": "anyshape.graph.opdef",
    **dict.fromkeys(("inf", "pi"), "math"),
    "rules": "anyshape",
    "parse_dtype": "anyshape.dtypes",
    "Any": "typing",
}
_OWN = {"c", "api", "rule", "rules", "bound", "inf", "pi", "parse_dtype", "Any", "tuple", "list"}
_CLASSES = {"is_int": "is_integer", "is_float": "is_float", "is_narrow_float": "is_narrow_float"}
K = ValueKind


@dataclass(frozen=True)
class CompositionCode:
    """A body, and the names that it reads from the relation."""

    text: Emitted
    bound: tuple[str, ...]


def composition(a: OpAnalysis, specs: Mapping[str, OpSpec], package: str) -> CompositionCode:
    """Emits the body. Raises NotExecuted."""
    return _Emitter(a, specs, package).emit()


def algorithms(a: OpAnalysis, specs: Mapping[str, OpSpec]) -> CompositionCode:
    """Emits the table of an op's algorithms."""
    used: dict[str, None] = {}
    rule = _RuleText(a, used, (), {})
    code = Code()
    code.add(f"{constant_name(a.spec.name)}_ALGORITHMS = (")
    code.indent()
    for each in a.spec.algorithms:
        growth = number_text(growth_of(specs[each.op], each.constant))
        applies = f"lambda rule, bound: {rule.text(each.condition)}"
        words = (quoted(each.op), applies, quoted(each.constant), growth)
        code.add(f"{use('AlgorithmDef')}({', '.join(words)}),")
    code.dedent()
    code.add(")")
    return CompositionCode(code.text(), tuple(used))


def local(name: str) -> str:
    """Converts the name of a tensor of the body to Python."""
    return f"{name}_" if name in _OWN or keyword.iskeyword(name) else name


class _RuleText(RuleText):
    """Prints expressions of the rule, whose names are fields of `bound`."""

    def __init__(self, a: OpAnalysis, used: dict[str, None], inputs: Iterable[str], asked: dict[str, None]) -> None:
        self.used, self.inputs, self.asked = used, frozenset(inputs), asked
        self.dtypes = dtype_keys(a)
        super().__init__(a.kinds, attributes_of(a), self._name, by_module=True)

    def _name(self, name: str) -> str:
        if name in self.dtypes:
            return f"c.dtype({quoted(self.dtypes[name])})"
        if name in self.inputs:
            self.asked[name] = None
            return local(name)
        self.used[name] = None
        return f"bound.{attribute_name(name)}"

    def call(self, e: Call) -> Spelled:
        match e:
            case Call("present", (Name(name),), ()):
                return f"c.present({quoted(name)})", ATOM
            case Call("is_int" | "is_float" | "is_narrow_float" as func, (Name(name),), ()):
                return f"{self._name(name)}.{_CLASSES[func]}", ATOM
            case Call("shape" | "rank", (Name(name),), ()) if name in self.inputs:
                vector = f"{use('rules')}.Vec({self._name(name)}.type.shape)"
                return (vector if e.func == "shape" else f"len({vector})"), ATOM
        return super().call(e)


class _NumberText(KernelText):
    """Prints floats that are computed from names of the rule, as a kernel computes them."""

    def __init__(self, a: OpAnalysis, read: dict[str, None]) -> None:
        self.read = read
        super().__init__(a.kinds, attributes_of(a), dtype_keys(a), frozenset(), frozenset())

    def name(self, id: str) -> str:
        if id not in self.kinds:
            return kernel_name(id)
        self.read[id] = None
        return f"bound.{attribute_name(id)}"


class _Emitter:
    def __init__(self, a: OpAnalysis, specs: Mapping[str, OpSpec], package: str) -> None:
        self.a, self.spec, self.package = a, a.spec, package
        self.of = Composer(a, specs)
        self.code = Code()
        self.used: dict[str, None] = {}
        self.read: dict[str, None] = {}
        self.rule = _RuleText(a, self.used, self.of.inputs, self.read)
        self.sizes: dict[str, str] = {}
        self.truths: dict[str, None] = {}
        self.numbers: dict[str, str] = {}
        self.floats = dict(a.spec.floats)
        self.regions = 0

    def emit(self) -> CompositionCode:
        assert self.spec.compose is not None
        self.code.indent()
        scope: dict[str, ValueKind] = {**self.of.inputs, **self.of.matrices}
        self._steps(self.spec.compose.steps, scope)
        results = [local(o.name) for o in self.spec.outputs]
        self.code.add(f"return [{', '.join(results)}]")
        name = self.spec.name
        head = Code()
        head.comment(source_of(self.spec))
        head.add(f"def {name}_body(c: {use('Composing')}) -> list[{use('Any')}]:")
        head.indent()
        head.add(f"from {self.package} import api")
        head.add()
        body = self.code.text()
        for word, value in (("bound", "c.bound"), ("rule", "c.rule")):
            if re.search(rf"(?<![\w\"]){word}\.", body):
                head.add(f"{word} = {value}")
        for m in self.spec.bilinear:
            rows = (tuple_text(number_text(float(x)) for x in row) for row in m.rows)
            head.add(f"{local(m.name)} = c.matrix({tuple_text(rows)})")
        for used in self.read:
            head.add(f"{local(used)} = c.input({quoted(used)})")
        text = joined("\n\n\n", (joined("\n", (head.text(), body)), self._constant()))
        return CompositionCode(text, tuple(self.used))

    def _constant(self) -> Emitted:
        code = Code()
        code.add(f"{constant_name(self.spec.name)} = {use('Composition')}(")
        code.indent()
        code.add(f"build={self.spec.name}_body,")
        if not self.sizes:
            code.add("sizes={},")
        else:
            code.add("sizes={")
            code.indent()
            for text, value in self.sizes.items():
                code.add(f"{quoted(text)}: lambda rule, bound: {value},")
            code.dedent()
            code.add("},")
        if self.truths:
            code.add(f"truths=frozenset({tuple_text(map(quoted, self.truths))}),")
        if self.numbers:
            code.add("numbers={")
            code.indent()
            for text, number in self.numbers.items():
                code.add(f"{quoted(text)}: lambda bound: {number},")
            code.dedent()
            code.add("},")
        code.dedent()
        code.add(")")
        return code.text()

    # --- steps

    def _steps(self, steps: tuple[Step, ...], scope: dict[str, ValueKind]) -> None:
        for step in steps:
            match step:
                case Set(targets=targets, op="+=", value=VecLit(items=(element,))):
                    self.code.add(f"{local(targets[0].tensor)} = {self.operand(element, scope)}")
                case Set(targets=targets, value=value):
                    self.code.add(f"{', '.join(local(t.tensor) for t in targets)} = {self.tensor(value, scope)}")
                    kind = self.of.kind(value, scope) if len(targets) == 1 else K.TENSOR
                    scope.update(dict.fromkeys((t.tensor for t in targets), kind))
                case For():
                    self._for(step, scope)
                case While():
                    self._while(step, scope)
                case Branch():
                    self._branch(step, scope)
                case _:
                    raise NotExecuted(step, "this step of a composition")

    def _for(self, step: For, scope: dict[str, ValueKind]) -> None:
        domain, (variable,) = step.domain, step.targets
        begin: Item | None = None
        if isinstance(domain, Call) and domain.func == "range":
            begin, domain = _ends(domain)
        first = []
        if begin is not None:
            plus = self.of.signed("+", 2)
            if plus is None:
                raise NotExecuted(step, "a loop that does not begin with 0, where no op is `+`")
            first = [f"{local(variable.name)} = {self.apply(plus, [local(variable.name), self.operand(begin, scope)])}"]
        self._loop(step, scope, variable=local(variable.name), trip=self.operand(domain, scope), first=first)

    def _while(self, step: While, scope: dict[str, ValueKind]) -> None:
        self._loop(step, scope, variable="_", trip=self.operand(step.limit, scope))

    def _loop(
        self, step: For | While, scope: dict[str, ValueKind], *, variable: str, trip: str, first: Sequence[str] = ()
    ) -> None:
        """Emits a loop: a function of one iteration, which begins with the lines `first`, and a call that runs it at most `trip` times."""
        cond = step.cond if isinstance(step, While) else None
        targets = step.targets if isinstance(step, For) else ()
        carried = [n for n in assigned(step.body, scope) if n in scope]
        stacked = collected(step.body)
        name = self._region("iteration")
        parameters = "".join(f", {local(n)}: {use('Any')}" for n in carried)
        self._gap()
        self.code.add(f"def {name}({variable}: {use('Any')}{parameters}) -> list[{use('Any')}]:")
        self.code.indent()
        for line in first:
            self.code.add(line)
        self._steps(step.body, {**scope, **{t.name: K.TENSOR for t in targets}})
        results = [local(n) for n in (*carried, *stacked)]
        again = [] if cond is None else [self.truth(cond, {**scope})]
        self.code.add(f"return [{', '.join([*again, *results])}]")
        self.code.dedent()
        self.code.add()
        words = [trip, name, f"[{', '.join(map(local, carried))}]", f"[{', '.join(map(quoted, carried))}]"]
        words += [f"collects={len(stacked)}"] if stacked else []
        words += [f"cond={self.truth(cond, scope)}"] if cond is not None else []
        self.code.add(f"{_targets(results)} = c.loop({', '.join(words)})")
        scope.update(dict.fromkeys((*carried, *stacked), K.TENSOR))

    def _branch(self, step: Branch, scope: dict[str, ValueKind]) -> None:
        then, other = assigned(step.then, scope), assigned(step.other, scope)
        kept = [n for n in dict.fromkeys((*then, *other)) if n in scope or (n in then and n in other)]
        first, second = dict(scope), dict(scope)
        if not self.of.is_tensor(step.cond, scope) and self.of.is_static(step.cond):
            self.code.add(f"if {self.rule.text(step.cond)}:")
            self._block(step.then, first)
            if step.other:
                self.code.add("else:")
                self._block(step.other, second)
        else:
            cond = self.truth(step.cond, scope)
            names = [self._region("then"), self._region("other")]
            for name, steps, inside in zip(names, (step.then, step.other), (first, second)):
                known = [n for n in assigned(steps, scope) if n in scope]
                self._gap()
                any_ = use("Any")
                self.code.add(
                    f"def {name}({', '.join(f'{local(n)}: {any_} = {local(n)}' for n in known)}) -> list[{use('Any')}]:"
                )
                self.code.indent()
                self._steps(steps, inside)
                self.code.add(f"return [{', '.join(map(local, kept))}]")
                self.code.dedent()
                self.code.add()
            self.code.add(f"{_targets(list(map(local, kept)))} = c.if_({cond}, {names[0]}, {names[1]})")
        for n in kept:
            scope[n] = (first if n in then else second)[n]

    def _block(self, steps: tuple[Step, ...], scope: dict[str, ValueKind]) -> None:
        self.code.indent()
        self._steps(steps, scope)
        self.code.dedent()

    def _gap(self) -> None:
        if self.code.lines and self.code.lines[-1]:
            self.code.add()

    def _region(self, word: str) -> str:
        self.regions += word != "other"
        return f"{word}{self.regions}"

    # --- expressions

    def operand(self, e: Item, scope: dict[str, ValueKind]) -> str:
        """Emits a tensor, or a value of the rule converted to one."""
        if self.of.is_tensor(e, scope):
            return self.tensor(e, scope)
        if isinstance(e, NoneLit):
            return "None"
        if isinstance(e, (Star, Slice)):
            raise NotExecuted(e, "a star or a slice of what is no tensor")
        return self.known(e)

    def known(self, e: Expr) -> str:
        """Emits a value of the rule: as Python where it is decided when the body is built, else as a size, by its text."""
        if isinstance(e, VecLit) and literal(e) is not NOT_LITERAL:
            return number_text(literal(e))
        is_float = self.of.kind(e, {}) is K.FLOAT and not self.of.is_static(e)
        if is_float or not self.floats.keys().isdisjoint(free_names(e)):
            number = of_floats(e, {p.name for p in self.spec.params if p.kind.base == "float"})
            self.numbers[to_text(e)] = _NumberText(self.a, self.used).text(substituted(number, self.floats))
            return f"c.number({quoted(to_text(e))})"
        if self.of.is_static(e):
            return self.rule.text(e)
        text = to_text(e)
        self.sizes[text] = self.rule.text(e)
        if self.of.kind(e, {}) is K.BOOL:
            self.truths[text] = None
        return f"c.size({quoted(text)})"

    def truth(self, e: Expr, scope: dict[str, ValueKind]) -> str:
        return self.tensor(e, scope) if self.of.is_tensor(e, scope) else self.known(e)

    def tensor(self, e: Item, scope: dict[str, ValueKind]) -> str:
        match e:
            case Name(id=name):
                if name in self.of.inputs:
                    self.read[name] = None
                return local(name)
            case Call():
                return self._call(e, scope)
            case Index(base=base, items=(item,)):
                if self.of.kind(base, scope) is K.TENSORS:
                    return f"{self.tensor(base, scope)}[{self._item(item)}]"
                return self._signed("[]", (base, item), scope, e)
            case BinOp(op=op, left=left, right=right):
                return self._signed(op, (left, right), scope, e)
            case Unary(op=op, operand=operand):
                return self._signed(op, (operand,), scope, e)
            case Compare(first=first, rest=((op, right),)):
                return self._signed(op, (first, right), scope, e)
            case BoolOp(op=op, items=items):
                text = self.operand(items[0], scope)
                for item in items[1:]:
                    text = self.apply(self._sign(op, 2, e), [text, self.operand(item, scope)])
                return text
            case IfExp(cond=cond, then=then, other=other):
                return f"({self.operand(then, scope)} if {self.rule.text(cond)} else {self.operand(other, scope)})"
            case VecLit(items=items):
                return f"[{', '.join(self._listed(i, scope) for i in items)}]"
        raise NotExecuted(e, "this expression in a composition")

    def _item(self, item: Item) -> str:
        if isinstance(item, Star):
            raise NotExecuted(item, "a star as an index")
        return self.rule.item(item)

    def _listed(self, item: Item, scope: dict[str, ValueKind]) -> str:
        return f"*{self.tensor(item.value, scope)}" if isinstance(item, Star) else self.operand(item, scope)

    def _sign(self, sign: str, inputs: int, e: Expr) -> OpSpec:
        op = self.of.signed(sign, inputs)
        if op is None:
            raise NotExecuted(e, f"`{sign}` between tensors, where no op is it")
        return op

    def _signed(self, sign: str, parts: tuple[Item, ...], scope: dict[str, ValueKind], e: Expr) -> str:
        return self.apply(self._sign(sign, len(parts), e), [self.operand(p, scope) for p in parts])

    def apply(self, called: OpSpec, words: list[str]) -> str:
        return f"api.{python_name(called.name)}({', '.join([*words, 'source=c.source'])})"

    def _call(self, e: Call, scope: dict[str, ValueKind]) -> str:
        called = self.of.called(e, scope)
        if called is None:
            raise NotExecuted(e, f"a call of {e.func}")
        words: list[str] = []
        for k, argument in enumerate(self.of.arguments(called, e)):
            if not isinstance(argument, Argument):
                raise NotExecuted(e, f"this call of {e.func}")
            text = (
                self.operand(argument.value, scope)
                if argument.param is None
                else self._param(argument.param, argument.value, scope)
            )
            plain = argument.param is None and k < len(e.args)
            words.append(text if plain else f"{python_name(argument.name)}={text}")
        return self.apply(called, words)

    def _param(self, p: ParamSpec, value: Item, scope: dict[str, ValueKind]) -> str:
        match value:
            case Name(id=name) if (
                p.kind.base == "dtype" and name in (*DTYPES, *OTHER_DTYPES) and name not in self.of.rule
            ):
                return f"{use('parse_dtype')}({quoted(name)})"
            case NoneLit():
                return "None"
        return self.operand(value, scope)


def _ends(e: Call) -> tuple[Item | None, Expr]:
    """Returns the begin of a range, if it is not 0, and its number of iterations."""
    match e.args:
        case (low, high) if not isinstance(low, Star | Slice) and not isinstance(high, Star | Slice):
            return low, BinOp("-", high, low, span=e.span)
        case (high,) if not isinstance(high, Star | Slice):
            return None, high
    raise NotExecuted(e, "this range")


def _targets(names: list[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)
