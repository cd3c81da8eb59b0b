"""Law 7: every executor gives the same bits.

The native loop and Python, a saved and loaded program and a fresh one, a result in memory of its own and in that of the argument that it
may overwrite, a kernel in one part and in several are compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption
from numpy.typing import NDArray

import anyshape
from anyshape.equations import entropy
from anyshape.errors import TypeRelationError, UnsupportedError
from anyshape.graph.alike import alike
from anyshape.graph.call import call_node
from anyshape.strings import as_chars, is_text
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.operands import Symbols
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.execution.native import (
    IN_MEMORY,
    Cached,
    arguments,
    call_key,
    compiled,
    program,
    program_key,
    run_alike,
)
from anyshape_testing.laws.parts import one_part_is_many
from anyshape_testing.running.random_calls import on_random_calls

Array = NDArray[Any]
Record = Callable[[str, Any], None]
NATIVE, PYTHON, AGAIN = "native loop", "Python", "compiled again"
ANEW = 3
"""Calls of an op that are compiled again, to find compiles that depend on earlier ones"""
TELLING = 12
"""The least elements of results of a call that is compiled again: in fewer, little can differ"""
MOST_KERNELS = 25
"""The most kernels of a call, also of a composed op (`python -m benchmarks.kernel_counts`): more mean that fusion failed"""
OPTIONS: Mapping[str, Mapping[str, Any]] = {NATIVE: {"loop": "native"}, PYTHON: {"loop": "python"}}
_executables: Cached[dict[str, Any] | TypeRelationError] = Cached(200)


def executables(c: Call) -> dict[str, Any] | TypeRelationError:
    """Returns the program for every executor; or the error with which it is refused on symbols already."""
    return _executables.of(program_key(c), lambda: _executables_of(c))


def _executables_of(c: Call) -> dict[str, Any] | TypeRelationError:
    native = compiled(c)
    if isinstance(native, TypeRelationError):
        return native
    if isinstance(native, UnsupportedError):
        raise native.with_traceback(None)
    programs = {NATIVE: native, PYTHON: native.by(**OPTIONS[PYTHON])}
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        native.save(Path(folder) / "program")
        programs["loaded"] = anyshape.load(Path(folder) / "program")
    return programs


def run_over_arguments(
    f: anyshape.Executable, inputs: Mapping[str, Any], want: list[Array]
) -> Iterator[tuple[str, list[Array]]]:
    """Runs a program with each result in the memory of the argument that it may overwrite, where they have the same shape and dtype."""
    for k, j in f.plan.overwrites:
        result, name = f.output_names[k], f.input_names[j]
        if (np.shape(inputs[name]), np.asarray(inputs[name]).dtype) != (want[k].shape, want[k].dtype):
            continue
        place = np.array(inputs[name], order="C")
        entropy.restart(0)
        results = f.run({**inputs, name: place}, outputs={result: place})
        assert results[k] is place
        yield f"{result} over {name}", results


def run_anew(c: Call) -> list[Array]:
    """Compiles the program again, and runs it."""
    return run_alike(anyshape.compile(program(c), **OPTIONS[PYTHON]), arguments(c))


def test_every_executor_gives_the_same_bits(op: str, record_property: Record) -> None:
    anew = count()

    def body(c: Call) -> None:
        valid_node(c)
        programs = executables(c)
        if isinstance(programs, TypeRelationError):
            raise UnsatisfiedAssumption("refused on symbols")
        each = [len(p.kernels) for p in programs[NATIVE].plan.programs]  # the general one runs in place of the main one
        kernels = max(each, default=0)
        assert kernels <= MOST_KERNELS, f"{kernels} kernels for one call of {op}"
        inputs = arguments(c)
        results = {way: run_alike(f, inputs) for way, f in programs.items()}
        want = results[NATIVE]
        results |= dict(run_over_arguments(programs["loaded"], inputs, want))
        if sum((as_chars(a) if is_text(a) else a).size for a in want) >= TELLING and next(anew) < ANEW:
            results[AGAIN] = run_anew(c)
        for way, got in results.items():
            for k, (a, b) in enumerate(zip(want, got, strict=True)):
                where = f"output {k} of {op}: {way} against native loop"
                assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{where}: {b.shape} {b.dtype}"
                assert a.tobytes() == b.tobytes(), where

    on_random_calls(op, "7a native == Python == loaded", record_property, body, share=2)


def test_parts(whole_op: str, record_property: Record) -> None:
    def body(c: Call) -> bool:
        valid_node(c)
        symbols = Symbols({})
        node = call_node(c.op, c.values(symbols), c.params)
        return one_part_is_many((call_key(c), alike(c.params)), node, symbols, c.flat_inputs())

    on_random_calls(whole_op, "7b one part == many", record_property, body, share=2)
