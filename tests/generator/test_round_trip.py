"""Text → nodes → text → nodes gives equal nodes, for every rule, kernel and function of all specs, and for odd cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape_gen.model.printer import function_text, kernel_text, statements_text, to_text
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.parse.kernel import parse_kernel
from anyshape_gen.parse.load import load_file
from anyshape_gen.parse.rules import RuleReader, parse_expression
from anyshape_gen.parse.text import Text

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "specs").glob("*.yaml")), *sorted((ROOT / "tests/generator/data").glob("*.yaml"))]

EXPRESSIONS = [
    "-x ** 2",
    "(-x) ** 2",
    "2 ** -x",
    "a - (b - c) - d",
    "a // b % c * d / e",
    "(a if b else c) if d else e if f else g",
    "not (a and b) or c",
    "(not a) == b",
    "0 <= a < b == c",
    "(a < b) < c",
    "x is not None and y not in [1, 2]",
    "[*a, b, *c[1:], *d[:]]",
    "[n for n in d if n != 1 if n > 0]",
    "sum(a * b for k in n for *j in r if k > 0)",
    "argmax((x for k in n), last=True)",
    'sum(v for v in range(2, n) if "a\\"b" == s)',
    'equation.replace(" ", "").split(",")[0]',
    "x[*i, *j@axes]",
    "x[*(lo + i * step)]",
    "x[*i@perm]",
    "xs[v][()]",
    "pad(x, -inf)[i, -1, :]",
    "attr.axis(1) + attr.k",
    "0.00001 + 1e300",
    "[[1], []][i]",
]


def reread(text: str) -> object:
    findings = Findings()
    node = parse_expression(Text.plain(text), findings)
    assert not findings.items, findings.render()
    return node


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text: str) -> None:
    node = reread(text)
    assert reread(to_text(node)) == node


def test_brackets_matter() -> None:
    assert reread("a - (b - c)") != reread("a - b - c")
    assert to_text(reread("a - (b - c)")) == "a - (b - c)"


def ops() -> list[OpSpec]:
    findings = Findings()
    loaded = [op for path in FILES for op in load_file(path.name, path.read_text(), findings).ops]
    assert not findings.items, findings.render()
    return loaded


def test_rules_kernels_and_functions() -> None:
    seen = 0
    for op in ops():
        findings = Findings()
        again = RuleReader(Text.plain(statements_text(op.shape)), findings).parse_statements()
        assert again == op.shape, op.name
        for function in op.defines:
            text = Text.plain(function_text(function))
            assert RuleReader(text, findings).parse_functions() == (function,), op.name
        if op.kernel is not None:
            kernel = parse_kernel(Text.plain(kernel_text(op.kernel)), findings)
            assert len(kernel.equations) == len(op.kernel.equations)
            for one, other in zip(kernel.equations, op.kernel.equations):
                assert (one.target, one.op, one.value) == (other.target, other.op, other.value), op.name
                assert len(other.conditions) > 1 or one.conditions == other.conditions, op.name
        assert not findings.items, findings.render()
        seen += 1
    assert seen > 100
