"""How micro-kernels add up products: in registers for some steps, then in memory.

In: vectors of factors and of sums. Out: an `Accumulation` for elements as they are; words have others (`pairs.py`, `codes.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..llvm.builder import FunctionBuilder
from ..llvm.types import Type, Val
from .kernel_arguments import multiply_add

CHUNK = 128
"""Products added up in registers before they go onto the sum in memory: rounding grows with the length of a chain of additions."""

Step = Callable[[FunctionBuilder, Val, Val, Val], Val]
"""Adds the product of a factor of A and columns of B to their sums."""


@dataclass(frozen=True)
class Accumulation:
    """Sums of `chunk` steps in registers, of the type that `register` gives for a vector of sums; `total` of them is what memory has."""

    step: Step = multiply_add
    chunk: int = CHUNK
    register: Callable[[Type], Type] = lambda sums: sums
    total: Callable[[FunctionBuilder, Val], Val] = lambda f, sums: sums


OF_ELEMENTS = Accumulation()
"""Elements as they are: multiply-adds of these"""
