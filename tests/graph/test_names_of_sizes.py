"""No message shows a name that counts what a process has made."""

from __future__ import annotations

import anyshape
from anyshape.dims import fresh, symbol
from anyshape.graph.origins import Names


def test_sizes_that_stand_alone_nowhere_are_called_by_what_they_were_made_as() -> None:
    x = anyshape.input("x", "f32[?, n]")
    names, found, other = Names(anyshape.function([x], x)), fresh("k"), fresh("k")
    (unknown, _) = x.type.shape or ()
    assert [names[s] for s in (found, other, found, fresh("?"))] == ["k", "k#2", "k", "size"]
    assert names[unknown] == "x.shape[0]" and names[symbol("n")] == "n"
