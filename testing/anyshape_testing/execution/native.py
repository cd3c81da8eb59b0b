"""Computes a call by native code: its program on symbols, compiled once for equal calls.

In: a call. Out: arrays, or the executable that computes them; the error of inference where symbols are refused.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

import anyshape
from anyshape.equations import entropy
from anyshape.errors import TypeRelationError, UnsupportedError
from anyshape.graph.alike import alike
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.nodes import dyn_node
from anyshape_testing.calls.operands import ByName, Symbols, flat_values, input_arrays, operand_arrays, typed

Array = NDArray[Any]
T = TypeVar("T")
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
"""A folder in memory for files that are read back at once, if there is one: saving a file otherwise waits for the disk."""


class Cached(Generic[T]):
    """A cache of the most recently used keys."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, T] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = make()
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]


def has_dyn(c: Call, static: bool) -> bool:
    """Whether the program of a call is that of the dyn variant."""
    return len(variants(c.property.op)) == 2 and not static


def program(c: Call, static: bool = False) -> Function:
    """Builds the call on symbols: of the dyn variant, with unknown operands, where there is one and `static` does not ask for the other.
    Raises what inference raises."""
    dyn = has_dyn(c, static)
    inputs = ByName(flat_values(c.values(Symbols({}))))
    operands = ByName([typed(a, name) for name, a in (operand_arrays(c) if dyn else {}).items()])
    results = dyn_node(c, inputs, operands).outputs if dyn else call(c.op, c.values(inputs), c.params)
    return Function([*inputs.params.values(), *operands.params.values()], results)


def arguments(c: Call, static: bool = False) -> dict[str, Array]:
    """Returns the arrays of a program's parameters by name."""
    return input_arrays(c) | (operand_arrays(c) if has_dyn(c, static) else {})


def program_key(c: Call, static: bool = False) -> Hashable:
    """Returns a key that is equal for calls with the same program."""
    operands = operand_arrays(c) if has_dyn(c, static) else {}
    attributes = alike({k: v for k, v in c.params.items() if k not in operands})
    return call_key(c), attributes, tuple((k, a.shape) for k, a in operands.items()), has_dyn(c, static)


Compiled = anyshape.Executable | TypeRelationError | UnsupportedError
_compiled: Cached[Compiled] = Cached(400)


def compiled(c: Call, static: bool = False) -> Compiled:
    """The program in native code, compiled once for equal keys; or the error of inference on symbols."""

    def make() -> Compiled:
        try:
            f = program(c, static)
        except (TypeRelationError, UnsupportedError) as e:
            return e
        return anyshape.compile(f)

    return _compiled.of(program_key(c, static), make)


def run_native(c: Call, static: bool = False) -> list[Array]:
    """The compiled call, run. Raises what inference on symbols raises."""
    exe = compiled(c, static)
    if not isinstance(exe, anyshape.Executable):
        raise exe.with_traceback(None)
    return run_alike(exe, arguments(c, static))


def run_alike(f: Any, arrays: Mapping[str, Array]) -> list[Array]:
    """A compiled program on arrays by name. What draws without a seed draws the same as whatever else is run so."""
    entropy.restart(0)
    return list(f.run({name: arrays[name] for name in f.input_names}))


def call_key(c: Call) -> Hashable:
    """What of the inputs is fixed when dims are symbols: which are there, their dtypes and ranks."""
    kinds = []
    for name, v in c.inputs.items():
        arrays = v if isinstance(v, list) else [v]
        kinds.append((name, tuple(None if a is None else (a.dtype.name, a.ndim) for a in arrays)))
    return (c.property.op, tuple(kinds))
