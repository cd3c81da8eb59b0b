"""Parses the plain-data entries of a spec: dtype rules, views, references, examples, defaults of parameters.

In: YAML nodes. Out: the model's types for them. Names of the op (is this key an input or a parameter?) are arguments.
"""

from __future__ import annotations

import ast
import builtins

from anyshape_gen.model.nodes import Bool, Expr, Name, NoneLit, Str
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import DtypeRule, Example, ExampleValue, Kind, Oracle, Reference, View
from anyshape_gen.parse.python_text import parse_python
from anyshape_gen.parse.rules import parse_expression
from anyshape_gen.parse.text import Text
from anyshape_gen.parse.yaml_source import YMap, YNode, YScalar, YSeq

_FLOAT = ("f32", "f64", "f16", "bf16")
_INT = ("i32", "i64", "i8", "i16")
_UINT = ("u8", "u16", "u32", "u64")
_NUMBER = ("f32", "f64", "i32", "i64", "f16", "bf16", "i8", "i16", *_UINT)
DTYPES = (*_NUMBER, "bool")
"""Dtypes that kernels are generated for."""

NARROW = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1", "f8e8m0", "i4", "u4", "i2", "u2")
"""Dtypes that are stored, moved and converted, but not computed with."""
OTHER_DTYPES = (*NARROW, "char")
CLASSES: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "int": _INT,
    "uint": _UINT,
    "float": _FLOAT,
    "number": _NUMBER,
    "any": DTYPES,
    "index": ("i64", "i32"),
    "narrow": NARROW,
    "quantized": ("u8", "i8", "u16", "i16"),
}
DEFAULT_CLASSES = {"T": "any", "F": "float", "I": "index"}
"""The class of each dtype variable that a spec does not declare."""


def parse_dtype_rule(var: str, node: YNode, findings: Findings) -> DtypeRule | None:
    """Parses one entry of `dtypes:`."""
    if isinstance(node, YSeq):
        names = [item for item in node.items if isinstance(item, YScalar)]
        chosen = [name for item in names for name in _choices(item, findings)]
        findings.distinct("the dtype", ((item.text.value, item.span) for item in names))
        return DtypeRule(var, tuple(dict.fromkeys(chosen)), span=node.span)
    if not isinstance(node, YScalar):
        findings.add(
            node.span,
            "a dtype rule is a class, a list of dtypes, `accum(T)`, `promote(T, U)`, `bitcast(T, to)` or `param to`",
        )
        return None
    value = node.text.value
    if value.startswith("param "):
        text = node.text.cut(len("param "))
        return DtypeRule(var, expr=Name(text.value, span=text.span()), span=node.span)
    if "(" in value:
        return DtypeRule(var, expr=parse_expression(node.text, findings), span=node.span)
    return DtypeRule(var, tuple(_choices(node, findings)), span=node.span)


def _choices(node: YScalar, findings: Findings) -> list[str]:
    name = node.text.value
    if name in CLASSES:
        return list(CLASSES[name])
    if name in DTYPES or name in OTHER_DTYPES:
        return [name]
    findings.unknown(node.span, "dtype or class", name, [*CLASSES, *DTYPES, *OTHER_DTYPES])
    return []


def parse_view(node: YNode, findings: Findings) -> tuple[View, ...]:
    """Parses `view: {y: x}`."""
    if not isinstance(node, YMap):
        findings.add(node.span, "a view is `{output: input}`")
        return ()
    return tuple(
        View(key.text.value, value.text.value, span=value.span)
        for key, value in node.entries
        if isinstance(value, YScalar)
    )


def parse_reference(text: Text, findings: Findings) -> Reference:
    """Parses a reference, of which only the names are read; its text is kept."""
    text = text.cut(0)
    try:
        tree = parse_python(text.value, "eval")
    except SyntaxError as error:
        at = max((error.offset or 1) - 1, 0)
        findings.add(text.span(at, at + 1), f"not a Python expression: {error.msg}")
        return Reference(text.value, (), span=text.span())
    return Reference(text.value, _free_names(tree, text), span=text.span())


