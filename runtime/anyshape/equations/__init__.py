"""Kernels as index equations: the expressions, the builder that generated kernels call, and a slow interpreter.

In: ranks and dims of one call of an op. Out: a list of `Equation`s over `Tensor`s. Three readings share it: `interpret`
(the oracle), the same interpreter on symbolic contents (type inference), and the lowering to vector code.
"""

from anyshape.equations.builder import Compaction, Demand, Equation, Equations, Run, Sorting, Step, Update
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Tensor, Var

__all__ = [
    "Apply",
    "Compaction",
    "Const",
    "Demand",
    "Equation",
    "Equations",
    "Expr",
    "Read",
    "Reduce",
    "Run",
    "Scalar",
    "Sorting",
    "Step",
    "Tensor",
    "Update",
    "Var",
]
