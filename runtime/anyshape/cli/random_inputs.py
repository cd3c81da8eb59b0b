"""Makes random inputs of a model's types: sizes are those of --shape and --dim, and others are chosen such that the model accepts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, Size, bounds, evaluate, free_symbols
from anyshape.dtypes import CHAR, DType
from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.frontends.onnx.inputs import DimBinding, DimNames, input_type
from anyshape.strings import as_chars, as_strings
from anyshape.types import DIFFERS, ListType, TensorType

ELEMENTS = 3
"""Elements of a random list"""
USUAL = 8
"""The size of a dim that no option gives, if its bounds allow it"""
TRIES = 60
"""The most choices of other sizes that are tried"""


class ChosenSizes:
    """Sizes of symbolic dims: bound by the shapes that are known, else chosen; `chosen` has those that no option gave."""

    def __init__(self, preferred: Mapping[str, int]) -> None:
        self.values: dict[Dim, int] = {}
        self.chosen: dict[str, int] = {}
        self._preferred = preferred

    def bind(self, name: str, t: TensorType, shape: Sequence[int]) -> None:
        """Binds the dims of one shape. Contradictions are left to the entry check of the model, which has the better message."""
        if t.shape is None:
            return
        if len(t.shape) != len(shape):
            raise ArgumentError(f"{name} is {t}, of rank {len(t.shape)}; got {'x'.join(map(str, shape)) or 'scalar'}")
        for d, n in zip(t.shape, shape):
            if isinstance(d, Dim) and d in free_symbols(d):
                self.values.setdefault(d, n)

    def size(self, d: Size) -> int:
        if isinstance(d, int):
            return d
        for s in sorted(free_symbols(d), key=attrgetter("name")):
            if s not in self.values:
                low, high = bounds(s)
                n = max(self._preferred.get(s.name, USUAL), low or 0)
                self.values[s] = self.chosen[s.name] = n if high is None else min(n, high)
        return int(evaluate(d, self.values))


def make_inputs(
    names: Sequence[str],
    types: Sequence[TensorType],
    shapes: Mapping[str, tuple[int, ...]],
    contents: Mapping[str, NDArray[Any]],
    ints: tuple[int, int],
    seed: int,
    preferred: Mapping[str, int] = MappingProxyType({}),
) -> tuple[dict[str, Any], ChosenSizes]:
    """Makes an array for every input, and ELEMENTS arrays for a list; the shape of a list is that of each of its elements. `preferred` has
    sizes of named dims, for those that no shape binds. Raises ArgumentError for an unknown name and for a rank that nothing says."""
    _demand_inputs(names, (*shapes, *contents))
    strings = {name for name, t in zip(names, types) if t.dtype is CHAR}
    contents = {name: as_chars(a) if name in strings else a for name, a in contents.items()}
    shapes = {name: (*s, USUAL) if name in strings else s for name, s in shapes.items()}
    sizes, random = ChosenSizes(preferred), np.random.default_rng(seed)
    said = {**shapes, **{name: a.shape for name, a in contents.items()}}
    for name, t in zip(names, types):
        if name in said and not isinstance(t, ListType):
            sizes.bind(name, t, said[name])
    inputs: dict[str, Any] = {}
    for name, t in zip(names, types):
        if name in contents:
            inputs[name] = _converted(name, contents[name], t)
        elif isinstance(t, ListType):
            inputs[name] = _elements(name, t, said.get(name), sizes, ints, random)
        else:
            shape = said[name] if name in said else _sizes_of(name, t, sizes)
            inputs[name] = _random(t.dtype, shape, ints, random)
    return inputs, sizes


def inputs_of(model: Any, dims: Mapping[str, DimBinding], where: str) -> tuple[list[str], list[TensorType]]:
    """Lists the names and types of the inputs of an ONNX model that have no default."""
    held, symbols = {t.name for t in model.graph.initializer}, DimNames(dims)
    asked = [i for i in model.graph.input if i.name not in held]
    return [i.name for i in asked], [input_type(i.type, symbols, f"{where}: input {i.name!r}", i.name) for i in asked]


def _converted(name: str, a: NDArray[Any], t: TensorType) -> NDArray[Any]:
    """Converts an array to the dtype of an input. Dtypes that NumPy has not are stored as bytes."""
    if t.dtype is CHAR:
        return as_strings(a)
    declared = t.dtype.numpy
    if a.dtype.kind == "V" and a.dtype.itemsize == declared.itemsize:
        return a.view(declared)
    try:
        return a.astype(declared)
    except (TypeError, ValueError, OverflowError) as e:
        raise ArgumentError(f"{name} is {t}, and {a.dtype} cannot be converted to it: {e}") from None


def _demand_inputs(names: Sequence[str], asked: Sequence[str]) -> None:
    for name in asked:
        if name not in names:
            raise ArgumentError(f"the model has no input {name!r}; its inputs are {', '.join(names)}")


def _sizes_of(name: str, t: TensorType, sizes: ChosenSizes) -> tuple[int, ...]:
    if t.shape is None:
        raise ArgumentError(f"{name} is {t}: its rank is not known, so pass a shape: --shape {name}=2x3")
    return tuple(sizes.size(d) for d in t.shape)


def accepted_inputs(
    run: Callable[[Mapping[str, Any]], object], make: Callable[[Mapping[str, int]], tuple[dict[str, Any], ChosenSizes]]
) -> tuple[dict[str, Any], ChosenSizes]:
    """Makes inputs that `run` accepts, with no preferred sizes at first. A model may demand what no type says, such as a mask as long as a
    cache and the new tokens together: then each chosen size is tried as the sum of two others, and as 1. If the model refuses all of
    them, the first inputs are returned, whose message says most."""
    first = make({})
    chosen = first[1].chosen
    for preferred in ({}, *islice(_alternatives(chosen), TRIES)) if chosen else ():
        try:
            inputs = make(preferred) if preferred else first
            run(inputs[0])
        except AnyshapeError:
            continue
        return inputs
    return first


def _alternatives(chosen: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Lists choices in which one size is changed: to the sum of two others, to twice another one, or to 1."""
    for name in chosen:
        rest = [other for other in chosen if other != name]
        sums = [chosen[a] + chosen[b] for a, b in combinations(rest, 2)] + [2 * chosen[a] for a in rest]
        for n in dict.fromkeys([*sums, 1]):
            yield {**chosen, name: n}


