"""Parses `python:`, which says how a Value of the graph calls an op: `a + b`, `x.sum(axis=axes)`, `x[starts:ends:steps]`.

In: the entries `{spelling: {param: constant, dtype variable: class}}` and the `operator:` of an op. Out: spellings, each the method of
Python that it stands for; findings about what is no spelling, and about names that the op does not have.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec, ParamSpec, SpelledArgument, Spelling
from anyshape_gen.parse.python_text import parse_python
from anyshape_gen.parse.text import Text
from anyshape_gen.parse.values import CLASSES, DTYPES, OTHER_DTYPES
from anyshape_gen.parse.yaml_source import YMap, YNode, YScalar, YSeq

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "matmul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
COMPARED: dict[type[ast.AST], str] = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
UNARY: dict[type[ast.AST], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
CALLED = ("abs",)
"""Functions of Python that ask their argument for a method"""
OWN = (
    "shape",
    "ndim",
    "dtype",
    "type",
    "name",
    "node",
    "index",
    "constant",
    "contents",
    "elements",
    "is_constant",
    "is_param",
)
"""What a Value has whatever the specs say"""


def spellings(spec: OpSpec, node: YNode | None, operator: Text | None, findings: Findings) -> tuple[Spelling, ...]:
    """The spellings of an op, those of its `operator:` too where Python has the sign and no entry says otherwise."""
    entries = node.entries if isinstance(node, YMap) else ()
    if node is not None and not isinstance(node, YMap):
        findings.add(node.span, "`python:` is `{spelling: {param: constant, dtype variable: class}}`")
    reader = _Reader(spec, findings)
    said = [s for key, value in entries if (s := reader.spelling(key.text, value)) is not None]
    findings.distinct("the spelling of", ((s.method, s.span) for s in said))
    if operator is not None and operator.value not in ("and", "or", "not", "[]", "==", "!="):
        sides = f" {operator.value} ".join(o.name for o in spec.inputs)
        text = Text.plain(sides if len(spec.inputs) == 2 else f"{operator.value}{sides}")
        sign = _Reader(spec, Findings()).spelling(text, None)
        if sign is not None and sign.method not in {s.method for s in said}:
            said.append(replace(sign, span=operator.span()))
    return tuple(said)


class _Reader:
    """Reads the spellings of one op."""

    def __init__(self, spec: OpSpec, findings: Findings) -> None:
        self.spec, self.findings = spec, findings
        self.params = {p.name: p for p in spec.params}
        self.inputs = {o.name: o for o in spec.inputs}

    def spelling(self, text: Text, limits: YNode | None) -> Spelling | None:
        try:
            tree = parse_python(text.value, "eval").body
        except SyntaxError as error:
            self.findings.add(text.span(), f"not a Python expression: {error.msg}")
            return None
        read = self._read(tree)
        if read is None:
            self.findings.add(
                text.span(),
                "a spelling is `a + b`, `-x`, `abs(x)`, `x.name`, `x.name(p, q=q, *r)`, `x[starts:ends:steps]`, `x[None]`, `x[index]`, "
                "`x[*index]` or `[*xs]`",
            )
            return None
        method, form, arguments = read
        if form in ("method", "property") and (method.startswith("_") or method in OWN):
            self.findings.add(text.span(), f"every Value has '{method}' of its own")
        known = [*self.inputs, *self.params]
        for a in arguments:
            if a.of not in known:
                self.findings.unknown(text.span(), "name", a.of, known)
        if any(a.of not in known for a in arguments) or not self._complete(text, arguments, limits):
            return None
        fixed, dtypes = self._limits(limits)
        return Spelling(text.value, method, form, tuple(arguments), tuple(fixed), tuple(dtypes), span=text.span())

    # --- forms

    def _read(self, e: ast.expr) -> tuple[str, str, list[SpelledArgument]] | None:
        match e:
            case ast.BinOp(left=ast.Name(id=a), op=op, right=ast.Name(id=b)) if type(op) in BINARY:
                return f"__{BINARY[type(op)]}__", "binary", [SpelledArgument(a, a), SpelledArgument(b, b)]
            case ast.Compare(left=ast.Name(id=a), ops=[op], comparators=[ast.Name(id=b)]) if type(op) in COMPARED:
                return f"__{COMPARED[type(op)]}__", "compared", [SpelledArgument(a, a), SpelledArgument(b, b)]
            case ast.UnaryOp(op=op, operand=ast.Name(id=x)) if type(op) in UNARY:
                return f"__{UNARY[type(op)]}__", "unary", [SpelledArgument(x, x)]
            case ast.Call(func=ast.Name(id=f), args=[ast.Name(id=x)], keywords=[]) if f in CALLED:
                return f"__{f}__", "unary", [SpelledArgument(x, x)]
            case ast.Attribute(value=ast.Name(id=x), attr=name):
                return name, "property", [SpelledArgument(x, x)]
            case ast.Call(func=ast.Attribute(value=ast.Name(id=x), attr=name), args=args, keywords=keywords):
                listed = [SpelledArgument(x, x), *self._arguments(args, keywords)]
                return (name, "method", listed) if len(listed) == 1 + len(args) + len(keywords) else None
            case ast.List(elts=[ast.Starred(value=ast.Name(id=xs))]):
                return "_list", "index", [SpelledArgument(xs, xs), *self._along()]
            case ast.Subscript(value=ast.Name(id=x), slice=at):
                return self._index(x, at)
        return None

    @staticmethod
    def _arguments(args: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[SpelledArgument]:
        for e in args:
            match e:
                case ast.Name(id=p):
                    yield SpelledArgument(p, p, required=True)
                case ast.Starred(value=ast.Name(id=p)):
                    yield SpelledArgument(p, p, required=True, starred=True)
        for k in keywords:
            if k.arg is not None and isinstance(k.value, ast.Name):
                yield SpelledArgument(k.arg, k.value.id)

    def _index(self, x: str, at: ast.expr) -> tuple[str, str, list[SpelledArgument]] | None:
        first, along = SpelledArgument(x, x), self._along()
        match at:
            case ast.Slice(lower=ast.Name(id=a), upper=ast.Name(id=b), step=ast.Name(id=c)):
                return "_slice", "index", [first, *along, *(SpelledArgument(n, n) for n in (a, b, c))]
            case ast.Constant(value=None):
                return "_new_axes", "index", [first, *along]
            case ast.Tuple(elts=[ast.Starred(value=ast.Name(id=index))]):
                return "_at_rows", "index", [first, SpelledArgument(index, index)]
            case ast.Name(id=index):
                mask = index in self.inputs and self.inputs[index].signature.dtype == "bool"
                return "_where" if mask else "_at", "index", [first, SpelledArgument(index, index), *along]
        return None

    def _along(self) -> list[SpelledArgument]:
        """The parameter that says which axes an index is of."""
        axes = [p.name for p in self.spec.params if p.kind.base in ("axis", "axes")]
        return [SpelledArgument("along", axes[0])] if len(axes) == 1 else []

    # --- what it says of parameters and dtypes

    def _complete(self, text: Text, arguments: Iterable[SpelledArgument], limits: YNode | None) -> bool:
        fixed = {key.text.value for key, _ in limits.entries} if isinstance(limits, YMap) else set()
        said = {a.of for a in arguments} | fixed
        needed = [p.name for p in self.spec.params if p.default is None]
        needed += [o.name for o in self.spec.inputs if not o.signature.optional and o.signature.default is None]
        missing = [n for n in needed if n not in said]
        if missing:
            self.findings.add(
                text.span(), f"the spelling leaves out {', '.join(missing)}, without which the op is not called"
            )
        return not missing

    def _limits(self, node: YNode | None) -> tuple[list[tuple[str, object]], list[tuple[str, tuple[str, ...]]]]:
        fixed: list[tuple[str, object]] = []
        dtypes: list[tuple[str, tuple[str, ...]]] = []
        for key, value in node.entries if isinstance(node, YMap) else ():
            name = key.text.value
            if name in self.params and isinstance(value, YScalar):
                fixed.append((name, self._constant(self.params[name], value)))
            elif name in {d.var for d in self.spec.dtypes}:
                dtypes.append((name, tuple(self._classes(value))))
            else:
                known = [*self.params, *(d.var for d in self.spec.dtypes)]
                self.findings.unknown(key.span, "parameter or dtype variable", name, known)
        return fixed, dtypes

    def _constant(self, p: ParamSpec, node: YScalar) -> object:
        text = node.text.value
        if p.kind.members and text not in p.kind.members:
            self.findings.unknown(node.span, "member", text, p.kind.members)
        if p.kind.base in ("enum", "str", "dtype"):
            return text
        try:
            constant = ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
        except (ValueError, SyntaxError):
            self.findings.add(node.span, f"a constant for '{p.name}' is expected here")
            return None
        return tuple(constant) if isinstance(constant, list) else constant

    def _classes(self, node: YNode) -> Iterator[str]:
        for item in node.items if isinstance(node, YSeq) else (node,):
            if isinstance(item, YScalar):
                name = item.text.value
                if name not in CLASSES and name not in (*DTYPES, *OTHER_DTYPES):
                    self.findings.unknown(item.span, "dtype", name, [*CLASSES, *DTYPES, *OTHER_DTYPES])
                yield from CLASSES.get(name, (name,))
