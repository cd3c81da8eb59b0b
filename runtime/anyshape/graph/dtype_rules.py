"""Dtypes of a call: dtype variables solved from the operands and parameters, checked against the classes of the spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anyshape.dtypes import CHAR, DType, accum, bitcast, is_dtype_name, parse_dtype, promote
from anyshape.errors import DtypeError
from anyshape.graph.value import Node, Value
from anyshape.types import ListType

_FUNCTIONS: dict[str, Callable[..., DType]] = {"accum": accum, "promote": promote, "bitcast": bitcast}


def solve_dtypes(node: Node) -> dict[str, DType]:
    """The dtype of every dtype variable. Raises DtypeError that names the op, the operand, the dtype expected and the dtype it has."""
    op = node.op
    solved: dict[str, DType] = {}
    by: dict[str, str] = {}
    for i in op.inputs:
        value = node.grouped_inputs()[i.name]
        for v in value if isinstance(value, tuple) else (value,):
            if v is not None:
                t = v.type.element if v is node.sequence and isinstance(v.type, ListType) else v.type
                _take(node, i.name, i.dtype, t.dtype, solved, by)
    for p, operand in zip(op.operands, node.param_operands, strict=True):
        if operand is not None:
            _check_operand(node, p.name, p.kind, operand, solved)
    for p in op.params:
        if p.kind == "dtype" and not p.operand:
            said = node.attrs.get(p.name, p.default)
            if said is CHAR:  # strings are a dim more, which no rule of dtypes gives
                raise DtypeError(f"{op.full_name}: {p.name} must be a dtype of numbers, got char{_at(node)}")
            if isinstance(said, DType):
                solved[f"param:{p.name}"] = said
    for var, (name, *of) in op.computed.items():
        known = [solved.get(v) or (parse_dtype(v) if is_dtype_name(v) else None) for v in of]
        if None not in known:
            try:
                solved[var] = _FUNCTIONS[name](*known)
            except DtypeError as e:
                raise DtypeError(f"{op.full_name}: {e}{_at(node)}") from None
    return solved


def _take(node: Node, name: str, declared: str, got: DType, solved: dict[str, DType], by: dict[str, str]) -> None:
    op = node.op
    if is_dtype_name(declared):
        if got is not parse_dtype(declared):
            raise DtypeError(f"{op.full_name}: {name} must be {declared}, got {got}{_at(node)}")
        return
    allowed = op.dtypes.get(declared, ())
    if allowed and got.name not in allowed and (got is CHAR or declared not in op.moved(node.attrs)):
        raise DtypeError(f"{op.full_name}: {name} must be one of {', '.join(allowed)}, got {got}{_at(node)}")
    if declared in solved and solved[declared] is not got:
        raise DtypeError(
            f"{op.full_name}: {name} is {got}, and {by[declared]} is {solved[declared]}; they must be equal{_at(node)}"
        )
    solved.setdefault(declared, got)
    by.setdefault(declared, name)


def _check_operand(node: Node, name: str, kind: str, value: Value, solved: dict[str, DType]) -> None:
    got = value.type.dtype
    if kind in ("ints", "axes", "axis", "int"):
        if not got.is_index:
            raise DtypeError(f"{node.op.full_name}: {name} must be an integer tensor, got {got}{_at(node)}")
    elif kind == "bool":
        if not got.is_bool:
            raise DtypeError(f"{node.op.full_name}: {name} must be bool, got {got}{_at(node)}")
    elif kind == "number":
        solved.setdefault("T", got)
        if solved["T"] is not got:
            raise DtypeError(f"{node.op.full_name}: {name} is {got}, and another operand is {solved['T']}{_at(node)}")
    elif not got.is_float:
        raise DtypeError(f"{node.op.full_name}: {name} must be a float tensor, got {got}{_at(node)}")


def output_dtypes(node: Node, solved: Mapping[str, DType]) -> dict[str, DType]:
    """{output: dtype}, in the order of the op."""
    dtypes: dict[str, DType] = {}
    for o in node.op.outputs:
        if o.dtype in solved:
            dtypes[o.name] = solved[o.dtype]
        elif is_dtype_name(o.dtype):
            dtypes[o.name] = parse_dtype(o.dtype)
        else:
            raise DtypeError(f"{node.op.full_name}: the dtype of {o.name} is not determined{_at(node)}")
    return dtypes


def _at(node: Node) -> str:
    return f" (at {node.source})" if node.source else ""
