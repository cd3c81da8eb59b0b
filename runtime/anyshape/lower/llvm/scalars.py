"""Scalars in stack slots become values, and what is computed of them twice is computed once, by LLVM's passes.

In: a parsed module and its text. Out: the module, changed in place if the text begins with `MARK`. Loops and branches of a procedure assign
scalars anywhere, and each statement tests its own indices; other kernels are emitted in final form and are not marked.
"""

from __future__ import annotations

from ..target import binding as llvm

MARK = "; scalars in stack slots\n"


def simplified(module: llvm.ModuleRef, text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Replaces stack slots by values (SROA) and removes redundant loads, tests and branches, if the text asks for it. LLVM's instruction
    combining is not among the passes: loops over candidates of a non-max suppression took 1.4 times as long after it."""
    if text.startswith(MARK):
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_new_gvn_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1)))
    return module
