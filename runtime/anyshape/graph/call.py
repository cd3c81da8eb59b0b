"""Calls as people and generated code write them: Python numbers and arrays become constants, an alias picks its variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Cond, Sameness
from anyshape.dtypes import BOOL, I64, DType, from_numpy, parse_dtype
from anyshape.errors import ArgumentError, DtypeError
from anyshape.graph.infer import build
from anyshape.graph.lengths import with_lengths
from anyshape.graph.moving import moved_strings, moves_strings
from anyshape.graph.opdef import OpDef, ParamDef
from anyshape.graph.sequences import in_sight
from anyshape.graph.value import Node, Value, constant
from anyshape.public import fits, short
from anyshape.rules import Vec
from anyshape.types import ListType
from anyshape.wording import counted

MOST_OUTPUTS = 1 << 20
"""The most outputs that one call may have: more is a mistake."""
Operand = Any
"""A Value, or anything that NumPy makes an array of."""


def call(
    op: OpDef, inputs: Sequence[Any], params: Mapping[str, Any], source: str = "", count: int | None = None
) -> tuple[Value, ...]:
    """The results of one call of a variant; see `call_node`. Of an op that only moves elements, they may be strings."""
    if op.sequence is not None and len(inputs) > op.sequence:
        items = in_sight(inputs[op.sequence])
        inputs = [*inputs[: op.sequence], items, *inputs[op.sequence + 1 :]] if items else inputs
    if op.moves and moves_strings(op, inputs, params):
        return moved_strings(op, inputs, params, source, count)
    return call_node(op, inputs, params, source, count).outputs


def call_node(
    op: OpDef, inputs: Sequence[Any], params: Mapping[str, Any], source: str = "", count: int | None = None
) -> Node:
    """Builds the node of one call of a variant. `inputs` are by position, a variadic one as a sequence; `params` by name, None for the
    default; `count` says how many outputs a variadic op has, for when nothing else does.

    Raises ArgumentError for a parameter of the wrong kind, and whatever type inference raises.
    """
    if not isinstance(source, str):
        raise ArgumentError(f"{op.full_name}: source must be a text, got {short(source)}")
    if not fits(count, int | None) or not 0 <= (count or 0) <= MOST_OUTPUTS:
        raise ArgumentError(f"{op.full_name}: outputs must be a number from 0 to {MOST_OUTPUTS}, got {short(count)}")
    return with_lengths(build(op, *arguments(op, inputs, params), source, count=count))


def arguments(op: OpDef, inputs: Sequence[Any], params: Mapping[str, Any]) -> tuple[list[Value | None], dict[str, Any]]:
    """The operands, flattened, and the attributes of a node that calls the op. Raises ArgumentError."""
    attrs = {p.name: attribute(op, p, params[p.name]) for p in op.attributes if params.get(p.name) is not None}
    for p in op.attributes:
        if p.required and p.name not in attrs:
            raise ArgumentError(f"{op.full_name}: {p.name} is missing, and has no default")
    operands = [_operand(op, p, params.get(p.name)) for p in op.operands]
    return [*_data(op, inputs), *operands], attrs


def call_alias(
    static: OpDef,
    dyn: OpDef,
    inputs: Sequence[Any],
    params: Mapping[str, Any],
    source: str = "",
    count: int | None = None,
) -> tuple[Value, ...]:
    """Calls an op by its plain name: the dyn variant if any promoted parameter is a Value, a dim or has one in it, else the static one."""
    from anyshape.graph.sizes import is_size

    promoted = (params.get(p.name) for p in dyn.operands)
    return call(
        dyn if any(isinstance(v, Value) or is_size(v) for v in promoted) else static, inputs, params, source, count
    )


def _data(op: OpDef, inputs: Sequence[Any]) -> list[Value | None]:
    if len(inputs) != len(op.inputs):
        raise ArgumentError(
            f"{op.full_name} takes {counted(len(op.inputs), 'input')} "
            f"({', '.join(i.name for i in op.inputs)}), got {len(inputs)}"
        )
    strong = _common_dtype(op, inputs)
    flat: list[Value | None] = []
    for d, argument in zip(op.inputs, inputs):
        if argument is None:
            if not d.optional:
                raise ArgumentError(f"{op.full_name}: {d.name} is missing")
            flat.append(None)
        elif d.sequence and isinstance(argument, Value) and isinstance(argument.type, ListType):
            flat.append(argument)
        elif d.variadic:
            if isinstance(argument, Value) or not hasattr(argument, "__iter__"):
                raise ArgumentError(f"{op.full_name}: {d.name} must be a list of tensors, got {argument!r}")
            flat += [as_value(v, strong.get(d.dtype), f"{op.full_name}: {d.name}: ") for v in argument]
        else:
            flat.append(as_value(argument, strong.get(d.dtype), f"{op.full_name}: {d.name}: "))
    return flat


def _common_dtype(op: OpDef, inputs: Sequence[Any]) -> dict[str, DType]:
    """The dtype that Python numbers take: that of a Value with the same dtype variable."""
    dtypes: dict[str, DType] = {}
    for d, argument in zip(op.inputs, inputs):
        for v in argument if d.variadic and isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(v, Value) and not isinstance(v.type, ListType):
                dtypes.setdefault(d.dtype, v.type.dtype)
    return dtypes


def as_value(argument: Any, dtype: DType | None = None, where: str = "") -> Value:
    """A Value as it is; a dim, a Python number or list in the dtype it meets (f32 and i64 if none); an array in its own; strings as
    characters. Raises DtypeError, whose text begins with `where`, for a number that an integer dtype does not have."""
    from anyshape.graph.sizes import is_size, sizes, truth_value

    if isinstance(argument, Value):
        return argument
    if isinstance(argument, Cond):
        return truth_value(argument)
    if is_size(argument):
        value = sizes(argument, where.removesuffix(": ") or "an operand")
        return value if dtype in (None, value.type.dtype) else value.astype(dtype)
    if isinstance(argument, np.ndarray | np.generic):
        return constant(np.asarray(argument))
    a = _array(argument)
    if a.dtype.kind == "U":
        return constant(a)
    if dtype is not None:
        return constant(_exactly(a, dtype, where))
    return constant(a.astype(np.float32) if a.dtype == np.float64 else a)


def _exactly(numbers: NDArray[Any], dtype: DType, where: str) -> NDArray[Any]:
    """Numbers in a dtype. Floats are rounded to it; an integer or a truth is never cut: raises DtypeError."""
    with np.errstate(invalid="ignore"):
        converted = _array(numbers, dtype.numpy)
    if (dtype.is_integer or dtype.is_bool) and numbers.dtype.kind in "biuf" and not np.array_equal(converted, numbers):
        lost = numbers[converted != numbers].flat[0].item()
        raise DtypeError(
            f"{where}{lost} is no {dtype}; cast the operands that are {dtype}, or pass a number of that dtype"
        )
    return converted


def _operand(op: OpDef, p: ParamDef, argument: Any) -> Value | None:
    from anyshape.graph.sizes import is_size, sizes

    if argument is None:
        if p.required:
            raise ArgumentError(f"{op.full_name}: {p.name} is missing, and has no default")
        return None
    if isinstance(argument, Value):
        return argument
    if isinstance(argument, Cond):
        return as_value(argument)
    if is_size(argument):
        return sizes(argument, f"{op.full_name}: {p.name}")
    dtype = I64 if p.kind in ("ints", "axes", "axis", "int") else BOOL if p.kind == "bool" else None
    return (
        as_value(argument)
        if dtype is None
        else constant(_exactly(_array(argument), dtype, f"{op.full_name}: {p.name}: "))
    )


def _array(argument: Any, kind: Any = None) -> NDArray[Any]:
    if isinstance(argument, list | tuple):
        argument = [v.demand() if isinstance(v, Sameness) else v for v in argument]
    elif isinstance(argument, Sameness):
        argument = argument.demand()
    try:
        return np.asarray(argument, kind)
    except (TypeError, ValueError, OverflowError) as e:
        raise ArgumentError(f"an operand is a Value, a number or an array, got {short(argument)}: {e}") from None


def attribute(op: OpDef, p: ParamDef, value: Any) -> Any:
    """The attribute in its canonical form: ints as tuples of int, dtypes as DType. Raises ArgumentError."""
    if isinstance(value, Value):
        if value.constant is None:
            other = f"; use {op.twin}" if op.twin else ""
            raise ArgumentError(f"{op.full_name}: {p.name} is an attribute, and needs a constant{other}")
        value = value.constant.tolist()
    if isinstance(value, Sameness):
        value = value.demand()
    try:
        return _canonical(p, value)
    except (TypeError, ValueError):
        expected = f"one of {', '.join(p.members)}" if p.members else _EXPECTED.get(p.kind, p.kind)
        raise ArgumentError(f"{op.full_name}: {p.name} must be {expected}, got {value!r}") from None


_EXPECTED = {"ints": "a list of integers", "axes": "a list of axes", "int": "an integer", "axis": "an integer", "bool": "True or False",
           "float": "a number", "floats": "a list of numbers",
           "strs": "a list of strings", "number": "a number", "str": "a string", "dtype": "a dtype"}  # fmt: skip


def _canonical(p: ParamDef, value: Any) -> Any:
    if p.is_vector:
        items = tuple(value) if isinstance(value, (list, tuple, Vec, range, np.ndarray)) else (value,)
        kinds: dict[str, Any] = {"floats": float, "strs": _text}
        return tuple(kinds.get(p.kind, _integer)(v) for v in items)
    if p.kind in ("int", "axis"):
        return _integer(value[0] if isinstance(value, list) and len(value) == 1 else value)
    if p.kind == "bool":
        return _truth(value)
    if p.kind == "float":
        return float(value)
    if p.kind == "number":
        return (
            value[0]
            if isinstance(value, list) and len(value) == 1
            else value
            if isinstance(value, (int, float))
            else np.asarray(value).item()
        )
    if p.kind == "dtype":
        return _dtype(value)
    text = _text(value)
    if p.members and text not in p.members:
        raise ValueError
    return text


def _dtype(value: Any) -> DType:
    """A dtype by its name here (f32) or NumPy's (float32), a dtype or type of NumPy, or a type of Python. Raises TypeError."""
    if isinstance(value, str) and not isinstance(value, DType):
        return from_numpy(value) if value in _NUMPY_NAMES else parse_dtype(value)
    if value is None:
        raise TypeError
    return value if isinstance(value, DType) else from_numpy(value)


_NUMPY_NAMES = frozenset(
    ["float16", "float32", "float64", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64))]
)


def _text(value: Any) -> str:
    text = value.decode() if isinstance(value, bytes) else value
    if not isinstance(text, str):
        raise TypeError
    return text


def _integer(v: Any) -> int:
    if isinstance(v, (bool, np.bool_)) or int(v) != v:
        raise TypeError
    return int(v)


def _truth(v: Any) -> bool:
    if v not in (0, 1, True, False):
        raise TypeError
    return bool(v)
