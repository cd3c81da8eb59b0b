"""Checks names that occur in generated Python: each is an identifier, and names one thing only.

In: an `OpSpec`. Out: findings.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from anyshape_gen.model.nodes import Node
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.resolve.solve import piece_names


def check_identifiers(spec: OpSpec, findings: Findings) -> None:
    """Checks the names of the op, of its operands and parameters, and of the operators that it maps."""
    for what, name, node in _names(spec):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            findings.add(node.span, f"'{name}' cannot be the name of {what}: use letters, digits and _")
    seen: dict[str, str] = {}
    for what, name, node in _names(spec):
        if what not in ("an input", "a parameter", "an output"):
            continue
        first = seen.setdefault(name, what)
        if first != what:
            findings.add(node.span, f"'{name}' is the name of {first} and of {what}")
    tensors = {operand.name for operand in (*spec.inputs, *spec.outputs)}
    for operand in spec.inputs:
        for name in sorted(piece_names(operand) & tensors):
            findings.add(operand.signature.span, f"'{name}' is the name of a tensor and of a dim")


def _names(spec: OpSpec) -> Iterator[tuple[str, str, Node]]:
    yield "an op", spec.name, spec
    for operand in spec.inputs:
        yield "an input", operand.name, operand
    for param in spec.params:
        yield "a parameter", param.name, param
    for operand in spec.outputs:
        yield "an output", operand.name, operand
    for mapping in spec.aten:
        for word in mapping.op.replace("::", ".").split("."):  # `add.Tensor`, `prims::convert_element_type`
            yield "an ATen operator", word.lstrip("_"), mapping
    for mapping in spec.onnx:
        domain, _, operator = mapping.op.rpartition(":")  # `com.example:Name`
        for word in [*(domain.split(".") if domain else ()), operator]:
            yield "an ONNX operator", word, mapping
