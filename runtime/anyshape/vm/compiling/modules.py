"""The modules that a compile needs and `import anyshape` leaves out, imported at one place.

In: whether a model file is to be read. Out: nothing but the modules. Called first, so that the phases of a report are work and not imports.
"""

from __future__ import annotations

from importlib import import_module

from anyshape.vm.native import import_parts

COMPILING = (
    "anyshape_ops", "anyshape.lower", "anyshape.lower.gemm.library", "anyshape.lower.llvm.jit", "anyshape.passes.fuse",
    "anyshape.vm.run.recorder",
)  # fmt: skip
IMPORTING = ("onnx", "anyshape.frontends.onnx")


def load_modules(reads_a_model: bool) -> None:
    for name in (*COMPILING, *(IMPORTING if reads_a_model else ())):
        import_module(name)
    import_parts()
