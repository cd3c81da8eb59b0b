"""Law 7: every way of running gives the same bits.

native loop == Python == walked table; saved and loaded == fresh; a kernel in one part == in several
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import reject
from numpy.typing import NDArray

import anyshape
from anyshape.errors import TypeRelationError
from anyshape.graph.call import call, call_node
from anyshape.graph.function import Function
from anyshape.testing.calls import (
    ByName,
    Call,
    Symbols,
    dyn_node,
    flat_values,
    operand_arrays,
    typed,
    variants,
)
from anyshape.testing.execution import call_key, input_arrays
from anyshape.testing.laws import valid
from anyshape.testing.parts import one_part_is_many
from anyshape.testing.running import on_random_calls

Array = NDArray[Any]
Record = Callable[[str, Any], None]
WAYS: Mapping[str, Mapping[str, Any]] = {
    "native loop": {"loop": "native"},
    "Python": {"loop": "python"},
    "walked table": {"loop": "python", "walk": True},
}
_programs: dict[Hashable, Any] = {}


def program(c: Call, static: bool = False) -> Function:
    """The call on symbols, the dyn variant with its operands unknown where there is one (and `static` does not ask for the other).
    Raises what inference raises."""
    dyn = len(variants(c.property.op)) == 2 and not static
    inputs = ByName(flat_values(c.values(Symbols({}))))
    given = ByName([typed(a, name) for name, a in (operand_arrays(c) if dyn else {}).items()])
    results = dyn_node(c, inputs, given).outputs if dyn else call(c.op, c.values(inputs), c.params)
    return Function([*inputs.params.values(), *given.params.values()], results)


def arguments(c: Call, static: bool = False) -> dict[str, Array]:
    """By the names of the program's parameters."""
    return input_arrays(c) | (operand_arrays(c) if len(variants(c.property.op)) == 2 and not static else {})


def program_key(c: Call) -> Hashable:
    """Equal for calls that are one program."""
    operands = operand_arrays(c) if len(variants(c.property.op)) == 2 else {}
    attributes = tuple((k, v) for k, v in c.params.items() if k not in operands)
    return call_key(c), attributes, tuple((k, a.shape) for k, a in operands.items())


def compiled(c: Call) -> dict[str, Any] | TypeRelationError:
    """The program in every way of running it; or the error with which it is refused on symbols already."""
    key = program_key(c)
    if key not in _programs:
        if len(_programs) > 100:
            _programs.clear()
        try:
            f = program(c)
        except TypeRelationError as e:
            _programs[key] = e
            return e
        ways = {way: anyshape.compile(f, **options) for way, options in WAYS.items()}
        with tempfile.TemporaryDirectory() as folder:
            ways["native loop"].save(Path(folder) / "program")
            ways["loaded"] = anyshape.load(Path(folder) / "program")
        _programs[key] = ways
    found: dict[str, Any] | TypeRelationError = _programs[key]
    return found


def test_every_executor_gives_the_same_bits(op: str, record_property: Record) -> None:
    def body(c: Call) -> None:
        valid(c)
        ways = compiled(c)
        if isinstance(ways, TypeRelationError):
            reject()
        given = arguments(c)
        results = {way: f.run({name: given[name] for name in f.input_names}) for way, f in ways.items()}
        want = results["native loop"]
        for way, got in results.items():
            for k, (a, b) in enumerate(zip(want, got, strict=True)):
                where = f"output {k} of {op}: {way} against native loop"
                assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{where}: {b.shape} {b.dtype}"
                assert a.tobytes() == b.tobytes(), where

    on_random_calls(op, "7a native == Python == loaded", record_property, body, share=2)


def test_parts(op: str, record_property: Record) -> None:
    def body(c: Call) -> bool:
        valid(c)
        symbols = Symbols({})
        node = call_node(c.op, c.values(symbols), c.params)
        return one_part_is_many((call_key(c), tuple(c.params.items())), node, symbols, c.flat_inputs())

    on_random_calls(op, "7b one part == many", record_property, body, share=2)
