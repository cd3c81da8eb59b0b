"""ONNX mappings: where operands and parameters of an op come from, for one operator from one opset on.

In: `Text` such as `x, newshape, allowzero=attr` or `x -> reshape(softmax(flatten(x)), shape_of(x))`, with asserts on
further lines. Out: `OnnxMapping`.

    x, *xs            the next input; all further inputs (a name may be an input or an operand parameter of the op)
    x, *xs, *ys       groups of one length, one after the other, of all further inputs
    x, *(a, b)        all further inputs in turns: the first is an a, the second its b, the third an a again
    p=attr            the attribute of the same name; attr.name another one; attr(1), attr.name(1) with a default
    p=in(expr)        the next input through an expression, in which it has the name p (an absent one reads as [])
    p=expr            computed from attributes, ranks and input dtypes: `len(outputs)`, `dtype_of(start)`
    name = term       on a line below a term: what the name stands for in it, and in the lines that follow
    names -> term     a term of ops over the ONNX inputs; `fold(op, xs)` chains a binary op; `= term` names the op's
    own inputs
"""

from __future__ import annotations

import re
from dataclasses import replace

from anyshape_gen.model import OnnxArgument, OnnxMapping
from anyshape_gen.nodes import Assert, Assign, AttrRead, Call, Expr, Slice, Star
from anyshape_gen.parse_rules import RuleReader, parse_expression
from anyshape_gen.source import Findings, Span
from anyshape_gen.text import Text, split_top, top_level

_STATEMENT = re.compile(r"(^|\n)(?=assert |[A-Za-z_]\w* += )")
_PLAIN = re.compile(r"\*?[A-Za-z_]\w*\Z")
_TURNS = re.compile(r"\*\(([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)+)\)\Z")
_GIVEN = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*")


def parse_mapping(
    op: str, since: int, text: Text, own_inputs: tuple[str, ...], span: Span, findings: Findings
) -> OnnxMapping:
    """One entry of `onnx: {Op: {since: text}}`."""
    found = _STATEMENT.search(text.value)
    end = found.end() if found else len(text.value)
    statements = RuleReader(text.cut(end), findings).parse_statements() if found else ()
    asserts = tuple(s for s in statements if isinstance(s, Assert))
    lets = tuple(s for s in statements if isinstance(s, Assign) and len(s.names) == 1)
    head = text.cut(0, end)
    arrow = top_level(head.value, "->")
    if arrow:
        names = _arguments(head.cut(0, arrow[0]), findings)
        term: Expr | None = parse_expression(head.cut(arrow[0] + 2), findings)
    elif head.value.startswith("="):
        names = tuple(OnnxArgument(name, "input", span=span) for name in own_inputs)
        term = parse_expression(head.cut(1), findings)
    else:
        names, term = _arguments(head, findings), None
    if lets and term is None:
        findings.add(lets[0].span, "names for terms stand below a term: `x -> f(y)`, then `y = g(x)`")
    return OnnxMapping(op, since, False, names, term, asserts, lets, span=text.span())


def _arguments(text: Text, findings: Findings) -> tuple[OnnxArgument, ...]:
    found: list[OnnxArgument | None] = []
    for part in split_top(text, ","):
        turns = _TURNS.match(part.value)
        if turns is not None:
            names = split_top(part.cut(turns.start(1), turns.end(1)), ",")
            found += [OnnxArgument(name.value, "turn", span=name.span()) for name in names]
        elif part.value:
            found.append(_argument(part, findings))
    return tuple(argument for argument in found if argument is not None)


def _argument(text: Text, findings: Findings) -> OnnxArgument | None:
    if _PLAIN.match(text.value):
        source = "rest" if text.value.startswith("*") else "input"
        return OnnxArgument(text.value.lstrip("*"), source, span=text.span())
    given = _GIVEN.match(text.value)
    if given is None:
        findings.add(text.span(), "an ONNX argument is `x`, `*xs`, `p=attr`, `p=in(…)` or `p=expression`")
        return None
    name, right = given.group(1), text.cut(given.end())
    if right.value.startswith("in("):
        inner = right.cut(3, len(right.value) - 1)
        return OnnxArgument(name, "in", parse_expression(inner, findings), span=text.span())
    return OnnxArgument(name, "expr", _source(name, right, findings), span=text.span())


def _source(name: str, text: Text, findings: Findings) -> Expr:
    """The right side of `p=…`; a bare `attr` is the attribute called p."""
    if text.value == "attr":
        return AttrRead(name, span=text.span())
    expr = parse_expression(text, findings)
    match expr:
        case Call(func="attr", args=(default,), keywords=()) if not isinstance(default, Star | Slice):
            return AttrRead(name, default, span=expr.span)
    return replace(expr, span=text.span())
