"""Computes a call in three ways: by the oracle of the spec, by the interpreter of its equations, and by native code (`compiled`)."""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

import anyshape
from anyshape.dtypes import CHAR, DType, from_numpy
from anyshape.equations import entropy
from anyshape.equations.interpret import Arithmetic, interpret
from anyshape.errors import TypeRelationError, UnsupportedError
from anyshape.graph.alike import alike
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.infer import absent_dtype
from anyshape.graph.opdef import InputDef
from anyshape.graph.value import Node
from anyshape.properties import BrokenReference
from anyshape.strings import as_chars, as_strings, is_text
from anyshape.types import TensorType
from anyshape_testing import eager
from anyshape_testing.calls import (
    ByName,
    Call,
    Symbols,
    dyn_node,
    equations,
    flat_values,
    operand_arrays,
    resolved,
    typed,
    variants,
)

Array = NDArray[Any]
T = TypeVar("T")
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
"""A folder in memory for files that are read back at once, if there is one: saving a file otherwise waits for the disk."""


def run_reference(c: Call, node: Node) -> list[Array]:
    """Computes the outputs by `reference:`, flattened, and caches them; absent inputs are their default constants, or None.

    16-bit floats are computed in f32, and results rounded once: NumPy itself rounds after every operation (f16), or has few of them (bf16).
    An op that reads bits gets the original arrays. Raises BrokenReference, with the line of the spec, where the reference raises.
    """
    return c.cached("reference", node, lambda: _reference(c, node))


def _reference(c: Call, node: Node) -> list[Array]:
    inputs: dict[str, Any] = {}
    reads_bits = any(name == "bitcast" for name, *_ in node.op.computed.values())
    shown = np.asarray if reads_bits else _shown
    for i in node.op.inputs:
        v = c.inputs[i.name]
        if v is None and i.default is not None:
            v = in_place_of_nothing(i, node)
        inputs[i.name] = [shown(a) for a in v] if isinstance(v, list) else None if v is None else shown(v)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = c.property.reference(**inputs, **resolved(node))
        results = result if isinstance(result, (tuple, list)) else [result]
        assert len(results) == len(node.outputs), f"{len(results)} results for {len(node.outputs)} outputs"
        return [_as_computed(np.asarray(r), o.type) for r, o in zip(results, node.outputs, strict=True)]
    except Exception as e:
        where = c.property.reference_source or c.property.source
        raise BrokenReference(f"in the reference of {c.property.op}, {where}: {type(e).__name__}: {e}") from e


def in_place_of_nothing(i: InputDef, node: Node) -> Array:
    """Returns the constant that an absent input is read as."""
    dtype = absent_dtype(node, i.dtype)
    return np.asarray(i.absent(dtype), dtype.numpy)


def _is_half(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def _widened(a: Array) -> Array:
    return a.astype(np.float32) if _is_half(from_numpy(a.dtype)) else a


def _shown(a: Array) -> Array:
    """Converts an array to what references take: tensors of characters become strings, 16-bit floats f32."""
    return as_strings(a) if a.dtype == CHAR.numpy and a.ndim else _widened(a)


def _as_computed(a: Array, t: TensorType) -> Array:
    """Converts a result of a reference to the op's type: strings become characters, as many as the type has."""
    if t.dtype is not CHAR or not is_text(a):
        return _narrowed(a, t.dtype)
    chars = as_chars(a)
    width = t.shape[-1] if t.shape is not None and isinstance(t.shape[-1], int) else chars.shape[-1]
    longest = int(np.max((chars != "") * np.arange(1, chars.shape[-1] + 1), initial=0))
    assert longest <= width, f"a string of {longest} characters in {t}"
    return np.concatenate([chars[..., :width], np.zeros((*a.shape, max(width - chars.shape[-1], 0)), CHAR.numpy)], -1)


def _narrowed(a: Array, dtype: DType) -> Array:
    """Rounds a result that was computed in f32 or f64 to a 16-bit float, where the type is one."""
    with np.errstate(over="ignore"):
        return a.astype(dtype.numpy) if _is_half(dtype) and a.dtype.kind == "f" else a


def run_equations(c: Call, node: Node) -> list[Array]:
    """Computes the outputs by the interpreter, and caches them; those of a view by reshaping, of a composed op node by node."""
    return _read(c, node).results


def largest_on_the_way(c: Call, node: Node) -> float:
    """Returns the largest magnitude of a finite float among intermediate results of a composed op; the run is cached."""
    return _read(c, node).largest


def run_equations_with(c: Call, node: Node, arithmetic: Arithmetic) -> list[Array]:
    """Computes the outputs by the interpreter under another arithmetic of elements."""
    return _read_anew(c, node, arithmetic).results


@dataclass(frozen=True)
class _Reading:
    results: list[Array]
    largest: float = 0.0


def _read(c: Call, node: Node) -> _Reading:
    return c.cached("equations", node, lambda: _read_anew(c, node))


def _read_anew(c: Call, node: Node, arithmetic: Arithmetic | None = None) -> _Reading:
    if node.op.view:
        source = c.inputs[next(iter(node.op.view.values()))]
        shape = node.outputs[0].type.shape
        assert shape is not None
        return _Reading([np.reshape(source, [int(str(n)) for n in shape])])
    if node.op.composition is not None:
        parts = eager.Eager(arithmetic)
        return _Reading(parts.run(node, operands_of(c)), parts.largest)
    eqs, ins, outs = equations(node)
    arrays = dict(zip([t for t in ins if t.absent is None], c.flat_inputs(), strict=True))
    entropy.restart(0)
    results = interpret(eqs.equations, arrays, arithmetic=arithmetic)
    return _Reading([results[t] for t in outs])


def operands_of(c: Call) -> list[Array | None]:
    """Lists the arrays of all inputs, flattened; None where one is absent."""
    return [a for v in c.inputs.values() for a in (v if isinstance(v, list) else [v])]


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


def code_points(a: Array) -> Array:
    """Views characters as code points; returns other arrays unchanged."""
    return a.view(CHAR.computed) if a.dtype == CHAR.numpy else a


def input_arrays(c: Call) -> dict[str, Array]:
    """Returns arrays by the names that `Call.values` gives their operands; code points for characters."""
    arrays: dict[str, Array] = {}

    def take(a: Array, name: str) -> Array:
        arrays[name] = code_points(a)
        return a

    c.values(take)
    return arrays
