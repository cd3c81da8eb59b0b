"""Sorts the cases of ONNX's suite by what models of today are made of.

Tier 1: operators of transformers, convolutional and recurrent networks, detection and quantised models. Tier 2: the other numeric
ones. Tier 3: sequences, strings, optionals, losses, training, and domains beside ONNX's own. A case is of the highest tier among its
operators. `onnx_tiers.txt` lists tiers 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

LINES = Path(__file__).with_name("onnx_tiers.txt").read_text().splitlines()
TIER = {op: int(line[0]) for line in LINES for op in line.split()[1:]}
BASE = {
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
}


def group_of(name: str, model: onnx.ModelProto) -> str:
    """The row of the table that a case counts in: what it came as, and of node cases the tier, or that it has other dtypes."""
    if ":" in name:
        return name.partition(":")[0]
    if not all(map(_is_base, (*model.graph.input, *model.graph.output))):
        return "node, other dtypes"
    return f"node, tier {max(map(_tier, _nodes(model.graph)), default=1)}"


def _is_base(info: Any) -> bool:
    kind = info.type.WhichOneof("value")
    return kind == "tensor_type" and info.type.tensor_type.elem_type in BASE


def _tier(node: Any) -> int:
    return TIER.get(node.op_type, 3) if node.domain in ("", "ai.onnx") else 3


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(a.g)
