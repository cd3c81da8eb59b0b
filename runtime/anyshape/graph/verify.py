"""The verifier: what must hold of every function, checked between passes in tests (ANYSHAPE_VERIFY=1)."""

from __future__ import annotations

from anyshape.errors import AnyshapeError, VerifyError
from anyshape.graph.function import Function
from anyshape.graph.infer import infer
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Node, Value


def verify(f: Function) -> None:
    """Raises VerifyError: an op that is not registered, wrong operand counts, values used before they exist, or a type
    that differs from what inference says now."""
    ops = all_ops()
    known: set[Value] = set(f.params) | set(f.constants)
    for node in f.nodes:
        if ops.get(node.op.full_name) is not node.op:
            raise VerifyError(f"{node}: {node.op.full_name} is not a registered op")
        _check_operands(node, known)
        _check_types(node)
        known.update(node.outputs)
    for r in f.results:
        if r not in known:
            raise VerifyError(f"result {r} is not computed by the function")


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
        raise VerifyError(f"{node}: {len(node.outputs)} outputs, and inference gives {len(now.types)}")
    for v, t in zip(node.outputs, now.types, strict=True):
        if v.type.dtype is not t.dtype or (
            v.type.shape is not None and t.shape is not None and len(v.type.shape) != len(t.shape)
        ):
            raise VerifyError(f"{node}: has type {v.type}, and inference gives {t}")
