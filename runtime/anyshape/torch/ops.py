"""The ops as functions of tensors: `ops.softmax(x, axis=-1)`, which is `torch.ops.anyshape.softmax`.

All of them are registered when this is imported, those of other packages that are installed, too, each in the namespace of its package.
`refused()` lists the ops that torch cannot have, with the reasons.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from anyshape.graph.registry import all_ops, namespaces
from anyshape.torch.registration import registered

all_ops()  # raises where two packages have an op of one name
_ALL = reduce(or_, [registered(namespace, package) for namespace, package in namespaces().items()])
VARIANTS = _ALL.variants
"""The variants of every op, by its name"""
OPERATORS = _ALL.operators
"""The operators of torch, by the names of ops"""
refused = _ALL.refused
globals().update(OPERATORS)
__all__ = ["OPERATORS", "VARIANTS", "refused", *OPERATORS]


def __getattr__(name: str) -> Any:
    return _ALL.missing(name)
