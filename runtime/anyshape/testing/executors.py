"""Laws 6 and 7: what is refused is refused alike everywhere, and every way of running gives the same bits.

6. a call that an assert refuses is refused with the assert's message: on numbers when it is built, on symbols at the latest
   when it runs, by the native loop and by Python with the same words
7. native loop == Python == walked table; saved and loaded == fresh; a kernel in one part == in several
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from numpy.typing import NDArray

import anyshape
from anyshape.errors import AnyshapeError, ShapeError, TypeRelationError
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.testing import Case, Property
from anyshape.testing.calls import (
    ByName,
    Call,
    Symbols,
    dyn_node,
    flat_values,
    made,
    node_of,
    operand_arrays,
    random_call,
    static_node,
    typed,
    variants,
)
from anyshape.testing.draws import HypothesisDraw
from anyshape.testing.execution import call_key, input_arrays
from anyshape.testing.laws import valid
from anyshape.testing.parts import one_part_is_many
from anyshape.testing.running import PROPERTIES, on_random_calls

Array = NDArray[Any]
Record = Callable[[str, Any], None]
WAYS: Mapping[str, Mapping[str, Any]] = {
    "native loop": {"loop": "native"},
    "Python": {"loop": "python"},
    "walked table": {"loop": "python", "walk": True},
}
_programs: dict[Hashable, Any] = {}


def program(c: Call) -> Function:
    """The call on symbols, the dyn variant with its operands unknown where there is one. Raises what inference raises."""
    dyn = len(variants(c.property.op)) == 2
    inputs = ByName(flat_values(c.values(Symbols({}))))
    given = ByName([typed(a, name) for name, a in (operand_arrays(c) if dyn else {}).items()])
    results = dyn_node(c, inputs, given).outputs if dyn else call(c.op, c.values(inputs), c.params)
    return Function([*inputs.params.values(), *given.params.values()], results)


def arguments(c: Call) -> dict[str, Array]:
    return input_arrays(c) | (operand_arrays(c) if len(variants(c.property.op)) == 2 else {})


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


# --- 6


class Wrong(HypothesisDraw):
    """Random choices that are as often wrong as they may be."""

    def _mostly(self) -> bool:
        return bool(self._among(True, False))


def wrong_call(p: Property, draw: Any) -> Call:
    """A random call, one dim of which is another in half of all cases."""

    def case(d: Any) -> Case:
        found = p.case(d)
        names = [n for n, s in found.shapes.items() if s is not None and not isinstance(s, list)]
        if not names or draw(st.booleans()):
            return found
        name = draw(st.sampled_from(names))
        shape = list(found.shapes[name])
        at = draw(st.integers(0, len(shape)))
        what = draw(st.sampled_from(("more", "other", "less")))
        if what == "more" or at == len(shape):
            shape.insert(at, draw(st.sampled_from((1, 2))))
        elif what == "less":
            del shape[at]
        else:
            shape[at] += draw(st.sampled_from((-1, 1, 2))) if shape[at] else 1
        return Case({**found.shapes, name: tuple(shape)}, found.params, found.ranges)

    c = random_call(replace(p, case=case), draw, choices=Wrong(draw))
    assert c.recipe is not None
    return made(p, c.recipe)


def test_refusals(op: str, record_property: Record) -> None:
    def body(c: Call) -> None:
        try:
            static_node(c)
        except ShapeError as e:
            refused_everywhere(c, str(e))
            return
        reject()

    try:
        on_random_calls(op, "6 refused alike", record_property, body, wrong_call, share=10)
    except Unsatisfiable:
        assert not any(e.error for e in PROPERTIES[op].examples), (
            "no draw is refused, and the spec has an example that is"
        )


def refused_everywhere(c: Call, said: str) -> None:
    """Every executor says what is said of numbers, and then perhaps which equation does not hold; all the same."""
    ways = compiled(c)
    if isinstance(ways, TypeRelationError):
        return
    messages = {}
    for way, f in ways.items():
        given = arguments(c)
        try:
            f.run({name: given[name] for name in f.input_names})
        except AnyshapeError as e:
            messages[way] = str(e)
            continue
        raise AssertionError(f"refused on numbers ({said}), and the {way} runs it")
    assert len(set(messages.values())) == 1, f"one refusal in different words: {messages}"
    (message,) = set(messages.values())
    assert core(message).startswith(core(said)), f"on numbers: {said}; when it runs: {message}"


def core(message: str) -> str:
    """Without the variant: the call on numbers is static, the program's is dyn."""
    return re.sub(r"^(static|dyn)\.", "", message)


# --- 7


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

    on_random_calls(op, "7a native == Python == loaded", record_property, body, share=4)


def test_parts(op: str, record_property: Record) -> None:
    def body(c: Call) -> None:
        valid(c)
        symbols = Symbols({})
        node = node_of(call(c.op, c.values(symbols), c.params))
        one_part_is_many((call_key(c), tuple(c.params.items())), node, symbols, c.flat_inputs())

    on_random_calls(op, "7b one part == many", record_property, body, share=4)
