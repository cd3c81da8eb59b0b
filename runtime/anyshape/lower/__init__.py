"""Groups of equations to native kernels.

In: a `Group` of equations and a `Target`. Out: a `Kernel`, LLVM text with one ABI for all. `describe` prints the schedule that was chosen.
Everything is decided by the form of the equations; no op has a name here. The rooms are the steps: `ir` (equations inlined into one graph),
`analyse` (what their forms say), `schedule` (a tree of loops and phases), `emit` (its code), by way of `llvm` and, for products, `gemm`.

    Group(name, equations, inputs, outputs, constants, origins)
        equations of one or several ops in topological order; all tensors are dense and row-major, and movement is in the indices.
        `origins`: what errors say of each equation: op, source, names of operands
    lower_group(group, target) -> Kernel
    Lowering(target).lower(group) -> Kernel     a group of the structure of an earlier one gets its kernel, with its own tensors
    kernel_cache()                              kernels on disk, which `Lowering(target, disk=...)` reads before it lowers
    Kernel(symbol, text, scalars, inputs, outputs, scratch, errors, schedule, imports)
        the text is the same for groups that differ in names alone; `scalars` are dims that the caller evaluates and passes; an input may
        be `PackedConstant`, a constant laid out when the model is compiled; `imports` are symbols of the matrix-product library

The ABI is `i32 symbol(i64* scalars, ptr* buffers, ptr scratch, i64 part, i64 parts)`: buffers are the inputs, then the outputs; scratch is
aligned to 64 bytes and belongs to one part. 0 is success, k > 0 is `errors[k - 1]`, -1 that the kernel was told to stop. A bool is a byte,
0 or 1; sizes may be 0. A kernel that fails writes its report into the 16 words ahead of `scalars` (`anyshape.failure_report`),
which are zero before and belong to the call. The first of them is no part of the report: the address of the flag that stops the call
(`llvm.polling`), or 0. Of a kernel whose phases read each other's results, part 0 does all, and other parts return at once.
"""

from anyshape.lower.describe import describe
from anyshape.lower.kernel import Group, Kernel, KernelError, Origin, PackedConstant
from anyshape.lower.kernel_cache import kernel_cache
from anyshape.lower.lowering import lower_group
from anyshape.lower.sharing import Lowering
from anyshape.lower.target import Target, host_target

__all__ = [
    "Group", "Kernel", "KernelError", "Lowering", "Origin", "PackedConstant", "Target", "describe", "host_target",
    "kernel_cache", "lower_group"
]  # fmt: skip
