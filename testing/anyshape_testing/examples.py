"""Every example of every spec, as its reference page shows it: compiled and run, on numbers and on symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

import anyshape
from anyshape.dtypes import CHAR, DType, parse_dtype
from anyshape.errors import AnyshapeError, TypeRelationError
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.opdef import InputDef, OpDef
from anyshape.graph.value import Node, Value
from anyshape.properties import Example, Given
from anyshape.strings import as_chars, as_strings
from anyshape_testing import time_budget
from anyshape_testing.calls import (
    ByName,
    Call,
    Symbols,
    dyn_node,
    flat_values,
    input_dtype,
    operand_arrays,
    static_node,
    typed,
    variants,
)
from anyshape_testing.execution import input_arrays, run_equations, run_reference
from anyshape_testing.laws import has_types_of, same_as_reference
from anyshape_testing.raising import raises
from anyshape_testing.running import PROPERTIES
from anyshape_testing.tolerance import is_float
from anyshape_testing.values import contents


def array(op: OpDef, i: InputDef, example_input: Given, seed: int) -> Any:
    """Literal values, or plain ones of the shape, in the first dtype that the op allows; of a variadic a list of them."""
    dtype = (
        parse_dtype(example_input.dtype)
        if example_input.dtype
        else input_dtype(i, {v: parse_dtype(c[0]) for v, c in op.dtypes.items()})
    )
    if example_input.is_literal:
        return [literal(v, dtype) for v in example_input.value] if i.variadic else literal(example_input.value, dtype)
    if i.variadic:
        return [contents(tuple(s), dtype, seed + k, "plain") for k, s in enumerate(example_input.shape)]
    return contents(tuple(example_input.shape), dtype, seed, "plain")


def literal(value: Any, dtype: DType) -> NDArray[Any]:
    """Of strings their characters."""
    return as_chars(np.array(value, str)) if dtype is CHAR else np.asarray(value, dtype.numpy)


def call_of(op_name: str, e: Example) -> Call:
    op = variants(op_name)[0]
    arrays = {
        i.name: array(op, i, e.inputs[i.name], k) if i.name in e.inputs else None for k, i in enumerate(op.inputs)
    }
    return Call(PROPERTIES[op_name], arrays, {p.name: e.params.get(p.name) for p in op.params})


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
    """The call and its results, by the reference and by the equations, as the example says; None where it says an error, which the call
    has."""
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
    """Floats within four units in the last place of the result's dtype, everything else exactly."""
    if value.dtype.kind == "U":
        np.testing.assert_array_equal(as_strings(got), value)
        return
    assert got.shape == value.shape, f"shape {got.shape}, wanted {value.shape}"
    if is_float(got):
        close = 4 * float(finfo(got.dtype).eps)
        np.testing.assert_allclose(got.astype(np.float64), value.astype(np.float64), rtol=close, atol=0)
    else:
        np.testing.assert_array_equal(got, value)


def _kernels(c: Call) -> str:
    """How a program is compiled that refuses its call. Where somebody waits, one that is refused by shapes and attributes, before any
    kernel would run, is not lowered: of an op of many kernels that is much of what the examples take. Law 6 has machine code refuse
    calls of asserts there, too, as far as time goes; the whole suite has it refuse those of all asserts, and these examples."""
    return "interpret" if time_budget.is_limited() and is_refused_by_types(c) else "native"


def is_refused_by_types(c: Call) -> bool:
    """Without reading an element."""
    try:
        static_node(c)
    except TypeRelationError:
        return True
    return False


def refused_on_symbols(c: Call, text: str, kernels: str = "native") -> None:
    """When the call is built, or at the latest when the program runs."""
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
