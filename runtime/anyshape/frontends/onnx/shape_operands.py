"""Operands that say a shape, made constant although the shape is not: [batch, length, 8, 64] for a tensor whose first dims are batch
and length is [0, 0, 8, 64] to an operator that copies a dim for 0 and takes what is left for -1; another keeps a dim for 1.

In: a node, what is known of its values, and a way to build it again with others. Out: constants, by operand. Nothing here knows
operators: which operands say nothing but a shape is known of the op that the node means (`OpDef.shaping`), and a constant is found by
trying. It will do if the op gives the same type for it, and whatever the op demands of it holds: then it gives the same wherever the
operand does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from anyshape.dims import Facts
from anyshape.graph.value import Node, Value, constant

Rebuild = Callable[[Sequence[Value | None]], Sequence[Value] | None]
"""The node's outputs for other operands; None where they are refused"""
MOST_TRIED = 81
SPECIAL = (0, 1, -1)
"""What an entry may say instead of a size"""


def constant_shapes(
    operands: Sequence[Value | None], output: Value | None, rebuild: Rebuild, facts: Facts
) -> dict[int, list[int]]:
    """What to say in place of operands that are not constants yet."""
    places = [k for k, v in enumerate(operands) if v is not None and not v.is_constant and v.contents]
    node = _node(rebuild(operands)) if places and output is not None and output.type.shape is not None else None
    found: dict[int, list[int]] = {}
    for k in places:
        said = operands[k]
        if node is None or said is None or output is None or said not in _shaping(node):
            continue
        for entries in islice(_candidates(said.contents or (), output.type.shape or ()), MOST_TRIED):
            tried = [*operands[:k], constant(np.array(entries, np.int64)), *operands[k + 1 :]]
            if _is_same(_node(rebuild(tried)), output, facts):
                found[k] = entries
                break
    return found


def _node(made: Sequence[Value] | None) -> Node | None:
    return made[0].node if made is not None and len(made) == 1 else None


def _shaping(node: Node) -> list[Value | None]:
    """Its operands that say nothing but a shape."""
    given = node.param_operands
    return [v for p, v in zip(node.op.operands, given, strict=True) if p.name in node.op.shaping]


def _candidates(said: Sequence[Any], result: Sequence[Any]) -> Iterator[list[int]]:
    """Sizes stay; for what is no number, every special one; for -1, a dim of the result that has become known."""
    options: list[tuple[int, ...]] = []
    for k, e in enumerate(said):
        size = result[k] if k < len(result) and isinstance(result[k], int) else -1
        if not isinstance(e, int):
            options.append(SPECIAL)
        elif e == -1:
            options.append((e, size) if size > 0 else (e, 0))
        else:
            options.append((int(e),))
    return (list(entries) for entries in product(*options))


def _is_same(node: Node | None, output: Value, facts: Facts) -> bool:
    if node is None or node.outputs[0].type.shape is None or output.type.shape is None:
        return False
    made, wanted = ([facts.canonical(n) for n in v.type.shape or ()] for v in (node.outputs[0], output))
    return made == wanted and all(facts.decide(check.cond) is True for check in node.checks)
