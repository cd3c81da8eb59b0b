"""Replaces operands that say a shape by constants, although the shape is dynamic: [batch, length, 8, 64] for a tensor whose first dims
are batch and length is [0, 0, 8, 64] to an operator that copies a dim for 0 and infers one for -1; another keeps a dim for 1.

In: a node, what is known of its values, and a function that builds it with others. Out: constants, by operand. No operator is special
here: `OpDef.shaping` says which operands of an op say nothing but a shape, and constants are found by trying. A constant is accepted if
the op infers the same type with it, and all its checks of it hold: then the result is the same wherever the operand gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from anyshape.dims import Facts
from anyshape.graph.value import Node, Value, constant

TryRebuild = Callable[[Sequence[Value | None]], Sequence[Value | None] | None]
"""Builds the node with other operands; None where they are refused"""
MOST_TRIED = 81
SPECIAL = (0, 1, -1)
"""Values of an entry that are tried in place of a size"""


def constant_shapes(
    operands: Sequence[Value | None], output: Value | None, rebuild: TryRebuild, facts: Facts
) -> dict[int, list[int]]:
    """Finds constants for operands that say a shape and are not constant, by position."""
    positions = [k for k, v in enumerate(operands) if v is not None and not v.is_constant and v.contents]
    node = _node(rebuild(operands)) if positions and output is not None and output.type.shape is not None else None
    constants: dict[int, list[int]] = {}
    for k in positions:
        said = operands[k]
        if node is None or said is None or output is None or said not in _shaping(node):
            continue
        for entries in islice(_candidates(said.contents or (), output.type.shape or ()), MOST_TRIED):
            tried = [*operands[:k], constant(np.array(entries, np.int64)), *operands[k + 1 :]]
            if _is_same(_node(rebuild(tried)), output, facts):
                constants[k] = entries
                break
    return constants


def _node(results: Sequence[Value | None] | None) -> Node | None:
    only = results[0] if results is not None and len(results) == 1 else None
    return None if only is None else only.node


def _shaping(node: Node) -> list[Value | None]:
    """Lists the operands of a node that say nothing but a shape."""
    values = node.param_operands
    return [v for p, v in zip(node.op.operands, values, strict=True) if p.name in node.op.shaping]


def _candidates(said: Sequence[Any], result: Sequence[Any]) -> Iterator[list[int]]:
    """Lists candidates for an operand: a size stays, an unknown entry is every special value, and -1 may be the result's dim if that is
    known."""
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
    sizes, expected = ([facts.canonical(n) for n in v.type.shape or ()] for v in (node.outputs[0], output))
    return sizes == expected and all(facts.decide(check.cond) is True for check in node.checks)
