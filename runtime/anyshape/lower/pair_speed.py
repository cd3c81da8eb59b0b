"""Measurement of whether products of pairs of bf16 are worth their instruction, done once on a machine.

In: LLVM's names of the host and of its features, AVX512-BF16 among them. Out: an answer, which the cache on disk keeps. Some processors add
up a vector of pairs in the time of one vector of f32, which is half as many products; others take four times as long, so that multiply-adds
of f32 are ahead. The answer is part of the description of the target (`Target.slow_pairs`), on which all other code depends.
"""

from __future__ import annotations

import ctypes
import hashlib
import time
from functools import cache

import llvmlite
import numpy as np

from anyshape.code_version import code_version
from anyshape.disk_cache import DiskCache
from anyshape.lower.binding import binding

_SUMS, _ITERATIONS, _ROUNDS = 24, 4000, 16
"""Vectors of sums, none of which waits for another; a round of these is some tens of microseconds: long beside its call, and too short for
all to be interrupted"""
_LEAST_GAIN = 1.4
"""Products of pairs in the time of one of f32 from which on pairs are multiplied: between 2, of processors that are quick at them, and
the half of those that are slow. Where both take as long, operands of f32 need no packing of words."""
_STEPS = {
    "single": "call <16 x float> @llvm.fma.v16f32(<16 x float> %a, <16 x float> %b, <16 x float> {sum})",
    "pairs": "call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> {sum}, <32 x bfloat> %c, <32 x bfloat> %d)",
}
_DECLARATIONS = """
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
"""


@cache
def are_pairs_slow(triple: str, cpu: str, features: str) -> bool:
    """Whether the host multiplies f32 in less time than as many numbers as pairs, or in nearly the same."""
    names = triple, cpu, features, llvmlite.__version__, code_version("anyshape.lower.pair_speed")
    key, kept = hashlib.sha256("\0".join(("slow pairs", *names)).encode()).hexdigest(), DiskCache.standard()
    known = kept.get(key)
    if known is None:
        single, pairs = _seconds(triple, cpu, features)
        known = bytes([pairs > 2 / _LEAST_GAIN * single])
        kept.put(key, known)
    return known == b"\1"


def _seconds(triple: str, cpu: str, features: str) -> tuple[float, float]:
    """The least seconds of a round of each step, measured in turns: a disturbance is not of one of them alone."""
    module = binding.parse_assembly(_DECLARATIONS + "".join(_function(name, step) for name, step in _STEPS.items()))
    module.triple = triple
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=2)
    with binding.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()
        memory = np.zeros(_SUMS * 16 + 16, np.float32)
        to = memory.ctypes.data + -memory.ctypes.data % 64
        calls = [ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address(name)) for name in _STEPS]
        least = [float("inf")] * len(calls)
        for _ in range(_ROUNDS):
            for k, call in enumerate(calls):
                start = time.perf_counter()
                call(to)
                least[k] = min(least[k], time.perf_counter() - start)
    single, pairs = least
    return single, pairs


def _function(name: str, step: str) -> str:
    """A function that adds up products in a loop; factors are read from memory, so that nothing is known of them."""
    sums = range(_SUMS)
    phis = "\n".join(f"%s{k} = phi <16 x float> [zeroinitializer, %entry], [%t{k}, %loop]" for k in sums)
    steps = "\n".join(f"%t{k} = {step.format(sum=f'%s{k}')}" for k in sums)
    stores = "\n".join(
        f"%p{k} = getelementptr <16 x float>, ptr %to, i64 {k}\nstore <16 x float> %t{k}, ptr %p{k}" for k in sums
    )
    return f"""
define void @{name}(ptr %to) {{
entry:
%a = load <16 x float>, ptr %to
%at = getelementptr <16 x float>, ptr %to, i64 1
%b = load <16 x float>, ptr %at
%c = bitcast <16 x float> %a to <32 x bfloat>
%d = bitcast <16 x float> %b to <32 x bfloat>
br label %loop
loop:
%i = phi i64 [0, %entry], [%following, %loop]
{phis}
{steps}
%following = add i64 %i, 1
%again = icmp ult i64 %following, {_ITERATIONS}
br i1 %again, label %loop, label %end
end:
{stores}
ret void
}}
"""
