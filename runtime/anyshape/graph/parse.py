"""The text form read back: `parse(print(f)) == print(f)`. Types of results are inferred again and must agree with the text."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, symbol
from anyshape.dtypes import is_dtype_name
from anyshape.errors import AnyshapeError, ParseError
from anyshape.graph.call import attribute
from anyshape.graph.callee import Callee
from anyshape.graph.function import UNNAMED, Function
from anyshape.graph.infer import build
from anyshape.graph.regions import failed
from anyshape.graph.registry import find_op
from anyshape.graph.value import Value, constant
from anyshape.public import public
from anyshape.types import FunctionType, ListType, TensorType, parse_type
from anyshape.wording import counted

_HEADER = re.compile(r"function\s+([\w.]+)\s*\((.*)\)\s*(?:->\s*(.*?)\s*)?\{")
_DIM = re.compile(r"dim\s+(\??\w+)\s+in\s+(-?\d*)\.\.(-?\d*)")
_CONST = re.compile(r"const\s+(%[^\s:]+):\s*(\S+\[.*?\]|\w+)\s*=\s*(.*)")
_CALL = re.compile(r"(.*?)\s=\s([\w.]+)\((.*?)\)(?:\s+#\s(.*))?$")
_OPENED = re.compile(r"(.*?)\s=\s([\w.]+)\((.*?)\)\s*\{(?:\s+#\s(.*))?$")
_REGION = re.compile(r"(\w+)\((.*)\)\s*\{")
_FAILS = re.compile(r"(\w+)\((.*)\)\s*fails\s(\".*\")")
_RETURN = re.compile(r"return\s*(.*)")


@public
def parse(text: str, constants: Mapping[str, NDArray[Any]] | None = None) -> Function:
    """The function that text spells; `constants` gives those that print as `@name`. Raises ParseError with the line."""
    lines = [(k, line.strip()) for k, line in enumerate(text.splitlines(), 1)]
    begins = [k for k, (_, line) in enumerate(lines) if line.startswith("function ")]
    callees = _declared([lines[k] for k in begins])
    parts = [lines[a:b] for a, b in pairwise([0, *begins[1:], len(lines)])]
    first, *defined = (_part(part, constants or {}, callees) for part in parts)
    for f in defined:
        callees[f.name].function = f
    return first


def _declared(headers: Sequence[tuple[int, str]]) -> dict[str, Callee]:
    """Functions that a text declares, by name: those of which the header says what they give."""
    callees: dict[str, Callee] = {}
    for number, line in headers:
        m = _HEADER.fullmatch(line)
        if m is not None and m.group(3) is not None:
            scope: dict[str, Dim] = {}
            try:
                params = {
                    name.strip()[1:]: parse_type(t, scope)
                    for name, _, t in (p.partition(":") for p in split(m.group(2)))
                }
                callees[m.group(1)] = Callee(m.group(1), params, [parse_type(t, scope) for t in split(m.group(3))])
            except AnyshapeError as e:
                raise type(e)(f"line {number}: {e}\n  {line}") from None
    return callees


def _part(
    lines: Sequence[tuple[int, str]], constants: Mapping[str, NDArray[Any]], callees: Mapping[str, Callee]
) -> Function:
    """Reads one function of a text."""
    bounds = {m.group(1): m.groups() for _, line in lines if (m := _DIM.fullmatch(line))}
    reader = _FunctionReader(constants, bounds, callees)
    stack = [reader]
    for number, line in lines:
        if not line or line.startswith("#") or _DIM.fullmatch(line):
            continue
        try:
            stack[-1].into(line, stack)
        except ParseError as e:
            raise ParseError(f"line {number}: {e}\n  {line}") from None
        except AnyshapeError as e:
            raise type(e)(f"line {number}: {e}\n  {line}") from None
    return reader.function()


class _RegionReader:
    """The regions of a call, until the bracket that closes it."""

    def __init__(self, outer: _FunctionReader, m: re.Match[str]) -> None:
        self.outer, self.match = outer, m
        self.regions: list[Function] = []

    def into(self, line: str, stack: list[Any]) -> None:
        if line == "}":
            stack.pop()
            self.outer.call(self.match, tuple(self.regions))
        elif m := _FAILS.fullmatch(line):
            reader = self.reader(m)
            self.regions.append(failed(m.group(1), reader.params, json.loads(m.group(3))))
        elif m := _REGION.fullmatch(line):
            stack.append(self.reader(m))
        else:
            raise ParseError("this is not a region")

    def reader(self, m: re.Match[str]) -> _FunctionReader:
        inner = _FunctionReader(self.outer.constants, {}, self.outer.callees, self.outer.scope, self)
        inner.header(m)
        return inner


class _FunctionReader:
    """A reader of one function or region. `scope` are the dims of the whole text."""

    def __init__(
        self,
        constants: Mapping[str, NDArray[Any]],
        bounds: Mapping[str, tuple[str | Any, ...]],
        callees: Mapping[str, Callee],
        scope: dict[str, Dim] | None = None,
        inside: _RegionReader | None = None,
    ) -> None:
        self.constants, self.callees, self.inside = constants, callees, inside
        self.scope: dict[str, Dim] = {} if scope is None else scope
        for name, (_, low, high) in bounds.items():
            self.scope[name] = symbol(name, int(low) if low else None, int(high) if high else None)
        self.values: dict[str, Value] = {}
        self.params: list[Value] = []
        self.results: list[Value] = []
        self.result_names: list[str] = []
        self.name = UNNAMED

    def into(self, line: str, stack: list[Any]) -> None:
        """Takes one line; a region opens or closes on the stack."""
        if line == "}":
            if self.inside is not None:
                stack.pop()
                self.inside.regions.append(self.function())
        elif m := _OPENED.fullmatch(line):
            stack.append(_RegionReader(self, m))
        else:
            self.line(line)

    def line(self, line: str) -> None:
        if m := _HEADER.fullmatch(line):
            self.header(m)
        elif m := _CONST.fullmatch(line):
            self.constant(m)
        elif m := _RETURN.fullmatch(line):
            for piece in split(m.group(1)):
                name, _, value = piece.partition("=")
                self.result_names.append(name.strip())
                self.results.append(self.value(value.strip()))
        elif m := _CALL.fullmatch(line):
            self.call(m)
        else:
            raise ParseError("this is neither a header, a const, a call nor a return")

    def header(self, m: re.Match[str]) -> None:
        self.name = m.group(1)
        for piece in split(m.group(2)):
            name, _, type_text = piece.partition(":")
            if not name.strip().startswith("%"):
                raise ParseError(f"a parameter is written %name: type, got {piece!r}")
            p = Value(self.type(type_text), name.strip()[1:])
            self.params.append(p)
            self.values[name.strip()] = p

    def type(self, text: str) -> TensorType:
        """The type of a parameter. The dims of a region's parameter follow from the operands; only names that can be spelled are kept."""
        try:
            return parse_type(text, self.scope)
        except ParseError:
            if self.inside is None:
                raise
            dtype, _, dims = text.strip().rstrip("]").partition("[")
            return parse_type(f"{dtype}[{', '.join('?' for _ in split(dims))}]")

    def constant(self, m: re.Match[str]) -> None:
        name, type_text, literal = m.groups()
        expected = parse_type(type_text)
        if literal.startswith("@"):
            if literal[1:] not in self.constants:
                raise ParseError(
                    f"no constant is given for {literal}; parse(text, constants={{{literal[1:]!r}: array}})"
                )
            array = self.constants[literal[1:]]
        else:
            array = np.asarray(read_literal(literal), expected.dtype.numpy).reshape(
                [int(str(n)) for n in expected.shape or ()]
            )
        value = constant(array, "" if re.fullmatch(r"%c\d+", name) else name[1:])
        if str(value.type) != str(expected):
            raise ParseError(f"the constant is {value.type}, and the text says {expected}")
        self.values[name] = value

    def value(self, name: str) -> Value:
        if name not in self.values:
            raise ParseError(f"{name} is not defined above")
        return self.values[name]

    def call(self, m: re.Match[str], regions: tuple[Function, ...] = ()) -> None:
        targets, op_name, arguments, source = m.groups()
        op = find_op(op_name)
        attributes = {p.name: p for p in op.attributes}
        inputs: list[Value | None] = []
        attrs: dict[str, Any] = {}
        for piece in split(arguments):
            if piece == "none":
                inputs.append(None)
            elif piece.startswith("%"):
                inputs.append(self.value(piece))
            else:
                key, _, literal = piece.partition("=")
                if key not in attributes:
                    raise ParseError(f"{op_name} has no attribute {key}; it has {', '.join(attributes) or 'none'}")
                if attributes[key].kind == "callee":
                    attrs[key] = self.callee(literal)
                    continue
                attrs[key] = attribute(op, attributes[key], read_literal(literal))
        pieces = split(targets)
        count = len(pieces) if any(o.variadic for o in op.outputs) else None
        node = build(op, inputs, attrs, source or "", regions=regions, count=count)
        if len(pieces) != len(node.outputs):
            raise ParseError(f"{op_name} has {counted(len(node.outputs), 'result')}, but the text names {len(pieces)}")
        for piece, v in zip(pieces, node.outputs):
            name, _, type_text = piece.partition(":")
            self.values[name.strip()] = v
            _same_type(type_text.strip(), v.type)

    def callee(self, name: str) -> Callee:
        if name not in self.callees:
            raise ParseError(f"the text has no function {name} that declares its results")
        return self.callees[name]

    def function(self) -> Function:
        if not self.results:
            raise ParseError("the text has no return line")
        return Function(self.params, self.results, self.name, self.result_names)


