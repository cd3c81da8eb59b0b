"""Analyses spec files: parses, checks, solves and resolves them, and raises all findings at once.

In: paths of spec files. Out: an `Analysis`, which every emitter reads. `analyse` is the only entry point of the generator's front end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from anyshape.errors import SpecError
from anyshape_gen.check.bilinear import check_algorithms
from anyshape_gen.check.compose import check_compositions
from anyshape_gen.check.library import check_library
from anyshape_gen.check.meeting import check_meeting
from anyshape_gen.check.onnx import check_file_mapping, check_terms
from anyshape_gen.check.op import check_completeness, check_meaning
from anyshape_gen.check.rotations import check_rotations
from anyshape_gen.check.sequence import check_elements
from anyshape_gen.check.spellings import check_spellings
from anyshape_gen.memo import Memo
from anyshape_gen.model.analysis import (
    Analysis,
    OpAnalysis,
)
from anyshape_gen.model.body_nodes import Kernel
from anyshape_gen.model.nodes import Assert, Call, Function, Index, Name, Node, Statement
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OnnxMapping, OnnxRefusal, OpSpec, SpecFile
from anyshape_gen.model.traverse import reachable, walk_all
from anyshape_gen.parse.library import dependence, read_library
from anyshape_gen.parse.load import load_file
from anyshape_gen.resolve.float_defaults import with_computed_floats
from anyshape_gen.resolve.kernel import KernelResolver
from anyshape_gen.resolve.name_kinds import name_kinds
from anyshape_gen.resolve.outputs import output_shape
from anyshape_gen.resolve.procedure import ProcedureResolver
from anyshape_gen.resolve.rule_names import with_rule_names
from anyshape_gen.resolve.searches import with_searches
from anyshape_gen.resolve.shape_dependence import shape_dependence
from anyshape_gen.resolve.solve import Solver


def read_specs(paths: Iterable[Path | str], root: Path | str | None = None) -> dict[str, str]:
    """Reads spec files, by the path that messages show. Raises SpecError for a file that is not UTF-8, OSError for a missing one."""
    contents = {}
    for path in sorted(Path(p) for p in paths):
        shown = path.relative_to(root) if root is not None and path.is_relative_to(root) else path
        try:
            contents[shown.as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as e:
            raise SpecError(f"{shown.as_posix()}: not UTF-8 text: {e.reason} at byte {e.start}") from None
    return contents


def analyse(contents: Mapping[str, str], complete: bool = True, memo: Memo | None = None) -> Analysis:
    """Analyses all ops of spec texts, by path. Raises SpecError with every finding.

    `complete=False` does not report missing entries (references, examples …), for specs that are being written. Files and ops whose
    results the memo has are not analysed again.
    """
    findings, memo = Findings(), memo or Memo()
    memo.begin_round(contents)
    library = read_library(contents, findings, memo)
    check_library(library, findings)
    files = [_loaded(path, content, library, findings, memo) for path, content in contents.items()]
    known = {op.name for file in files for op in file.ops}
    _check_unique(files, findings)
    ops = [
        _analysed(op, file.path, findings, known=known, complete=complete, memo=memo)
        for file in files
        for op in file.ops
    ]
    of_files = tuple((file.path, mapping) for file in files for mapping in file.onnx)
    aten = tuple((file.path, mapping) for file in files for mapping in file.aten)
    refused = tuple(refusal for file in files for refusal in file.refused)
    refused_aten = tuple(refusal for file in files for refusal in file.refused_aten)
    analysed = tuple(op for op in ops if op is not None)
    analysis = Analysis(analysed, of_files, refused, aten, refused_aten, tuple(library.values()))
    onnx_mappings = [m for file in files for m in file.all_onnx]
    aten_mappings = [m for file in files for m in file.all_aten]
    findings.distinct("the mapping of", ((f"{m.op} {m.since}", m.span) for m in onnx_mappings))
    findings.distinct("the mapping of", ((m.op, m.span) for m in aten_mappings))
    _check_refused(onnx_mappings, refused, findings)
    _check_refused(aten_mappings, refused_aten, findings)
    for file in files:
        check_terms(file.terms, known, findings)
    for _, mapping in (*of_files, *aten):
        check_file_mapping(mapping, known, findings)
    if len(analysis.ops) == len(ops):  # otherwise a call may be of an op that could not be read
        check_compositions(analysis.ops, findings)
        check_algorithms(analysis.ops, findings)
        for a in analysis.ops:
            check_rotations(a.spec, findings)
        check_spellings(analysis.ops, findings)
    findings.raise_if_any()
    return analysis


def _loaded(path: str, content: str, library: Mapping[str, Function], findings: Findings, memo: Memo) -> SpecFile:
    def load() -> tuple[SpecFile, Findings]:
        own = Findings()
        return load_file(path, content, own, library), own

    file, findings_of_file = memo.get(path, ("load", content, dependence(content, library)), (), load)
    findings.take(findings_of_file)
    return file


def _analysed(
    op: OpSpec, file: str, findings: Findings, *, known: set[str], complete: bool, memo: Memo
) -> OpAnalysis | None:
    def analyse_it() -> tuple[OpAnalysis | None, Findings]:
        own = Findings()
        return analyse_op(op, file, own, known, complete), own

    # An analysis depends on which of the ops that it names exist; one with findings is not kept, since they may suggest any op's name.
    named = memo.get(file, "named", (op,), lambda: _named(op))
    key = ("analyse", complete, frozenset(known & named))
    analysis, findings_of_op = memo.get(file, key, (op,), analyse_it, lasts=lambda result: not result[1].items)
    findings.take(findings_of_op)
    return analysis


def _named(op: OpSpec) -> frozenset[str]:
    """Collects names in an op's rewrites and mappings that may be names of ops."""
    nodes = walk_all([*op.rewrites, *op.onnx, *op.aten])
    return frozenset(n.func if isinstance(n, Call) else n.id for n in nodes if isinstance(n, (Call, Name)))


