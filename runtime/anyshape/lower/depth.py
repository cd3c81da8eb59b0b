"""Recursion limits: graphs are walked by recursion, and a long chain of maps is a deep graph.

In: how many nodes there are. Out: a context in which Python's limit, which is one for all threads, is high enough; it is restored when the
last context that raised it ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SHALLOW = 80
"""Nodes of a graph that fits any limit."""
_FRAMES = 8
"""Calls per node, at most, of the walks."""
_lock = threading.Lock()
_inside = 0
_before = 0


@contextmanager
def room_for(nodes: int) -> Iterator[None]:
    global _inside, _before
    if nodes <= _SHALLOW:
        yield
        return
    with _lock:
        if _inside == 0:
            _before = sys.getrecursionlimit()
        _inside += 1
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 2000 + _FRAMES * nodes))
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_before)
