"""Emits the data of an op's property tests from its spec: random calls, oracles and examples.

In: an op's analysis. Out: `<op>_case` (of `cases`), `<op>_reference` and the `Property` that joins them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from anyshape_gen.emit.draws.cases import case
from anyshape_gen.emit.rules.relations import RelationEmitter
from anyshape_gen.emit.rules.rule_text import source_of
from anyshape_gen.emit.text.module import Code, Emitted, joined, number_text, quoted, tuple_text, use, used_names
from anyshape_gen.emit.text.names import RULE_NAMES, constant_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Assert
from anyshape_gen.model.spec import ExampleValue, Oracle
from anyshape_gen.model.traverse import walk_all

KNOWN = {
    **RULE_NAMES,
    **dict.fromkeys(("Case", "Draw", "Example", "Given", "Property", "Refusal"), "anyshape.properties"),
    "Any": "typing",
    **dict.fromkeys(("inf", "nan"), "math"),
    "np": "import numpy as np",
}


REFUSING = ("require", "equal", "broadcast", "axis", "axes", "item", "floordiv", "mod", "exact_div", "zip", "wrap")
"""Methods of `rules.Rule` that refuse a call"""


def known_names(ops: Iterable[OpAnalysis]) -> dict[str, str]:
    """Returns the table of imports of a module of strategies; subpackages of scipy are imported one by one."""
    texts = [a.spec.reference.text for a in ops if a.spec.reference is not None]
    rooms = sorted({room for text in texts for room in re.findall(r"\bscipy\.(\w+)\.", text)})
    return {**KNOWN, "scipy": "\n".join(f"import scipy.{room}" for room in rooms) or "import scipy"}


def strategy(a: OpAnalysis) -> Emitted:
    """Emits the three texts of one op."""
    return joined("\n\n\n", [case(a), _reference(a), _property(a)])


def oracles(ops: Iterable[OpAnalysis]) -> Emitted:
    """Emits the functions that the references of a file call, each once."""
    by_name = {o.name: o for a in ops if a.spec.reference is not None for o in a.spec.reference.oracles}
    return joined("\n\n\n", map(_oracle, by_name.values()))


def _oracle(o: Oracle) -> Emitted:
    """Emits an oracle, with annotations of type `Any`, and long lines broken."""
    (tree,) = ast.parse(o.text).body
    assert isinstance(tree, ast.FunctionDef)
    for arg in tree.args.args:
        arg.annotation = ast.Name("Any")
    tree.returns = ast.Name("Any")
    code = Code()
    code.comment(source_of(o))
    for line in ast.unparse(tree).replace("'", '"').splitlines():
        text = line.lstrip()
        code.depth = (len(line) - len(text)) // 4
        code.add(text)
    return _read(code)


def _read(code: Code) -> Emitted:
    """Marks the names in an author's code that it imports."""
    return joined("", [code.text()], used_names(code.text()) & {*KNOWN, "scipy"})


def _reference(a: OpAnalysis) -> Emitted:
    spec = a.spec
    if spec.reference is None:
        raise NotExecuted(spec, "an op without a reference")
    code = Code()
    code.comment(source_of(spec.reference))
    names = [*(o.name for o in spec.inputs), *(p.name for p in spec.params)]
    any_ = use("Any")
    code.add(f"def {spec.name}_reference({', '.join(f'{n}: {any_}' for n in names)}) -> {use('Any')}:")
    code.indent()
    code.add(f"return {ast.unparse(ast.parse(spec.reference.text.strip(), mode='eval'))}".replace("'", '"'))
    return _read(code)


def _property(a: OpAnalysis) -> Emitted:
    spec = a.spec
    code = Code()
    code.add(f"{constant_name(spec.name)} = {use('Property')}(")
    code.indent()
    code.add(f"{quoted(spec.name)},")
    code.add(f"{spec.name}_case,")
    code.add(f"{spec.name}_reference,")
    code.add("(")
    code.indent()
    inputs = {o.name for o in spec.inputs}
    for e in spec.examples:
        inputs_of_example = [f"{quoted(n)}: {_value(v)}" for n, v in e.arguments if n in inputs]
        params = [f"{quoted(n)}: {_literal(v.value)}" for n, v in e.arguments if n not in inputs]
        outputs = [f"{quoted(n)}: {_value(v)}" for n, v in e.expected]
        error = quoted(e.error) if e.error is not None else "None"
        mappings = ", ".join(f"{{{', '.join(m)}}}" for m in (inputs_of_example, params, outputs))
        code.add(f"{use('Example')}({mappings}, {error}, {quoted(source_of(e))}),")
    code.dedent()
    code.add("),")
    code.add(f"{quoted(source_of(spec))},")
    refusals = [
        f"{use('Refusal')}({_pattern(s)}, {quoted(source_of(s))})" for s in walk_all(a.rule) if isinstance(s, Assert)
    ]
    if refusals:
        code.add(f"asserts={tuple_text(refusals)},")
    if spec.reference is not None:
        code.add(f"reference_source={quoted(source_of(spec.reference))},")
    if not _refuses(a):
        code.add("refuses=False,")
    if spec.procedure is not None:
        code.add("stepped=True,")
    if spec.weak:
        code.add(f"weak={{{', '.join(f'{quoted(w.law)}: {quoted(w.reason)}' for w in spec.weak)}}},")
    code.dedent()
    code.add(")")
    return code.text()


def _refuses(a: OpAnalysis) -> bool:
    """Whether the op's relation has an operation that refuses calls. A list of no tensors is refused earlier, since it has no dtype."""
    lines = RelationEmitter(a, {}, set(), frozenset()).emit(()).splitlines()
    refusing = re.compile(rf"\brule\.({'|'.join(REFUSING)})\(")
    return any(refusing.search(line) for line in lines if "needs at least one tensor" not in line)


def _pattern(s: Assert) -> str:
    """Returns a pattern of an assert's message, for any values in it."""
    parts = s.message.parts if s.message is not None else ()
    pattern = "".join(re.escape(p).replace("\\ ", " ") if isinstance(p, str) else ".*" for p in parts)
    return f'r"{pattern}"' if '"' not in pattern else f"r'{pattern}'"


def _value(v: ExampleValue) -> str:
    if not v.literal:
        return f"{use('Given')}({_literal(v.value)})"
    dtype = f", dtype={quoted(v.dtype)}" if v.dtype is not None else ""
    return f"{use('Given')}(value={_literal(v.value)}{dtype})"


def _literal(value: object) -> str:
    if isinstance(value, tuple):
        return tuple_text(map(_literal, value))
    return quoted(value) if isinstance(value, str) else number_text(value)
