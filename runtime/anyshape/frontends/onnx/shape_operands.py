"""Operands that say a shape, made constant although the shape is not: [batch, length, 8, 64] for a tensor whose first dims are batch
and length is [0, 0, 8, 64] to Reshape, whose 0 copies a dim and whose -1 is what is left; Expand's 1 keeps one.

In: a node, and what is known of its values. Out: the constant, or None. It gives the same result wherever the operand does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshape.dims import Facts, bounds, ne
from anyshape.graph.value import Value

Known = Sequence[Any]
Solver = Callable[[Any, Known, Known, Known, Facts], "list[int] | None"]


def constant_shape(node: Any, inputs: Sequence[Value | None], output: Value | None, facts: Facts) -> list[int] | None:
    """What to say in place of the node's second operand, which is not a constant yet."""
    solver = SOLVERS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if solver is None or len(inputs) != 2 or output is None or any(v is None for v in inputs):
        return None
    x, said = inputs
    assert x is not None and said is not None
    if said.is_constant or said.contents is None or x.type.shape is None or output.type.shape is None:
        return None
    return solver(node, x.type.shape, said.contents, output.type.shape, facts)


def _reshape(node: Any, dims: Known, said: Known, result: Known, facts: Facts) -> list[int] | None:
    if any(a.name == "allowzero" and a.i for a in node.attribute):
        return None  # there 0 is a size
    found = [_entry(dims, said, k) for k in range(len(said))]
    if found.count(-1) > 1:
        # the -1 that was there is a dim that is known by now
        found = [_stated(dims, result, k) if e == -1 and said[k] == -1 else e for k, e in enumerate(found)]
    if found.count(-1) > 1:
        return None
    if -1 in found and said[found.index(-1)] != -1:
        rest = [dims[k] if e == 0 else e for k, e in enumerate(found) if e != -1]
        if not all(_is_positive(n, facts) for n in rest):
            return None  # beside an empty dim, -1 is refused where the size itself is not
    return found


def _entry(dims: Known, said: Known, k: int) -> int:
    if isinstance(said[k], int):
        return int(said[k])
    return 0 if k < len(dims) and dims[k] is said[k] else -1


def _stated(dims: Known, result: Known, k: int) -> int:
    if isinstance(result[k], int) and result[k] > 0:
        return int(result[k])
    return 0 if k < len(dims) and dims[k] is result[k] else -1


def _is_positive(n: Any, facts: Facts) -> bool:
    if isinstance(n, int):
        return n > 0
    return (bounds(n)[0] or 0) > 0 or facts.decide(ne(n, 0)) is True


def _expand(node: Any, dims: Known, said: Known, result: Known, facts: Facts) -> list[int] | None:
    missing = len(said) - len(dims)
    found: list[int] = []
    for k, e in enumerate(said):
        if isinstance(e, int):
            found.append(int(e))
        elif k >= missing and dims[k - missing] is e:
            found.append(1)
        else:
            return None
    return found


SOLVERS: dict[str, Solver] = {"Reshape": _reshape, "Expand": _expand}
