"""What the nodes of a group compute, as the equations of one kernel.

In: nodes with the equations that their ops state. Out: those equations in order, without the views that are between them (`views.py`), and
without what would be read after it was written in pieces (`pieces.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anyshape.equations import Tensor
from anyshape.equations.builder import Equation
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.kernel_size import KernelSizes
from anyshape.passes.pieces import by_pieces, in_pieces
from anyshape.passes.simplify import viewed
from anyshape.passes.views import Joined, joined, merged_targets


@dataclass
class GroupEquations:
    """`tensors` of values and `equations` of nodes, as the ops state them."""

    tensors: dict[Value, Tensor] = field(default_factory=dict)
    equations: dict[Node, list[Equation]] = field(default_factory=dict)

    known: dict[tuple[Node, ...], Joined | None] = field(default_factory=dict)
    sizes: KernelSizes = field(default_factory=KernelSizes)

    def of(self, nodes: Sequence[Node]) -> tuple[Equation, ...]:
        return tuple(q for n in nodes for q in self.equations.get(n, ()))

    def fit_one_kernel(self, nodes: Sequence[Node]) -> bool:
        """Whether the nodes can be one kernel whose code is of bounded size."""
        joined_group = self.rewritten(nodes)
        return joined_group is not None and self.sizes.is_within(joined_group.equations)

    def rewritten(self, nodes: Sequence[Node]) -> Joined | None:
        """The nodes' equations as those of one kernel; None where they cannot be one."""
        ordered = tuple(in_order(nodes))
        if ordered not in self.known:
            self.known[ordered] = self._rewritten(ordered)
        return self.known[ordered]

    def _rewritten(self, ordered: Sequence[Node]) -> Joined | None:
        equations = self.of(ordered)
        views = [(self.tensor(n.outputs[0]), self.tensor(v)) for n in ordered if (v := viewed(n)) is not None]
        if not views and not in_pieces(equations):
            merged = merged_targets(equations) if len(ordered) > 1 else []
            split = None if not merged or self._may_shape(ordered) else joined(equations, [(t, t) for t in merged])
            return split or Joined(equations, {})
        if (
            len(ordered) == 1 and not views
        ):  # what one op writes in pieces and reads is in memory, where no pieces can be read
            pieces = None if self._may_shape(ordered) else by_pieces(equations)
            return Joined(equations if pieces is None else pieces, {})
        if self._may_shape(ordered):
            return None  # an element may be a size, which has to be in memory
        joined_group = joined(equations, views)
        if joined_group is None or not in_pieces(joined_group.equations):
            return joined_group
        pieces = by_pieces(joined_group.equations)
        return None if pieces is None else Joined(pieces, joined_group.tensors)

    @staticmethod
    def _may_shape(nodes: Sequence[Node]) -> bool:
        return any(v.contents is not None for n in nodes for v in n.outputs)

    def tensor(self, v: Value) -> Tensor:
        known = self.tensors.get(v)
        if known is None:
            assert v.type.shape is not None
            known = self.tensors[v] = Tensor(v.name or "view", v.type.dtype, v.type.shape)
        return known


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes of a group, producers first."""
    inside, done, out = set(nodes), set[Node](), list[Node]()
    stack = list(reversed(nodes))
    while stack:
        node = stack[-1]
        below = [v.node for v in node.inputs if v is not None and v.node is not None]
        missing = [n for n in below if n in inside and n not in done] if node not in done else []
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if node not in done:
            done.add(node)
            out.append(node)
    return out
