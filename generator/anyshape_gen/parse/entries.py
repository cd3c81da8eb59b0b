"""Parses the small entries of an op: operands, parameters, dtypes, traits, rewrites, matrices, algorithms.

In: nodes. Out: what the model has of them, and findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from anyshape_gen.model.source import NOWHERE
from anyshape_gen.model.spec import (
    Algorithm,
    DtypeRule,
    Kind,
    Matrix,
    OnnxRefusal,
    Operand,
    ParamSpec,
    Rewrite,
    Rotation,
    Weakness,
)
from anyshape_gen.parse.keys import ALGORITHM_KEYS, LAWS, MATRICES, PARAM_KEYS, TRAITS
from anyshape_gen.parse.node_reader import NodeReader
from anyshape_gen.parse.rewrites import parse_rewrite
from anyshape_gen.parse.rules import SIGNS, parse_expression
from anyshape_gen.parse.signature import parse_kind, parse_signature
from anyshape_gen.parse.values import CLASSES, DEFAULT_CLASSES, DTYPES, OTHER_DTYPES, parse_default, parse_dtype_rule
from anyshape_gen.parse.yaml_source import YMap, YNode, YScalar, YSeq


def operands(reader: NodeReader, node: YNode | None, is_output: bool) -> Iterator[Operand]:
    for key, value in reader.entries(node):
        signature = reader.parsed(value, lambda text, f: parse_signature(text, f, is_output))
        if signature is not None:
            yield Operand(key.text.value, signature, span=key.span)


def param_spec(reader: NodeReader, key: YScalar, node: YNode) -> ParamSpec:
    name = key.text.value
    if isinstance(node, YScalar):
        return ParamSpec(name, parse_kind(node.text, reader.findings), span=key.span)
    entry = YMap(reader.entries(node), node.span)
    reader.known_keys(entry, PARAM_KEYS, f"parameter '{name}'")
    kind = _kind(reader, entry.get("kind"), key)
    default, of = entry.get("default"), entry.get("of")
    dyn = reader.text(entry.get("dyn"))
    if dyn is not None and kind.base in ("str", "strs"):
        reader.findings.add(dyn.span(), "a string is known when a graph is built: no operand holds one")
    if dyn is not None and dyn.value != "operand":
        reader.findings.add(dyn.span(), "`dyn:` can only be `operand`")
    empty = reader.parsed(entry.get("empty"), parse_expression)
    if empty is not None and (default is None or kind.base not in ("axes", "ints", "floats")):
        reader.findings.add(empty.span, "`empty:` is for a vector with a default: an empty one then stands for it")
    return ParamSpec(
        name,
        kind,
        default=parse_default(kind, default, reader.findings) if isinstance(default, YScalar) else None,
        dyn=dyn is not None,
        of=reader.parsed(of, parse_expression),
        empty=empty,
        span=key.span,
    )


def _kind(reader: NodeReader, node: YNode | None, key: YScalar) -> Kind:
    if isinstance(node, YSeq):
        members = tuple(item.text.value for item in node.items if isinstance(item, YScalar))
        reader.findings.distinct("the member", ((i.text.value, i.span) for i in node.items if isinstance(i, YScalar)))
        if not members:
            reader.findings.add(node.span, "an enumeration lists its members")
        return Kind("enum", members, span=node.span)
    if node is None:
        reader.findings.add(key.span, f"parameter '{key.text.value}' has no kind")
        return Kind("int", span=key.span)
    return reader.parsed(node, parse_kind) or Kind("int", span=node.span)


def dtype_rules(reader: NodeReader, node: YNode | None, operands: tuple[Operand, ...]) -> tuple[DtypeRule, ...]:
    rules = {}
    for key, value in reader.entries(node):
        rule = parse_dtype_rule(key.text.value, value, reader.findings)
        if rule is not None:
            rules[rule.var] = rule
    used = dict.fromkeys(operand.signature.dtype for operand in operands)
    for operand in operands:
        var = operand.signature.dtype
        if var in rules or var in DTYPES or var in OTHER_DTYPES:
            continue
        if var not in DEFAULT_CLASSES:
            known = [*rules, *DEFAULT_CLASSES, *DTYPES, *OTHER_DTYPES]
            reader.findings.unknown(operand.signature.span, "dtype", var, known)
        choices = CLASSES[DEFAULT_CLASSES[var]] if var in DEFAULT_CLASSES else ()
        rules[var] = DtypeRule(var, choices, span=operand.signature.span)
    # The rules are in the order of the signature; a family's rule for a variable that the op does not use is left out.
    return tuple(rules[var] for var in [*used, *(v for v in rules if v not in used)] if var in rules)


def traits(reader: NodeReader, node: YNode | None) -> Iterator[str]:
    reader.findings.distinct(
        "the trait", ((i.text.value, i.span) for i in reader.items(node) if isinstance(i, YScalar))
    )
    for item in reader.items(node):
        text = reader.text(item)
        if text is not None and text.value not in TRAITS:
            reader.findings.unknown(text.span(), "trait", text.value, TRAITS)
        elif text is not None:
            yield text.value


def operator_sign(reader: NodeReader, node: YNode | None) -> str:
    """Parses the sign that means an op, if it has one."""
    text = reader.text(node)
    if text is None:
        return ""
    if text.value not in SIGNS:
        reader.findings.unknown(text.span(), "operator", text.value, SIGNS)
    return text.value


def rewrites(reader: NodeReader, node: YNode | None) -> Iterator[Rewrite]:
    for item in reader.items(node):
        rewrite = reader.parsed(item, parse_rewrite)
        if rewrite is not None:
            yield rewrite


def weaknesses(reader: NodeReader, node: YNode | None) -> Iterator[Weakness]:
    for law, value in reader.entries(node):
        reason = " ".join(text.value.split()) if (text := reader.text(value)) is not None else ""
        if law.text.value not in LAWS:
            reader.findings.unknown(law.span, "law", law.text.value, LAWS)
        if not reason:
            reader.findings.add(law.span, f"the reason why law {law.text.value} is weak here is missing")
        yield Weakness(law.text.value, reason, span=law.span)


def matrices(reader: NodeReader, node: YNode | None) -> Iterator[Matrix]:
    entries = reader.entries(node)
    for key, _ in entries:
        if key.text.value not in MATRICES:
            reader.findings.unknown(key.span, "matrix", key.text.value, MATRICES)
    by_name = {key.text.value: (key, value) for key, value in entries}
    for name in MATRICES if node is not None else ():
        key_span = node.span if node is not None else NOWHERE
        if name not in by_name:
            reader.findings.add(key_span, f"the matrix '{name}' is missing")
            continue
        key, value = by_name[name]
        rows = tuple(tuple(map(partial(_rational, reader), reader.items(row))) for row in reader.items(value))
        if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
            reader.findings.add(key.span, f"the rows of '{name}' must have one length, and there must be some")
            rows = ((Fraction(0),),)
        yield Matrix(name, rows, span=key.span)


def _rational(reader: NodeReader, node: YNode) -> Fraction:
    text = reader.text(node)
    try:
        return Fraction(text.value) if text is not None else Fraction(0)
    except (ValueError, ZeroDivisionError):
        reader.findings.add(node.span, "an element of a matrix is a number or a fraction, such as 2 or 1/4")
        return Fraction(0)


def rotations(reader: NodeReader, node: YNode | None) -> Iterator[Rotation]:
    for key, value in reader.entries(node):
        parts = [reader.parsed(item, parse_expression) for item in reader.items(value)]
        match parts:
            case [first, second, size] if first and second and size:
                yield Rotation(key.text.value, first, second, size, span=key.span)
            case _:
                reader.findings.add(key.span, "a rotation is `[place, place, size]`")


def algorithms(reader: NodeReader, node: YNode | None) -> Iterator[Algorithm]:
    for key, value in reader.entries(node):
        entry = YMap(reader.entries(value), value.span)
        reader.known_keys(entry, ALGORITHM_KEYS, f"algorithm '{key.text.value}'")
        condition = reader.parsed(entry.get("if"), parse_expression)
        constant = reader.text(entry.get("constant"))
        if condition is None or constant is None:
            reader.findings.add(key.span, "an algorithm has a condition, `if:`, and an input, `constant:`")
            continue
        yield Algorithm(key.text.value, condition, constant.value, span=key.span)


def refusals(reader: NodeReader, node: YNode | None) -> Iterator[OnnxRefusal]:
    for op, value in reader.entries(node):
        reason = " ".join(text.value.split()) if (text := reader.text(value)) is not None else ""
        if not reason:
            reader.findings.add(op.span, f"the reason why '{op.text.value}' is refused is missing")
        yield OnnxRefusal(op.text.value, reason, span=op.span)
