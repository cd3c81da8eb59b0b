"""Calls whose meaning each iteration of a loop, or each call of a function, decides, as branches: machine code is made for one alternative.

In: a function with such calls in its regions, or in what it calls, the axes being among the elements of an operand. Out: the function with
a chain of `if` in the place of each, one for each alternative that its rule accepts, in which the operand is a constant. Axes that are
the same in all iterations are not for this pass: a continuation makes them constants of all that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from anyshape.graph.control import IF
from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.matching import make
from anyshape.graph.regions import captures, close, failed
from anyshape.graph.relating import Alternative, alternatives
from anyshape.graph.value import Node, Value, constant, mark
from anyshape.passes.callees import everywhere
from anyshape.rules import Chosen

LIMIT = 64
"""How many branches a call may become; each has a kernel of its own. A transpose of rank 4 has 24."""


def in_branches(f: Function) -> Function:
    """f with branches in regions and callees; f itself if no call there can be specialised."""
    return everywhere(f, lambda: (_Branches(inside=False),))


class _Branches:
    def __init__(self, inside: bool) -> None:
        self._inside = inside

    def inside(self) -> _Branches:
        return _Branches(inside=True)

    def __call__(self, node: Node) -> Sequence[Value] | None:
        typed = all(v is None or v.type.shape is not None for v in (*node.inputs, *node.outputs))
        if not self._inside or not typed or node.bound is not None or node.op.control is not None:
            return None
        possible = alternatives(node, None)
        if not possible or len(possible) > LIMIT or all(alternative.bound is None for alternative in possible):
            return None
        chain = _Chain(node, possible)
        return chain.outputs() if chain.is_decided else None


class _Decider:
    """An operand among whose elements are axes that only the run tells."""

    def __init__(self, operand: Value, chosen: Mapping[object, Chosen]) -> None:
        self.operand, self.elements = operand, operand.elements() or ()
        self.kinds = {(chosen[e].rank, chosen[e].distinct) for e in self.elements if e in chosen}
        """The rank that the axes count in, and whether they must differ."""

    def on(self, alternative: Alternative) -> list[int] | None:
        """The operand's elements in an alternative; None if the alternative does not decide them all."""
        positions = [alternative.chosen[e].position if e in alternative.chosen else e for e in self.elements]
        return [int(e) for e in positions if isinstance(e, int)] if all(isinstance(e, int) for e in positions) else None

    def constant(self, alternative: Alternative) -> Value:
        shape = tuple(n for n in self.operand.type.shape or () if isinstance(n, int))
        return constant(np.array(self.on(alternative), self.operand.type.dtype.numpy).reshape(shape))

    def positions(self, source: str) -> Value:
        """The axes as the run has them, checked as the op's rule would."""
        ((rank, distinct),) = self.kinds
        return make("axis_positions", [], {"axes": self.operand, "rank": rank, "distinct": distinct}, source)

    def key(self, alternative: Alternative) -> list[int]:
        """The values of `positions` in an alternative."""
        ((rank, _),) = self.kinds
        return [e % rank for e in self.on(alternative) or ()]


class _Chain:
    """A chain of `if`s: the call on the first alternative, or else on the second, and so on."""

    def __init__(self, node: Node, possible: Sequence[Alternative]) -> None:
        self.node, self.alternatives = node, possible
        chosen = {e: c for alternative in possible for e, c in alternative.chosen.items()}
        operands = [_Decider(v, chosen) for v in node.operand_inputs().values() if v is not None]
        self.deciders = [d for d in operands if d.kinds]
        decisive = {e for d in self.deciders for e in d.elements}
        self.is_decided = chosen.keys() <= decisive and all(
            len(d.kinds) == 1 and d.on(alternative) is not None for d in self.deciders for alternative in possible
        )
        """Whether the elements of operands decide which alternative applies, axes of one rank each."""

    def outputs(self) -> Sequence[Value]:
        op, source = self.node.op, self.node.source
        by = f"{op.full_name} at {source}" if source else op.full_name
        self.place = make("concat", [[d.positions(by) for d in self.deciders]], {"axis": 0}, source)
        results = self.branch(0)
        assert not isinstance(results, str), "some alternative is not refused"
        return results

    def branch(self, k: int) -> Sequence[Value] | str:
        """The call where none of the first k alternatives is taken, or why it fails."""
        alternative, source = self.alternatives[k], self.node.source
        if k == len(self.alternatives) - 1:
            return self.outcome(alternative)
        key = constant(np.array([e for d in self.deciders for e in d.key(alternative)], np.int64))
        cond = make("all", [make("equal", [self.place, key], {}, source)], {}, source)
        sides = [_traced(partial(self.outcome, alternative)), _traced(partial(self.branch, k + 1))]
        if all(isinstance(results, str) for results, _ in sides):
            return sides[0][0]
        read = [v for results, since in sides if not isinstance(results, str) for v in captures(results, (), since)]
        captured = tuple(dict.fromkeys(read))
        regions = tuple(_closed(name, results, captured, since) for name, (results, since) in zip(NAMES, sides))
        return build(IF, (*captured, cond), {}, source, regions=regions).outputs

    def outcome(self, alternative: Alternative) -> Sequence[Value] | str:
        """The call on one alternative, or why it is refused."""
        if alternative.bound is None:
            return alternative.refusal
        node, at = self.node, {d.operand: d.constant(alternative) for d in self.deciders}
        data = len(node.data_inputs)
        inputs = (*node.inputs[:data], *(v if v is None else at.get(v, v) for v in node.inputs[data:]))
        return build(node.op, inputs, node.attrs, node.source, count=node.count).outputs


NAMES = ("then", "otherwise")


def _traced(make: Callable[[], Sequence[Value] | str]) -> tuple[Sequence[Value] | str, int]:
    """The results of a branch, and the serial number of its first node."""
    since = mark()
    return make(), since


def _closed(name: str, results: Sequence[Value] | str, captured: Sequence[Value], since: int) -> Function:
    if isinstance(results, str):
        return failed(name, close(name, (), (), captured, since).params, results)
    return close(name, results, (), captured, since)
