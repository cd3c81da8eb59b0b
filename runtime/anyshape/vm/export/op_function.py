"""The function of one call of an op, whose inputs have types as people write them: what `anyshape export --op` exports.

In: an op, types of inputs by name, values of parameters. Out: a function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyshape.errors import ArgumentError
from anyshape.graph.building import input as named_input
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.opdef import OpDef

ANY_RANK = "[...]"


def demand_ranks(types: Mapping[str, str]) -> None:
    """Raises ArgumentError where the number of dims of an input is unknown."""
    if unknown := [n for n, text in types.items() if ANY_RANK in text]:
        raise ArgumentError(f"--ranks must say which ranks {', '.join(unknown)} may have, as --ranks 0:4")


def of_rank(types: Mapping[str, str], rank: int) -> dict[str, str]:
    """The types with so many dims where their number is unknown: `x=f32[...]` is `f32[x_0, x_1]`. Raises ArgumentError where none does."""
    if not any(ANY_RANK in text for text in types.values()):
        raise ArgumentError("--ranks is for an --input of any rank, as x=f32[...]")
    return {n: text.replace(ANY_RANK, f"[{', '.join(f'{n}_{k}' for k in range(rank))}]") for n, text in types.items()}


def of_op(op: OpDef, types: Mapping[str, str], params: Mapping[str, Any]) -> Function:
    """The function of one call: inputs of these types, parameters of these values. Of an input that is a row of tensors, they are called
    `NAME.0`, `NAME.1` and so on. Raises ArgumentError for a name that the op does not have."""
    values = {name: named_input(name, text) for name, text in types.items()}
    rows = {i.name: [n for n in values if n.rpartition(".")[0] == i.name] for i in op.inputs if i.variadic}
    operands = {p.name for p in op.operands}
    known = {i.name for i in op.inputs if not i.variadic} | operands | {n for row in rows.values() for n in row}
    if wrong := sorted(set(values) - known):
        takes = ", ".join([*(f"{i.name}.0" if i.variadic else i.name for i in op.inputs), *sorted(operands)])
        raise ArgumentError(f"{op.full_name} has no input {', '.join(wrong)}; it takes {takes}")
    if wrong := sorted(set(params) - {p.name for p in op.params} | set(params) & set(values)):
        raise ArgumentError(
            f"{op.full_name} has no parameter {', '.join(wrong)}; it has {', '.join(p.name for p in op.params) or 'none'}"
        )
    if missing := [i.name for i in op.inputs if not (i.optional or rows.get(i.name) or i.name in values)]:
        raise ArgumentError(
            f"{op.full_name}: --input must say the type of {', '.join(missing)}, as {missing[0]}='f32[n, 8]'"
        )
    data = [[values[n] for n in rows[i.name]] if i.variadic else values.get(i.name) for i in op.inputs]
    arguments_of: dict[str, Any] = {**params, **{n: v for n, v in values.items() if n in operands}}
    results = call(op, data, arguments_of)
    names = [o.name for o in op.outputs]
    return Function([*values.values()], results, op.name, names if len(names) == len(results) else None)
