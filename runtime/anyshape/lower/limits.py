"""Limits of this machine, measured: multiply-adds of one core by what they multiply, and bytes moved by a copy.

Figures of kernels are stated as fractions of these. They are measured once on a machine and kept in the cache on disk. Nothing that runs
programs depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np

from anyshape.lower.gemm.byte_dots import multiply_add_words
from anyshape.lower.gemm.codes import per_word
from anyshape.lower.gemm.pairs import Pairs, accumulation, multiply_add_f16
from anyshape.lower.llvm import matrix_tiles
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.target_probe import kept_number, least, multiply_adds_calls
from anyshape.lower.llvm.types import F16, F32, F64, I32, I64, PTR, VOID, Type, Val, const
from anyshape.lower.multiply_adds import MultiplyAdd
from anyshape.lower.target import Target, host_target

ITERATIONS, ROUNDS = 20_000, 30


@cache
def peak(multiply_add: MultiplyAdd) -> float:
    """The multiply-adds of one core, in GFLOP/s, as `measure_peak` found them once on this machine."""
    return kept_number(f"peak of {multiply_add}", host_target(), lambda: measure_peak(multiply_add))


def measure_peak(multiply_add: MultiplyAdd = "f32") -> float:
    """Measures the multiply-adds of one core, in GFLOP/s: two for each product that is added. The processor has them
    (`multiply_adds.multiply_adds_of`)."""
    module = Module(host_target())
    each = emit_chains(module, multiply_add)
    (best,) = least(multiply_adds_calls(module, ITERATIONS), ROUNDS)
    return 2 * each * ITERATIONS / best / 1e9


def emit_chains(module: Module, multiply_add: MultiplyAdd) -> int:
    """Emits a function that multiplies and adds, in so many iterations, as many vectors as fit the registers, or as many matrix tiles: no
    sum waits for the last one. Factors are read from memory, so that nothing is known of them; where a product and its addition are
    several instructions, each is another in every iteration, so that none is computed before the loop. Returns the products of an
    iteration."""
    match multiply_add:
        case "bf16 tiles":
            return _emit_tile_chains(module, "tdpbf16ps", 2)
        case "i8 tiles":
            return _emit_tile_chains(module, "tdpbusd", 4)
    target = module.target
    element, per, step = _step(multiply_add, target)
    lanes, chains = target.lanes(element.bytes), target.vector_registers - 6
    vector = element.vector(lanes)
    with module.function("peak", VOID, [("to", PTR), ("iterations", I64)]) as f:
        a, b = f.load(f.args[0], vector), f.load(f.args[0], vector, lanes)
        start = [const(vector, 0) for _ in range(chains)]
        several = multiply_add == "i8" and not target.dots
        with f.for_range(0, f.args[1], carried=start, at_least_once=True) as loop:
            first = f.mul(f.binary("and", loop.index, const(I64, 1)), lanes)
            factors = [f.load(f.args[0], vector, f.add(first, at * lanes)) if several else b for at in range(chains)]
            loop.next(*[step(f, a, factor, x) for factor, x in zip(factors, loop.carried)])
        for at, value in enumerate(loop.results):
            f.store(value, f.args[0], at * lanes)
        f.ret()
    return chains * lanes * per


def _emit_tile_chains(module: Module, product: str, per: int) -> int:
    """Emits such a function for matrix tiles of words of so many elements: four of sums, two of each factor, all in registers."""
    sums, a, b = range(4), (4, 5), (6, 7)
    at = matrix_tiles.define_configuration(module)
    with module.function("peak", VOID, [("to", PTR), ("iterations", I64)]) as f:
        to, step = f.args[0], const(I64, matrix_tiles.ROW_BYTES)
        matrix_tiles.configure(f, at)
        for tile in (*a, *b):
            matrix_tiles.load(f, tile, to, step)
        for tile in sums:
            matrix_tiles.clear(f, tile)
        with f.for_range(0, f.args[1], at_least_once=True):
            for tile in sums:
                matrix_tiles.multiply(f, product, tile, a[tile // 2], b[tile % 2])
        matrix_tiles.store(f, sums[0], to, step)
        matrix_tiles.release(f)
        f.ret()
    return len(sums) * matrix_tiles.ROWS * matrix_tiles.WORDS * matrix_tiles.WORDS * per


Step = Callable[[FunctionBuilder, Val, Val, Val], Val]


def _step(multiply_add: MultiplyAdd, target: Target) -> tuple[Type, int, Step]:
    """The type of sums, the products of each in one step, and a step: sums plus products of two factors."""
    match multiply_add:
        case "bf16":
            return F32, Pairs().per(target), accumulation(target, Pairs()).step
        case "f16":
            return F16, 1, multiply_add_f16
        case "i8":
            return I32, per_word(target), lambda f, a, b, total: multiply_add_words(f, a, b, total, a_unsigned=True)
        case _:
            return F64 if multiply_add == "f64" else F32, 1, lambda f, a, b, total: f.fma(a, b, total)


@cache
def copy_speed(size: int) -> float:
    """The bytes read and written by a copy, in GB/s, as `measure_copy` found them once on this machine for a working set of about `size`
    bytes: the power of two above it."""
    about = 1 << max(size - 1, 1).bit_length()
    return kept_number(f"copy within {about} bytes", host_target(), lambda: measure_copy(about))


def measure_copy(size: int) -> float:
    """Measures the bytes read and written by a copy within a working set of `size` bytes, in GB/s."""
    half = max(size // 2, 1 << 12)
    source, to = np.ones(half, np.uint8), np.empty(half, np.uint8)
    repeats = max(1, (1 << 24) // half)

    def copies() -> None:
        for _ in range(repeats):
            np.copyto(to, source)

    return 2 * half * repeats / min(timed(copies) for _ in range(10)) / 1e9


def timed(call: Callable[[], object]) -> float:
    """Measures the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
