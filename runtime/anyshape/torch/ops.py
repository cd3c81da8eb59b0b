"""The ops as functions of tensors: `ops.softmax(x, axis=-1)`, which is `torch.ops.anyshape.softmax`.

All of them are registered when this is imported, those of other packages that are installed, too. `refused()` lists the ops that torch
cannot have, with the reasons.
"""

from __future__ import annotations

from typing import Any

from anyshape.graph.registry import all_ops
from anyshape.torch.operators import register
from anyshape.torch.schema import Variants


def _variants() -> dict[str, Variants]:
    """The variants of all ops, by plain name."""
    ops = all_ops()
    names = dict.fromkeys(op.name for op in ops.values())
    return {n: Variants(ops[n]) if n in ops else Variants(ops[f"static.{n}"], ops[f"dyn.{n}"]) for n in names}


VARIANTS = _variants()
"""The variants of every op, by its name"""
OPERATORS = {name: register(op) for name, op in VARIANTS.items() if op.refusal is None}
"""The operators of torch, by the names of ops"""
globals().update(OPERATORS)
__all__ = ["OPERATORS", "VARIANTS", "refused", *OPERATORS]


def refused() -> dict[str, str]:
    """The ops that torch cannot have, and why."""
    return {name: op.refusal for name, op in VARIANTS.items() if op.refusal is not None}


def __getattr__(name: str) -> Any:
    from difflib import get_close_matches

    if name in VARIANTS:
        raise AttributeError(f"torch cannot have the op {name}: {VARIANTS[name].refusal}")
    near = get_close_matches(name, OPERATORS, 3)
    raise AttributeError(f"there is no op {name}" + (f"; did you mean {', '.join(near)}?" if near else ""))
