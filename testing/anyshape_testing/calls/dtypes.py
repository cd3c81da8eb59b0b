"""Says which dtypes the variables and operands of an op may have, and which of its operands and parameters are integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyshape.dtypes import DType, accum, is_dtype_name, parse_dtype
from anyshape.graph.opdef import InputDef, OpDef
from anyshape_testing.process.profile import LONG


def computed(allowed: Sequence[str]) -> Sequence[str]:
    """Selects the dtypes that references compute with; all, where there is none."""
    return [c for c in allowed if not parse_dtype(c).is_narrow] or allowed


def has_integers(op: OpDef) -> bool:
    """Whether a parameter is an integer, or an operand allows integers only."""
    return any(p.kind in ("int", "ints") for p in op.params) or any(is_of_indices(op, i.name) for i in op.inputs)


def is_of_indices(op: OpDef, name: str) -> bool:
    (i,) = (i for i in op.inputs if i.name == name)
    return not i.variadic and set(op.dtypes.get(i.dtype, (i.dtype,))) <= {"i64", "i32"}


def narrow_dtypes(op: OpDef) -> list[dict[str, str]]:
    """Lists dtypes of the op's variables for each narrow float that one may be: a variable that does not allow it has its first dtype.
    Without `LONG` only the first float, f16, is listed."""
    choices = []
    for narrow in dict.fromkeys(d for allowed in op.dtypes.values() for d in computed(allowed)):
        dtype = parse_dtype(narrow)
        if dtype.is_float and accum(dtype) is not dtype:
            choices.append({v: narrow if narrow in allowed else allowed[0] for v, allowed in op.dtypes.items()})
    return choices if LONG else choices[:1]


def input_dtype(i: InputDef, dtypes: Mapping[str, DType]) -> DType:
    return parse_dtype(i.dtype) if is_dtype_name(i.dtype) else dtypes[i.dtype]
