"""Indices that are computed in the program, as ranges and as sizes: every op with an operand of indices does what it does with an input.

Once the equations that compute them are inlined, no load is left in such an index; it is in or out of bounds like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError
from anyshape.graph.call import call
from anyshape.graph.value import Value
from anyshape.vm.executable.executable import Executable
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.dtypes import is_of_indices
from anyshape_testing.calls.operands import ByName, flat_values, input_arrays, typed
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.draw.corpus import corpus

Array = NDArray[np.int64]
LENGTHS = (0, 1, 5, 17, 1000, 10**7)
"""What the program adds to each index, or has as each index"""
OPS = [
    op for op in register("anyshape_ops") if any(is_of_indices(variants(op)[0], i.name) for i in variants(op)[0].inputs)
]


def indices(c: Call) -> list[str]:
    """The operands of the call that are i64 tensors of indices, with elements."""
    arrays = {name: a for name, a in c.inputs.items() if isinstance(a, np.ndarray)}
    return [name for name, a in arrays.items() if a.dtype == np.int64 and a.size and is_of_indices(c.op, name)]


def of_range(length: Value, shape: tuple[int, ...]) -> Value:
    n, size = length.shape[0], int(np.prod(shape))
    return ops.reshape(ops.arange(n, n + size), shape)


def of_sizes(length: Value, shape: tuple[int, ...]) -> Value:
    return ops.reshape(ops.shape_of(length) + ops.zeros((int(np.prod(shape)),), dtype="i64"), shape)


OF_OTHER_DTYPES = ("gru", "lstm", "qlinear_conv", "rnn")
"""Ops whose operands of indices are never i64"""
FORMS: dict[str, tuple[Callable[[Value, tuple[int, ...]], Value], Callable[[int, tuple[int, ...]], Array]]] = {
    "range": (of_range, lambda n, shape: np.arange(n, n + int(np.prod(shape))).reshape(shape)),
    "sizes": (of_sizes, lambda n, shape: np.full(shape, n)),
}


def programs(c: Call, name: str, form: str) -> tuple[Executable, Executable]:
    """The call with the operand as an input, and the call with it computed from the length of an input `numbered`."""
    inputs, length = flat_values(c.values(typed)), anyshape.input("numbered", "f32[numbered]")
    by_name, computed = ByName(inputs), FORMS[form][0](length, c.inputs[name].shape)
    as_input = anyshape.function(inputs, call(c.op, c.values(by_name), c.params))
    as_computed = anyshape.function(
        [*inputs, length],
        call(c.op, c.values(lambda a, n: computed if n == name else by_name(a, n)), c.params),
    )
    return anyshape.compile(as_input), anyshape.compile(as_computed)


def outcome(exe: Executable, arrays: dict[str, NDArray[np.generic]]) -> list[bytes] | None:
    """The results of a call. None: it is refused."""
    try:
        return [a.tobytes() for a in exe.run({n: arrays[n] for n in exe.input_names})]
    except AnyshapeError:
        return None


def alike(c: Call, name: str, form: str, length: int, compiled: tuple[Executable, Executable]) -> None:
    with_input, with_computed = compiled
    index = FORMS[form][1](length, c.inputs[name].shape)
    arrays = input_arrays(replace(c, inputs={**c.inputs, name: index}))
    want, got = (
        outcome(with_input, arrays),
        outcome(with_computed, {**arrays, "numbered": np.zeros(length, np.float32)}),
    )
    assert got == want, f"{c.property.op}: {name} as {form} of {length}, with {dict(c.params)}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", OPS)
def test_indices_that_a_program_computes(op: str, form: str) -> None:
    largest = sorted(corpus(PROPERTIES[op], 24).valid, key=lambda c: -sum(a.size for a in c.flat_inputs()))
    c = next((c for c in largest if indices(c)), None)
    if c is None:
        assert op in OF_OTHER_DTYPES, f"no call of {op} was drawn that has indices of i64"
        pytest.skip("its indices have another dtype than that of ranges and sizes")
    assert op not in OF_OTHER_DTYPES
    for name in indices(c):
        compiled = programs(c, name, form)
        for length in LENGTHS:
            alike(c, name, form, length, compiled)


def test_another_index_is_noticed() -> None:
    """The comparison sees a program that computes another index, and lets the right one pass."""
    calls = corpus(PROPERTIES["one_hot"], 8).valid
    c, name = next((c, n) for c in calls for n in indices(c) if c.inputs[n].size > 1)
    with_input, with_computed = programs(c, name, "range")
    alike(c, name, "range", 0, (with_input, with_computed))
    with pytest.raises(AssertionError, match="one_hot"):
        alike(c, name, "range", 0, (with_input, programs(c, name, "sizes")[1]))
