"""Draws random calls of which the rule refuses many, for laws about refusals.

In: a property. Out: calls, drawn like others, with more wrong choices and, in half of all cases, one changed shape.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anyshape.properties import Case, Property
from anyshape_testing.calls.call import Call, build_call, variants
from anyshape_testing.draw.choices import HypothesisDraw, choosing
from anyshape_testing.draw.random_call import random_call


class Wrong(HypothesisDraw):
    """Random choices half of which may be wrong."""

    def _mostly(self) -> bool:
        return bool(self._among(True, False))

    def axis(self, position: int, rank: int) -> int:
        return int(self._among(position, position - rank, rank, -rank - 1))


def wrong_call(p: Property, draw: Any) -> Call:
    """Draws a random call; in half of all cases one shape has another dim, one more dim, or only its first dims, or a list of parameters
    has one item more or less."""
    choose = choosing(draw)
    lists = {q.name for q in variants(p.op)[0].params if q.is_vector}

    def case(d: Any) -> Case:
        drawn = p.case(d)
        names = [n for n, s in drawn.shapes.items() if s is not None and (not isinstance(s, list) or s)]
        listed = [n for n, v in drawn.params.items() if n in lists and isinstance(v, tuple)]
        if not (names or listed) or choose.among((False, True)):
            return drawn
        if listed and (not names or choose.among((False, False, False, True))):
            name = choose.among(listed)
            items = drawn.params[name]
            longer = not items or choose.among((False, True))
            return replace(
                drawn, params={**drawn.params, name: (*items, items[-1] if items else 1) if longer else items[:-1]}
            )
        name = choose.among(names)
        original = drawn.shapes[name]
        which = choose.among(range(len(original))) if isinstance(original, list) else None
        shape = list(original if which is None else original[which])
        at = choose.among(range(len(shape) + 1))
        what = choose.among(("more", "other", "other", "less", "none"))
        if what == "more" or at == len(shape):
            shape.insert(at, choose.among((1, 2)))
        elif what == "less":
            del shape[at:]
        elif what == "none":
            shape[at] = 0
        else:
            shape[at] += choose.among((-1, 1, 2)) if shape[at] else 1
        changed = tuple(shape) if which is None else [*original[:which], tuple(shape), *original[which + 1 :]]
        return replace(drawn, shapes={**drawn.shapes, name: changed})

    c = random_call(replace(p, case=case), choose, choices=Wrong(choose))
    assert c.recipe is not None
    return build_call(p, c.recipe)
