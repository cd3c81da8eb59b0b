"""Emits expressions of rules as Python that calls `anyshape.rules`.

In: nodes. Out: text. Partial operations and lazy conditions are methods of `rule`; total functions are called by name, or in
kernels as attributes of the module (`by_module`). Conditions that attributes alone decide are Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anyshape_gen.emit.text.module import characters, number_text, quoted, use
from anyshape_gen.emit.text.names import relation_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.nodes import (
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    Generator,
    IfExp,
    Index,
    Int,
    Item,
    Message,
    Method,
    Name,
    Node,
    NoneLit,
    Over,
    Reduction,
    Slice,
    Star,
    Str,
    Unary,
    VecLit,
)  # fmt: skip
from anyshape_gen.model.spec import OpSpec

TERNARY, ADD, MUL, NEGATE, ATOM = 1, 6, 7, 8, 10
Spelled = tuple[str, int]

_TOTAL = {
    "prod": "prod", "sum": "sum_", "any": "any_", "all": "all_", "count": "count", "fill": "fill", "put": "put",
    "range": "range_", "enumerate": "enumerate_", "sorted": "sorted_", "unique": "unique", "prefix": "prefix",
    "ravel": "ravel", "unravel": "unravel", "index": "index", "clamp": "clamp", "drop": "drop", "place": "place",
    "reflect": "reflect", "int": "int_",
}  # fmt: skip
_PARTIAL = {"zip", "infer_size", "broadcast", "broadcasts", "ceil_div", "exact_div", "wrap", "min", "max"}
_NAMED = {"//": "floordiv", "%": "mod", "**": "pow"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_FOLDS = {"sum": "sum_", "prod": "prod", "any": "any_", "all": "all_", "count": "count"}


class RuleText:
    """Emits expressions in one op's scope. `kinds`: the kind of each name; `attributes`: names that are never symbols."""

    def __init__(
        self,
        kinds: Mapping[str, ValueKind],
        attributes: frozenset[str] = frozenset(),
        rename: Callable[[str], str] = relation_name,
        by_module: bool = False,
        trusted: bool = False,
    ) -> None:
        self.kinds, self.attributes, self.rename, self.by_module = kinds, attributes, rename, by_module
        self.trusted = trusted
        """Whether positions are known to be in range (while a signature is solved), so that an index is Python's own"""
        self.functions: frozenset[str] = frozenset()
        """Functions of `define:`, which are local functions of the relation"""
        self.sequence, self.own_dims = "", frozenset[str]()
        """The input that may be a list, and the dims that differ from element to element of it"""

    def of(self, spec: OpSpec) -> RuleText:
        """Sets the sequence input of an op, if it has one."""
        self.sequence, self.own_dims = spec.sequence.name if spec.sequence is not None else "", spec.own_dims
        return self

    def _ours(self, function: str) -> str:
        """Emits the name of a function of `anyshape.rules`."""
        return f"{use('rules')}.{function}" if self.by_module else use(function)

    def text(self, e: Item) -> str:
        return self.spell(e)[0]

    def at_least(self, e: Item, level: int) -> str:
        text, strength = self.spell(e)
        return text if strength >= level else f"({text})"

    def spell(self, e: Item) -> Spelled:
        """Emits an expression, with its precedence."""
        match e:
            case Name("inf" | "pi" as id) if id not in self.kinds:
                return use(id), ATOM
            case Name(id):
                return self.rename(id), ATOM
            case Int(value) | Float(value):
                return number_text(value), ATOM
            case Bool(value):
                return repr(value), ATOM
            case Str(value):
                return quoted(value), ATOM
            case NoneLit():
                return "None", ATOM
            case Unary("-", operand):
                return f"-{self.at_least(operand, NEGATE)}", NEGATE
            case Unary(_, operand):
                if self.is_static(operand):
                    return f"not {self.at_least(operand, NEGATE)}", TERNARY
                return f"{self._ours('not_')}({self.text(operand)})", ATOM
            case BinOp(op, left, right):
                return self._binary(e, op, left, right)
            case Compare(first, rest):
                return self._compare(e, first, rest)
            case BoolOp(op, items):
                return self._logical(op, items)
            case IfExp(cond, then, other):
                return self._conditional(cond, then, other)
            case Call():
                return self.call(e)
            case Method(base, name, args):
                return f"{self.at_least(base, ATOM)}.{name}({', '.join(map(self.text, args))})", ATOM
            case Index(base, items):
                return self._index(base, items)
            case VecLit(items):
                return self.vector(items), ATOM
            case Comprehension(element, generators, conditions):
                return self._comprehension(element, generators, conditions)
            case Reduction():
                return self._reduction(e)
        raise NotExecuted(e, f"{type(e).__name__.lower()} in a shape rule")

    # --- operators

    def _binary(self, e: Expr, op: str, left: Expr, right: Expr) -> Spelled:
        if op in ("+", "-"):
            return f"{self.at_least(left, ADD)} {op} {self.at_least(right, MUL)}", ADD
        if op == "*":
            return f"{self.at_least(left, MUL)} * {self.at_least(right, NEGATE)}", MUL
        if op in _NAMED:
            return f"rule.{_NAMED[op]}({self.text(left)}, {self.text(right)})", ATOM
        raise NotExecuted(e, f"`{op}` between sizes")

    def _compare(self, e: Expr, first: Expr, rest: tuple[tuple[str, Expr], ...]) -> Spelled:
        if self.is_static(e):
            return " ".join([self.at_least(first, ADD), *(f"{op} {self._member(x)}" for op, x in rest)]), TERNARY
        sides = [first, *(x for _, x in rest)]
        tests = []
        for (op, right), left in zip(rest, sides):
            if op in ("in", "not in"):
                membership = f"{self._ours('among')}({self.text(left)}, {self.text(right)})"
                tests.append(membership if op == "in" else f"{self._ours('not_')}({membership})")
                continue
            if op not in _COMPARE:
                raise NotExecuted(e, f"`{op}` between values")
            tests.append(f"{self._ours(_COMPARE[op])}({self.text(left)}, {self.text(right)})")
        return self._chain("and_", tests), ATOM

    def _member(self, e: Expr) -> str:
        """Emits the right side of a static comparison: a list of strings becomes a tuple."""
        if isinstance(e, VecLit):
            return f"({', '.join(map(self.item, e.items))}{',' if len(e.items) == 1 else ''})"
        return self.at_least(e, ADD)

    def _logical(self, op: str, items: tuple[Expr, ...]) -> Spelled:
        if all(map(self.is_static, items)):
            return f" {op} ".join(self.at_least(x, NEGATE) for x in items), TERNARY
        return self._chain(f"{op}_", [self.text(x) for x in items]), ATOM

    @staticmethod
    def _chain(name: str, tests: list[str]) -> str:
        text = tests[-1]
        for test in reversed(tests[:-1]):
            text = f"rule.{name}({test}, lambda: {text})"
        return text

    def _conditional(self, cond: Expr, then: Expr, other: Expr) -> Spelled:
        if self.is_static(cond):
            text = f"{self.at_least(then, ADD)} if {self.at_least(cond, TERNARY)} else {self.at_least(other, TERNARY)}"
            return text, TERNARY
        return f"rule.where({self.text(cond)}, lambda: {self.text(then)}, lambda: {self.text(other)})", ATOM

    def is_static(self, e: Item) -> bool:
        """Whether attributes alone decide e, so that it is a bool of Python."""
        match e:
            case Bool() | Call("present"):
                return True
            case Name(id):
                return id in self.attributes and self.kinds.get(id) is ValueKind.BOOL
            case Unary("not", operand):
                return self.is_static(operand)
            case BoolOp(_, items):
                return all(map(self.is_static, items))
            case Compare(first, rest):
                if any(op in ("is", "is not") for op, _ in rest):
                    return True
                return self._is_text(first) or any(self._is_text(x) for _, x in rest)
        return False

    def _is_text(self, e: Expr) -> bool:
        match e:
            case Str():
                return True
            case Name(id):
                return self.kinds.get(id) is ValueKind.STR
            case VecLit(items):
                return bool(items) and all(isinstance(i, Str) for i in items)
        return False

    # --- vectors

    def vector(self, items: tuple[Item, ...]) -> str:
        """Emits a vector literal; the run itself for a single starred run."""
        match items:
            case (Star(value, None),):
                return self.at_least(value, ATOM)
            case ():
                return f"{self._ours('Vec')}(())"
        return f"{self._ours('Vec')}(({', '.join(map(self.item, items))}{',' if len(items) == 1 else ''}))"

    def item(self, item: Item) -> str:
        match item:
            case Star(value, None):
                return f"*{self.at_least(value, ATOM)}"
            case Star() | Slice():
                raise NotExecuted(item, "this item of a vector")
        return self.text(item)

    def _index(self, base: Expr, items: tuple[Item, ...]) -> Spelled:
        target = self.at_least(base, ATOM)
        match items:
            case (Slice(low, high),):
                ends = ":".join(self.text(x) if x is not None else "" for x in (low, high))
                return f"{target}[{ends}]", ATOM
            case (Star() as star,):
                raise NotExecuted(star, "a run as an index of a vector")
            case (single,) if not isinstance(single, (Star, Slice)):
                text = self.text(single)
                listed = isinstance(base, Name) and base.id in (self.sequence, *self.own_dims)
                return (f"{target}[{text}]" if self.trusted or listed else f"rule.item({target}, {text})"), ATOM
        raise NotExecuted(base, "a vector with several indices")

    # --- calls

    def call(self, e: Call) -> Spelled:
        args = [self.item(a) for a in e.args]
        if e.keywords:
            raise NotExecuted(e, f"{e.func} with keywords")
        if e.func in self.functions:
            return f"{self.rename(e.func)}({', '.join(args)})", ATOM
        if e.func == "present":
            return (f"{use('present')}({args[0]})", ATOM) if self.by_module else (f"{args[0]} is not None", TERNARY)
        if e.func == "shape":
            return f"{args[0]}.shape" if self.by_module else args[0], ATOM
        if e.func in ("len", "rank"):
            listed = isinstance(e.args[0], Name) and e.args[0].id == self.sequence
            return f"{self._ours('count_of') if listed else 'len'}({args[0]})", ATOM
        if e.func == "sum" and isinstance(e.args[0], Name) and e.args[0].id in self.own_dims:
            return f"{self._ours('total_of')}({args[0]})", ATOM
        if e.func == "list":
            return f"{self._ours('Vec')}({args[0]})", ATOM
        if e.func in _TOTAL:
            return f"{self._ours(_TOTAL[e.func])}({', '.join(args)})", ATOM
        if e.func in _PARTIAL:
            return f"rule.{e.func}({', '.join(args)})", ATOM
        raise NotExecuted(e, f"{e.func}() in a shape rule")

    def loops(self, generators: tuple[Generator, ...]) -> str:
        """Emits the generators `for … in …` of a Python comprehension."""
        parts = []
        for g in generators:
            domain = self.text(g.domain)
            if g.over in (Over.EXTENT, Over.EXTENTS):
                domain = f"{self._ours('range_')}({domain})"
            if any(t.run for t in g.targets):
                raise NotExecuted(g, "a run as a variable of a rule")
            parts.append(f"for {', '.join(self.rename(t.name) for t in g.targets)} in {domain}")
        return " ".join(parts)

    def _condition(self, conditions: tuple[Expr, ...]) -> str:
        return self._chain("and_", [self.text(c) for c in conditions])

    def _comprehension(self, element: Expr, generators: tuple[Generator, ...], conditions: tuple[Expr, ...]) -> Spelled:
        loops = self.loops(generators)
        if not conditions:
            return f"{self._ours('Vec')}({self.text(element)} {loops})", ATOM
        return f"{self._ours('keep')}(({self.text(element)} {loops}), ({self._condition(conditions)} {loops}))", ATOM

    def _reduction(self, e: Reduction) -> Spelled:
        if e.keywords:
            raise NotExecuted(e, f"{e.kind} with keywords in a rule")
        loops, element = self.loops(e.generators), self.text(e.element)
        if e.kind not in _FOLDS:
            whole, _ = self._comprehension(e.element, e.generators, e.conditions)
            if e.kind in ("min", "max"):
                return f"rule.{e.kind}({whole})", ATOM
            if e.kind in ("sorted", "unique"):
                return f"{self._ours(_TOTAL[e.kind])}({whole})", ATOM
            raise NotExecuted(e, f"{e.kind} in a rule")
        fold = f"{self._ours(_FOLDS[e.kind])}"
        if not e.conditions:
            return f"{fold}({element} {loops})", ATOM
        cond = self._condition(e.conditions)
        if e.kind in ("count", "any"):
            return f"{fold}(rule.and_({cond}, lambda: {element}) {loops})", ATOM
        if e.kind == "all":
            return f"{fold}(rule.or_({self._ours('not_')}({cond}), lambda: {element}) {loops})", ATOM
        neutral = "0" if e.kind == "sum" else "1"
        return f"{fold}(rule.where({cond}, lambda: {element}, lambda: {neutral}) {loops})", ATOM

    # --- messages

    def message(self, message: Message | None, fallback: str) -> str:
        """Emits a lambda that returns the message of an assert."""
        parts: list[str | Expr] = list(message.parts) if message is not None else [fallback]
        pieces = []
        for part in parts:
            if isinstance(part, str):
                pieces.append(part.replace("\\", "\\\\").replace('"', '\\"').replace("{", "{{").replace("}", "}}"))
            else:
                pieces.append("{" + self.text(part).replace('"', "'") + "}")
        is_format = any(not isinstance(p, str) for p in parts) or any("{" in str(p) or "}" in str(p) for p in parts)
        return f"lambda: {'f' if is_format else ''}{wrapped(''.join(pieces), is_format)}"


def wrapped(words: str, is_format: bool) -> str:
    """Emits a literal, cut into adjacent ones where it is long, but not inside braces."""
    letters, lines, at = characters(words), [], 0
    while len(letters) - at > 88:
        cut = _cut(letters, at, at + 80)
        if cut is None:
            break
        lines.append("".join(letters[at:cut]))
        at = cut
    lines.append("".join(letters[at:]))
    glue = '" f"' if is_format else '" "'
    return f'"{glue.join(lines)}"'


def _cut(words: Sequence[str], start: int, end: int) -> int | None:
    """Returns the position after the last space outside braces in words[start:end]."""
    depth, best = 0, None
    for k in range(start, min(end, len(words))):
        depth += (words[k] == "{") - (words[k] == "}")
        if words[k] == " " and depth == 0 and k > start:
            best = k + 1
    return best


def source_of(node: Node) -> str:
    """Returns the place of a node as in comments and equations, `specs/rows.yaml:12`."""
    return f"{node.span.file}:{node.span.line}"
