"""Emits the public functions: `ops.softmax(x, axis=-1)`, `ops.static.reshape`, `ops.dyn.reshape`.

In: an op's analysis and a variant ("" is the plain name). Out: the text of a typed function with a docstring.
"""

from __future__ import annotations

import keyword
import textwrap

from anyshape_gen.emit.calls.ops import default_text
from anyshape_gen.emit.rules.rule_text import source_of
from anyshape_gen.emit.text.module import Code, Emitted, use
from anyshape_gen.emit.text.names import constant_name
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.spec import Operand, OpSpec, ParamSpec

KNOWN = {
    **dict.fromkeys(("call", "call_alias", "Operand"), "anyshape.graph.call"),
    "called": "anyshape.public",
    "Value": "anyshape.graph.value",
    "Dim": "anyshape.dims",
    "Sequence": "collections.abc",
    "parse_dtype": "anyshape.dtypes",
    "DType": "anyshape.dtypes",
    "Any": "typing",
    "inf": "math",
}

_TYPES = {
    "bool": "bool", "int": "int", "float": "float", "number": "int | float", "str": "str", "enum": "str",
    "dtype": f"{use('DType')} | str", "axis": "int", "axes": f"{use('Sequence')}[int]", "ints": f"{use('Sequence')}[int]",
    "floats": f"{use('Sequence')}[float]",
    "strs": f"{use('Sequence')}[str]",
}  # fmt: skip


def function(a: OpAnalysis, variant: str) -> Emitted:
    """Emits a function of one `variant`: "static", "dyn", or "" for the plain name, which selects a variant when the op has two."""
    spec = a.spec
    code = Code()
    code.comment(source_of(spec))
    name = python_name(spec.name)
    code.add(f"@{use('called')}")
    code.add(f"def {name}({', '.join(_parameters(spec, variant))}) -> {result_type(spec)}:")
    code.indent()
    _docstring(code, spec, variant)
    inputs = f"[{', '.join(python_name(o.name) for o in spec.inputs)}]"
    params = "{" + ", ".join(f'"{p.name}": {python_name(p.name)}' for p in spec.params) + "}"
    rest = f"{inputs}, {params}, source{', outputs' if _is_variadic(spec) else ''}"
    if spec.dyn_params and not variant:
        both = f"{use(constant_name(spec.name, 'static'))}, {use(constant_name(spec.name, 'dyn'))}"
        call = f"{use('call_alias')}({both}, {rest})"
    else:
        call = f"{use('call')}({use(constant_name(spec.name, variant))}, {rest})"
    code.add(f"return {call}{'' if spec.returns_tuple else '[0]'}")
    return code.text()


def python_name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _is_variadic(spec: OpSpec) -> bool:
    """Whether callers may have to pass the number of outputs."""
    return any(o.signature.variadic is not None for o in spec.outputs)


def result_type(spec: OpSpec) -> str:
    return f"tuple[{use('Value')}, ...]" if spec.returns_tuple else use("Value")


def _optional(o: Operand) -> bool:
    return o.signature.optional or o.signature.default is not None


def _parameters(spec: OpSpec, variant: str) -> list[str]:
    """Lists inputs, then params, in the order of the spec; a required one after an optional one, and all that follow, are keyword-only."""
    parameters: list[tuple[str, bool]] = []
    for o in spec.inputs:
        if o.signature.variadic is not None:
            parameters.append(
                (
                    f"{o.name}: {use('Sequence')}[{use('Operand')}]{' | ' + use('Value') if o.signature.sequence else ''}",
                    True,
                )
            )
        else:
            parameters.append(
                (f"{python_name(o.name)}: {use('Operand')}{' = None' if _optional(o) else ''}", not _optional(o))
            )
    for p in spec.params:
        parameters.append((_parameter(p, variant), p.default is None))
    words: list[str] = []
    seen_optional = starred = False
    for text, required in parameters:
        if required and seen_optional and not starred:
            words.append("*")
            starred = True
        seen_optional |= not required
        words.append(text)
    if not starred:
        words.append("*")
    return [*words, *(["outputs: int | None = None"] if _is_variadic(spec) else []), 'source: str = ""']


def _parameter(p: ParamSpec, variant: str) -> str:
    name = python_name(p.name)
    kind = _TYPES[p.kind.base]
    if p.dyn and variant == "dyn":
        kind = use("Operand")
    elif p.dyn and not variant:
        item = f"int | {use('Dim')} | {use('Value')}"
        sizes = {"int": item, "axes": f"{use('Sequence')}[{item}] | {use('Value')}"}
        kind = sizes.get({"axis": "int", "ints": "axes"}.get(p.kind.base, p.kind.base), f"{kind} | {use('Value')}")
    if p.default is None:
        return f"{name}: {kind}"
    value = default_text(p)
    if p.kind.base == "dtype" and value != "None":
        value = value.removeprefix(f"{use('parse_dtype')}(").removesuffix(")")
    if kind != use("Operand") and (value == "None" or (p.dyn and not variant)):
        kind += " | None"
    return f"{name}: {kind} = {value}"


def _docstring(code: Code, spec: OpSpec, variant: str) -> None:
    lines = textwrap.wrap(spec.summary or spec.name, 108)
    types = [f"{o.name}: {o.signature.text}" for o in (*spec.inputs, *spec.outputs)]
    split = len(spec.inputs)
    signature = f"({', '.join(types[:split])}) -> ({', '.join(types[split:])})"
    if _is_variadic(spec):
        lines += ["", "`outputs` is the number of outputs where it is known only at run time, which is then checked."]
    if spec.dyn_params:
        promoted = ", ".join(p.name for p in spec.dyn_params)
        lines += ["", *textwrap.wrap(_VARIANT[variant].format(promoted), 108)]
    lines += ["", *textwrap.wrap(signature, 108)]
    code.lines.append(f'    """{lines[0]}')
    code.lines += [f"    {line}" if line else "" for line in lines[1:]]
    code.lines.append('    """')


_VARIANT = {
    "static": "Attributes, known when the call is built: {}.",
    "dyn": "Operands, which may be computed at run time: {}.",
    "": "The dyn variant if one of these is a Value, a dim or has one in it, else the static one: {}.",
}
