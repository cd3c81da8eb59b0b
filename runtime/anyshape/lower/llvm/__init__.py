"""LLVM text: the builder of functions, the code generator and loader, and vector mathematics.

Nothing here knows what a tensor is; `lower` does.
"""
