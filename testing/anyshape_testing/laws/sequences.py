"""Law 12: an op gives for a list, whose length only a run knows, what it gives for the tensors in it, in every executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

import anyshape
from anyshape.dtypes import from_numpy
from anyshape.errors import ShapeError
from anyshape.graph.alike import alike
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.types import DIFFERS, TensorType, list_of
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.operands import Symbols, code_points, input_arrays
from anyshape_testing.compare.raising import raises
from anyshape_testing.compare.results import same
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.execution.interpreter import run_equations
from anyshape_testing.execution.native import Cached, call_key
from anyshape_testing.laws.agreement import is_reason
from anyshape_testing.laws.executors import OPTIONS
from anyshape_testing.laws.refusals import message_of
from anyshape_testing.running.random_calls import on_random_calls

Array = NDArray[Any]
_compiled: Cached[Mapping[str, anyshape.Executable]] = Cached(100)


def name_of(c: Call) -> str:
    """Returns the name of the input that is passed as a list."""
    assert c.op.sequence is not None
    return c.op.inputs[c.op.sequence].name


def listed(c: Call) -> Mapping[str, anyshape.Executable]:
    """Compiles the call for a list of which only the elements' rank is known, for every executor; programs are cached."""

    def make() -> Mapping[str, anyshape.Executable]:
        name = name_of(c)
        first = c.inputs[name][0]
        element = TensorType(from_numpy(first.dtype), (DIFFERS,) * first.ndim)
        operands = dict(zip(c.inputs, c.values(Symbols({})), strict=True)) | {name: Value(list_of(element), name)}
        results = call(c.op, list(operands.values()), c.params)
        native = anyshape.compile(Function([v for v in operands.values() if v is not None], results))
        return {way: native.by(**options) for way, options in OPTIONS.items()}

    return _compiled.of((call_key(c), alike(c.params)), make)


def run_listed(c: Call, arrays: list[Array]) -> list[Array]:
    """Runs the call on a list; asserts that all executors give the same bits, and returns the results."""
    plain = {k: v for k, v in input_arrays(c).items() if k in c.inputs}
    results = {way: exe.run({**plain, name_of(c): [code_points(a) for a in arrays]}) for way, exe in listed(c).items()}
    want, *repeated = results.values()
    for got in repeated:
        for a, b in zip(want, got, strict=True):
            assert (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes()), f"{tuple(results)} differ"
    return list(want)


def test_a_list_is_its_elements(sequence_op: str, record_property: Any) -> None:
    def body(c: Call) -> bool:
        arrays = c.inputs[name_of(c)]
        if len({a.ndim for a in arrays}) > 1:
            return False
        try:
            static_node(c)
        except ShapeError as e:
            message = message_of(lambda: run_listed(c, arrays))
            assert is_reason(message, str(e), c), f"refused for different reasons: tensors {e}, a list {message}"
            return True
        node = valid_node(c)
        got, want = run_listed(c, arrays), run_equations(c, node)
        same(got, want, c, node, "a list against its elements")
        with raises(ShapeError, match="needs at least one tensor"):
            run_listed(c, [])
        return True

    on_random_calls(sequence_op, "12 a list == its elements", record_property, body, share=2, refused=True)
