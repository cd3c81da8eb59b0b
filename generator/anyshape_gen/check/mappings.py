"""Checks rewrites, references, views, dtype rules and examples: the names in them exist; `onnx` checks ONNX mappings.

In: an `OpSpec` and the names of all ops. Out: findings.
"""

from __future__ import annotations

import builtins

from anyshape_gen.check.names import NameChecker
from anyshape_gen.check.onnx import check_mapping
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.nodes import Call, Name, Node
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import Example, OpSpec, Rewrite
from anyshape_gen.model.traverse import children, free_names, walk
from anyshape_gen.parse.values import DTYPES

DTYPE_FUNCTIONS = ("accum", "promote", "bitcast")
"""Functions from dtypes to a dtype; the last also of a dtype parameter"""


def check_mappings(spec: OpSpec, ops: set[str], names: NameChecker, findings: Findings) -> None:
    """Checks all entries of an op but the rule and the kernel."""
    for rewrite in spec.rewrites:
        _rewrite(spec, rewrite, ops, names, findings)
    for mapping in (*spec.onnx, *spec.aten):
        check_mapping(spec, mapping, ops, findings)
    _reference(spec, findings)
    _view(spec, findings)
    _dtypes(spec, findings)
    for example in spec.examples:
        _example(spec, example, findings)


def _rewrite(spec: OpSpec, rewrite: Rewrite, ops: set[str], names: NameChecker, findings: Findings) -> None:
    pattern = rewrite.pattern
    if not isinstance(pattern, Call) or pattern.func != spec.name:
        findings.add(pattern.span, f"the pattern of a rewrite of '{spec.name}' begins with {spec.name}(…)")
    bound = free_names(pattern) - {"_"} | ({rewrite.alias} if rewrite.alias else set())
    for side in (rewrite.pattern, rewrite.term):
        _ops_in(side, ops, findings)
    for node in walk(rewrite.term):
        if isinstance(node, Name) and node.id not in bound:
            findings.unknown(node.span, "name", node.id, bound)
    if rewrite.condition is not None:
        names.expr(rewrite.condition, dict.fromkeys(bound, ValueKind.ANY), "rewrite")


def _ops_in(node: Node, ops: set[str], findings: Findings) -> None:
    """Checks calls of ops, from the outside in; arguments that are no calls of ops are expressions."""
    if isinstance(node, Call):
        if node.func not in ops:
            findings.unknown(node.span, "op", node.func, ops)
            return
        for child in children(node):
            if isinstance(child, Call):
                _ops_in(child, ops, findings)


def _reference(spec: OpSpec, findings: Findings) -> None:
    if spec.reference is None:
        return
    known = {operand.name for operand in spec.inputs} | {param.name for param in spec.params} | {"np", "scipy"}
    for oracle in spec.reference.oracles:
        if oracle.name in known:
            findings.add(
                oracle.span, f"'{oracle.name}' is an input or a parameter of '{spec.name}', which calls this oracle"
            )
    for read in spec.reference.reads:
        if read.id not in known and not hasattr(builtins, read.id):
            findings.unknown(read.span, "name", read.id, known, " in the reference")


def _view(spec: OpSpec, findings: Findings) -> None:
    inputs = [operand.name for operand in spec.inputs]
    outputs = [operand.name for operand in spec.outputs]
    for view in spec.view:
        if view.input not in inputs:
            findings.unknown(view.span, "input", view.input, inputs)
        if view.output not in outputs:
            findings.unknown(view.span, "output", view.output, outputs)


def _dtypes(spec: OpSpec, findings: Findings) -> None:
    variables = {rule.var for rule in spec.dtypes}
    used = {operand.signature.dtype for operand in (*spec.inputs, *spec.outputs)}
    for rule in spec.dtypes:
        match rule.expr:
            case Name(id=name):
                param = spec.param(name)
                if param is None or param.kind.base != "dtype":
                    known = [p.name for p in spec.params if p.kind.base == "dtype"]
                    findings.unknown(rule.expr.span, "dtype parameter", name, known)
            case Call(func=func, args=args):
                if func not in DTYPE_FUNCTIONS:
                    findings.unknown(rule.expr.span, "dtype function", func, DTYPE_FUNCTIONS)
                known = [*variables, *(p.name for p in spec.params if p.kind.base == "dtype" and func == "bitcast")]
                for arg in args:
                    if isinstance(arg, Name) and arg.id not in known and arg.id not in DTYPES:
                        findings.unknown(arg.span, "dtype variable", arg.id, known)
        if rule.var not in used and spec.family is None and not isinstance(rule.expr, Call):
            findings.add(rule.span, f"no signature uses the dtype variable '{rule.var}'", used)


def _example(spec: OpSpec, example: Example, findings: Findings) -> None:
    arguments = {name for name, _ in example.arguments}
    for operand in spec.inputs:
        signature = operand.signature
        if operand.name not in arguments and signature.default is None and not signature.optional:
            findings.add(example.span, f"the example gives no '{operand.name}'", arguments)
    for param in spec.params:
        if param.name not in arguments and param.default is None:
            findings.add(example.span, f"the example gives no '{param.name}'", arguments)
        for name, value in example.arguments:
            known = param.kind.members
            if name == param.name and param.kind.base == "enum" and value.value not in known:
                findings.unknown(value.span, "member", str(value.value), known)
