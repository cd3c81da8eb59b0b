"""Groups of equations to native kernels.

In: a `Group` of equations and a `Target`. Out: a `Kernel`, LLVM text with one ABI for all. `describe` prints the
schedule that was chosen. Everything is decided by the form of the equations; no op has a name here.
"""

from anyshape.lower.describe import describe
from anyshape.lower.kernel import Group, Kernel, KernelError, Origin, Packed
from anyshape.lower.lowering import lower_group
from anyshape.lower.sharing import Lowering
from anyshape.lower.target import Target, host_target

__all__ = [
    "Group",
    "Kernel",
    "KernelError",
    "Lowering",
    "Origin",
    "Packed",
    "Target",
    "describe",
    "host_target",
    "lower_group",
]
