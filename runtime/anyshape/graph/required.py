"""The ops of a requirement.

`require` asserts a condition, by a rule like that of any op. Its result is an operand of `after`, a view through which a result is put,
ahead of the value: so the assert comes first of all nodes, and is there as long as results are. `EntryFacts` learns the checks of such
nodes. These ops follow from no spec, as those of control flow and of calls do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anyshape.dtypes import ALL, CHAR, NARROW
from anyshape.equations import Equations
from anyshape.equations.expr import const
from anyshape.errors import UnsupportedError
from anyshape.graph.infer import build
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef, RewriteDef
from anyshape.graph.value import Node, Value, constant
from anyshape.rules import Bound, Rule, Vec
from anyshape.types import FunctionType, ListType


def _asserted(rule: Rule, condition: Any, message: str) -> Bound:
    rule.require(condition, lambda: message)
    return rule.bind({"y": Vec()})


def _one(eqs: Equations, _: Bound) -> None:
    eqs.define(eqs.tensor("y")[()], const(1))


def _known(node: Node) -> list[Value] | None:
    """Marks what is required and checked nowhere as known to hold."""
    return None if node.checks else [constant(np.ones((), np.uint8))]


def _same(rule: Rule, held: Vec, x: Vec) -> Bound:
    return rule.bind({"y": x})


REQUIRE = OpDef(
    name="require", variant="", inputs=(), params=(ParamDef("condition", "bool", operand=True), ParamDef("message", "str")),
    outputs=(OutputDef("y", "u8"),), dtypes={}, relation=_asserted, kernel=_one, rewrites=(RewriteDef("require -> 1", _known),),
    summary="1 where a condition on sizes holds, in a dtype of which inference follows no elements: two conditions have two results.",
)  # fmt: skip
AFTER = OpDef(
    name="after", variant="", inputs=(InputDef("held", "u8"), InputDef("x", "T")), params=(), outputs=(OutputDef("y", "T"),),
    dtypes={"T": tuple(map(str, (*ALL, *NARROW, CHAR)))}, relation=_same, view={"y": "x"},
    summary="The same tensor, behind what is required.",
)  # fmt: skip
REQUIREMENT_OPS: Mapping[str, OpDef] = {op.full_name: op for op in (REQUIRE, AFTER)}


def after(results: Sequence[Value], held: Sequence[Value]) -> list[Value]:
    """The results, the first of known rank put through what is required. Raises UnsupportedError if there is none."""
    through = list(results)
    if not held:
        return through
    for k, v in enumerate(through):
        if not isinstance(v.type, ListType | FunctionType) and v.type.shape is not None:
            for h in reversed(held):
                v = build(AFTER, (h, v), {}).outputs[0]
            through[k] = v
            return through
    raise UnsupportedError(
        "require: none of the results of what requires it is a tensor of known rank; match_shape says what one is"
    )


def required_nodes(results: Iterable[Value]) -> set[Node]:
    """The nodes that check what is required, of those that results are put through: they are there as long as these are."""
    nodes: set[Node] = set()
    for v in results:
        while v.node is not None and v.node.op is AFTER:
            held, below = v.node.inputs
            assert held is not None and below is not None
            if held.node is not None and held.node.op is REQUIRE:
                nodes.add(held.node)
            v = below
    return nodes


__all__ = ["AFTER", "REQUIRE", "REQUIREMENT_OPS", "after", "required_nodes"]
