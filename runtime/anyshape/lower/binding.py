"""LLVM, as llvmlite binds it: a process that cannot load it is told why.

In: nothing. Out: `binding`, which no other file imports from llvmlite.
"""

from __future__ import annotations

from anyshape.errors import AnyshapeError

try:
    from llvmlite import binding as binding
except OSError as e:  # the library itself, which is loaded with the first function of it
    raise AnyshapeError(
        f"LLVM, which makes machine code, cannot be loaded: {e} It takes some 200 MB of address space: a process that has a limit "
        "(ulimit -v, RLIMIT_AS) needs a higher one; otherwise install the package llvmlite again."
    ) from e
