"""The measured peak of multiply-adds is of products that are computed in every iteration."""

from __future__ import annotations

import ctypes

import numpy as np

from anyshape.lower.limits import emit_chains
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.target import host_target


def test_products_by_several_instructions_are_others_in_every_iteration() -> None:
    """Products of one pair of factors would be computed once, before the loop, which then only added: twice the rate that there is."""
    target = host_target().limited("avx2")
    module = Module(target)
    products = emit_chains(module, "i8")
    lanes = target.lanes(4)
    chains = products // (lanes * 2)
    memory = np.arange(1, 1 + 2 * lanes * (chains + 1), dtype=np.int16)
    factors = memory.reshape(chains + 1, lanes, 2).astype(np.int64)
    aligned = np.zeros(memory.nbytes + 64, np.uint8)
    aligned = aligned[-aligned.ctypes.data % 64 :][: memory.nbytes]
    aligned[:] = memory.view(np.uint8)
    loaded = compile_module(module)
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(loaded.address("peak"))(aligned.ctypes.data, 3)
    sums = aligned.view(np.int32).reshape(chains + 1, lanes)[:chains]
    first, second = (np.einsum("lk,clk->cl", factors[0], factors[at : at + chains]) for at in (0, 1))
    np.testing.assert_array_equal(sums, 2 * first + second)
