"""Passes: Function -> Function, listed in `pipeline`; and fusion, Function -> Schedule.

optimise(f)                     all passes to a fixpoint, in one walk
fuse.fuse(f) -> Schedule        kernel steps and views, in order; nodes of one kernel share their outer loops
KernelStep.tensors              a tensor for every result of its nodes, also of inner ones: later shapes may depend on their elements
fusion_rules.RULES              by what nodes come to share a kernel
"""

from anyshape.passes.pipeline import (
    PASSES,
    dyn_to_static,
    eliminate_common_subexpressions,
    expand_compositions,
    fold,
    infer_types,
    optimise,
    spec_rewrites,
)  # fmt: skip

__all__ = [
    "PASSES", "dyn_to_static", "eliminate_common_subexpressions", "expand_compositions", "fold", "infer_types",
    "optimise", "spec_rewrites"
]  # fmt: skip