def _elements(
    name: str,
    t: ListType,
    said: Sequence[int] | None,
    sizes: ChosenSizes,
    ints: tuple[int, int],
    random: np.random.Generator,
) -> Any:
    """Makes the elements of a list, or the one of an optional; sizes that may differ between elements do."""
    elements: list[Any] = []
    for k in range(1 if t.optional else ELEMENTS):
        if isinstance(t.element, ListType):
            elements.append(_elements(name, t.element, said, sizes, ints, random))
            continue
        if said is None and t.element.shape is None:
            raise ArgumentError(
                f"{name} is {t}: the rank of its elements is not known, so pass a shape: --shape {name}=2x3"
            )
        own = [USUAL + k if n is DIFFERS else sizes.size(n) for n in t.element.shape or ()]
        elements.append(_random(t.element.dtype, tuple(said if said is not None else own), ints, random))
    return elements[0] if t.optional else elements


def spell_shape(a: Any) -> str:
    """Spells a shape, `2x3`, or the shapes of the elements of a list."""
    if isinstance(a, list):
        return f"list of {', '.join(map(spell_shape, a))}"
    return "x".join(map(str, a.shape)) or "scalar"


def _random(t: DType, shape: tuple[int, ...], ints: tuple[int, int], random: np.random.Generator) -> NDArray[Any]:
    try:
        return _numbers(t, shape, ints, random)
    except (ValueError, MemoryError):
        raise ArgumentError(
            f"an input of shape {list(shape)} with numbers below {ints[1]} does not fit in memory"
        ) from None


def _numbers(t: DType, shape: tuple[int, ...], ints: tuple[int, int], random: np.random.Generator) -> NDArray[Any]:
    if t.is_float:
        return random.standard_normal(shape).astype(t.numpy)
    if t is CHAR:
        return as_strings(random.integers(ord("a"), ord("z"), shape, np.uint32, endpoint=True).view(t.numpy))
    if t.is_bool:
        return random.integers(0, 2, shape).astype(t.numpy)
    return random.integers(*ints, shape).astype(t.numpy)
