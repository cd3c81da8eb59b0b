"""Scalars in stack slots become values, and what is computed of them twice is computed once, by LLVM's passes.

In: a parsed module and its text. Out: the module, changed in place if the text begins with `MARK`. Loops and branches of a procedure assign
scalars anywhere, and each statement tests its own indices; other kernels are emitted in final form and are not marked.
"""

from __future__ import annotations

from collections.abc import Callable

from ..binding import binding as llvm

MARK = "; scalars in stack slots\n"
PASSES: tuple[Callable[[llvm.ModulePassManager], None], ...] = (
    llvm.ModulePassManager.add_sroa_pass,
    llvm.ModulePassManager.add_new_gvn_pass,
    llvm.ModulePassManager.add_simplify_cfg_pass,
)
"""Functions that add the passes in their order. Instruction combining is not among them: loops over candidates of a non-max suppression
take 1.4 times as long after it."""


def passes_of(text: str) -> tuple[Callable[[llvm.ModulePassManager], None], ...]:
    """The passes that run on the module of a text: part of what cached objects depend on."""
    return PASSES if text.startswith(MARK) else ()


def simplified(module: llvm.ModuleRef, text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Replaces stack slots by values (SROA) and removes redundant loads, tests and branches, if the text asks for it."""
    if passes_of(text):
        passes = llvm.create_new_module_pass_manager()
        for add in passes_of(text):
            add(passes)
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1)))
    return module
