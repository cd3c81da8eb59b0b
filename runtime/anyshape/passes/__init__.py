"""Passes: Function -> Function, listed in `pipeline`; and fusion, Function -> Schedule."""

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
    "PASSES",
    "dyn_to_static",
    "eliminate_common_subexpressions",
    "expand_compositions",
    "fold",
    "infer_types",
    "optimise",
    "spec_rewrites",
]
