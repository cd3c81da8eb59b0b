"""Words an error of an op in terms of the ONNX node that is imported: its operator, and its inputs by ONNX's names, with their types.

In: the error, the node and its operands. Out: text. The op's name of an operand is replaced by ONNX's where the call takes the node's own
input; the op that raised the error is named in brackets, since a node may become several calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from anyshape.errors import TypeRelationError
from anyshape.graph.value import Node, Value


def node_message(e: TypeRelationError, schema: Any, node: Any, operands: Sequence[Value | None], source: str) -> str:
    """Words an error: `Clip 'y': min must have rank 0, got rank 1 (clip of input 'x': f32[n, 3], min 'lo': f32[1])`."""
    call = e.call
    if not isinstance(call, Node):
        return str(e)
    names = _input_names(schema, node)
    text = str(e).removeprefix(call.op.full_name).removeprefix(f" ({source})").removeprefix(": ")
    text = text.removesuffix(f" (at {source})")
    for own, v in _operands(call):
        at = next((k for k, inputs in enumerate(operands) if inputs is v), None)
        if at is not None and own != names[at]:
            text = _renamed(text, own, names[at])
    inputs = [f"{names[k]} {node.input[k]!r}: {v.type}" for k, v in enumerate(operands) if v is not None]
    return f"{source}: {text} ({call.op.full_name}{' of ' * bool(inputs)}{', '.join(inputs)})"


def _input_names(schema: Any, node: Any) -> list[str]:
    """Lists the declared names of the inputs, numbered for a variadic one; without a declaration, `input` and the position."""
    if schema is None or not schema.inputs:
        return [f"input {k}" for k in range(len(node.input))]
    declared = [i.name for i in schema.inputs]
    last = len(declared) - 1  # of which there may be several
    several = schema.inputs[last].option == type(schema.inputs[last].option).Variadic
    return [
        declared[k] if k < last + (not several) else f"{declared[last]}[{k - last}]" for k in range(len(node.input))
    ]


def _operands(call: Node) -> list[tuple[str, Value]]:
    """Lists the operands of a call by the op's names; variadic ones are left out."""
    values = {**call.grouped_inputs(), **call.operand_inputs()}
    return [(name, v) for name, v in values.items() if isinstance(v, Value)]


def _renamed(text: str, own: str, name: str) -> str:
    """Renames an operand in a message. A short name may also be a word or a dim: it is renamed only where a message names an operand."""
    word = re.escape(own)
    if len(own) > 2:
        return re.sub(rf"\b{word}\b", name, text)
    return re.sub(rf"(?:(?<=\bof )|^){word}\b(?=$|[ :,])|\b{word}(?= must | is )", name, text)
