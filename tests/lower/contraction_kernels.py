"""A kernel of one contraction, all of whose sizes and strides are scalars of the call, and its parts run one after the other."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.lower import gemm, host_target
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import I32, I64, PTR, Type, const
from anyshape.lower.target import Target

Array = NDArray[Any]
SCALARS = ("m", "n", "k", "am", "ak", "bk", "bn", "batches", "a1", "b1", "c1")
"""Sizes, steps of rows and columns of both operands, how many batches there are, and steps between these."""


def target_at(level: str) -> Target:
    """This machine at a level of instructions; `slow pairs`: as one whose multiply-adds of f32 are faster than those of pairs."""
    if level == "slow pairs":
        return replace(host_target().without_tiles, slow_pairs=True)
    return host_target().limited(level)


@cache
def contraction(level: str, element: Type, *, prepacked: bool = False, batched: bool = True, **more: Any) -> Loaded:
    """The kernel for a level of instructions; `more`: what else its specification says."""
    module = Module(target_at(level))
    with module.kernel("contract") as f:
        scalars, buffers, scratch, part, nparts = f.args
        s = {name: f.load(scalars, I64, at) for at, name in enumerate(SCALARS)}
        a, b, c = (f.load(buffers, PTR, at) for at in range(3))
        spec = gemm.ContractionSpec(
            element=element,
            m=s["m"],
            n=s["n"],
            k=s["k"],
            a=gemm.Strided(a, s["am"], s["ak"]),
            b=gemm.Prepacked(b) if prepacked else gemm.Strided(b, s["bk"], s["bn"]),
            c=gemm.Destination(c, s["n"], 1),
            batch=[gemm.Batch(s["batches"], s["a1"], s["b1"], s["c1"])] if batched else (),
            **more,
        )
        gemm.emit_contraction(f, spec, scratch, part, nparts)
        f.ret(const(I32, 0))
    return compile_module(module, gemm.resolve(module.imports, module.target))


def run_parts(kernel: Loaded, scalars: Sequence[int], operands: Sequence[Array], room: int, nparts: int) -> int:
    """Runs all parts, each with scratch of its own, which is NaN as a float; returns how many of its bytes the last one wrote."""
    sizes = np.array([*scalars, *[0] * (len(SCALARS) - len(scalars))], np.int64)
    buffers = np.array([x.ctypes.data for x in operands])
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(kernel.address("contract"))
    for part in range(nparts):
        scratch = np.full(room + 64, 255, np.uint8)
        assert run(sizes.ctypes.data, buffers.ctypes.data, scratch.ctypes.data, part, nparts) == 0
        assert (scratch[room:] == 255).all()
    return int((scratch != 255).sum())
