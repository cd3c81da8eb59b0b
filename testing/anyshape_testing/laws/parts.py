"""Law 7b: a kernel that is run in one part and in several gives the same bits.

In: a node on symbols, arrays of its operands, and numbers for the symbols. Out: nothing, or an AssertionError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Cond, Dim
from anyshape.equations import entropy
from anyshape.errors import UnsupportedError
from anyshape.failure_report import AREA
from anyshape.graph.value import Node
from anyshape.lower import Group, Kernel, Lowering, PackedConstant
from anyshape.lower.gemm.library import resolve
from anyshape.lower.llvm.jit import Loaded, load_object, object_for
from anyshape.vm.compiling.kernels import target_called
from anyshape.vm.compiling.options import from_environment
from anyshape_testing.calls.nodes import equations
from anyshape_testing.calls.operands import Symbols

Array = NDArray[Any]
_ABI = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
POISON = 0x5A


class Parts:
    """The loaded kernel of one node. `symbols`: the dims of the operands, in order, for which it was compiled."""

    def __init__(self, node: Node, symbols: Sequence[Dim]) -> None:
        self.symbols = tuple(symbols)
        eqs, ins, outs = equations(node)
        self.inputs = [t for t in ins if t.absent is None]
        target = target_called(from_environment().target)
        group = Group(node.op.name, tuple(eqs.equations), tuple(self.inputs), outputs=tuple(outs), constants={})
        self.kernel: Kernel = Lowering(target).lower(group)
        imports = resolve(self.kernel.imports, target)
        self.loaded: Loaded = load_object(object_for(self.kernel.text, target), [self.kernel.symbol], imports)
        self.entry = _ABI(self.loaded.address(self.kernel.symbol))

    def run(self, arrays: Sequence[Array], sizes: Mapping[Dim, int], parts: int) -> tuple[int, list[Array]]:
        """Runs all parts; returns the status (that of the first part that fails) and the outputs."""
        by_tensor = dict(zip(self.inputs, map(np.ascontiguousarray, arrays), strict=True))
        inputs = [i.array if isinstance(i, PackedConstant) else by_tensor[i] for i in self.kernel.inputs]
        scalars = np.array([*[0] * AREA, *(int(dims.evaluate(s, sizes)) for s in self.kernel.scalars)], np.int64)
        outputs = []
        for t in self.kernel.outputs:
            shape = tuple(int(dims.evaluate(n, sizes)) for n in t.shape)
            filled = np.full(max(1, int(np.prod(shape)) * t.dtype.itemsize), POISON, np.uint8)
            outputs.append(filled[: int(np.prod(shape)) * t.dtype.itemsize].view(t.dtype.numpy).reshape(shape))
        table = np.array([a.ctypes.data for a in [*inputs, *outputs]] or [0], np.uintp)
        scratch = np.full(int(dims.evaluate(self.kernel.scratch, sizes)) + 128, 0xFF, np.uint8)
        start = scratch.ctypes.data + -scratch.ctypes.data % 64
        status = 0
        entropy.restart(0)
        for part in range(parts):
            scratch[:] = 0xFF
            status = status or self.entry(scalars[AREA:].ctypes.data, table.ctypes.data, start, part, parts)
        return status, outputs


_kernels: dict[Hashable, Parts | None] = {}


def one_part_is_many(key: Hashable, node: Node, symbols: Symbols, arrays: Sequence[Array]) -> bool:
    """Compares one part with several; kernels are cached by `key`. Returns False where there is nothing to compare: for views, for
    data-dependent sizes, and for equations that become several kernels."""
    if node.op.kernel is None or node.bound is None:
        return False
    needed = {s for v in node.outputs for n in v.type.shape or () if isinstance(n, Dim) for s in dims.free_symbols(n)}
    if not needed <= set(symbols.numbers):
        return False
    if key not in _kernels:
        if len(_kernels) > 200:
            _kernels.clear()
        try:
            _kernels[key] = Parts(node, list(symbols.numbers))
        except UnsupportedError:  # equations that need kernels of their own, which the VM divides
            _kernels[key] = None
    kernel = _kernels[key]
    if kernel is None:
        return False
    sizes = dict(zip(kernel.symbols, symbols.numbers.values(), strict=True))
    if any(not dims.evaluate(k.cond, symbols.numbers) for k in node.checks if isinstance(k.cond, Cond)):
        return False
    status, whole = kernel.run(arrays, sizes, 1)
    for parts in (2, 3):
        again, split = kernel.run(arrays, sizes, parts)
        assert (again == 0) == (status == 0), f"one part gives status {status}, {parts} parts {again}"
        for k, (a, b) in enumerate(zip(whole, split, strict=True)):
            assert status or a.tobytes() == b.tobytes(), f"output {k} of {node.op.name} differs with {parts} parts"
    return True
