"""Parses rewrites: `pattern [as alias] >> term [if condition]`.

In: `Text` of one rewrite. Out: `Rewrite`. Patterns and terms are calls of ops; in a pattern `_` matches anything.
"""

from __future__ import annotations

import re

from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import Rewrite
from anyshape_gen.parse.rules import parse_expression
from anyshape_gen.parse.text import Text, top_level

_ALIAS = re.compile(r"\s+as\s+([A-Za-z_]\w*)\s*\Z")


def parse_rewrite(text: Text, findings: Findings) -> Rewrite | None:
    """Parses one rewrite; None where it has no `>>`."""
    arrows = top_level(text.value, ">>")
    if len(arrows) != 1:
        findings.add(text.span(), "a rewrite is `pattern [as y] >> term [if condition]`")
        return None
    left, right = text.cut(0, arrows[0]), text.cut(arrows[0] + 2)
    alias = None
    if match := _ALIAS.search(left.value):
        alias = match.group(1)
        left = left.cut(0, match.start())
    condition = None
    if tests := top_level(right.value, " if "):
        condition = parse_expression(right.cut(tests[0] + 4), findings)
        right = right.cut(0, tests[0])
    pattern = parse_expression(left, findings)
    term = parse_expression(right, findings)
    return Rewrite(text.value, pattern, alias, term, condition, span=text.span())
