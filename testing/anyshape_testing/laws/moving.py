"""Law 9: an op that only moves elements moves strings as it moves the numbers that they spell; the empty string spells 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anyshape
from anyshape.dtypes import CHAR
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.strings import as_chars
from anyshape_testing.calls.call import Call, build_call
from anyshape_testing.calls.operands import flat_values, typed
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.execution.reference import run_reference
from anyshape_testing.running.random_calls import on_random_calls

Array = NDArray[Any]
EXACT = 1 << 53
"""The integers up to this one are exact in f64"""


def spelled(a: Array) -> Array:
    return np.array([str(v) if v else "" for v in a.ravel().tolist()], str).reshape(a.shape)


def exact_in_floats(c: Call) -> Call:
    """Clips the moved numbers of a call to integers that are exact in f64: an oracle that only moves them may be written in floats."""

    def within(v: Any) -> Any:
        return [within(a) for a in v] if isinstance(v, list) else None if v is None else np.clip(v, -EXACT, EXACT)

    moved = {i.name for i in c.op.inputs if i.dtype in c.op.moves}
    return replace(c, inputs={name: within(v) if name in moved else v for name, v in c.inputs.items()})


def test_strings_move_as_numbers_do(moving_op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        assert c.recipe is not None
        if not c.op.moved(c.params):
            return False
        numbers = {**c.recipe.dtypes, **dict.fromkeys(c.op.moves, "i64")}
        of_numbers = exact_in_floats(build_call(c.property, replace(c.recipe, dtypes=numbers)))
        node = valid_node(of_numbers)
        arrays: dict[str, Array] = {}

        def operand(a: Array, name: str) -> Value:
            moved = any(i.dtype in c.op.moves and name.startswith(i.name) for i in c.op.inputs)
            chars = as_chars(spelled(a))
            arrays[name] = chars.view(CHAR.computed) if moved else a
            return typed(chars if moved else a, name)

        operands = of_numbers.values(operand)
        results = call(c.op, operands, of_numbers.params)
        exe = anyshape.compile(Function(flat_values(operands), results), kernels="interpret")
        for g, w in zip(exe.run({n: arrays[n] for n in exe.input_names}), run_reference(of_numbers, node), strict=True):
            np.testing.assert_array_equal(g, spelled(w) if g.dtype.kind == "U" else w)
        return True

    on_random_calls(moving_op, "9 strings move as numbers do", record_property, body, share=10)
