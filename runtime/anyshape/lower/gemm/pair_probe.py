"""Measurement of whether products of pairs of bf16 are worth their instruction, done once on a machine.

In: a `Target`. Out: an answer, which the cache on disk keeps. Some processors add up a vector of pairs in the time of one vector of f32,
which is half as many products; others take four times as long, so that multiply-adds of f32 are ahead.
"""

from __future__ import annotations

from functools import cache

from anyshape.lower.gemm.pairs import multiply_add_pairs
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.target_probe import ROUNDS, emit_chains, kept, least, multiply_adds_calls
from anyshape.lower.llvm.types import F32
from anyshape.lower.target import Target

_ITERATIONS = 4000
_LEAST_GAIN = 1.4
"""Products of pairs in the time of one of f32 from which on pairs are multiplied: between 2, of processors that are quick at them, and
the half of those that are slow. Where both take as long, operands of f32 need no packing of words."""


@cache
def measured_slow_pairs(target: Target) -> bool:
    """Measures on the host whether multiply-adds of f32 multiply as many numbers in less time than those of pairs do, or in nearly the
    same."""
    return kept("slow pairs", target, lambda: int(_are_slow(target))) == 1


def _are_slow(target: Target) -> bool:
    module = Module(target)
    emit_chains(module, "single", F32, lambda f, a, b, total: f.fma(a, b, total))
    emit_chains(module, "pairs", F32, multiply_add_pairs)
    single, pairs = least(multiply_adds_calls(module, _ITERATIONS), ROUNDS)
    return pairs > 2 / _LEAST_GAIN * single
