"""Emits ONNX and ATen mappings: for each operator and opset one function from a node's inputs and attributes to calls of ops.

In: all ops (a term may name any). Out: the functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from anyshape_gen.emit.operators.dialects import ONNX, Dialect
from anyshape_gen.emit.operators.mapping_terms import MappingTerms
from anyshape_gen.emit.rules.rule_text import source_of
from anyshape_gen.emit.text.module import Code, Emitted, quoted, use
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.nodes import Assert, Assign, If, Return, Statement, Unbacked
from anyshape_gen.model.spec import OnnxMapping, OpSpec, TermFunction
from anyshape_gen.model.traverse import walk_all


def function_name(op: str, since: int) -> str:
    """Names the function of an operator and opset: `layer_normalization_17`; of an ATen operator `aten_add_tensor`."""
    words = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op)).lower()
    return f"{words}_{since}" if since else f"aten_{words}"


def mappings(
    spec: OpSpec | None, of: Iterable[OnnxMapping], specs: Mapping[str, OpSpec], dialect: Dialect = ONNX
) -> list[Emitted]:
    """Emits the functions of one `onnx:` or `aten:` entry of an op or of a file."""
    return [_Function(MappingTerms(specs, m.functions, dialect)).mapping(spec, m) for m in of if not m.removed]


def functions(of: Iterable[OnnxMapping], specs: Mapping[str, OpSpec], dialect: Dialect = ONNX) -> list[Emitted]:
    """Emits the functions that mappings of one file call, in the order written."""
    called = {f.name: f for m in of for f in m.functions}
    in_order = sorted(called.values(), key=lambda f: f.span.line)
    return [_Function(MappingTerms(specs, in_order, dialect)).function(f) for f in in_order]


class _Function:
    """Emits the statements of one Python function: a mapping, or a function that mappings share."""

    def __init__(self, terms: MappingTerms) -> None:
        self.terms = terms
        self.code = Code()

    def mapping(self, spec: OpSpec | None, m: OnnxMapping) -> Emitted:
        """Emits a function from a node's inputs and attributes to its outputs."""
        code = self.code
        code.comment(source_of(m))
        code.add(
            f"def {function_name(m.op, m.since)}(n: {use(self.terms.dialect.node)}) -> {use('Sequence')}[{use('Value')}]:"
        )
        code.indent()
        self._inputs(m)
        self._declare(m.body)
        self._statements(m.body, f"{m.op} with these attributes")
        code.add(f"return {self.terms.results(m.term) if m.term is not None else self.terms.own_call(spec, m)}")
        return code.text()

    def function(self, f: TermFunction) -> Emitted:
        """Emits a function of `terms:`, whose arguments are values, attributes or plain numbers."""
        code = self.code
        self.terms.names = {name: f"{name}_" for name in f.args}
        self.terms.absent = set(f.args)
        code.comment(source_of(f))
        typed = "".join(f", {name}: {use('Any')}" for name in self.terms.names.values())
        code.add(f"def _{f.name}(n: {use(self.terms.dialect.node)}{typed}) -> {use('Any')}:")
        code.indent()
        self._declare(f.body)
        self._statements(f.body, f"{f.name} of these operands")
        return code.text()

    def _declare(self, body: Sequence[Statement]) -> None:
        """Declares the variables that several statements assign, of which mypy would take the type of the first; an input among them
        has itself as its first value."""
        count = Counter(name for s in walk_all(body) if isinstance(s, Assign) for name in s.names)
        for name, assignments in count.items():
            first = self.terms.names.get(name)
            if first is not None and first != f"{name}_":
                self.code.add(f"{name}_: {use('Any')} = {first}")
            elif first is None and assignments > 1:
                self.code.add(f"{name}_: {use('Any')}")
            if first is not None:
                self.terms.names[name] = f"{name}_"

    def _statements(self, body: Sequence[Statement], words: str) -> None:
        for statement in body:
            match statement:
                case Assert(cond=cond, message=message):
                    self._nested(f"if {self.terms.negated(cond)}:")
                    self.code.add(f"n.refuse({self.terms.message(message) if message else quoted(words)})")
                    self.code.dedent()
                case Assign(names=names, value=value):
                    text = self.terms.let(value)
                    self.terms.names.update({name: f"{name}_" for name in names})
                    self.code.add(f"{', '.join(self.terms.names[name] for name in names)} = {text}")
                case If(cond=cond, then=then, other=other):
                    self._nested(f"if {self.terms.text(cond)}:")
                    self._statements(then, words)
                    self.code.dedent()
                    if other:
                        self._nested("else:")
                        self._statements(other, words)
                        self.code.dedent()
                case Return(value=value):
                    self.code.add(f"return {self.terms.let(value)}")
                case Unbacked():
                    raise NotExecuted(statement, "a size that a procedure finds, in an ONNX mapping")

    def _nested(self, head: str) -> None:
        self.code.add(head)
        self.code.indent()

    def _inputs(self, m: OnnxMapping) -> None:
        """Emits the reads of the node's inputs, one for each name."""
        at, seen = 0, 0
        kinds = [argument.source for argument in m.arguments]
        count, several = kinds.count("rest"), kinds.count("interleaved")
        for argument in m.arguments:
            if argument.source == "rest" and count > 1:
                self.terms.names[argument.name] = f"{use('groups')}(n, {at}, {count})[{seen}]"
                seen += 1
            elif argument.source == "interleaved":
                self.terms.names[argument.name] = f"{use('interleaved')}(n, {at}, {several})[{seen}]"
                seen += 1
            elif argument.source == "rest":
                self.terms.names[argument.name] = f"n.inputs({at})" if at else "n.inputs()"
            elif argument.source in ("input", "in"):
                self.terms.names[argument.name] = f"n.input({at})"
                self.terms.absent.add(argument.name)
                at += 1
        # the schema of ONNX's own operators limits their number
        if self.terms.dialect.has_versions and ":" in m.op and not count and not several:
            self.code.add(f"n.only({at})")
