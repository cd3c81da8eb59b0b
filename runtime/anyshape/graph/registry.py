"""The ops that exist: the generated package's, and those of packages that announce themselves by the entry point `anyshape.ops`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from anyshape.errors import UnsupportedError
from anyshape.graph.opdef import OpDef


@cache
def all_ops() -> Mapping[str, OpDef]:
    """{full name: OpDef} of every variant."""
    from importlib.metadata import entry_points

    from anyshape_ops import OPS

    found: dict[str, OpDef] = dict(OPS)
    for point in entry_points(group="anyshape.ops"):
        found.update(point.load())
    return found


def find_op(full_name: str) -> OpDef:
    """An op, of control flow too. Raises UnsupportedError with near names."""
    from anyshape.graph.control import CONTROL_OPS

    ops = {**all_ops(), **CONTROL_OPS} if full_name not in all_ops() else all_ops()
    if full_name in ops:
        return ops[full_name]
    from difflib import get_close_matches

    near = get_close_matches(full_name, ops, 3)
    raise UnsupportedError(f"there is no op {full_name}" + (f"; did you mean {', '.join(near)}?" if near else ""))
