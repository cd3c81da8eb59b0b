"""Emits op definitions: the OpDef of every variant, with comments about variants that are not generated.

In: an op's analysis. Out: the text of `ops/<specfile>.py`'s entry for it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from anyshape_gen.emit.bodies.kernels import dtype_keys
from anyshape_gen.emit.rules.relations import NOT_LITERAL, is_constant, literal
from anyshape_gen.emit.rules.rule_text import source_of
from anyshape_gen.emit.text.module import Code, Emitted, number_text, quoted, tuple_text, use
from anyshape_gen.emit.text.names import constant_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Call, Expr, Name
from anyshape_gen.model.spec import Operand, OpSpec, ParamSpec
from anyshape_gen.resolve.moving import Moved, moved_dtypes
from anyshape_gen.resolve.shaping import shaping_params

LINE = 100
"""Columns of a summary in one line."""

KNOWN = {
    **dict.fromkeys(("InputDef", "OpDef", "OutputDef", "ParamDef", "RewriteDef"), "anyshape.graph.opdef"),
    "parse_dtype": "anyshape.dtypes",
    "inf": "math",
}


def _in_lines(text: str) -> str:
    """A string literal, in adjacent parts if it is long."""
    lines = textwrap.wrap(text, LINE, drop_whitespace=False, break_on_hyphens=False)
    return quoted(text) if len(lines) < 2 else f"({' '.join(map(quoted, lines))})"


def variants(spec: OpSpec) -> tuple[str, ...]:
    """Returns the variants of an op; `("",)` where its outputs' shapes depend on its inputs only."""
    return ("static", "dyn") if spec.dyn_params else ("",)


def op_defs(a: OpAnalysis, ops: Mapping[str, OpAnalysis]) -> Emitted:
    """Emits one OpDef for each variant. `ops` are those that its body calls, among others."""
    code = Code()
    code.comment(source_of(a.spec))
    if not a.spec.dyn_params:
        shaping = "parameters" if not a.spec.params else "parameters that are operands"
        code.comment(f"{a.spec.name}: no dyn variant, it has no {shaping}")
    moved = moved_dtypes(a, ops)
    for variant in variants(a.spec):
        _op_def(code, a, variant, moved)
    return code.text()


def _op_def(code: Code, a: OpAnalysis, variant: str, moved: Moved) -> None:
    spec = a.spec
    code.add(f"{constant_name(spec.name, variant)} = {use('OpDef')}(")
    code.indent()
    code.add(f"name={quoted(spec.name)},")
    code.add(f"variant={quoted(variant)},")
    _many(code, "inputs", [_input(o) for o in spec.inputs])
    _many(code, "params", [_param(p, variant == "dyn" and p.dyn) for p in spec.params])
    _many(code, "outputs", [_output(a, o) for o in spec.outputs])
    choices = {d.var: d.choices for d in spec.dtypes if d.choices}
    listed = ", ".join(f"{quoted(v)}: {tuple_text(map(quoted, c))}" for v, c in choices.items())
    code.add(f"dtypes={{{listed}}},")
    code.add(f"relation={use('relations')}.{spec.name}_relation,")
    computed = {d.var: _computed(d.expr, spec) for d in spec.dtypes if isinstance(d.expr, Call)}
    if computed:
        code.add(
            f"computed={{{', '.join(f'{quoted(v)}: {tuple_text(map(quoted, c))}' for v, c in computed.items())}}},"
        )
    if a.kernel is not None or a.procedure is not None:
        code.add(f"kernel={use('kernels')}.{spec.name}_kernel,")
    if spec.compose is not None:
        code.add(f"composition={use('compositions')}.{constant_name(spec.name)},")
    if spec.algorithms:
        code.add(f"algorithms={use('compositions')}.{constant_name(spec.name)}_ALGORITHMS,")
    if spec.view:
        code.add(f"view={{{', '.join(f'{quoted(v.output)}: {quoted(v.input)}' for v in spec.view)}}},")
    if spec.summary:
        code.add(f"summary={_in_lines(spec.summary)},")
    code.add(f"source={quoted(source_of(spec))},")
    shaping = shaping_params(a) if variant == "dyn" else ()
    if shaping:
        code.add(f"shaping={tuple_text(map(quoted, shaping))},")
    if moved.dtypes:
        code.add(f"moves={tuple_text(map(quoted, moved.dtypes))},")
    if moved.where:
        modes = ", ".join(f"{quoted(p)}: {tuple_text(map(quoted, m))}" for p, m in moved.where.items())
        code.add(f"moves_where={{{modes}}},")
    if spec.traits:
        code.add(f"traits={tuple_text(map(quoted, spec.traits))},")
    if spec.rewrites:
        code.add(f"rewrites={use('rewrites')}.{constant_name(spec.name)},")
    code.dedent()
    code.add(")")


