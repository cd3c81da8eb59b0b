"""Operations on files that fail, or at which the process ends, one after another: the k-th of an action, for every k.

In: an action that reads or writes files. Out: a context in which one of its operations fails as on a full or broken disk, before it does
anything or, for a write, after half of its bytes.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

OPERATIONS = (
    "open",
    "stat",
    "lstat",
    "fstat",
    "fsync",
    "replace",
    "mkdir",
    "unlink",
    "utime",
    "access",
    "truncate",
    "ftruncate",
)
"""Functions of `os` that count, beside the writes of files that `os.fdopen` opened"""


@dataclass
class Fault:
    """What happens at one operation. `at`: its number, from 0; `kills`: the process ends there; otherwise an OSError of that code."""

    at: int
    code: int = errno.ENOSPC
    kills: bool = False
    done: list[str] = field(default_factory=list)
    """The operations so far"""

    @property
    def happened(self) -> bool:
        return len(self.done) > self.at

    def operation(self, name: str) -> None:
        """Counts an operation, and fails if it is the one."""
        self.done.append(name)
        if len(self.done) == self.at + 1:
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(self.code, os.strerror(self.code))


class _Writer:
    """A file whose writes are operations: the one that fails has written half."""

    def __init__(self, file: Any, fault: Fault) -> None:
        self._file, self._fault = file, fault

    def write(self, data: Any) -> int:
        if len(self._fault.done) == self._fault.at:
            self._file.write(memoryview(data).cast("B")[: len(data) // 2])
            self._file.flush()
        self._fault.operation("write")
        return int(self._file.write(data))

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def injected(fault: Fault) -> Iterator[Fault]:
    """The context in which operations of this process are counted, and one fails."""
    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, _counting(getattr(os, name), name, fault))
        opened = os.fdopen

        def fdopen(handle: int, mode: str = "r", *rest: Any, **options: Any) -> Any:
            file = opened(handle, mode, *rest, **options)
            return _Writer(file, fault) if "w" in mode or "a" in mode else file

        patch.setattr(os, "fdopen", fdopen)
        yield fault


def _counting(function: Callable[..., Any], name: str, fault: Fault) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        fault.operation(name)
        return function(*args, **options)

    return counted
