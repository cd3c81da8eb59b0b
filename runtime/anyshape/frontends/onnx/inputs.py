"""The declared inputs of a graph to parameters of a Function: equal dim names are one symbol, everything unsaid a symbol of its own.

`dims` narrows symbols: `{"batch": 8}` makes a number of one, `{"seq": (1, 512)}` bounds it (None for an open end).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from anyshape.dims import Dim, Size, fresh, symbol
from anyshape.dtypes import CHAR
from anyshape.errors import ArgumentError, ModelError
from anyshape.frontends.onnx.dtypes import BY_NUMBER, NUMBER_OF, declared_dims, is_known, spell
from anyshape.frontends.onnx.refusals import Refusal, repairable
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.types import DIFFERS, MOST_DIMS, TensorType, list_of

DimBinding = int | tuple[int | None, int | None]
LARGEST = 2**63 - 1


class DimNames:
    """Dim names of one model, each made a symbol (or a number) once."""

    def __init__(self, bindings: Mapping[str, DimBinding] | None) -> None:
        self.bindings = {name: _binding(name, b) for name, b in (bindings or {}).items()}
        self.made: dict[str, Size] = {}
        self._spelled: set[str] = set()

    def size(self, name: str) -> Size:
        if name not in self.made:
            low, high = self.bindings.get(name, (0, None))
            self.made[name] = low if low == high and high is not None else symbol(self._identifier(name), low, high)
        return self.made[name]

    def check_used(self, where: str) -> None:
        """Raises ArgumentError for a name in `dims` that no input has."""
        for name in self.bindings:
            if name not in self.made:
                near = get_close_matches(name, self.made, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                known = ", ".join(map(repr, self.made)) or "none"
                raise ArgumentError(f"dims: no input of {where} has a dim {name!r}{hint} Named dims: {known}")

    def _identifier(self, name: str) -> str:
        """The name as the text form can spell it; two names never become one."""
        plain = re.sub(r"\W", "_", name)
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"d_{plain}"
        return unused(plain, self._spelled)


def _binding(name: str, given: Any) -> tuple[int, int | None]:
    wanted = "a size such as 8, or bounds such as (1, 512) or (1, None)"
    if isinstance(given, int) and not isinstance(given, bool):
        low, high = given, given
    elif isinstance(given, (tuple, list)) and len(given) == 2 and all(_is_bound(b) for b in given):
        low, high = given[0] or 0, given[1]
    else:
        raise ArgumentError(f"dims: {name!r} must be {wanted}, got {given!r}")
    if low < 0 or (high is not None and high < low):
        raise ArgumentError(f"dims: {name!r} must be {wanted}, got {given!r}, which no size satisfies")
    return low, high


def _is_bound(b: Any) -> bool:
    return b is None or (isinstance(b, int) and not isinstance(b, bool))


def check_names(declared: Sequence[Any], what: str, where: str) -> None:
    """Raises ModelError where one of these has no name, or two have the same."""
    seen: set[str] = set()
    for info in declared:
        if not info.name:
            raise ModelError(f"{where}: an {what} has no name")
        if info.name in seen:
            repair = repairable("keeps the first one") if what == "output" else ""
            raise ModelError(f"{where}: two {what}s are called {info.name!r}{repair}")
        seen.add(info.name)


def check_default(info: Any, initial: Value | None, where: str) -> None:
    """Raises ModelError where an input is declared as what its initializer is not: of another kind or dtype, of another rank, or with a
    number for a dim that differs. Names of dims and what is not said contradict nothing."""
    kind = info.type.WhichOneof("value")
    if kind is None or initial is None:
        return
    said = info.type.tensor_type
    shape, dims = declared_dims(initial.type) or (), said.shape.dim
    agrees = kind == "tensor_type" and said.elem_type in (0, NUMBER_OF[initial.type.dtype])
    if agrees and said.HasField("shape"):
        agrees = len(dims) == len(shape) and all(not _is_number(d) or d.dim_value == n for d, n in zip(dims, shape))
    if not agrees:
        raise ModelError(
            f"{where}: input {info.name!r} is declared as {_spell_declared(info.type)}, but its initializer is "
            f"{spell(NUMBER_OF[initial.type.dtype])}[{', '.join(map(str, shape))}]"
        )


def _is_number(d: Any) -> bool:
    return bool(d.WhichOneof("value") == "dim_value" and d.dim_value >= 0)


def _spell_declared(proto: Any) -> str:
    kind = proto.WhichOneof("value")
    if kind != "tensor_type":
        return f"a {kind.removesuffix('_type').replace('_', ' ')}"
    tensor = proto.tensor_type
    dims = [str(d.dim_value) if _is_number(d) else d.dim_param or "?" for d in tensor.shape.dim]
    return f"{spell(tensor.elem_type)}[{', '.join(dims)}]" if tensor.HasField("shape") else spell(tensor.elem_type)


def input_type(proto: Any, names: DimNames, where: str) -> TensorType:
    """Of a tensor, a sequence or an optional. Raises ModelError for damage, Refusal for what we do not have."""
    kind = proto.WhichOneof("value")
    if kind is None:
        raise ModelError(f"{where} has no type")
    if kind in ("sequence_type", "optional_type"):
        element = input_type(getattr(proto, kind).elem_type, names, where)
        differing: dict[Dim, Size] = dict.fromkeys(element.symbols(), DIFFERS)
        return list_of(element.substitute(differing), kind == "optional_type")
    if kind != "tensor_type":
        raise Refusal(
            f"a {kind.removesuffix('_type').replace('_', ' ')}; only tensors, sequences and optionals are supported"
        )
    tensor = proto.tensor_type
    if tensor.elem_type not in BY_NUMBER:
        if is_known(tensor.elem_type):
            raise Refusal(f"tensors of {spell(tensor.elem_type)} are not supported")
        raise ModelError(f"{where}: {tensor.elem_type} is not an element type of ONNX")
    dtype = BY_NUMBER[tensor.elem_type]
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    if len(tensor.shape.dim) > MOST_DIMS:
        raise Refusal(f"a tensor of {len(tensor.shape.dim)} dims; there are at most {MOST_DIMS}")
    dims = tuple(_size(d, names) for d in tensor.shape.dim)
    return TensorType(dtype, (*dims, fresh("?")) if dtype is CHAR else dims)


def _size(d: Any, names: DimNames) -> Size:
    said = d.WhichOneof("value")
    if _is_number(d):
        return int(d.dim_value)
    if said == "dim_param" and d.dim_param and d.dim_param != "?":
        return names.size(d.dim_param)
    return fresh("?")
