"""Open lengths: vectors that decide a rank and whose length an iteration of a loop computes. Machine code is made for one rank, so such
loops are refused before the program runs.

In: the nodes that cannot be typed before the run. Out: an UnsupportedError that names loop, call, vector and length; nothing where the
run may still tell the length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from anyshape.errors import UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.vm.report.causes import named


class OpenLength(NamedTuple):
    """A call that takes, as this operand, a vector of a length that differs from iteration to iteration."""

    node: Node
    operand: str
    vector: Value


def refuse_open_lengths(nodes: Iterable[Node]) -> None:
    """Raises UnsupportedError for the first loop that has such a vector."""
    for node in nodes:
        open_length = next(open_lengths(node), None)
        if open_length is None:
            continue
        maker = open_length.vector.node
        what = f"the vector that {named(maker)} makes" if maker is not None else f"the vector {open_length.vector.name}"
        raise UnsupportedError(
            f"{named(node)}: the length of {what}, {open_length.vector.type}, may differ between iterations; "
            f"{named(open_length.node)} takes it as {open_length.operand}, and code is compiled for one length; "
            "fix it, by a reshape to [1] or as a constant"
        )


def open_lengths(loop: Node) -> Iterator[OpenLength]:
    """The open lengths of a loop whose operands are typed, and of loops within it."""
    if loop.op.control is None or not loop.op.control.repeats:
        return
    if any(v is not None and v.type.shape is None for v in loop.inputs):
        return  # their types, once known, may tell the length
    captured = len(loop.op.control.captured(loop))
    for region in loop.regions:
        own = set(region.params[: len(region.params) - captured])
        yield from _in_body(region, own)


def _in_body(region: Function, own: set[Value]) -> Iterator[OpenLength]:
    """The open lengths of a loop's body. `own`: values that differ from iteration to iteration; those computed from them are added."""
    for node in region.nodes:
        if any(v in own for v in node.inputs):
            own.update(node.outputs)
        yield from open_lengths(node)
        if node.bound is not None or any(v is not None and v.type.shape is None for v in node.inputs):
            continue
        operands = node.operand_inputs()
        for p in node.op.operands:
            v = operands[p.name]
            if v in own and p.is_vector and v is not None and v.type.rank == 1 and not v.type.is_static:
                yield OpenLength(node, p.name, v)
