"""A message about the call of an op, told of the ONNX node that is translated: its operator, what it calls its inputs, and what they are.

In: the error, the node and its operands. Out: text. What an op calls an operand is replaced by what ONNX calls it where the call takes the
node's own input; where a node is several calls, the one that does not fit is named behind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from anyshape.errors import TypeRelationError
from anyshape.graph.value import Node, Value


def retold(e: TypeRelationError, schema: Any, node: Any, operands: Sequence[Value | None], source: str) -> str:
    """`Clip 'y': min must have rank 0, got rank 1 (clip of input 'x': f32[n, 3], min 'lo': f32[1])`."""
    call = e.call
    if not isinstance(call, Node):
        return str(e)
    names = _input_names(schema, node)
    text = str(e).removeprefix(call.op.full_name).removeprefix(f" ({source})").removeprefix(": ")
    text = text.removesuffix(f" (at {source})")
    for own, v in _operands(call):
        at = next((k for k, given in enumerate(operands) if given is v), None)
        if at is not None and own != names[at]:
            text = _renamed(text, own, names[at])
    given = [f"{names[k]} {node.input[k]!r}: {v.type}" for k, v in enumerate(operands) if v is not None]
    return f"{source}: {text} ({call.op.full_name}{' of ' * bool(given)}{', '.join(given)})"


def _input_names(schema: Any, node: Any) -> list[str]:
    """What the declaration calls each input, with a number where there may be several; without one, its place."""
    if schema is None or not schema.inputs:
        return [f"input {k}" for k in range(len(node.input))]
    declared = [i.name for i in schema.inputs]
    last = len(declared) - 1  # of which there may be several
    several = schema.inputs[last].option == type(schema.inputs[last].option).Variadic
    return [
        declared[k] if k < last + (not several) else f"{declared[last]}[{k - last}]" for k in range(len(node.input))
    ]


def _operands(call: Node) -> list[tuple[str, Value]]:
    """Those of the call by its op's names, but for lists of them."""
    found = {**call.grouped_inputs(), **call.operand_inputs()}
    return [(name, v) for name, v in found.items() if isinstance(v, Value)]


def _renamed(text: str, own: str, name: str) -> str:
    """Short names are words and dims too: of them only those that stand where a message names an operand."""
    word = re.escape(own)
    if len(own) > 2:
        return re.sub(rf"\b{word}\b", name, text)
    return re.sub(rf"(?:(?<=\bof )|^){word}\b(?=$|[ :,])|\b{word}(?= must | is )", name, text)
