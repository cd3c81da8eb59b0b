"""Packs a model with operators of `my_ops_torch` by AOTInductor, and runs the package at several sizes.

A program of its own, which `test_package.py` runs. In: a folder. Out: the sizes, one a line.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch._inductor

sys.modules["llvmlite"] = None  # type: ignore[assignment]  # to import it is an error: the wheel has the kernels
from package_use import Model  # noqa: E402  # the program beside this one
from torch.export import Dim  # noqa: E402

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    model = Model().eval()
    with torch.no_grad():
        program = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", max=1000)},))
        torch.export.save(program, folder / "program.pt2")
        again = torch.export.load(folder / "program.pt2")
        packed = torch._inductor.aoti_compile_and_package(again, package_path=str(folder / "packed.pt2"))
        run = torch._inductor.aoti_load_package(packed)
        for n in (1, 2, 7, 50):
            x = torch.randn(n, 4)
            torch.testing.assert_close(run(x), model(x))
            print(n)
