"""Folding by kernels: calls on constants, run while a model is compiled, where the interpreter in `passes.folding` would take too long.

In: a node whose operands are constants. Out: its results. The call is compiled as a function of its own, for operands of any sizes, so that
the next call of its kind takes no compile, and its kernels come from the caches that all kernels come from.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Size, symbol
from anyshape.dtypes import CHAR
from anyshape.errors import AnyshapeError
from anyshape.graph.alike import alike
from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.value import Node, Value
from anyshape.passes.simplify import static_shape
from anyshape.types import TensorType
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.plans import Compiler, Plan
from anyshape.vm.program.blocks import shown
from anyshape.vm.report.summary import Report
from anyshape.vm.run.arguments import Signature

Array = NDArray[Any]


def folding(options: Options) -> Folding | None:
    """Makes the folding of a compile; None where kernels are the interpreter themselves."""
    return Folding(options) if options.kernels == "native" else None


class Folding:
    """Computes calls with the kernels of one compile's target, on one thread; programs compiled for it serve that compile alone."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, threads=1, dims={}, recorder=None, precision="exact", exact_nodes=())
        self._known: dict[Any, tuple[Function, Plan] | None] = {}
        self._results: dict[Any, tuple[Sequence[Array | None], Sequence[Array]]] = {}
        """Operands and results of calls, by call and operands: both sides of a branch may have the call."""

    def __call__(self, node: Node) -> Sequence[Array] | None:
        count = len(node.data_inputs)
        data = [v for v in node.inputs[:count] if v is not None]
        types = _open_types(data)
        operands = tuple(_key(v) for v in node.inputs[count:])
        present = tuple(v is not None for v in node.inputs)
        key = (node.op, alike(node.attrs), node.count, present, operands, tuple(types))
        if key not in self._known:
            self._known[key] = (
                None  # of a call without data its function is the call again, which is left to its kernel
            )
            self._known[key] = self._compiled(node, types)
        known = self._known[key]
        if known is None:
            return None
        constants = [v.constant for v in data]
        call = (key, *map(id, constants))
        if call not in self._results:
            try:
                self._results[call] = constants, _run(*known, constants, node.outputs)
            except AnyshapeError:
                return None  # the error belongs to the run
        return self._results[call][1]

    def _compiled(self, node: Node, types: Sequence[TensorType]) -> tuple[Function, Plan] | None:
        params = [Value(t, f"x{k}") for k, t in enumerate(types)]
        left, count = iter(params), len(node.data_inputs)
        inputs = [None if v is None else next(left) if k < count else v for k, v in enumerate(node.inputs)]
        try:
            call = build(node.op, inputs, node.attrs, node.source, count=node.count)
            f = Function(params, call.outputs, node.op.name)
            # a call without operands would be folded again, and so on
            compute = self if params else _left_to_the_run
            return f, Compiler(self._options, Report(), threading.RLock(), compute=compute).plan(f)
        except AnyshapeError:
            return None


def _run(f: Function, plan: Plan, constants: Sequence[Array | None], outputs: Sequence[Value]) -> Sequence[Array]:
    """Runs a call. What a run allocates is to be given back, so results have places or are copied."""
    places = [_place(v) for v in outputs]
    results = plan.run(Signature(f.params).bind(tuple(constants), {}), places)
    return [
        shown(a, v.type).copy() if place is None else place
        for a, v, place in zip(results, f.results, places, strict=True)
    ]


def _place(v: Value) -> Array | None:
    """A place for a result; None for one of unknown size, or of characters, that are shown as others."""
    known = isinstance(v.type, TensorType) and v.type.is_static and v.type.dtype is not CHAR
    return np.empty(static_shape(v), v.type.dtype.numpy) if known else None


def _left_to_the_run(node: Node) -> Sequence[Array] | None:
    return None


def _key(v: Value | None) -> Any:
    a = None if v is None else v.constant
    return None if a is None else (a.dtype.str, a.shape, a.tobytes())


def _open_types(data: Sequence[Value]) -> list[TensorType]:
    """The types of values with a symbol for each size, the same for equal ones; sizes of 0 and 1 stay numbers."""
    symbols: dict[Size, Size] = {0: 0, 1: 1}
    for v in data:
        for n in v.type.shape or ():
            symbols.setdefault(n, symbol(f"n{len(symbols)}", 2))
    return [TensorType(v.type.dtype, tuple(symbols[n] for n in v.type.shape or ())) for v in data]