def _same_type(text: str, got: TensorType) -> None:
    if not _agrees(text, got):
        raise ParseError(f"the result is {got}, and the text says {text}")


def _agrees(text: str, got: TensorType) -> bool:
    """Whether a type agrees with its text: numbers, rank and dtype must; symbols that inference creates have other names each time."""
    prefix, _, inside = text.partition("[")
    if isinstance(got, FunctionType):
        return re.sub(r"\?\w*", "?", text) == re.sub(r"\?\w*", "?", str(got))
    if isinstance(got, ListType):
        inside = inside.removesuffix("]")
        kind = "optional" if got.optional else "list"
        return text == str(got) if got.never else prefix == kind and _agrees(inside, got.element)
    dims = split(inside.rstrip("]")) if inside.rstrip("]") != "..." else None
    if prefix != str(got.dtype) or dims is None or got.shape is None:
        return prefix == str(got.dtype) and dims is None and got.shape is None
    return len(dims) == len(got.shape) and all(
        not d.isdigit() or not isinstance(n, int) or int(d) == n for d, n in zip(dims, got.shape)
    )


def split(text: str) -> list[str]:
    """The pieces of a text between commas outside brackets and quotes."""
    pieces: list[str] = []
    depth, start, quoted = 0, 0, False
    for k, c in enumerate(text):
        if c == "'":
            quoted = not quoted
        if quoted:
            continue
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            pieces.append(text[start:k].strip())
            start = k + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces


def read_literal(text: str) -> Any:
    text = text.strip()
    if text.startswith("["):
        return [read_literal(t) for t in split(text[1:-1])]
    if text in ("true", "false"):
        return text == "true"
    if text in ("nan", "inf", "-inf"):
        return math.nan if text == "nan" else float(text)
    if text.startswith("'"):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise ParseError(f"{text} is not a string") from None
    if is_dtype_name(text):
        return text
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise ParseError(f"{text!r} is not a literal") from None
