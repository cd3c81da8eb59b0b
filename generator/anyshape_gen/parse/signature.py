"""Parses signatures, `T[*o, n@axis, *i] for v in c = 0`, `seq T[*d] for v in c`, and kinds of parameters.

In: `Text` of one signature or kind. Out: `Signature`, `Kind`. Names of expressions, and whether the dims
can be solved, are checked later.
"""

from __future__ import annotations

import re

from anyshape_gen.model.nodes import Expr
from anyshape_gen.model.source import Findings, suggestion
from anyshape_gen.model.spec import (
    AtAxes,
    AtAxis,
    Dim,
    DimExpr,
    Kind,
    Piece,
    Product,
    Ragged,
    Run,
    RunExpr,
    Signature,
    Variadic,
)
from anyshape_gen.parse.rules import parse_expression
from anyshape_gen.parse.text import Text, split_top, top_level

KINDS = ("bool", "int", "float", "number", "str", "dtype", "axis", "axes", "ints", "floats", "strs")
VECTOR_KINDS = ("axes", "ints", "floats", "strs")

_SEQUENCE = re.compile(r"seq\s+")
_HEAD = re.compile(r"([A-Za-z]\w*)\s*\[")
_FOR = re.compile(r"for\s+([A-Za-z_]\w*)\s+in\s+")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_INDEXED = re.compile(r"([A-Za-z_]\w*)\[([A-Za-z_]\w*)\]\Z")


def parse_signature(text: Text, findings: Findings, is_output: bool = False) -> Signature | None:
    """Parses one signature; None where it does not begin with a dtype and brackets."""
    whole, sequence = text, _SEQUENCE.match(text.value)
    text = text.cut(sequence.end()) if sequence else text
    head = _HEAD.match(text.value)
    closing = _closing(text.value, head.end() - 1) if head else -1
    if head is None or closing < 0:
        findings.add(text.span(), 'a signature is a dtype and dims in brackets, as in "T[*batch, m, k]"')
        return None
    rest = text.cut(closing + 1)
    variadic, optional, default = _tail(rest, findings)
    reader = _PieceReader(findings, variadic.var if variadic and not is_output else None)
    inside = text.cut(head.end(), closing)
    pieces = [reader.piece(part) for part in split_top(inside, ",")] if inside.value else []
    if sequence and variadic is None:
        findings.add(whole.span(), "a sequence needs a number of tensors: `seq T[…] for v in count`")
    return Signature(
        whole.value,
        head.group(1),
        tuple(piece for piece in pieces if piece is not None),
        variadic=variadic,
        optional=optional,
        default=default,
        sequence=sequence is not None,
        span=whole.span(),
    )


def _closing(value: str, opening: int) -> int:
    """Returns the position of the bracket that closes the one at `opening`; -1 if there is none."""
    depth = 0
    for at in range(opening, len(value)):
        depth += (value[at] in "([") - (value[at] in ")]")
        if depth == 0:
            return at
    return -1


def _tail(rest: Text, findings: Findings) -> tuple[Variadic | None, bool, Expr | None]:
    """Parses what follows the brackets: `for v in c`, then `?` or `= constant`."""
    variadic, optional, default = None, False, None
    if clause := _FOR.match(rest.value):
        ends = [*top_level(rest.value, "="), *top_level(rest.value, "?"), len(rest.value)]
        count = parse_expression(rest.cut(clause.end(), min(ends)), findings)
        variadic = Variadic(clause.group(1), count, span=rest.span(clause.start(1), clause.end(1)))
        rest = rest.cut(min(ends))
    if rest.value == "?":
        optional = True
    elif rest.value.startswith("="):
        default = parse_expression(rest.cut(1), findings)
    elif rest.value:
        findings.add(rest.span(), "after the dims come `for v in count`, `?` or `= constant`")
    return variadic, optional, default


class _PieceReader:
    def __init__(self, findings: Findings, element: str | None) -> None:
        self.findings = findings
        self.element = element

    def piece(self, text: Text) -> Piece | None:
        if not text.value:
            self.findings.add(text.span(), "a dim is missing between the commas")
            return None
        if text.value.startswith("*"):
            return self._run(text)
        at = top_level(text.value, "@")
        if at:
            dim = self._dim(text.cut(0, at[0]))
            return AtAxis(dim, parse_expression(text.cut(at[0] + 1), self.findings), span=text.span())
        if text.value.startswith("(") and text.value.endswith(")"):
            return self._product(text)
        if text.value.endswith("?") and _NAME.match(text.value[:-1]):
            return Dim(text.value[:-1], optional=True, span=text.span())
        return self._dim(text)

    def _dim(self, text: Text) -> Dim | DimExpr:
        if _NAME.match(text.value):
            return Dim(text.value, span=text.span())
        if (indexed := _INDEXED.match(text.value)) and indexed.group(2) == self.element:
            return Dim(indexed.group(1), element=self.element, span=text.span())
        return DimExpr(parse_expression(text, self.findings), span=text.span())

    def _run(self, text: Text) -> Run | RunExpr | AtAxes:
        body = text.cut(1)
        at = top_level(body.value, "@")
        if at:
            run = self._plain_run(body.cut(0, at[0]))
            return AtAxes(run, parse_expression(body.cut(at[0] + 1), self.findings), span=text.span())
        return self._plain_run(body)

    def _plain_run(self, body: Text) -> Run | RunExpr:
        if _NAME.match(body.value):
            return Run(body.value, span=body.span())
        colon = top_level(body.value, ":")
        if colon and _NAME.match(body.value[: colon[0]].strip()):
            length = parse_expression(body.cut(colon[0] + 1), self.findings)
            return Run(body.value[: colon[0]].strip(), length, span=body.span())
        if (indexed := _INDEXED.match(body.value)) and indexed.group(2) == self.element:
            return Run(indexed.group(1), element=self.element, span=body.span())
        return RunExpr(parse_expression(body, self.findings), span=body.span())

    def _product(self, text: Text) -> Product | Ragged:
        parts = split_top(text.cut(1, len(text.value) - 1), ",")
        if len(parts) == 2 and (indexed := _INDEXED.match(parts[1].value)) and indexed.group(2) == parts[0].value:
            size = Dim(indexed.group(1), element=indexed.group(2), span=parts[1].span())
            return Ragged(indexed.group(2), size, span=text.span())
        return Product(tuple(self._dim(part) for part in parts), span=text.span())


def parse_kind(text: Text, findings: Findings) -> Kind:
    """Parses the kind of a parameter: `bool`, `ints[r]`, `axes[len(d)]` …; a list of members is parsed by the loader."""
    base, bracket, length = text.value.partition("[")
    base = base.strip()
    if base not in KINDS or (bracket and (base not in VECTOR_KINDS or not length.rstrip().endswith("]"))):
        hint = suggestion(base, KINDS)
        if base == "enum":
            hint = "; write the members: `kind: [none, tanh]`"
        findings.add(text.span(), f"unknown kind '{text.value}'{hint}", KINDS, "known")
        return Kind("str", span=text.span())
    if not bracket:
        return Kind(base, span=text.span())
    opening = text.value.index("[")
    expr = parse_expression(text.cut(opening + 1, text.value.rindex("]")), findings)
    return Kind(base, length=expr, span=text.span())
