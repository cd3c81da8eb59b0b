"""Emits tables of mappings: {operator: {since: function or None}}, of ATen {operator: function}, and {operator: why it has none}."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from anyshape_gen.emit.operators.dialects import ONNX, Dialect
from anyshape_gen.emit.operators.mappings import function_name
from anyshape_gen.emit.text.module import Code, Emitted, quoted, use
from anyshape_gen.model.spec import OnnxMapping, OnnxRefusal

LINE = 100
"""The most characters in a line of text"""


def table(all_mappings: Iterable[OnnxMapping], dialect: Dialect = ONNX) -> Emitted:
    """Emits the table of one file: the function of each operator, of ONNX's from each opset on."""
    code = Code()
    if not dialect.has_versions:
        code.add(f"{dialect.table}: dict[str, {use('Mapping')}] = {{")
        code.indent()
        for m in all_mappings:
            code.add(f"{quoted(m.op)}: {function_name(m.op, 0)},")
        code.dedent()
        code.add("}")
        return code.text()
    versions: dict[str, dict[int, str]] = {}
    for m in all_mappings:
        versions.setdefault(m.op, {})[m.since] = "None" if m.removed else function_name(m.op, m.since)
    code.add(f"ONNX: dict[str, dict[int, {use('Mapping')} | None]] = {{")
    code.indent()
    for op, by_opset in versions.items():
        code.add(f"{quoted(op)}: {{{', '.join(f'{since}: {f}' for since, f in by_opset.items())}}},")
    code.dedent()
    code.add("}")
    return code.text()


def refusals(refused: Iterable[OnnxRefusal]) -> Emitted:
    """Emits the table REFUSED of a package: why operators have no mapping."""
    code = Code()
    code.add("REFUSED: dict[str, str] = {")
    code.indent()
    for refusal in refused:
        code.add(f"{quoted(refusal.op)}: (")
        lines = wrap(refusal.reason, LINE)
        for k, line in enumerate(lines):
            code.add(f"    {quoted(line + ' ' * (k < len(lines) - 1))}")
        code.add("),")
    code.dedent()
    code.add("}")
    code.comment("Operators without a mapping, and why they have none.")
    return code.text()
