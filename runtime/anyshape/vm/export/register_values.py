"""Registers of a program as expressions of the caller's dims: the scalar instructions, run on symbols.

In: what is known of a program. Out: expressions by register. A number that only a run tells is a symbol of its own, where `data` says so.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from anyshape.dims import (
    Cond,
    Dim,
    NestedTooDeep,
    Size,
    and_,
    eq,
    floordiv,
    ge,
    gt,
    le,
    lt,
    maximum,
    minimum,
    mod,
    ne,
    not_,
    or_,
    select,
    substitute,
    symbol,
)
from anyshape.vm.export.entry_knowledge import EntryKnowledge, KnownInstruction
from anyshape.vm.export.interface import Interface
from anyshape.vm.export.registers import SCALAR_OPS
from anyshape.vm.program.table import Op

Content: TypeAlias = "Size | Cond | bool"
_ON_NUMBERS: dict[Op, Callable[..., Any]] = {
    Op.ADD: operator.add, Op.SUB: operator.sub, Op.MUL: operator.mul, Op.FLOORDIV: floordiv, Op.MOD: mod, Op.MIN: minimum, Op.MAX: maximum,
    Op.EQ: eq, Op.NE: ne, Op.LT: lt, Op.LE: le, Op.GT: gt, Op.GE: ge,
}  # fmt: skip
_ON_TRUTHS: dict[Op, Callable[..., Any]] = {Op.AND: and_, Op.OR: or_, Op.NOT: not_}


def entry_values(known: EntryKnowledge, m: Interface, threads: int = 1) -> dict[int, Content]:
    """The registers that dims alone decide, for calls that so many threads work on."""
    return _values(known, m, list(known.scalars()), threads=threads)


def run_values(
    known: EntryKnowledge, m: Interface, data: Callable[[int | None, int | None], Dim]
) -> dict[int, Content]:
    """All registers that one instruction writes. `data` gives a symbol for a number that only a run tells."""
    writers = Counter(step["d"] for step in known.steps if step.op.writes)
    once = [step for step in known.steps if step.op.writes and writers[step["d"]] == 1]
    return _values(known, m, once, data)


def _values(
    known: EntryKnowledge,
    m: Interface,
    steps: list[KnownInstruction],
    data: Callable[[int | None, int | None], Dim] | None = None,
    threads: int = 1,
) -> dict[int, Content]:
    named = {d.symbol: symbol(d.c_name, 0) for d in m.dims}
    values: dict[int, Content] = {}
    for step in steps:
        computed = step["d"] in known.known or (step.op in SCALAR_OPS and values.keys() >= set(step.registers()))
        if data is None:
            values[step["d"]] = _value(step, values, m, named, threads)
            continue
        try:
            values[step["d"]] = _value(step, values, m, named, threads) if computed else data(None, None)
        except NestedTooDeep:
            values[step["d"]] = data(None, None)
    return values


def _value(
    step: KnownInstruction, values: dict[int, Content], m: Interface, named: dict[Dim, Dim], threads: int
) -> Content:
    if step.op is Op.DIM:
        n = m.inputs[step["argument"]].shape[step["axis"]]
        return substitute(n, named) if isinstance(n, Dim) else n
    if step.op is Op.THREADS:
        return threads
    if step.op is Op.CONST:
        return step["n"]
    operands = [values[k] for k in step.registers()]
    if step.op is Op.SELECT:
        result: Content = select(truth_of(operands[0]), *map(number_of, operands[1:]))
    elif step.op in _ON_TRUTHS:
        result = _ON_TRUTHS[step.op](*map(truth_of, operands))
    else:
        numbers = [number_of(o) for o in operands]
        by_zero = step.op in (Op.FLOORDIV, Op.MOD) and numbers[1] == 0
        result = 0 if by_zero else _ON_NUMBERS[step.op](*numbers)
    return result


def number_of(c: Content) -> Size:
    return select(c, 1, 0) if isinstance(c, (bool, Cond)) else c


def truth_of(c: Content) -> bool | Cond:
    return c if isinstance(c, (bool, Cond)) else ne(c, 0)
