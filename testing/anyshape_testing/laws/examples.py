"""Tests every example of every spec: it is compiled and run, on numbers and on symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

import anyshape
from anyshape.errors import AnyshapeError, TypeRelationError
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.properties import Example, Given
from anyshape.strings import as_strings
from anyshape.vm.compiling.options import Kernels
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.nodes import dyn_node, static_node
from anyshape_testing.calls.operands import ByName, Symbols, flat_values, input_arrays, operand_arrays, typed
from anyshape_testing.compare.raising import raises
from anyshape_testing.compare.results import has_types_of, same_as_reference
from anyshape_testing.compare.tolerance import is_float
from anyshape_testing.execution.interpreter import run_equations
from anyshape_testing.execution.reference import run_reference
from anyshape_testing.process import time_budget


def test_example(example: tuple[str, Example]) -> None:
    op, e = example
    c = call_of(op, e)
    held = holds_on_numbers(c, e)
    if held is None:
        assert e.error is not None
        refused_on_symbols(c, e.error, _kernels(c))
        return
    node, results = held
    inputs = flat_values(c.values(typed))
    native = anyshape.compile(Function(inputs, call(c.op, c.values(ByName(inputs)), c.params)))
    arrays = input_arrays(c)
    same_as_reference(
        native.run({name: arrays[name] for name in native.input_names}),
        results,
        c,
        node,
        "native against reference",
    )


def holds_on_numbers(c: Call, e: Example) -> tuple[Node, list[Any]] | None:
    """Checks an example by the reference and by the equations; returns the call and its results. Returns None for an example of an error,
    after a check that the call raises it."""
    if e.error is not None:
        with raises(TypeRelationError, match=e.error):
            run_equations(c, static_node(c))  # where the assert reads values, it is the equations that refuse
        return None
    node = static_node(c)
    results = run_reference(c, node)
    has_types_of(node, results)
    got = run_equations(c, node)
    same_as_reference(got, results, c, node, "interpreter against reference")
    for computed in (results, got):
        at = 0
        for o in node.op.outputs:
            count = len(results) - (len(node.op.outputs) - 1) if o.variadic else 1
            if o.name in e.outputs:
                expected(e.outputs[o.name], computed[at : at + count], o.variadic)
            at += count
    return node, results


def expected(output: Given, got: list[Any], variadic: bool) -> None:
    if output.is_literal:
        values = output.value if variadic else [output.value]
        assert len(got) == len(values), f"{len(got)} results, wanted {len(values)}"
        for result, value in zip(got, values):
            has_values(result, np.asarray(value))
    else:
        assert [r.shape for r in got] == ([tuple(s) for s in output.shape] if variadic else [tuple(output.shape)])


def has_values(got: NDArray[Any], value: NDArray[Any]) -> None:
    """Compares with the values of an example: floats within four ulps of the result's dtype, everything else exactly. Floats of
    8 bits and fewer are exact, too: four ulps of theirs would let 2 pass for 3."""
    if value.dtype.kind == "U":
        np.testing.assert_array_equal(as_strings(got), value)
        return
    assert got.shape == value.shape, f"shape {got.shape}, wanted {value.shape}"
    if is_float(got) and got.dtype.itemsize > 1:
        close = 4 * float(finfo(got.dtype).eps)
        np.testing.assert_allclose(got.astype(np.float64), value.astype(np.float64), rtol=close, atol=0)
    else:
        wide = got.astype(np.float64) if is_float(got) else got
        np.testing.assert_array_equal(wide, value.astype(wide.dtype) if is_float(got) else value)


def _kernels(c: Call) -> Kernels:
    """Chooses how a program is compiled that refuses its call. Where time is limited, a program that refuses shapes or attributes, before
    any kernel would run, is interpreted: lowering would be most of the time for an op of many kernels. Law 6 tests refusals by machine
    code there, as far as time allows; without a limit these examples do, too."""
    return "interpret" if time_budget.is_limited() and is_refused_by_types(c) else "native"


def is_refused_by_types(c: Call) -> bool:
    """Whether a call is refused by its types and attributes, without reading an element."""
    try:
        static_node(c)
    except TypeRelationError:
        return True
    return False


def refused_on_symbols(c: Call, text: str, kernels: Kernels = "native") -> None:
    """Checks that the call is refused on symbols when it is built, or at the latest when the program runs."""
    dyn = len(variants(c.property.op)) == 2
    operands = operand_arrays(c) if dyn else {}

    def run() -> None:
        inputs = ByName(flat_values(c.values(Symbols({}))))
        dyn_operands = ByName([typed(a, name) for name, a in operands.items()])
        params: list[Value] = [*inputs.params.values(), *dyn_operands.params.values()]
        results = dyn_node(c, inputs, dyn_operands).outputs if dyn else call(c.op, c.values(inputs), c.params)
        f = anyshape.compile(Function(params, results), kernels=kernels)
        f.run({p.name: (input_arrays(c) | operands)[p.name] for p in params})

    with raises(AnyshapeError, match=text):
        run()
