"""Every character of a YAML scalar knows its line and column, whatever the quoting, folding and indentation."""

from __future__ import annotations

import pytest

from anyshape_gen.model.source import Findings
from anyshape_gen.parse.yaml_source import YMap, YScalar, read_yaml

FORMS = {
    "plain": "a: {b: one WORD two}\n",
    "double": 'a: {b: "one WORD two"}\n',
    "single": "a: {b: 'one WORD two'}\n",
    "escaped": 'a: {b: "one \\"quoted\\" WORD"}\n',
    "doubled quote": "a: {b: 'it''s WORD'}\n",
    "block": "a:\n  b: |\n    first\n      indented WORD\n\n    last\n",
    "block with a blank line": "a:\n  b: |\n\n    first\n\n    WORD\n",
    "folded": "a:\n  b: >-\n    first line\n    second WORD\n",
    "plain over lines": "a:\n  b: first\n    second WORD\n",
    "quoted over lines": 'a:\n  b: "first\n    second WORD"\n',
    "strip": "a:\n  b: |-\n    first\n    WORD\n",
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS.keys())
def test_word_in_scalar(content: str) -> None:
    findings = Findings()
    root = read_yaml("x.yaml", content, findings)
    assert isinstance(root, YMap)
    inner = root.get("a")
    assert isinstance(inner, YMap)
    scalar = inner.get("b")
    assert isinstance(scalar, YScalar)
    start = scalar.text.value.index("WORD")
    span = scalar.text.span(start, start + 4)
    line = content.split("\n")[span.line - 1]
    assert line[span.col - 1 : span.end - 1] == "WORD"


def test_wide_characters_count_as_one_column() -> None:
    from anyshape_gen.parse.rules import RuleReader
    from anyshape_gen.parse.text import Text

    findings = Findings()
    text = Text.plain('assert x > 0, "größer als {n}"', "x.yaml", 3, 5)
    (statement,) = RuleReader(text, findings).parse_statements()
    name = statement.message.parts[1]
    assert (name.span.line, name.span.col, name.span.end) == (3, 32, 33)
