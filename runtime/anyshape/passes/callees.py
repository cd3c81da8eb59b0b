"""A pass over a function and all that it may call.

In: a function and rules. Out: the function with the rules applied in it and in what it calls, each on its own; where that changes one of
those, all that are called are new ones, since they may call each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anyshape.graph.callee import REF, Callee, callees_of
from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.value import Node, Value
from anyshape.passes.rewriting import LocalRule, inner, rewrite


def everywhere(f: Function, rules: Callable[[], Sequence[LocalRule]]) -> Function:
    """Rewrites a function and all that it calls. `rules` makes the rules anew for each function, as some have state."""
    done = rewrite(f, rules())
    functions = {c: rewrite(c.defined(), inner(rules())) for c in callees_of([done])}
    if all(rewritten is c.function for c, rewritten in functions.items()):
        return done
    renamed_callees = {c: c.like() for c in functions}

    def renamed(node: Node) -> Sequence[Value] | None:
        return _of(node, renamed_callees)

    for c, rewritten in functions.items():
        renamed_callees[c].function = rewrite(rewritten, (renamed,))
    return rewrite(done, (renamed,))


def _of(node: Node, renamed: Mapping[Callee, Callee]) -> Sequence[Value] | None:
    other = renamed.get(node.attrs["callee"]) if node.op is REF else None
    return None if other is None else build(REF, (), {"callee": other}, node.source).outputs
