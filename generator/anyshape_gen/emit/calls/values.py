"""Emits `Spelled`, the operators and methods of Values that the specs say: `x + y`, `x.sum(axis=0)`, and what an index is made of.

In: the spellings of all ops. Out: the text of a class of one method for each, which calls the op; where several ops have one spelling, the
dtype of the Value chooses.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from anyshape_gen.check.spellings import Case, cases_of, dtypes_of
from anyshape_gen.emit.calls.api import python_name, result_type
from anyshape_gen.emit.text.module import Code, Emitted, quoted, tuple_text, use
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.spec import OpSpec, Spelling

KNOWN = {
    "Any": "typing",
    "Value": "anyshape.graph.value",
    "chosen": "anyshape.graph.spelled",
    "listed": "anyshape.graph.spelled",
}


def spelled(ops: Sequence[OpAnalysis]) -> Emitted:
    """Emits the class."""
    code = Code()
    code.add("class Spelled:")
    code.indent()
    code.add('"""What a Value does in Python."""')
    for cases in cases_of(ops).values():
        for reflected in (False, True) if cases[0][1].form == "binary" else (False,):
            code.add()
            _method(code, cases, reflected)
    return code.text()


def _method(code: Code, cases: Sequence[Case], reflected: bool) -> None:
    spec, s = cases[0]
    name = f"__r{s.method[2:]}" if reflected else s.method
    result = result_type(spec)
    if s.form == "property":
        code.add("@property")
    own, *rest = s.arguments if not reflected else s.arguments[::-1]
    static = s.method == "_list"
    if static:
        code.add("@staticmethod")
    parameters = [f"{own.name}: {use('Any')}" if static else "self"]
    for a in sorted(rest, key=lambda a: s.form == "method" and not a.required):
        star, default = "*" if a.starred else "", "" if a.required or s.form != "method" else " = None"
        parameters.append(f"{star}{python_name(a.name)}: {use('Any')}{default}")
    code.add(f"def {name}({', '.join(parameters)}) -> {result}:")
    code.indent()
    said = textwrap.wrap(f'"""`{s.text}`: {" Or: ".join(c.summary for c, _ in cases)}', 108)
    code.lines += [f"        {line}" for line in ([f'{said[0]}"""'] if len(said) == 1 else [*said, '"""'])]
    if len(cases) > 1 or s.dtypes:
        table = ", ".join(f"{quoted(c.name)}: {tuple_text(map(quoted, dtypes_of(c, t)))}" for c, t in cases)
        known = "op = " if len(cases) > 1 else ""
        code.add(f"{known}{use('chosen')}({quoted(s.text)}, self, {{{table}}})")
    for k, (case, spelling) in enumerate(cases):
        if k + 1 < len(cases):
            code.add(f"if op == {quoted(case.name)}:")
            code.indent()
        call = f"{use('api')}.{python_name(case.name)}({', '.join(_arguments(case, spelling, own.of if static else '', reflected))})"
        code.add(f"return {call}")
        if k + 1 < len(cases):
            code.dedent()
    code.dedent()


def _arguments(spec: OpSpec, s: Spelling, static: str, reflected: bool) -> Iterator[str]:
    own = s.arguments[-1 if reflected else 0]
    defaults = {p.name for p in spec.params if p.default is not None}
    for a in s.arguments:
        value = static or "self" if a is own else python_name(a.name)
        if a.starred:
            value = f"{use('listed')}({value})" + (f" if {value} else None" if a.of in defaults else "")
        yield f"{python_name(a.of)}={value}"
    for name, constant in s.fixed:
        yield f"{python_name(name)}={quoted(constant) if isinstance(constant, str) else repr(constant)}"


__all__ = ["spelled"]
