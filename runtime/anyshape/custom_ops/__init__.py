"""Ops as custom ops of onnxruntime, in a shared library that `SessionOptions.register_custom_ops_library` loads.

In: ops, and which element types, ranks and attributes their nodes have. Out: a `Library` of exported functions. In the order of the work:

    calls         the calls that there are kernels for, or why an op is refused
    c_interface   places of functions in onnxruntime's C interface, written down with their source
    c_tables      the C text: tables of ops and kernels, around them the adapter (adapter.h, adapter.c)
    library       the exported functions, linked with it
"""

from anyshape.custom_ops.calls import Choice, OpCall, calls_of, refusal
from anyshape.custom_ops.library import DOMAIN, Library, library, library_of

__all__ = ["DOMAIN", "Choice", "Library", "OpCall", "calls_of", "library", "library_of", "refusal"]
