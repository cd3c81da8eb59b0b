"""Custom ops of onnxruntime, in a shared library that `SessionOptions.register_custom_ops_library` loads: ops, and parts of models.

In: ops, and which element types, ranks and attributes their nodes have; or functions. Out: a `Library` of exported functions. In the order
of the work:

    calls         the calls that there are kernels for, or why an op is refused
    function_call a function as an op of one kernel
    c_interface   places of functions in onnxruntime's C interface, written down with their source
    c_tables      the C text: tables of ops and kernels, around them the adapter (adapter.h, adapter.c)
    library       the exported functions, linked with it

Of a model, in: what is known of its values, and times of its nodes. Out: a model with such ops in it. In the order of the work:

    candidates    sets of nodes that could be one node, by a partition of the graph
    subgraphs     each as a model and a function of its own
    replacement   the model with a node in place of each
"""

from anyshape.custom_ops.calls import calls_of, refusal
from anyshape.custom_ops.library import DOMAIN, Library, library, library_of
from anyshape.vm.export.op_calls import Choice, OpCall

__all__ = ["DOMAIN", "Choice", "Library", "OpCall", "calls_of", "library", "library_of", "refusal"]
