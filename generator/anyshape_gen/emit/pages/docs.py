"""Emits reference pages: one for each op, and an index of all ops with their variants, ONNX operators and dtypes.

In: the analysis. Out: {path below docs/ops: text}. A page is printed from the same nodes as the code, and the test suite
runs its examples.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.emit.calls.ops import variants
from anyshape_gen.emit.pages.reports import Reports
from anyshape_gen.emit.rules.rule_text import source_of
from anyshape_gen.emit.text.module import quoted, render
from anyshape_gen.model.analysis import Analysis, Dependence, OpAnalysis
from anyshape_gen.model.printer import function_text, kernel_text, procedure_text, statements_text, to_text
from anyshape_gen.model.spec import Example, ExampleValue, OnnxMapping, OpSpec, ParamSpec, Spelling
from anyshape_gen.model.traverse import unbacked_sizes
from anyshape_gen.parse.values import CLASSES

_DEPENDENCE = {
    Dependence.NOTHING: "nothing",
    Dependence.RANK: "its rank",
    Dependence.SHAPE: "its shape",
    Dependence.VALUES: "its values",
}


def pages(
    analysis: Analysis, contents: Mapping[str, str] | None = None, reports: Reports | None = None, own: bool = True
) -> dict[str, str]:
    """Emits all pages. `contents`: the specs by path, to count their lines; `reports`: stored results about the ops; `own`: whether these
    are anyshape's ops, whose pages are beside others."""
    ops = sorted(analysis.ops, key=lambda a: a.spec.name)
    texts = {f"{a.spec.name}.md": page(a) for a in ops}
    lines = {a.spec.name: entry_lines(a, contents or {}) for a in ops}
    rows = [{**_row(a), "lines": lines[a.spec.name], **(reports or Reports()).of(a.spec.name)} for a in ops]
    texts["index.md"] = render(
        "index.md.j2", rows=rows, count=len(ops), lines=sum(lines.values()), refused=analysis.refused, own=own
    )
    return texts


def entry_lines(a: OpAnalysis, contents: Mapping[str, str]) -> int:
    """Counts the lines of the op's entry without blanks and comments; lines of its family are not counted."""
    text = contents.get(a.file, "").splitlines()[a.spec.span.line - 1 :]
    end = next((k for k, line in enumerate(text) if k and line.strip() and not line.startswith("    ")), len(text))
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text[:end])


def page(a: OpAnalysis) -> str:
    spec = a.spec
    return render(
        "op.md.j2",
        name=spec.name,
        summary=spec.summary,
        source=source_of(spec),
        signature=_signature(spec),
        params=[_param(p) for p in spec.params],
        dtypes=[_dtype(d.var, d.choices, to_text(d.expr) if d.expr is not None else "") for d in spec.dtypes],
        variants=_variants(a),
        functions=[function_text(f).strip() for f in spec.defines],
        rule=statements_text(spec.shape).rstrip(),
        kernel=kernel_text(spec.kernel).rstrip() if spec.kernel is not None else "",
        procedure=procedure_text(spec.procedure).rstrip() if spec.procedure is not None else "",
        compose=procedure_text(spec.compose).rstrip() if spec.compose is not None else "",
        operator=spec.operator,
        python=[f"`{s.text}`" + _of(s) for s in spec.python],
        view=[(v.output, v.input) for v in spec.view],
        rewrites=[r.text for r in spec.rewrites],
        traits=spec.traits,
        weak=[f"law {w.law}: {w.reason}" for w in spec.weak],
        reference=" ".join(spec.reference.text.split()) if spec.reference is not None else "",
        onnx=[_onnx(m) for m in spec.onnx],
        aten=[_onnx(m) for m in spec.aten],
        examples=[_example(e) for e in spec.examples],
        dependence=[f"{name}: {_DEPENDENCE[level]}" for name, level in a.dependence.items()],
    )


def _of(s: Spelling) -> str:
    """Words the dtypes for which a spelling means the op."""
    return "".join(f" (of {_class(dtypes)})" for _, dtypes in s.dtypes)


