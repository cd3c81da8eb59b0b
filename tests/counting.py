"""Work counted instead of timed: how many functions Python calls, the same on every machine however busy it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def calls(run: Callable[[], Any]) -> int:
    """Functions called while `run` does, those of Python and those in C."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    outer, collects = sys.getprofile(), gc.isenabled()
    gc.collect(
        1
    )  # what others left is freed by functions, too; all of a process that has lived for long takes a second
    gc.disable()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(outer)
        if collects:
            gc.enable()
    return count
