"""Calls of functions above a large chunk of the interpreter's stack of frames.

CPython 3.11 and 3.12 keep frames in chunks of 16 KiB, which are mapped when a call does not fit the last one and unmapped when it returns
(`push_chunk` in Python/pystate.c). A loop whose calls cross the end of a chunk maps and unmaps memory in every iteration. A frame that asks
for more than a chunk gets one of the next power of two; what is left of it is enough for all calls below.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

WORDS = (1 << 16) + (1 << 10)
"""Operands that the frame of `call_with_frames` claims to need: a little over half of a chunk of 1 MiB, in words of 8 bytes"""


def _call(function: Callable[..., Any], /, **arguments: Any) -> Any:
    return function(**arguments)


call_with_frames: Callable[..., Any] = FunctionType(
    _call.__code__.replace(co_stacksize=WORDS), globals(), "call_with_frames"
)
"""Calls a function with keyword arguments."""
