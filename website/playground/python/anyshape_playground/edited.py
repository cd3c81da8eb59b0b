"""Generates the op of an edited spec, and imports what was generated.

In: the text of a spec file, and that of the library of functions. Out: the op's definition and its generated code, or the findings, each
with its line and columns.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

from anyshape.errors import SpecError
from anyshape.graph.opdef import OpDef
from anyshape_gen.analysis import analyse
from anyshape_gen.emit.package import emit_ops
from anyshape_gen.model.nodes import NoneLit
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Finding, Findings
from anyshape_gen.model.spec import OpSpec, ParamSpec

FILE, LIBRARY, PACKAGE = "spec.yaml", "library.yaml", "edited"
MODULE = FILE.removesuffix(".yaml")


class Faults(Exception):
    """A spec with errors. `findings` are for the page: line, col, end and text of each."""

    def __init__(self, findings: list[dict[str, Any]]) -> None:
        super().__init__("the spec has errors")
        self.findings = findings


@dataclass(frozen=True)
class EditedOp:
    """The op, its spec, and the generated code of its parts: `relation`, `kernel`."""

    op: OpDef
    spec: OpSpec
    code: dict[str, str]

    def description(self) -> dict[str, Any]:
        op = self.op
        return {
            "name": op.full_name,
            "inputs": [
                {"name": i.name, "optional": i.optional, "several": i.variadic, "dtype": i.dtype} for i in op.inputs
            ],
            "params": [
                {"name": p.name, "kind": " | ".join(p.kind.members) or p.kind.base, "default": _default(p)}
                for p in self.spec.params
            ],
            "outputs": [o.name for o in op.outputs],
            "dtypes": {name: [*map(str, classes)] for name, classes in op.dtypes.items()},
            "code": self.code,
        }


def _default(p: ParamSpec) -> str | None:
    """The default as the spec has it; None where there is none."""
    return None if p.default is None or isinstance(p.default, NoneLit) else to_text(p.default)


def edit(text: str, library: str) -> EditedOp:
    """Generates the first op of a spec. Raises Faults."""
    findings = Findings()
    try:
        analysis = analyse({LIBRARY: library, FILE: text}, complete=False)
        if not analysis.ops:
            raise Faults([_place(1, 1, 2, "the spec has no op below `ops:`")])
        files = emit_ops(analysis, PACKAGE, findings)
        findings.raise_if_any()
    except SpecError as e:
        raise Faults([*map(_finding, e.findings)] or [_place(1, 1, 2, str(e))]) from None
    spec = analysis.ops[0].spec
    ops = vars(_imported(files))
    names = {v.full_name: v for v in ops.values() if isinstance(v, OpDef) and v.name == spec.name}
    op = names.get(f"static.{spec.name}") or names[spec.name]
    rooms = ("relations", "kernels")
    code = {room: files[f"{PACKAGE}/{room}/{MODULE}.py"] for room in rooms if f"{PACKAGE}/{room}/{MODULE}.py" in files}
    return EditedOp(op, spec, {room: _body(text) for room, text in code.items()})


def _imported(files: dict[str, str]) -> Any:
    """Imports the module of op definitions from a folder of their own, which is removed again."""
    for name in [m for m in sys.modules if m == PACKAGE or m.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        invalidate_caches()
        try:
            return import_module(f"{PACKAGE}.ops.{MODULE}")
        finally:
            sys.path.remove(folder)


def _body(code: str) -> str:
    """Generated code without its head: what follows the imports."""
    start = code.find(f"\n# {FILE}:")
    return code[start + 1 :].rstrip() if start >= 0 else code.rstrip()


def _finding(f: Finding) -> dict[str, Any]:
    scope = f"; {f.label}: {', '.join(f.scope)}" if f.scope else ""
    return _place(f.span.line, f.span.col, f.span.end, f"{f.text}{scope}")


def _place(line: int, col: int, end: int, text: str) -> dict[str, Any]:
    return {"line": line, "col": col, "end": max(end, col + 1), "text": text}