def _row(a: OpAnalysis) -> dict[str, str]:
    spec = a.spec
    return {
        "name": spec.name,
        "summary": spec.summary,
        "variants": ", ".join(v or "plain" for v in variants(spec)),
        "sizes": _sizes(a),
        "onnx": _opsets(spec),
        "dtypes": "; ".join(dict.fromkeys(_class(d.choices) for d in spec.dtypes if d.choices)),
        "kernel": _body(spec),
    }


def _body(spec: OpSpec) -> str:
    if spec.kernel is not None:
        return str(len(spec.kernel.equations))
    return "view" if spec.view else "steps" if spec.procedure is not None else "calls"


def _sizes(a: OpAnalysis) -> str:
    """Words what the sizes of the outputs depend on: the strongest need of any operand."""
    has_count = a.spec.kernel is not None and any(q.target.items is None for q in a.spec.kernel.equations)
    if has_count or unbacked_sizes(a.spec.shape):
        return "data"
    most = max(a.dependence.values(), default=Dependence.NOTHING, key=list(Dependence).index)
    return {
        Dependence.NOTHING: "attributes",
        Dependence.RANK: "ranks",
        Dependence.SHAPE: "shapes",
        Dependence.VALUES: "operands",
    }[most]


def _opsets(spec: OpSpec) -> str:
    """Lists the opsets of each ONNX operator: `Softmax 1, 13`; `Upsample 7–9` where a later opset removed it."""
    since: dict[str, list[str]] = {}
    for m in spec.onnx:
        since.setdefault(m.op, []).append(f"until {m.since - 1}" if m.removed else str(m.since))
    return "; ".join(f"{op} {', '.join(opsets)}" for op, opsets in since.items())


def _class(choices: tuple[str, ...]) -> str:
    """Names a list of dtypes by its class, if it is one."""
    return next((name for name, inside in CLASSES.items() if inside == choices), ", ".join(choices))


def _signature(spec: OpSpec) -> str:
    inputs = ", ".join(f"{o.name}: {o.signature.text}" for o in spec.inputs)
    outputs = ", ".join(f"{o.name}: {o.signature.text}" for o in spec.outputs)
    return f"{spec.name}({inputs}) -> ({outputs})"


def _param(p: ParamSpec) -> dict[str, str]:
    kind = " or ".join(p.kind.members) if p.kind.members else p.kind.base
    if p.kind.length is not None:
        kind += f"[{to_text(p.kind.length)}]"
    default = "required" if p.default is None else f"default {to_text(p.computed or p.default)}"
    if p.empty is not None:
        default += f", also in place of an empty one where {to_text(p.empty)}"
    return {"name": p.name, "kind": kind, "default": default, "dyn": "an operand of the dyn variant" if p.dyn else ""}


def _dtype(var: str, choices: tuple[str, ...], computed: str) -> str:
    return f"{var}: {', '.join(choices) or computed}"


def _variants(a: OpAnalysis) -> str:
    if a.spec.dyn_params:
        names = ", ".join(f"`{p.name}`" for p in a.spec.dyn_params)
        variants = f"`static.{a.spec.name}` (attributes) and `dyn.{a.spec.name}` (operands), by {names}"
        return f"{variants}; the plain name selects one by its arguments."
    return "One; none of its parameters can be an operand."


def _onnx(m: OnnxMapping) -> str:
    if m.removed:
        return f"{m.op}, removed in opset {m.since}"
    since = f" since opset {m.since}" if m.since else ""
    if "\n" not in m.text and not m.functions:
        return f"{m.op}{since}: `{m.text}`"
    lines = "\n\n".join([*(f.text for f in m.functions), m.text]).splitlines()
    return "\n".join([f"{m.op}{since}:", "", *(f"      {line}".rstrip() for line in lines)])


def _example(e: Example) -> str:
    arguments = ", ".join(f"{name}: {_value(v)}" for name, v in e.arguments)
    if e.error is not None:
        return f"{arguments}  ->  error: {e.error}"
    return f"{arguments}  ->  {', '.join(f'{name}: {_value(v)}' for name, v in e.expected)}"


def _value(v: ExampleValue) -> str:
    text = _listed(v.value)
    return f"shape {text}" if not v.literal else text


def _listed(value: object) -> str:
    if isinstance(value, str) and not value.isprintable():
        return quoted(value)
    return f"[{', '.join(map(_listed, value))}]" if isinstance(value, tuple) else str(value)
