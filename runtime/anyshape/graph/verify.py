"""The verifier: what must hold of every function, checked between passes in tests (ANYSHAPE_VERIFY=1)."""

from __future__ import annotations

from anyshape.errors import AnyshapeError, VerifyError
from anyshape.graph.function import Function
from anyshape.graph.infer import infer
from anyshape.graph.registry import find_op
from anyshape.graph.value import Node, Value
from anyshape.wording import counted


def verify(f: Function) -> None:
    """Raises VerifyError: an op that is not registered, wrong operand counts, values used before they exist, or a type
    that differs from what inference says now."""
    known: set[Value] = set(f.params) | set(f.constants)
    for node in f.nodes:
        if not _is_registered(node):
            raise VerifyError(f"{node}: {node.op.full_name} is not a registered op")
        _check_operands(node, known)
        _check_types(node)
        _check_regions(node)
        known.update(node.outputs)
    for r in f.results:
        if r not in known:
            raise VerifyError(f"result {r} is not computed by the function")


def _is_registered(node: Node) -> bool:
    try:
        return find_op(node.op.full_name) is node.op
    except AnyshapeError:
        return False


def _check_regions(node: Node) -> None:
    """Regions are closed, and their last parameters are what is captured."""
    control = node.op.control
    if control is None:
        if node.regions:
            raise VerifyError(f"{node}: it has regions, and {node.op.full_name} is no op of control flow")
        return
    if len(node.regions) != len(control.regions):
        raise VerifyError(
            f"{node}: {len(node.regions)} regions, and {node.op.full_name} has {', '.join(control.regions)}"
        )
    captured = control.captured(node)
    for region in node.regions:
        inner = region.params[len(region.params) - len(captured) :]
        for p, v in zip(inner, captured, strict=True):
            if p.type.dtype is not v.type.dtype or p.type.rank != v.type.rank:
                raise VerifyError(f"{node}: {region.name} takes {p} for {v}")
        verify(region)


def _check_operands(node: Node, known: set[Value]) -> None:
    fixed = len(node.op.inputs) + len(node.op.operands)
    if not any(i.variadic for i in node.op.inputs) and len(node.inputs) != fixed:
        raise VerifyError(f"{node}: {len(node.inputs)} operands, and {node.op.full_name} takes {fixed}")
    for v in node.inputs:
        if v is not None and v not in known:
            raise VerifyError(f"{node}: operand {v} is not computed before it")
    for k, v in enumerate(node.outputs):
        if v.node is not node or v.index != k:
            raise VerifyError(f"{node}: output {k} does not point back to its node")
    extra = set(node.attrs) - {p.name for p in node.op.attributes}
    if extra:
        raise VerifyError(f"{node}: unknown attributes {', '.join(sorted(extra))}")


def _check_types(node: Node) -> None:
    try:
        now = infer(node)
    except AnyshapeError as e:
        raise VerifyError(f"{node}: its types cannot be inferred: {e}") from e
    if len(now.types) != len(node.outputs):
        raise VerifyError(f"{node}: {counted(len(node.outputs), 'output')}, but inference gives {len(now.types)}")
    for v, t in zip(node.outputs, now.types, strict=True):
        if v.type.dtype is not t.dtype or (
            v.type.shape is not None and t.shape is not None and len(v.type.shape) != len(t.shape)
        ):
            raise VerifyError(f"{node}: has type {v.type}, and inference gives {t}")
