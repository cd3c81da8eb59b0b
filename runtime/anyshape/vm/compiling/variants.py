"""Compiles the programs of a policy of sizes: one for all sizes, and on demand others for the bounds that the policy names.

In: a function, the plan for all sizes, a policy. Out: a `SizePlan`, which compiles variants by `compile_variant`.
"""

from __future__ import annotations

import threading

from anyshape.errors import UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.retype import constrained
from anyshape.passes import optimise
from anyshape.passes.padding import padded
from anyshape.policies import Padding, SizeBounds, SizePolicy
from anyshape.vm.compiling.folding import folding
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.padded_plan import PaddedPlan
from anyshape.vm.compiling.plans import Compiler, Plan
from anyshape.vm.compiling.size_plan import SizePlan
from anyshape.vm.report.summary import Report


def with_variants(f: Function, generic: Plan, policy: SizePolicy, options: Options, report: Report) -> SizePlan:
    """Returns a plan that runs the variants of a policy for the calls that have their sizes, and `generic` for all others."""

    def compile_for(bounds: SizeBounds) -> tuple[Plan, str]:
        compiler = Compiler(options, Report(), threading.RLock(), None, folding(options))
        return compile_variant(constrained(f, bounds), bounds, compiler, generic)

    report.policy = str(policy)
    return SizePlan(generic, f, policy, compile_for, report.variants)


def compile_variant(f: Function, bounds: SizeBounds, compiler: Compiler, generic: Plan) -> tuple[Plan, str]:
    """Compiles a function whose dims have these bounds: padded where a `Padding` asks for it, and where that cannot be, as it is, with the
    reason."""
    asked = {name: b.most for name, b in bounds.items() if isinstance(b, Padding)}
    sizes = {s: asked[s.name] for s in f.symbols() if s.name in asked}
    if not sizes:
        return compiler.plan(f), ""
    try:
        form = padded(optimise(f, compiler.compute), sizes)
        return PaddedPlan(f, form, sizes, compiler.plan(form.function), generic), ""
    except UnsupportedError as e:
        return compiler.plan(f), f"nothing is padded: {e}"
