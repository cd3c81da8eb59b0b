"""What the commands of this package share: readers of options, and an end without a traceback.

In: words of a command line. Out: numbers in their ranges; exit code 2, after the error's text, for what a command refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps

from anyshape.cli.arguments import count, share
from anyshape.errors import AnyshapeError

MOST_JOBS = 1024
jobs = count(1, MOST_JOBS)
"""Reads a number of processes."""


def command_line(command: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """The command, with exit code 2 for what it refuses, and 130 where it is interrupted."""

    @wraps(command)
    def answered(argv: Sequence[str] | None = None) -> int:
        try:
            return command(argv)
        except AnyshapeError as e:
            print(e, file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return 130

    return answered


__all__ = ["command_line", "count", "jobs", "share"]
