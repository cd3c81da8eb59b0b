"""Which ops can be custom ops of onnxruntime, and why others cannot, whatever their calls are.

In: the ops that exist. Out: names, and reasons by name.
"""

from __future__ import annotations

from anyshape.custom_ops.c_tables import name_of
from anyshape.custom_ops.calls import refusal
from anyshape.graph.registry import all_ops


def refused() -> dict[str, str]:
    """The ops that are refused, by the name that nodes would call them, and why."""
    return {
        name_of(op): f"{why} ({op.source.partition(':')[0]})"
        for op in all_ops().values()
        if (why := refusal(op)) is not None
    }


def taken() -> list[str]:
    """The names that nodes call the other ops."""
    return [name_of(op) for op in all_ops().values() if refusal(op) is None]
