"""Values that are looked up in tables, which are filled ahead of all loops and kept for all lookups.

In: a node that is a function of one byte, or of a code of four bits. Out: its value, or None if it is computed otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyshape.lower.emit.values import byte_tables, code_tables
from anyshape.lower.ir.dag import DagNode, Operation
from anyshape.lower.llvm.types import Val

if TYPE_CHECKING:
    from anyshape.lower.emit.values.value import Values


def from_table(values: Values, n: Operation, copy: int) -> Val | None:
    """The value from a table, if it is a function of a byte, or of a code of four bits that varies along the lanes."""
    of_byte = looked_up_byte(values, n, 1)
    if of_byte is not None:
        return from_byte_table(values, n, of_byte, values.of(of_byte.of, copy))
    if values.f.target.scalef and values.lanes_of(values.varies(n)) == code_tables.CODES:
        return _from_code_table(values, n, copy)
    return None


def looked_up_byte(values: Values, n: DagNode, vectors: int) -> byte_tables.ByteFunction | None:
    """The function of a byte by which so many vectors of a value are looked up together in a table; None if it is computed otherwise."""
    target = values.f.target
    if not (target.permutes_bytes or target.picks_of_sixteen) or not isinstance(n, Operation):
        return None
    function = byte_tables.byte_function(n)
    if function is None or not byte_tables.is_worth(function, n, target, vectors):
        return None
    return None if any(values.levels.depth(m) > 0 for m in function.fixed) else function


def from_byte_table(values: Values, n: DagNode, function: byte_tables.ByteFunction, code: Val) -> Val:
    """The value for a byte or several, from a table of all bytes."""
    f, levels = values.f, values.levels
    keys = [("byte table", n, k) for k in range(byte_tables.parts(f.target))]
    table = [part for k in keys if (part := levels.find(k)) is not None]
    if not table:
        with levels.at(0):
            parts = byte_tables.fill(f, function, values.of)
            table = [levels.remember(k, part) for k, part in zip(keys, parts, strict=True)]
    return byte_tables.look_up(f, table, code)


def _from_code_table(values: Values, n: Operation, copy: int) -> Val | None:
    """The values for a vector of codes, from a table of 16."""
    f, levels = values.f, values.levels
    function = code_tables.code_function(n)
    if function is None or not values.varies(function.of):
        return None
    table = levels.find(("codes", n))
    if table is None:
        with levels.at(0):
            table = levels.remember(("codes", n), code_tables.fill(f, function))
    return code_tables.look_up(f, table, values.of(function.of, copy))
