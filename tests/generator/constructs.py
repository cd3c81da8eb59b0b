"""What the language can say, as a set of words, from the parser's own tables and types; and what of it a spec uses.

`everything()` is derived: a node, function, kind or key that the parser learns is in it the same day. `used(text)` is what one YAML
block says.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import yaml

from anyshape_gen.check.mappings import DTYPE_FUNCTIONS
from anyshape_gen.model import body_nodes, nodes, spec
from anyshape_gen.model.functions import CONSTANTS, FUNCTIONS
from anyshape_gen.model.nodes import Node
from anyshape_gen.model.source import Findings
from anyshape_gen.model.traverse import walk
from anyshape_gen.parse.kernel import UPDATES
from anyshape_gen.parse.keys import FILE_KEYS, OP_KEYS, PARAM_KEYS, TRAITS
from anyshape_gen.parse.load import load_file
from anyshape_gen.parse.rules import BINARY, COMPARE, REDUCTIONS, STRING_METHODS
from anyshape_gen.parse.signature import KINDS, VECTOR_KINDS
from anyshape_gen.parse.values import CLASSES, DTYPES, OTHER_DTYPES

RESOLVED = {"TensorRead", "computed"}
"""nodes, and fields of nodes, that only the analysis writes"""
WITH_OPTIONS = (spec.Dim, spec.Run, spec.Signature, spec.ParamSpec, spec.Rewrite, spec.OnnxMapping, nodes.Star, nodes.AttrRead,
                nodes.Call, nodes.Comprehension, body_nodes.Equation, spec.Example, spec.ExampleValue)  # fmt: skip
"""nodes whose fields that may be left out are constructs of their own"""
EMPTY = (None, (), False, "", nodes.Over.UNKNOWN)
SEVERAL: dict[type, str] = {nodes.Assign: "names", nodes.Generator: "targets"}
"""nodes that name several things at once"""


def members(union: Any) -> set[str]:
    """The names of the classes of a union, which may be forward references."""
    names = {getattr(a, "__forward_arg__", getattr(a, "__name__", a)) for a in typing.get_args(union)}
    return {str(name) for name in names}


def everything() -> set[str]:
    """Every construct."""
    expressions = members(nodes.Expr) - RESOLVED
    names = {f"expression {name}" for name in expressions | {"Star", "Slice"}}
    names |= {f"statement {name}" for name in members(nodes.Statement)}
    names |= {f"step {name}" for name in members(body_nodes.Step)}
    names |= {f"piece {name}" for name in members(spec.Piece)}
    names |= {f"function {name}" for name in FUNCTIONS}
    names |= {f"reduction {name}" for name in REDUCTIONS}
    names |= {f"keyword {name}.{k}" for name, f in FUNCTIONS.items() for k in f.keywords}
    names |= {f"string method {name}" for name in STRING_METHODS}
    names |= {f"operator {op}" for op in (*BINARY.values(), *COMPARE.values(), "not", "and", "or")}
    names |= {f"equation {op}" for op in ("=", *UPDATES.values(), "max", "min")}
    names |= {f"kind {name}" for name in (*KINDS, "enum")} | {f"kind {name}[L]" for name in VECTOR_KINDS}
    names |= {f"dtype {name}" for name in (*CLASSES, *DTYPES, *OTHER_DTYPES, *DTYPE_FUNCTIONS, "param")}
    names |= {f"constant {name}" for name in CONSTANTS} | {f"trait {name}" for name in TRAITS}
    names |= {f"key {key.name}" for key in (*FILE_KEYS, *OP_KEYS, *PARAM_KEYS)}
    names |= {f"{type_.__name__} with {name}" for type_ in WITH_OPTIONS for name in optional(type_)}
    names |= {f"{type_.__name__} of several {name}" for type_, name in SEVERAL.items()}
    names |= {f"onnx argument {source}" for source in ("input", "rest", "interleaved", "in", "expr")}
    return names | {"element of a variadic", "size found here"}


def optional(type_: type) -> Iterator[str]:
    """Fields that may be left out."""
    for f in fields(type_):
        absent = f.default is not MISSING or f.default_factory is not MISSING or "None" in str(f.type)
        if f.name not in {"span", *RESOLVED} and absent:
            yield f.name


def used(text: str) -> set[str]:
    """The constructs of one YAML text. Raises SpecError where it is not in the language."""
    findings = Findings()
    file = load_file("page.yaml", text, findings)
    findings.raise_if_any()
    names = set(_keys(yaml.safe_load(text)))
    for op in file.ops:
        names |= {f"trait {trait}" for trait in op.traits}
        for node in walk(op):
            names |= set(_of_node(node))
    return names


def _of_node(node: Node) -> Iterator[str]:
    name = type(node).__name__
    for group, union in (("statement", nodes.Statement), ("step", body_nodes.Step), ("piece", spec.Piece)):
        if name in members(union):
            yield f"{group} {name}"
    yield f"expression {name}"
    if isinstance(node, WITH_OPTIONS):
        yield from (f"{name} with {f}" for f in optional(type(node)) if getattr(node, f) not in EMPTY)
    if type(node) in SEVERAL and len(getattr(node, SEVERAL[type(node)])) > 1:
        yield f"{name} of several {SEVERAL[type(node)]}"
    match node:
        case nodes.Call(func=func, keywords=keywords):
            yield f"function {func}"
            yield from (f"keyword {func}.{k}" for k, _ in keywords)
            if func in DTYPE_FUNCTIONS:
                yield f"dtype {func}"
        case nodes.Reduction(kind=kind, keywords=keywords):
            yield from (f"reduction {kind}", f"function {kind}", *(f"keyword {kind}.{k}" for k, _ in keywords))
        case nodes.Method(name=method):
            yield f"string method {method}"
        case nodes.BinOp(op=op) | nodes.Unary(op=op) | nodes.BoolOp(op=op):
            yield f"operator {op}"
        case nodes.Compare(rest=rest):
            yield from (f"operator {op}" for op, _ in rest)
        case body_nodes.Equation(op=op, target=target):
            yield f"equation {op}"
            yield from ("element of a variadic",) if target.element is not None else ()
            yield from ("size found here",) if target.items is None else ()
        case nodes.Name(id=id):
            yield f"constant {id}"
        case spec.Kind(base=base, length=length):
            yield from (f"kind {base}", *([f"kind {base}[L]"] if length is not None else []))
        case spec.Signature(dtype=dtype):
            yield f"dtype {dtype}"
        case spec.DtypeRule(choices=choices):
            yield from (f"dtype {choice}" for choice in choices)
            yield from (f"dtype {name}" for name, inside in CLASSES.items() if inside == choices)
            if node.expr is not None and isinstance(node.expr, nodes.Name):
                yield "dtype param"
        case spec.OnnxArgument(source=source):
            yield f"onnx argument {source}"


def _keys(value: Any) -> Iterator[str]:
    """Keys of the file, its ops and their parameters; dtypes by name."""
    yield from (f"key {key}" for key in value)
    for op in (*value.get("ops", {}).values(), *value.get("families", {}).values()):
        yield from (f"key {key}" for key in op)
        for param in op.get("params", {}).values():
            yield from (f"key {key}" for key in param) if isinstance(param, dict) else ()
        for rule in op.get("dtypes", {}).values():
            names = rule if isinstance(rule, list) else str(rule).split("(")[0].split()[:1]
            yield from (f"dtype {name}" for name in names)