def _check_unique(files: list[SpecFile], findings: Findings) -> None:
    first: dict[str, OpSpec] = {}
    for file in files:
        for op in file.ops:
            other = first.setdefault(op.name, op)
            if other is not op:
                findings.add(op.span, f"op '{op.name}' is also defined at {other.span}")


def _check_refused(mappings: Iterable[OnnxMapping], refused: Iterable[OnnxRefusal], findings: Findings) -> None:
    """Checks that a refused operator has no mapping, and only one refusal."""
    mapped = {m.op: m for m in mappings}
    first: dict[str, OnnxRefusal] = {}
    for refusal in refused:
        if refusal.op in mapped:
            findings.add(refusal.span, f"'{refusal.op}' is not refused: it has a mapping at {mapped[refusal.op].span}")
        other = first.setdefault(refusal.op, refusal)
        if other is not refusal:
            findings.add(refusal.span, f"'{refusal.op}' is also refused at {other.span}")


def analyse_op(spec: OpSpec, file: str, findings: Findings, ops: set[str], complete: bool) -> OpAnalysis | None:
    """Analyses one op; None where it has findings."""
    before = len(findings.items)
    if complete:
        check_completeness(spec, findings)
    spec = with_rule_names(with_computed_floats(spec))
    steps = Solver(spec, findings).solve()
    rule, reading = _split_asserts(spec)
    kinds = name_kinds(spec, steps, rule)
    check_meaning(spec, kinds, ops, findings)
    if len(findings.items) > before:
        return None
    outputs = tuple(output_shape(spec, output, kinds) for output in spec.outputs)
    kernel = None
    equations = with_searches(spec, kinds, findings)
    if equations is not None:
        kernel = KernelResolver(
            spec, equations, kinds=kinds, outputs=outputs, findings=findings, reading=reading
        ).resolve()
        if kernel is not None:
            check_elements(spec, kernel, findings)
    procedure = None
    if spec.procedure is not None:
        procedure = ProcedureResolver(
            spec, spec.procedure, kinds=kinds, outputs=outputs, findings=findings, reading=reading
        ).resolve_steps()
    asked: tuple[Assert, ...] = ()
    if spec.compose is not None and reading:
        own = KernelResolver(
            spec, Kernel(()), kinds=kinds, outputs=outputs, findings=findings, reading=reading
        ).resolve()
        asked = own.asserts if own is not None else ()
    if len(findings.items) > before:
        return None
    known = {function.name: function for function in spec.defines}
    params: list[Node] = [*spec.params, *spec.inputs, *spec.outputs]
    analysed = OpAnalysis(
        spec=spec,
        file=file,
        steps=steps,
        rule=rule,
        outputs=outputs,
        kinds=kinds,
        dependence=shape_dependence(spec, steps, rule, outputs),
        shape_functions=reachable([*params, *rule], known),
        kernel_functions=reachable([body for body in (spec.kernel, spec.procedure) if body is not None], known),
        kernel=kernel,
        procedure=procedure,
        asked=asked,
    )
    check_meeting(analysed, findings)
    return analysed if len(findings.items) == before else None


def _split_asserts(spec: OpSpec) -> tuple[tuple[Statement, ...], tuple[Assert, ...]]:
    """Splits the statements of a rule from asserts that read elements of tensors, which are the kernel's."""
    tensors = {operand.name for operand in spec.inputs}
    rule: list[Statement] = []
    reading: list[Assert] = []
    for statement in spec.shape:
        indexed = {n.base.id for n in walk_all([statement]) if isinstance(n, Index) and isinstance(n.base, Name)}
        if isinstance(statement, Assert) and indexed & tensors:
            reading.append(statement)
        else:
            rule.append(statement)
    return tuple(rule), tuple(reading)
