"""The arguments that all micro-kernels share, and the one step they all repeat.

In: nothing. Out: `KERNEL_ARGUMENTS`, so that one call of the driver fits every kind of kernel.
"""

from __future__ import annotations

from ..llvm import half
from ..llvm.builder import FunctionBuilder
from ..llvm.types import I64, PTR, Type, Val

KERNEL_ARGUMENTS = [
    ("k", I64),  # length of the sums
    ("a", PTR),  # row i of step l at a[i * a_row + l * a_step]
    ("a_row", I64),
    ("a_step", I64),
    ("b", PTR),  # column j of step l at b[l * b_step + (j // columns) * b_panel + j % columns]
    ("b_step", I64),
    ("b_panel", I64),
    ("c", PTR),  # row i, column j at c[i * c_step + j]
    ("c_step", I64),
    ("count", I64),  # columns that exist, read by masked kernels only
    (
        "soon",
        PTR,
    ),  # memory to ask for: at step l what lies at soon + l * soon_step bytes; where keeping kernels store a panel
    ("soon_step", I64),
]


def widened(f: FunctionBuilder, a: Val, to: Type) -> Val:
    """Widens elements from memory to the type of the sums: floats of 16 bits, and bytes with a sign, to f32."""
    if to.is_float and not a.type.is_float:
        return f.convert("sitofp", a, to.scalar)
    return half.widen(f, a) if a.type.is_half and not to.is_half else a


def narrowed(f: FunctionBuilder, a: Val, to: Type) -> Val:
    """What `widened` made wider, as it was in memory."""
    if a.type.is_float and not to.is_float:
        return f.convert("fptosi", a, to.scalar)
    return half.shorten(f, a, to) if to.is_half and not a.type.is_half else a


def multiply_add(f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
    if total.type.is_float:
        return f.fma(a, b, total)
    return f.add(total, f.mul(a, b))
