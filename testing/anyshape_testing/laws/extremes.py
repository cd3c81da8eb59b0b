"""Law 14: integers near the ends of i64, of which sums and products overflow, are computed with correctly or refused.

In: an op. Out: nothing where every call with one integer replaced (a parameter, an item of one, or an element of an operand of indices)
gives what the reference gives, or an error; the native loop and Python agree, on numbers and on symbols.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import bounds
from anyshape.errors import AnyshapeError, DeadlineExceeded, TypeRelationError
from anyshape.graph.value import Node
from anyshape.properties import BrokenReference
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.dtypes import is_of_indices
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.compare.results import same_as_reference
from anyshape_testing.draw.corpus import corpus
from anyshape_testing.execution.native import arguments, run_alike
from anyshape_testing.execution.reference import run_reference
from anyshape_testing.laws.executors import NATIVE, PYTHON, executables
from anyshape_testing.process import time_budget
from anyshape_testing.process.memory_limit import memory_limit
from anyshape_testing.process.profile import LONG
from anyshape_testing.process.time_limit import TooLong, time_limit
from anyshape_testing.running.accounting import Tally, settle

Array = NDArray[Any]
LAW = "14 integers near the ends of i64"
EXTREMES = (2**63 - 1, -(2**63), 2**62, -(2**62), 2**63 - 2, 1 - 2**63, 2**31, -(2**31))
DRAWN, CALLS = (24, 6) if LONG else (8, 2)
"""The number of random calls of an op, and of the largest of them with integers, each of which is replaced in turn"""
COMPILED = len(EXTREMES) if LONG else 1
"""Values tried for a parameter that is no operand: each is another program to compile"""
SECONDS = 0.5
"""The time limit of a call: one that takes longer loops up to its integer, and is left out"""
MEMORY = 1 << 28
"""The bytes that a call may take, of which MOST elements of a result are a fraction: what it pads by its integer may be any number of them,
and a compiled call keeps the memory of its intermediate values"""
MOST = 10**6
"""The most elements of a result that is computed, and the largest dim of one without elements"""


def extreme_calls(c: Call, first: int) -> Iterator[Call]:
    """Yields the call with each integer replaced by each extreme; a parameter that is no operand by COMPILED of them, from `first` on."""
    operands = {p.name for p in variants(c.property.op)[-1].operands}
    for p in c.op.params:
        value = c.params.get(p.name)
        values = EXTREMES if p.name in operands else [EXTREMES[(first + k) % len(EXTREMES)] for k in range(COMPILED)]
        for e in values:
            if p.kind == "int":
                yield replace(c, params={**c.params, p.name: e})
            items = tuple(value) if p.kind == "ints" and value else ()
            for k in range(len(items)):
                yield replace(c, params={**c.params, p.name: (*items[:k], e, *items[k + 1 :])})
    for name, a in c.inputs.items():
        if isinstance(a, np.ndarray) and a.size and is_of_indices(c.op, name):
            for e in EXTREMES:
                if np.iinfo(a.dtype).min <= e <= np.iinfo(a.dtype).max:
                    changed = a.copy()
                    changed.reshape(-1)[a.size // 2] = e
                    yield replace(c, inputs={**c.inputs, name: changed})


def test_extremes(integer_op: str, record_property: Callable[[str, Any], None]) -> None:
    drawn = 0
    largest = sorted(corpus(PROPERTIES[integer_op], DRAWN).valid, key=lambda c: -sum(a.size for a in c.flat_inputs()))
    with_integers = (c for c in largest if next(extreme_calls(c, 0), None) is not None)
    for number, plain in enumerate(islice(with_integers, CALLS)):
        for c in extreme_calls(plain, sum(map(ord, integer_op)) + number):
            if drawn and time_budget.is_over():
                break
            drawn += 1
            right_or_refused(c)
    p = PROPERTIES[integer_op]
    settle(
        Tally(LAW, integer_op, drawn, drawn, 1, time_budget.is_over(), listed=True), p.weak, record_property, p.source
    )


def right_or_refused(c: Call) -> bool:
    """Whether the call ran. Raises AssertionError where executors differ from one another or from the reference."""
    try:
        node = static_node(c)
    except AnyshapeError:
        node = None
    if node is not None and _takes_long(node):
        return False
    try:
        programs = executables(c)
    except AnyshapeError:
        return False
    if isinstance(programs, TypeRelationError):
        return False
    with memory_limit(MEMORY):
        try:
            programs[NATIVE].run({n: arguments(c)[n] for n in programs[NATIVE].input_names}, deadline=SECONDS)
        except DeadlineExceeded:
            return False
        except AnyshapeError:
            pass  # messages are compared below
        results = {way: _outcome(programs[way], arguments(c)) for way in (NATIVE, PYTHON)}
    first, second = results.values()
    where = f"{c.property.op} with {dict(c.params)}"
    if isinstance(first, str) or isinstance(second, str):
        assert first == second, f"{where}: {results}"
        return False
    assert node is not None, f"{where}: refused on numbers, and runs"
    for a, b in zip(first, second, strict=True):
        assert a.tobytes() == b.tobytes(), f"{where}: {results}"
    try:
        with time_limit(4 * SECONDS), memory_limit(MEMORY):
            want = run_reference(c, node)
    except BrokenReference as e:
        if isinstance(e.__cause__, (ValueError, TypeError, OverflowError, IndexError, MemoryError, TooLong)):
            return True  # NumPy's own integers end there too
        raise
    same_as_reference(first, want, c, node, f"native against reference, {where}")
    return True


def _outcome(f: Any, inputs: dict[str, Array]) -> list[Array] | str:
    try:
        return run_alike(f, inputs)
    except AnyshapeError as e:
        return f"refused: {without_amounts(str(e))}"


def without_amounts(text: str) -> str:
    """A refusal for lack of memory without the numbers of bytes, which depend on the number of threads and on the machine."""
    return re.sub(r"cannot allocate \d+ bytes( for [\w ]*)(: \d+ are available)?", r"cannot allocate bytes\1", text)


def _takes_long(node: Node) -> bool:
    """Whether a result is too large to wait for, and too small to be refused for lack of memory."""
    for v in node.outputs:
        most = [bounds(n)[1] or 0 for n in v.type.shape or ()]
        if MOST < math.prod(most) < 1 << 45 or (math.prod(most) <= MOST and any(n > MOST for n in most)):
            return True
    return False


__all__ = ["LAW", "extreme_calls", "test_extremes"]
