"""Scalars in stack slots become values, and what is computed of them twice is computed once, by LLVM's passes.

In: a parsed module and its text. Out: the module, changed in place if the text begins with `MARK`. Loops and branches of a procedure assign
scalars anywhere, and each statement tests its own indices; other kernels are emitted in final form and are not marked.
"""

from __future__ import annotations

from ..target import binding as llvm

MARK = "; scalars in stack slots\n"
PASSES = ("sroa", "new_gvn", "simplify_cfg")
"""The passes, by llvmlite's names: part of what cached objects depend on. Instruction combining is not among them: loops over candidates of
a non-max suppression take 1.4 times as long after it."""


def passes_of(text: str) -> tuple[str, ...]:
    """The passes that run on the module of a text."""
    return PASSES if text.startswith(MARK) else ()


def simplified(module: llvm.ModuleRef, text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Replaces stack slots by values (SROA) and removes redundant loads, tests and branches, if the text asks for it."""
    if passes_of(text):
        passes = llvm.create_new_module_pass_manager()
        for name in passes_of(text):
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1)))
    return module
