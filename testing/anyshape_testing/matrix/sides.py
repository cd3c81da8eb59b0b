"""Two sides of a law given two ops: the right one on one side, a mutant of it on the other.

A law that compares what the machine makes of a spec with what it makes of the same spec in another way holds of every spec; that it
compares anything shows only where the sides differ. In: the mutant. Out: for as long as the context lasts, one side of the law is
computed from it.
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
from anyshape_testing import executors, gradients, laws, long_axes, moving, parts, processors, refusals, sequences
from anyshape_testing.calls import Call
from anyshape_testing.matrix.making import GeneratedOp
from anyshape_testing.parts import Parts

Side = Callable[[GeneratedOp], AbstractContextManager[Any]]
"""A context in which one side of a law has the mutant."""


def function(module: Any, name: str) -> Side:
    """What a function of the law's module gives is the mutant's."""
    return lambda mutant: patch.object(module, name, mutant.on(getattr(module, name)))


def interpreted(side: Side) -> Side:
    """The mutant's equations are not compiled: without an assert they may read beyond their tensors, which only the interpreter says."""
    return lambda mutant: side(mutant.interpreted())


def one_way(module: Any, way: str) -> Side:
    """Of the ways to run a program, one runs the mutant's."""

    def side(mutant: GeneratedOp) -> AbstractContextManager[Any]:
        right: Callable[[Call], Any] = module.ways

        def ways(c: Call) -> Any:
            programs, wrong = right(c), mutant.on(right)(c)
            both = isinstance(programs, dict) and isinstance(wrong, dict)
            return {**programs, way: wrong[way]} if both else programs

        return patch.object(module, "ways", ways)

    return side


def several_parts(mutant: GeneratedOp) -> AbstractContextManager[Any]:
    """Kernels that are run in several parts are the mutant's."""

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
    """Gradients are those of the mutant's results."""

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
"""What LLVM has no instructions for on any processor, and calls `__divti3` of its own library"""


def library_calls(mutant: GeneratedOp) -> AbstractContextManager[Any]:
    """Code divides integers of 128 bits."""

    def compiled(text: str, target: Target) -> bytes:
        return compile_object(text + LONG_DIVISION, target)

    return patch.object(processors, "compile_object", compiled)


Sides = tuple[Side | None, ...]
ITSELF: Sides = (None,)
"""The wrong spec is under test, and there is no other."""
NATIVE: Sides = (function(laws, "run_native"),)
LONG: Sides = (function(long_axes, "run_native"),)
SYMBOLIC: Sides = (function(laws, "call_node"),)
DYN: Sides = (function(laws, "dyn_node"),)
OTHERS = (executors.PYTHON, "loaded")
"""Ways to run a program beside the native loop"""
WAYS: Sides = tuple(one_way(executors, way) for way in OTHERS)
ANEW = function(executors, "run_anew")
REFUSING: Sides = tuple(map(interpreted, (function(refusals, "ways"), *(one_way(refusals, way) for way in OTHERS))))
COMPILED: Sides = (interpreted(function(refusals, "compiled")),)
IN_PARTS: Sides = (several_parts,)
ELSEWHERE: Sides = (library_calls,)
STRINGS: Sides = (function(moving, "call"),)
SLOPES: Sides = (slopes,)
LISTED: Sides = (function(sequences, "listed"),)
