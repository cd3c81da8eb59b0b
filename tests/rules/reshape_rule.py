"""The generated reshape rule, with operands by position as the sweep calls it."""

from __future__ import annotations

from typing import Any

from anyshape.rules import Bound, Rule, Vec
from anyshape_ops.relations.movement import reshape_relation


def reshape(r: Rule, x: Vec, newshape: Any, allowzero: bool = False) -> Bound:
    return reshape_relation(r, x=Vec(x), newshape=newshape, allowzero=allowzero)
