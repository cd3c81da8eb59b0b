"""A float that only the run knows makes no shape unknown that does not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anyshape import input as tensor
from anyshape.graph.infer import build
from anyshape.graph.opdef import InputDef, OpDef, OutputDef, ParamDef
from anyshape.rules import Bound, Rule, Vec

RULES: dict[str, tuple[Callable[[Rule, Vec, Any], Any], str]] = {
    "nothing is asked": (lambda rule, x, by: x, "f32[n]"),
    "how many there are": (lambda rule, x, by: [*x, len(by)], "f32[n, 2]"),
    "a size is computed of them": (lambda rule, x, by: [x[0] * by[0]], "f32[...]"),
    "one decides a size": (lambda rule, x, by: x if by[1] > 0 else [1], "f32[...]"),
    "one is compared": (lambda rule, x, by: x if by[1] == 0.5 else [1], "f32[...]"),
    "one is rounded": (lambda rule, x, by: [int(by[0])], "f32[...]"),
}


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_asks_of_floats(name: str) -> None:
    rule_of, expected = RULES[name]

    def relation(rule: Rule, *, x: Vec, by: Any) -> Bound:
        return rule.bind(outputs={"y": Vec(rule_of(rule, x, by))}, by=by)

    op = OpDef(
        name="an_op",
        variant="dyn",
        inputs=(InputDef("x", "f32"),),
        params=(ParamDef("by", "floats", operand=True),),
        outputs=(OutputDef("y", "f32"),),
        dtypes={},
        relation=relation,
        summary="An op.",
        source="m.yaml:1",
    )
    node = build(op, [tensor("x", "f32[n]"), tensor("by", "f64[2]")], {})
    assert str(node.outputs[0].type) == expected
    of_unknown_length = build(op, [tensor("x", "f32[n]"), tensor("by", "f64[k]")], {})
    assert str(of_unknown_length.outputs[0].type) == "f32[...]"
