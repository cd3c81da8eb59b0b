"""Which ops onnxruntime can have as custom ops, and the calls of one that a library has kernels for.

In: an op, and what a user chose of its calls. Out: calls; or why onnxruntime cannot have the op.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from anyshape.custom_ops.c_interface import ELEMENT_TYPES
from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.opdef import InputDef, OpDef, ParamDef
from anyshape.vm.export import op_calls
from anyshape.vm.export.op_calls import Choice, OpCall, allowed_types


class NodeOp(Protocol):
    """What a node of onnxruntime calls: an op of a spec, or a function."""

    @property
    def name(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def full_name(self) -> str: ...
    @property
    def inputs(self) -> tuple[InputDef, ...]: ...
    @property
    def attributes(self) -> tuple[ParamDef, ...]: ...
    @property
    def operands(self) -> tuple[ParamDef, ...]:
        """Parameters that follow the inputs."""

    @property
    def dtypes(self) -> Mapping[str, tuple[str, ...]]:
        """The element types that each variable among the inputs may stand for."""


class KernelCall(Protocol):
    """A call that a library has a kernel for."""

    @property
    def op(self) -> NodeOp: ...
    @property
    def params(self) -> Mapping[str, Any]:
        """The values of attributes."""

    @property
    def described(self) -> str: ...
    @property
    def function(self) -> Function:
        """What is exported."""


def refusal(op: OpDef) -> str | None:
    """Why onnxruntime cannot have an op, whatever the call is; None if it can."""
    if (why := op_calls.unexportable(op)) is not None:
        return why
    if strange := [i.name for i in op.inputs if not allowed_types(op, i, ELEMENT_TYPES)]:
        return f"{strange[0]} is of elements that are packed, or that onnxruntime has not"
    return None


def demand_comparable(call: KernelCall) -> None:
    """Raises UnsupportedError for a value of a parameter that a kernel cannot compare with the attribute of a node."""
    for p in call.op.attributes:
        if p.kind == "strs" and call.params.get(p.name) is not None:
            raise UnsupportedError(
                f"{call.op.full_name}: {p.name} is a list of texts, which a kernel cannot compare with an attribute; leave it out"
            )


def calls_of(op: OpDef, choice: Choice) -> list[OpCall]:
    """The calls of an op. Raises UnsupportedError for an op that onnxruntime cannot have, and ArgumentError where no call is left, or
    too many are, or only a user can say what operands have."""
    if (why := refusal(op)) is not None:
        raise UnsupportedError(f"{op.full_name} cannot be a custom op of onnxruntime: {why} ({op.source})")
    if op.operands and not choice.types:
        raise ArgumentError(
            f"{op.full_name}: --input must say the types of its inputs and of its operands {', '.join(p.name for p in op.operands)}"
        )
    return op_calls.calls_of(op, choice, ELEMENT_TYPES)
