"""Reads the types of a graph's inputs: dims of equal name are one symbol, and each dim without a name or a size is a symbol of its own.

`dims` binds or bounds symbols: `{"batch": 8}` makes one a number, `{"seq": (1, 512)}` bounds it (None for no bound).
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
from anyshape.frontends.onnx.refusals import ImportRefusal, repairable
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.types import DIFFERS, MOST_DIMS, TensorType, list_of

DimBinding = int | tuple[int | None, int | None]


class DimNames:
    """Symbols (or numbers) of the dim names of one model."""

    def __init__(self, bindings: Mapping[str, DimBinding] | None) -> None:
        self.bindings = {name: _binding(name, b) for name, b in (bindings or {}).items()}
        self.sizes: dict[str, Size] = {}
        self._spelled: set[str] = set()

    def size(self, name: str) -> Size:
        if name not in self.sizes:
            low, high = self.bindings.get(name, (0, None))
            self.sizes[name] = low if low == high and high is not None else symbol(self._identifier(name), low, high)
        return self.sizes[name]

    def check_used(self, where: str) -> None:
        """Raises ArgumentError for a name in `dims` that no input has."""
        for name in self.bindings:
            if name not in self.sizes:
                near = get_close_matches(name, self.sizes, 1)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                known = ", ".join(map(repr, self.sizes)) or "none"
                raise ArgumentError(f"dims: no input of {where} has a dim {name!r}{hint} Named dims: {known}")

    def _identifier(self, name: str) -> str:
        """Turns a name into an identifier of the text form; different names become different identifiers."""
        plain = re.sub(r"\W", "_", name)
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"d_{plain}"
        return unused(plain, self._spelled)


def _binding(name: str, binding: Any) -> tuple[int, int | None]:
    expected = "a size such as 8, or bounds such as (1, 512) or (1, None)"
    if isinstance(binding, int) and not isinstance(binding, bool):
        low, high = binding, binding
    elif isinstance(binding, (tuple, list)) and len(binding) == 2 and all(_is_bound(b) for b in binding):
        low, high = binding[0] or 0, binding[1]
    else:
        raise ArgumentError(f"dims: {name!r} must be {expected}, got {binding!r}")
    if low < 0 or (high is not None and high < low):
        raise ArgumentError(f"dims: {name!r} must be {expected}, got {binding!r}, which no size satisfies")
    return low, high


def _is_bound(b: Any) -> bool:
    return b is None or (isinstance(b, int) and not isinstance(b, bool))


def check_names(declared: Sequence[Any], what: str, where: str) -> None:
    """Raises ModelError where an input or output has no name, or two have the same."""
    seen: set[str] = set()
    for info in declared:
        if not info.name:
            raise ModelError(f"{where}: an {what} has no name")
        if info.name in seen:
            repair = repairable("keeps the first one") if what == "output" else ""
            raise ModelError(f"{where}: two {what}s have the name {info.name!r}{repair}")
        seen.add(info.name)


def check_default(info: Any, initial: Value | None, where: str) -> None:
    """Raises ModelError where the declared type of an input contradicts its initializer: another kind, dtype or rank, or another number
    for a dim. Names of dims, and dims without a number, contradict nothing."""
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
    """Reads the type of a tensor, a sequence or an optional. Raises ModelError for damage, ImportRefusal for an unsupported type."""
    kind = proto.WhichOneof("value")
    if kind is None:
        raise ModelError(f"{where} has no type")
    if kind in ("sequence_type", "optional_type"):
        element = input_type(getattr(proto, kind).elem_type, names, where)
        differing: dict[Dim, Size] = dict.fromkeys(element.symbols(), DIFFERS)
        return list_of(element.substitute(differing), kind == "optional_type")
    if kind != "tensor_type":
        raise ImportRefusal(
            f"a {kind.removesuffix('_type').replace('_', ' ')}; only tensors, sequences and optionals are supported"
        )
    tensor = proto.tensor_type
    if tensor.elem_type not in BY_NUMBER:
        if is_known(tensor.elem_type):
            raise ImportRefusal(f"tensors of {spell(tensor.elem_type)} are not supported")
        raise ModelError(f"{where}: {tensor.elem_type} is not an element type of ONNX")
    dtype = BY_NUMBER[tensor.elem_type]
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    if len(tensor.shape.dim) > MOST_DIMS:
        raise ImportRefusal(f"a tensor of {len(tensor.shape.dim)} dims; there are at most {MOST_DIMS}")
    dims = tuple(_size(d, names) for d in tensor.shape.dim)
    return TensorType(dtype, (*dims, fresh("?")) if dtype is CHAR else dims)


def _size(d: Any, names: DimNames) -> Size:
    said = d.WhichOneof("value")
    if _is_number(d):
        return int(d.dim_value)
    if said == "dim_param" and d.dim_param and d.dim_param != "?":
        return names.size(d.dim_param)
    return fresh("?")
