"""Runs a law with different ops on its two sides: the correct one, and a mutant of it.

A law that compares two ways of computing one spec holds of every spec, right or wrong; whether it compares anything shows only where its
sides differ. In: the mutant. Out: a context within which one side of the law is computed from the mutant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from numpy.typing import NDArray

from anyshape.dims import Dim
from anyshape.expansion.gradient import gradients as slopes_of
from anyshape.graph.function import topological
from anyshape.graph.infer import build
from anyshape.graph.value import Node, Value
from anyshape.lower.llvm.jit import compile_object
from anyshape.lower.target import Target
from anyshape_testing.calls.call import Call
from anyshape_testing.laws import (
    agreement,
    executors,
    gradients,
    long_axes,
    moving,
    parts,
    processors,
    refusals,
    sequences,
)
from anyshape_testing.laws.parts import Parts
from anyshape_testing.matrix.making import GeneratedOp

Side = Callable[[GeneratedOp], AbstractContextManager[Any]]
"""A context in which one side of a law has the mutant."""


def function(module: Any, name: str) -> Side:
    """Makes a function of the law's module return results of the mutant."""
    return lambda mutant: patch.object(module, name, mutant.on(getattr(module, name)))


def interpreted(side: Side) -> Side:
    """Interprets the mutant instead of compiling it: without an assert it may read out of bounds, which only the interpreter detects."""
    return lambda mutant: side(mutant.interpreted())


def one_way(module: Any, way: str) -> Side:
    """Makes one executor run the mutant's program."""

    def side(mutant: GeneratedOp) -> AbstractContextManager[Any]:
        right: Callable[[Call], Any] = module.executables

        def executables(c: Call) -> Any:
            programs, wrong = right(c), mutant.on(right)(c)
            both = isinstance(programs, dict) and isinstance(wrong, dict)
            return {**programs, way: wrong[way]} if both else programs

        return patch.object(module, "executables", executables)

    return side


def several_parts(mutant: GeneratedOp) -> AbstractContextManager[Any]:
    """Makes kernels that are run in several parts those of the mutant."""

    class Both(Parts):
        def __init__(self, node: Node, symbols: Sequence[Dim]) -> None:
            super().__init__(node, symbols)
            wrong = build(mutant.of(node.op), node.inputs, node.attrs)
            self.mutant = Parts(wrong, symbols)

        def run(
            self, arrays: Sequence[NDArray[Any]], sizes: Mapping[Dim, int], parts: int
        ) -> tuple[int, list[NDArray[Any]]]:
            return super().run(arrays, sizes, 1) if parts == 1 else self.mutant.run(arrays, sizes, parts)

    return patch.multiple(parts, Parts=Both, _kernels={})


def slopes(mutant: GeneratedOp) -> AbstractContextManager[Any]:
    """Makes gradients those of the mutant's results."""

    def wrong(of: Value, by: Sequence[Value], source: str = "") -> list[Value]:
        known: dict[Value | None, Value] = {}
        for node in topological([of]):
            operands = [v if v is None else known.get(v, v) for v in node.inputs]
            known.update(zip(node.outputs, build(mutant.of(node.op), operands, node.attrs, count=node.count).outputs))
        return slopes_of(known[of], by, source)

    return patch.object(gradients, "gradients", wrong)


LONG_DIVISION = """
define i128 @divided(i128 %a, i128 %b) {
  %q = sdiv i128 %a, %b
  ret i128 %q
}
"""
"""A function for which no processor has instructions, so that LLVM calls `__divti3` of its runtime library"""


def library_calls(mutant: GeneratedOp) -> AbstractContextManager[Any]:
    """Adds a division of 128-bit integers to compiled code."""

    def compiled(text: str, target: Target) -> bytes:
        return compile_object(text + LONG_DIVISION, target)

    return patch.object(processors, "compile_object", compiled)


Sides = tuple[Side | None, ...]
ITSELF: Sides = (None,)
"""The mutant on all sides"""
NATIVE: Sides = (function(agreement, "run_native"),)
LONG: Sides = (function(long_axes, "run_native"),)
SYMBOLIC: Sides = (function(agreement, "call_node"),)
DYN: Sides = (function(agreement, "dyn_node"),)
EXECUTORS = (executors.PYTHON, "loaded")
"""Executors besides the native loop"""
EXECUTING: Sides = tuple(one_way(executors, way) for way in EXECUTORS)
ANEW = function(executors, "run_anew")
REFUSING: Sides = tuple(
    map(interpreted, (function(refusals, "executables"), *(one_way(refusals, way) for way in EXECUTORS)))
)
COMPILED: Sides = (interpreted(function(refusals, "compiled")),)
IN_PARTS: Sides = (several_parts,)
ELSEWHERE: Sides = (library_calls,)
STRINGS: Sides = (function(moving, "call"),)
SLOPES: Sides = (slopes,)
LISTED: Sides = (function(sequences, "listed"),)
