"""The graph that is scheduled, as the matcher of contractions (`kernel_model/contractions.py`) sees it."""

from __future__ import annotations

import math

from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.kernel_model.contractions import Terms
from anyshape.lower.ir.dag import Constant, DagNode, Load, LoopVar, Operation, Reduction


class _Nodes:
    """The graph that is scheduled, as the matcher of contractions reads it; variables of one value are gone in it."""

    def dtype(self, term: DagNode) -> DType:
        return term.dtype

    def variables(self, term: DagNode) -> frozenset[LoopVar]:
        return term.domain

    def sum_of(self, term: DagNode) -> tuple[tuple[LoopVar, ...], DagNode] | None:
        return (term.variables, term.body) if isinstance(term, Reduction) and term.kind == "sum" else None

    def arguments(self, operation: str, term: DagNode) -> tuple[DagNode, ...] | None:
        return term.args if isinstance(term, Operation) and term.name == operation else None

    def element_of(self, term: DagNode) -> Tensor | None:
        return term.access.tensor if isinstance(term, Load) and term.access.is_plain else None

    def is_finite(self, term: DagNode) -> bool:
        return isinstance(term, Constant) and math.isfinite(term.value)


NODES: Terms[DagNode, LoopVar] = _Nodes()