def _many(code: Code, name: str, items: list[str]) -> None:
    if len(items) <= 1:
        code.add(f"{name}=({items[0]},)," if items else f"{name}=(),")
        return
    code.add(f"{name}=(")
    code.indent()
    for item in items:
        code.add(f"{item},")
    code.dedent()
    code.add("),")


def _input(o: Operand) -> str:
    s = o.signature
    words = [quoted(o.name), quoted(s.dtype)]
    if s.default is not None:
        words += ["optional=True", f"default={_absent(s.default, s.dtype)}"]
    elif s.optional:
        words.append("optional=True")
    if s.variadic is not None:
        words.append("variadic=True")
    if s.sequence:
        words.append("sequence=True")
    return f"{use('InputDef')}({', '.join(words)})"


def _absent(e: Expr, dtype: str) -> str:
    """Emits the constant that reads of an absent input give: a literal, or an extreme of the input's own dtype by name.

    Where it is computed from dims, kernels have the expression in place of every read, and the constant only marks an absent input.
    """
    match e:
        case Call("lowest" | "highest" as func, (Name(var),), ()) if var == dtype:
            return quoted(func)
    return number_text(literal(e)) if is_constant(e) else "0"


def _computed(e: Call, spec: OpSpec) -> tuple[str, ...]:
    """Converts `accum(T)` to ("accum", "T"); a parameter that is a dtype becomes "param:to"."""
    of = [x.id for x in e.args if isinstance(x, Name)]
    if len(of) != len(e.args):
        raise NotExecuted(e, "a dtype computed from anything but dtype variables")
    return (e.func, *(f"param:{name}" if spec.param(name) is not None else name for name in of))


def _output(a: OpAnalysis, o: Operand) -> str:
    dtype = dtype_keys(a).get(o.signature.dtype, o.signature.dtype)
    variadic = ", variadic=True" if o.signature.variadic else ""
    return f"{use('OutputDef')}({quoted(o.name)}, {quoted(dtype)}{variadic})"


def _param(p: ParamSpec, operand: bool) -> str:
    kind = "str" if p.kind.base == "enum" else p.kind.base
    words = [quoted(p.name), quoted(kind)]
    if p.default is not None:
        words.append("required=False")
        value = default_text(p)
        if value != "None":
            words.append(f"default={value}")
    if p.kind.members:
        words.append(f"members={tuple_text(map(quoted, p.kind.members))}")
    if operand:
        words.append("operand=True")
    return f"{use('ParamDef')}({', '.join(words)})"


def default_text(p: ParamSpec) -> str:
    """Prints a literal default; `None` where there is none, or the relation computes it."""
    if p.default is None:
        return "None"
    value = literal(p.default)
    if value is NOT_LITERAL or value is None:
        return "None"
    if p.kind.base == "dtype":
        return f"{use('parse_dtype')}({quoted(str(value))})"
    return quoted(value) if isinstance(value, str) else number_text(value)
