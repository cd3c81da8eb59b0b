"""Strings through ops that only move elements: such an op is applied to the places of the strings, and says so where each goes.

In: a call of an op whose spec only moves what a dtype variable stands for. Out: its results, of strings where it has elements.
A string is a row of characters, and no op of tensors knows rows; but whatever it does with one element it does with a number
that stands for the string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anyshape.dtypes import CHAR
from anyshape.graph.opdef import InputDef, OpDef
from anyshape.graph.value import Value, constant


def moves_strings(op: OpDef, inputs: Sequence[Any], params: Mapping[str, Any]) -> bool:
    """Whether an operand of which the op only moves elements is one of strings."""
    moved = op.moved(_said(params))
    return any(_takes(op, d, moved) and _strings(operand) for d, operand in zip(op.inputs, inputs))


def moved_strings(
    op: OpDef, inputs: Sequence[Any], params: Mapping[str, Any], source: str, count: int | None
) -> tuple[Value, ...]:
    """Returns the results of a call that moves strings. Raises what inference raises for the op, and DtypeError where an operand beside
    strings is none."""
    from anyshape.graph.call import call_node
    from anyshape.graph.matching import make

    moved = op.moved(_said(params))
    texts = [v for d, operand in zip(op.inputs, inputs) if _takes(op, d, moved) for v in _listed(operand)]
    numbers = iter(range(len(texts)))

    def positions(v: Any) -> Any:
        return make("string_places", [v], {"which": next(numbers), "of": len(texts)}, source)

    operands: list[Any] = []
    for d, v in zip(op.inputs, inputs):
        if not _takes(op, d, moved) or (
            d.variadic and isinstance(v, Value)
        ):  # one in place of several, which the call refuses
            operands.append(v)
        elif v is None:
            operands.append(NOWHERE if d.default is not None else None)
        else:
            operands.append([positions(x) for x in v] if d.variadic else positions(v))
    node = call_node(op, operands, params, source, count)
    kinds = [o.dtype for o in op.outputs for _ in range(len(node.outputs) - len(op.outputs) + 1 if o.variadic else 1)]
    return tuple(
        make("string_at", [v, texts], {}, source) if k in moved else v for k, v in zip(kinds, node.outputs, strict=True)
    )


NOWHERE = constant(np.array(0))
"""The place of the empty string: what an operand that is left out reads as, and what an op writes 0 for."""


def _takes(op: OpDef, d: InputDef, moved: Sequence[str]) -> bool:
    return d.dtype in moved and CHAR not in op.dtypes[d.dtype]


def _said(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that do not take their defaults, texts as Python has them."""
    return {name: v.decode() if isinstance(v, bytes) else v for name, v in params.items() if v is not None}


def _listed(operand: Any) -> list[Any]:
    return [] if operand is None else list(operand) if isinstance(operand, (list, tuple)) else [operand]


def _strings(operand: Any) -> bool:
    """Whether one tensor, or any of several, is a value of characters."""
    return any(isinstance(v, Value) and v.type.dtype is CHAR for v in _listed(operand))