def parse_oracles(text: Text, findings: Findings) -> tuple[Oracle, ...]:
    """Parses functions that references call: their texts, and the names that they read and do not bind."""
    try:
        tree = parse_python(text.value, "exec")
    except SyntaxError as error:
        at = text.offset(error.lineno or 1, max((error.offset or 1) - 1, 0))
        findings.add(text.span(at, at + 1), f"not Python: {error.msg}")
        return ()
    oracles = []
    known = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} | {"np", "scipy"}
    for node in tree.body:
        at = text.offset(node.lineno, node.col_offset)
        if not isinstance(node, ast.FunctionDef):
            findings.add(text.span(at, at + 1), "oracles are functions: `def f(a): …`")
            continue
        if node.name in ("np", "scipy"):
            findings.add(
                text.span(at, at + len(node.name) + 4), f"'{node.name}' is a package; call the oracle otherwise"
            )
        reads = _free_names(node, text)
        for read in reads:
            if read.id not in known and not hasattr(builtins, read.id):
                findings.unknown(read.span, "name", read.id, known, " in an oracle")
        oracles.append(Oracle(node.name, ast.unparse(node), reads, span=text.span(at, at + len(node.name) + 4)))
    return tuple(oracles)


def _free_names(tree: ast.AST, text: Text) -> tuple[Name, ...]:
    """Collects the names that Python code reads and does not bind anywhere, each at its first place."""
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    reads: dict[str, Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in bound:
            at = text.offset(node.lineno, node.col_offset)
            reads.setdefault(node.id, Name(node.id, span=text.span(at, at + len(node.id))))
    return tuple(reads.values())


def parse_default(kind: Kind, node: YScalar, findings: Findings) -> Expr:
    """Parses the default of a parameter, by its kind."""
    text = node.text
    value = text.value
    if value in ("None", "null", "~", "") and kind.base not in ("enum", "str"):
        return NoneLit(span=node.span)
    if kind.base in ("enum", "str", "dtype"):
        if kind.base == "enum" and value not in kind.members:
            findings.unknown(node.span, "member", value, kind.members)
        return Str(value, span=node.span)
    if kind.base == "bool" and value in ("true", "false"):
        return Bool(value == "true", span=node.span)
    return parse_expression(text, findings)


def is_family(node: YNode) -> bool:
    """Whether an entry of `examples:` is the word that stands for the examples of the family."""
    return isinstance(node, YScalar) and node.text.value == "family"


def parse_example(
    node: YNode, tensors: set[str], outputs: set[str], params: set[str], findings: Findings
) -> Example | None:
    """Parses one entry of `examples:`; a key is an input, an output, a parameter or `error`."""
    if is_family(node):
        findings.add(node.span, "`family` stands once for the examples of the op's family, where it has some")
        return None
    if not isinstance(node, YMap):
        findings.add(node.span, "an example is a mapping of inputs, params, outputs or error")
        return None
    arguments: list[tuple[str, ExampleValue]] = []
    expected: list[tuple[str, ExampleValue]] = []
    error = None
    for key, value in node.entries:
        name = key.text.value
        if name == "error" and isinstance(value, YScalar):
            error = value.text.value
        elif name in tensors or name in params:
            arguments.append((name, _value(value, name in tensors, findings)))
        elif name in outputs:
            expected.append((name, _value(value, True, findings)))
        else:
            findings.unknown(key.span, "name", name, [*tensors, *outputs, *params, "error"])
    if error is None and not expected and outputs:
        findings.add(node.span, f"an example needs an output or an error: {', '.join(sorted(outputs))} or error")
    return Example(tuple(arguments), tuple(expected), error, span=node.span)


def _value(node: YNode, tensor: bool, findings: Findings) -> ExampleValue:
    if not tensor:
        return ExampleValue(_plain(node), literal=True, span=node.span)
    if isinstance(node, YMap):
        for key, _ in node.entries:
            if key.text.value not in ("value", "dtype"):
                findings.unknown(key.span, "key", key.text.value, ["value", "dtype"])
        value, dtype = node.get("value"), node.get("dtype")
        name = dtype.text.value if isinstance(dtype, YScalar) else None
        return ExampleValue(_plain(value) if value else None, literal=True, dtype=name, span=node.span)
    if isinstance(node, YScalar):
        return ExampleValue(node.python(), literal=True, span=node.span)
    shape = _plain(node)
    if not _is_shape(shape) and not (isinstance(shape, tuple) and all(map(_is_shape, shape))):
        text = "a tensor is its shape, `[2, 3]`, or its contents, `{value: [1, 2]}`"
        findings.add(node.span, f"{text}; several tensors are `[[2, 3], [4]]` or `{{value: [[1, 2], [3]]}}`")
    return ExampleValue(shape, literal=False, span=node.span)


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)


def _plain(node: YNode) -> object:
    if isinstance(node, YSeq):
        return tuple(_plain(item) for item in node.items)
    if isinstance(node, YMap):
        return tuple((key.text.value, _plain(value)) for key, value in node.entries)
    return node.python()
