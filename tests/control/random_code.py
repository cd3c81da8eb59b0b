"""Random statements of branches and loops within one another: run as Python would, and built as a graph. What a statement does otherwise,
a `Language` says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anyshape import control, ops

Code = tuple[Any, ...]


@dataclass(frozen=True)
class Language:
    """Statements `kind(a, b)` on values that have a length, in plain Python and as nodes; `joined` is what a loop's two values give."""

    kinds: tuple[str, ...]
    most: int
    """statements of a block"""
    limits: tuple[int, int]
    """the lengths by which branches are chosen"""
    nesting: int
    """how often a branch or loop is drawn, beside each kind once"""
    plain: Callable[[str, Any, Any], Any]
    plain_joined: Callable[[Any, Any], Any]
    node: Callable[[str, Any, Any], Any]
    node_joined: Callable[[Any, Any], Any]
    length: Callable[[Any], Any]
    """the length of a list as a node"""

    def block(self, r: random.Random, there: int, depth: int) -> list[Code]:
        """Statements; each makes one more of the values that are there, by number."""
        code: list[Code] = []
        for _ in range(r.randint(1, self.most)):
            a, b = r.randrange(there), r.randrange(there)
            kind = r.choice([*self.kinds, *["if", "loop"] * (self.nesting if depth > 0 else 0)])
            if kind == "if":
                then, other = (self.block(r, there, depth - 1) for _ in range(2))
                code.append(("if", r.randint(*self.limits), a, then, other))
            elif kind == "loop":
                code.append(("loop", r.randint(0, 3), a, b, self.block(r, there + 2, depth - 1)))
            else:
                code.append((kind, a, b))
            there += 1
        return code

    def run(self, code: Sequence[Code], arguments: Sequence[Any]) -> list[Any]:
        values = list(arguments)
        for kind, *rest in code:
            if kind == "if":
                limit, a, then, other = rest
                values.append(self.run(then if len(values[a]) > limit else other, values)[-1])
            elif kind == "loop":
                iterations, a, b, body = rest
                p, q = values[a], values[b]
                for _ in range(iterations):
                    p, q = q, self.run(body, [*values, p, q])[-1]
                values.append(self.plain_joined(p, q))
            else:
                values.append(self.plain(kind, *(values[k] for k in rest)))
        return values

    def build(self, code: Sequence[Code], arguments: Sequence[Any], iterations_of: Any) -> list[Any]:
        """`turns_of` holds 0, 1, 2, 3: numbers of turns that only the run knows."""
        values = list(arguments)
        for kind, *rest in code:
            here = tuple(values)
            if kind == "if":
                limit, a, *branches = rest
                longer = ops.greater(self.length(values[a]), limit)
                then, other = (self._closed(b, here, iterations_of) for b in branches)
                values += control.if_(longer, then, other)
            elif kind == "loop":
                iterations, a, b, body = rest
                inner = self._closed(body, here, iterations_of)
                p, q = control.loop(
                    ops.gather(iterations_of, iterations),
                    lambda _, x, y, inner=inner: [y, inner(x, y)],
                    [values[a], values[b]],
                )
                values.append(self.node_joined(p, q))
            else:
                values.append(self.node(kind, *(values[k] for k in rest)))
        return values

    def _closed(self, code: Sequence[Code], here: Sequence[Any], iterations_of: Any) -> Callable[..., Any]:
        return lambda *more: self.build(code, [*here, *more], iterations_of)[-1]
