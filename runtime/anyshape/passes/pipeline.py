"""The passes, in one visible list. Each is a function from Function to Function; `optimise` is all of them at once.

Dead code needs no pass of its own: a function's nodes are those its results reach.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape.expansion.composition import expand
from anyshape.graph.function import Function
from anyshape.passes import simplify
from anyshape.passes.algorithms import Algorithms
from anyshape.passes.callees import everywhere
from anyshape.passes.folding import Compute, FoldConstants
from anyshape.passes.regions import control_flow, lists_in_sight
from anyshape.passes.rewriting import rewrite

Pass = Callable[[Function], Function]


def infer_types(f: Function) -> Function:
    """Every type inferred anew from the parameters' types."""
    return rewrite(f, (), rebuild_all=True)


def fold(f: Function) -> Function:
    """Calls whose result is known become constants."""
    return everywhere(f, lambda: (control_flow, lists_in_sight, simplify.fold_contents, FoldConstants()))


def dyn_to_static(f: Function) -> Function:
    """Dyn variants whose operands are known become static ones; types are only ever refined."""
    return everywhere(
        f, lambda: (control_flow, lists_in_sight, simplify.fold_contents, FoldConstants(), simplify.dyn_to_static)
    )


def spec_rewrites(f: Function) -> Function:
    """The rewrites of the specs."""
    return everywhere(f, lambda: (simplify.spec_rewrites,))


def expand_compositions(f: Function) -> Function:
    """Calls of composed ops become the calls that they are made of."""
    return everywhere(f, lambda: (expand,))


def eliminate_common_subexpressions(f: Function) -> Function:
    """Replaces equal calls by one (common subexpression elimination)."""
    return everywhere(f, lambda: (simplify.CommonSubexpressions(),))


def optimise(f: Function, compute: Compute | None = None, algorithms: Algorithms | None = None) -> Function:
    """Applies all rules of this module to a fixpoint, in one walk. `compute` evaluates calls on constants that are slow to interpret;
    `algorithms` chooses among those of an op, which has its own equations otherwise."""
    chosen = () if algorithms is None else (algorithms,)
    return everywhere(
        f,
        lambda: (
            control_flow,
            lists_in_sight,
            simplify.fold_contents,
            FoldConstants(compute),
            simplify.dyn_to_static,
            simplify.redundant_views,
            simplify.redundant_copies,
            simplify.sizes_of_operands,
            simplify.spec_rewrites,
            *chosen,
            expand,
            simplify.CommonSubexpressions(),
        ),
    )


PASSES: dict[str, Pass] = {
    "infer_types": infer_types,
    "fold": fold,
    "dyn_to_static": dyn_to_static,
    "spec_rewrites": spec_rewrites,
    "expand_compositions": expand_compositions,
    "eliminate_common_subexpressions": eliminate_common_subexpressions,
    "optimise": optimise,
}
