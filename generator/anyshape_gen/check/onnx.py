"""Checks ONNX mappings and the functions that they share: inputs, parameters, ops and functions exist, and names are assigned on every
path before they are read.

In: mappings and functions as parsed, and the names of all ops. Out: findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape_gen.model.functions import CONSTANTS, LIST_FUNCTIONS
from anyshape_gen.model.nodes import Assert, Assign, Call, Expr, If, Name, Node, Return, Star, Statement, Unbacked
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OnnxMapping, OpSpec, TermFunction
from anyshape_gen.model.traverse import walk, walk_all
from anyshape_gen.parse.values import DTYPES, OTHER_DTYPES

SEVERAL = ("promoted", "comparable", "lstm_layers", "gru_layers", "rnn_layers")
"""Functions of ATen mappings that give a list of values"""
ATEN_FUNCTIONS = (
    *SEVERAL, "floating", "scaled", "expanded", "border", "last_axes", "each_of", "twice", "ones_of", "axes_of", "axes_but",
    "along_channels", "size_along", "not_empty", "part_of", "numbered", "indexed", "put_at", "masked_scatter", "put_along", "put_slice",
    "diagonal", "average_of_parts", "attended",
)  # fmt: skip
"""Functions of terms of ATen mappings alone"""
ONNX_FUNCTIONS = ("len", "rank", "shape", "range", "dtype_of", "is_int", "is_float", "is_bool", "scalar", "vector",
                  "fold", "accumulate", "each", "positions", "min", "max", "einsum", "aligned", "strings", *LIST_FUNCTIONS)  # fmt: skip
EVERYWHERE = {"outputs", *CONSTANTS, *DTYPES, *OTHER_DTYPES}
"""Names that every term and condition may read"""


def check_terms(functions: Sequence[TermFunction], ops: set[str], findings: Findings) -> None:
    """Checks the functions of one file, each of which may call those above it."""
    above: dict[str, TermFunction] = {}
    for function in functions:
        if function.name in above:
            findings.add(
                function.span, f"the function '{function.name}' is also defined at {above[function.name].span}"
            )
        if function.name in ops or function.name in (*ONNX_FUNCTIONS, *ATEN_FUNCTIONS):
            findings.add(function.span, f"'{function.name}' is already the name of an op or a function of terms")
        checker = _Checker(ops, above, findings, more=ATEN_FUNCTIONS)
        if checker.body(function.body, set(function.args)) is not None:
            findings.add(function.span, f"'{function.name}' must end in a `return` on every path")
        checker.unread(function.body)
        read = {node.id for node in walk(function) if isinstance(node, Name)}
        for arg in function.args:
            if arg not in read:
                findings.add(function.span, f"'{function.name}' does not read its argument '{arg}'")
        above[function.name] = function


def check_file_mapping(mapping: OnnxMapping, ops: set[str], findings: Findings) -> None:
    """Checks a mapping of a file, which is a term, since it has no op of which it could name inputs and parameters."""
    if mapping.removed:
        return
    if mapping.term is None:
        findings.add(
            mapping.span, "operators of a file are terms: `x -> f(x)`; of one op they stand in that op's own mappings"
        )
        return
    _checker(mapping, ops, findings).mapping(mapping, mapping.term)


def check_mapping(spec: OpSpec, mapping: OnnxMapping, ops: set[str], findings: Findings) -> None:
    """Checks a mapping of an op."""
    if mapping.removed:
        return
    checker = _checker(mapping, ops, findings)
    bound = checker.mapping(mapping, mapping.term)
    if mapping.term is not None:
        return
    own = {operand.name for operand in spec.inputs} | {param.name for param in spec.params}
    for argument in mapping.arguments:
        if argument.name not in own:
            findings.unknown(argument.span, "input or parameter", argument.name, own)
        if argument.source == "expr" and spec.input(argument.name) is not None:
            findings.add(argument.span, f"'{argument.name}' is an input of the op: it comes from an ONNX input")
        if argument.expr is not None:
            checker.condition(argument.expr, {*bound, *own})
    sources = {argument.name for argument in mapping.arguments}
    required = [o for o in spec.inputs if o.signature.default is None and not o.signature.optional]
    names = [*(o.name for o in required), *(p.name for p in spec.params if p.default is None)]
    missing = [name for name in names if name not in sources]
    if missing and sources <= own:
        findings.add(mapping.span, f"the mapping does not give {' and '.join(missing)}")


def _checker(mapping: OnnxMapping, ops: set[str], findings: Findings) -> _Checker:
    functions = {f.name: f for f in mapping.functions}
    return _Checker(ops, functions, findings, mapping.known, more=() if mapping.since else ATEN_FUNCTIONS)


@dataclass(frozen=True)
class _Checker:
    ops: set[str]
    functions: dict[str, TermFunction]
    findings: Findings
    meant: Sequence[str] = ()
    """Names that are suggested for an unknown one"""
    more: Sequence[str] = ()
    """Functions beside those of ONNX mappings"""

    def mapping(self, mapping: OnnxMapping, term: Expr | None) -> set[str]:
        """Checks the arguments, the body and the term; returns the names that are bound after the body."""
        seen: set[str] = set()
        for argument in mapping.arguments:
            if argument.name in seen:
                self.findings.add(argument.span, f"'{argument.name}' is given twice")
            seen.add(argument.name)
            if term is not None and argument.source == "in":
                self.findings.add(
                    argument.span, "`p=in(…)` is for an op's own parameters: name the input and write a term of it"
                )
        for node in walk_all(s for s in mapping.body if isinstance(s, (If, Return))):
            if isinstance(node, Return):
                self.findings.add(
                    node.span, "a mapping's term stands behind `->`; `return` is for functions of `terms:`"
                )
        inputs = {a.name for a in mapping.arguments if a.source in ("input", "rest", "interleaved")}
        bound = self.body(mapping.body, inputs) or inputs
        if term is not None:
            self.term(term, bound, mapping.body)
        self.unread([*mapping.body, *mapping.arguments, *([term] if term is not None else [])])
        return bound

    def unread(self, nodes: Sequence[Node]) -> None:
        """Checks that names that are assigned are read."""
        read = {node.id for node in walk_all(nodes) if isinstance(node, Name)}
        for statement in walk_all(nodes):
            if isinstance(statement, Assign) and not read & set(statement.names):
                self.findings.add(statement.span, f"{' and '.join(statement.names)} is assigned and never read")

    def body(self, statements: Sequence[Statement], bound: set[str]) -> set[str] | None:
        """Returns the names that are bound after the statements; None where every path has returned."""
        bound = set(bound)
        for k, statement in enumerate(statements):
            match statement:
                case Assign(names=names, value=value):
                    self.term(value, bound, statements)
                    bound |= set(names)
                case Assert(cond=cond, message=message):
                    self.condition(cond, bound, statements)
                    for part in message.parts if message is not None else ():
                        if isinstance(part, Node):
                            self.condition(part, bound, statements)
                case If(cond=cond, then=then, other=other):
                    self.condition(cond, bound, statements)
                    ends = [end for end in (self.body(then, bound), self.body(other, bound)) if end is not None]
                    if not ends:
                        self._unreached(statements[k + 1 :])
                        return None
                    bound = set.intersection(*ends)
                case Return(value=value):
                    self.term(value, bound, statements)
                    self._unreached(statements[k + 1 :])
                    return None
                case Unbacked():
                    self.findings.add(statement.span, "`unbacked` is for shape rules")
        return bound

    def _unreached(self, after: Sequence[Statement]) -> None:
        if after:
            self.findings.add(after[0].span, "this statement is never reached: every path has returned before it")

    def term(self, term: Node, bound: set[str], around: Sequence[Statement] = ()) -> None:
        """Checks a term of ops, of ONNX functions and of the file's functions."""
        self._names(term, bound | self.ops | EVERYWHERE, around)
        self._calls(term, self.ops)

    def condition(self, node: Node, bound: set[str], around: Sequence[Statement] = ()) -> None:
        """Checks an expression over attributes, ranks and dtypes."""
        self._names(node, bound | EVERYWHERE, around)
        self._calls(node, set())

    def _names(self, node: Node, known: set[str], around: Sequence[Statement]) -> None:
        sometimes = {name for s in walk_all(around) if isinstance(s, Assign) for name in s.names}
        for name in walk(node):
            if isinstance(name, Name) and name.id not in known:
                if name.id in sometimes:
                    self.findings.add(name.span, f"'{name.id}' is not assigned on every path that leads here")
                else:
                    self.findings.unknown(name.span, "name", name.id, known - self.ops - EVERYWHERE)

    def _calls(self, node: Node, ops: set[str]) -> None:
        """Checks that called functions exist, and that those of the file get each argument once."""
        for call in walk(node):
            if not isinstance(call, Call):
                continue
            function = self.functions.get(call.func)
            if function is None:
                known = {*ops, *ONNX_FUNCTIONS, *self.more, *self.functions}
                if call.func not in known:
                    self.findings.unknown(call.span, "op" if ops else "function", call.func, {*known, *self.meant})
                continue
            named = [*function.args[: len(call.args)], *(name for name, _ in call.keywords)]
            stars = any(isinstance(a, Star) for a in call.args)
            if stars or len(call.args) > len(function.args) or sorted(named) != sorted(function.args):
                form = f"{function.name}({', '.join(function.args)})"
                self.findings.add(call.span, f"{form} takes each of its arguments once, by position or by name")
