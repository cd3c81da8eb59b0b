"""Targets with matrix tiles for tests: this machine with tiles that are emulated, and with the instructions; products for a target."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from anyshape.lower import gemm
from anyshape.lower.llvm import matrix_tiles
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.types import I64, PTR, Type, Val, const
from anyshape.lower.target import MatrixTiles, Target, host_target

HOST = replace(host_target(), slow_pairs=False)
LEAST_ROWS = MatrixTiles(pairs=True, dots=True).least_rows
EMULATED = replace(HOST, matrix_tiles=MatrixTiles(pairs=True, dots=True, emulated=True))
AMX = "+amx-tile,+amx-bf16,+amx-int8"
TRUE = replace(HOST, features=f"{HOST.features},{AMX}", matrix_tiles=MatrixTiles(pairs=True, dots=True))
"""This machine with the instructions: what is compiled for it runs only where it has them."""
packs_words = pytest.mark.skipif(
    not (HOST.pairs and HOST.dots),
    reason="words are packed for tiles by AVX512-BF16 and AVX512-VNNI",
)


def driver(of: Target, words: gemm.OperandWords, element: Type, visits: str = "") -> Module:
    """A product of A and B in memory. Scalars m, n, k; buffers a, b, c. `visits`: whether its polls call code that uses tiles, and whether
    they are "paused" for that."""
    module = Module(of)
    with module.kernel("product") as f:
        m, n, k = (f.load(f.arg("scalars"), I64, at) for at in range(3))
        a, b, c = (f.load(f.arg("buffers"), PTR, at) for at in range(3))

        def poll(pause: AbstractContextManager[None] | None) -> None:
            if visits:
                with pause if pause is not None and visits == "paused" else nullcontext():
                    matrix_tiles.configure(f, Val("@anyshape_tile_configuration", PTR))
                    matrix_tiles.release(f)

        spec = gemm.ContractionSpec(
            element=element, m=m, n=n, k=k, a=gemm.Strided(a, k, 1), b=gemm.Strided(b, n, 1), c=gemm.Destination(c, n), words=words
        )  # fmt: skip
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"), poll)
        f.ret(const(f.result, 0))
    return module
