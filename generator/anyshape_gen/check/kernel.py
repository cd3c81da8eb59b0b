"""Checks kernels: which tensors they define, by which names, and that every output is defined.

In: an `OpSpec`, a `NameChecker`, the names in scope. Out: findings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from anyshape_gen.check.names import NameChecker
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.body_nodes import Equation, Kernel
from anyshape_gen.model.functions import CONSTANTS
from anyshape_gen.model.nodes import BinOp, Index, Name, Slice, Star
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import bound_by, free_names, walk_all
from anyshape_gen.resolve.kinds import bind_generator
from anyshape_gen.resolve.solve import piece_names

K = ValueKind


def check_kernel(
    spec: OpSpec, kernel: Kernel, names: NameChecker, scope: Mapping[str, ValueKind], findings: Findings
) -> None:
    """Checks all equations of a kernel."""
    outputs = {operand.name for operand in spec.outputs}
    inputs = {operand.name for operand in spec.inputs}
    targets = {equation.target.tensor: equation for equation in reversed(kernel.equations)}
    known = {**scope, **dict.fromkeys(outputs, K.TENSOR)}
    for name, equation in targets.items():
        known.setdefault(name, K.INT if equation.target.items is None else K.TENSOR)
        if name in inputs:
            findings.add(equation.span, f"'{name}' is an input; an equation defines an output or a scratch tensor")
        elif name not in outputs and name in scope:
            kind = "parameter" if spec.param(name) else "dim"
            findings.add(equation.span, f"'{name}' is already the name of a {kind}")
    for operand in spec.outputs:
        if operand.name not in targets:
            findings.add(operand.span, f"no equation defines the output '{operand.name}'", targets)
    starts = _starts(kernel, scope)
    names.outer = frozenset(known)
    for equation in kernel.equations:
        _equation(equation, names, known, starts)
    for node in kernel.asserts:
        names.expr(node, known, "kernel")
    _defined_twice(kernel, starts, findings)
    for name, equation in targets.items():
        if name not in outputs and name not in names.used and not _sizes_an_output(spec, name):
            findings.add(equation.span, f"'{name}' is defined but never read")


def _starts(kernel: Kernel, scope: Collection[str]) -> dict[tuple[str, int], str]:
    """Finds starts behind the last position: `t[n] = …` for a dim n, where t is read at later positions, `t[i + 1]`. Elsewhere the name of
    a dim on the left would be taken for a variable. Returns the dim by tensor and place."""
    later = {
        (node.base.id, place)
        for node in walk_all(equation.right for equation in kernel.equations)
        if isinstance(node, Index) and isinstance(node.base, Name)
        for place, item in enumerate(node.items)
        if isinstance(item, BinOp) and item.op == "+"
    }
    entries = [
        ((e.target.tensor, place), item.id)
        for e in kernel.equations
        for place, item in enumerate(e.target.items or ())
        if isinstance(item, Name) and (e.target.tensor, place) in later
    ]
    stepped = {at for at, name in entries if name not in scope}
    return {at: name for at, name in entries if name in scope and at in stepped}


def _equation(
    equation: Equation, names: NameChecker, known: dict[str, ValueKind], starts: Mapping[tuple[str, int], str]
) -> None:
    inner = dict(known)
    target = equation.target
    bound = bound_by(equation.generators)
    if isinstance(target.element, Name) and target.element.id not in {*known, *bound}:
        inner[target.element.id] = K.INT
    for place, item in enumerate(target.items or ()):
        value = item.value if isinstance(item, Star) else item
        if isinstance(item, Name) and starts.get((target.tensor, place)) == item.id:
            names.expr(item, known, "kernel")
        elif isinstance(value, Name) and value.id not in bound:
            names.hides(value.id, value)
            inner.setdefault(value.id, K.VECTOR if isinstance(item, Star) else K.INT)
        elif not isinstance(value, Name) and (equation.op != "=" or not isinstance(value, Slice)):
            # A name that occurs first in a computed index is a variable, too: `inverse[order[j]]`.
            inner |= dict.fromkeys(free_names(value) - {*inner, *bound, *CONSTANTS}, K.ANY)
    of_index = dict(inner)
    for generator in equation.generators:
        bind_generator(generator, of_index)
    names.stars(target.items or (), of_index)
    for item in target.items or ():
        value = item.value if isinstance(item, Star) else item
        if not isinstance(value, (Name, Slice)):
            names.expr(value, of_index, "kernel")
    for condition in equation.conditions:
        names.expr(condition, known, "kernel")
    if equation.annotation is not None:
        for extent in equation.annotation.extents:
            names.expr(extent, known, "kernel")
    names.expr(equation.right, inner, "kernel")
    if not any(isinstance(_bare(item), Slice) for item in target.items or ()) and target.items is not None:
        names.one(equation.value, of_index)


def _defined_twice(kernel: Kernel, starts: Mapping[tuple[str, int], str], findings: Findings) -> None:
    """Checks that no tensor has two unconditional equations for all of its elements."""
    whole: dict[str, Equation] = {}
    for equation in kernel.equations:
        plain = all(
            isinstance(item, Name) and item.id != starts.get((equation.target.tensor, place))
            for place, item in enumerate(map(_bare, equation.target.items or ()))
        )
        if (
            equation.op != "="
            or equation.conditions
            or equation.generators
            or not plain
            or equation.target.element is not None
        ):
            continue
        first = whole.setdefault(equation.target.tensor, equation)
        if first is not equation:
            text = f"'{equation.target.tensor}' is defined a second time; the first is at {first.span}"
            findings.add(equation.span, text)


def _bare(item: object) -> object:
    return item.value if isinstance(item, Star) else item


def _sizes_an_output(spec: OpSpec, name: str) -> bool:
    return any(name in free_names(operand) or name in piece_names(operand) for operand in spec.outputs)
