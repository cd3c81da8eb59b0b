"""Limits the memory of code that may ask for more than a machine should give: calls with sizes near the ends of i64.

In: bytes. Out: nothing, or what the code raises where memory ends. Linux alone counts what a process maps for itself (RLIMIT_DATA of
getrlimit(2)); elsewhere there is no limit.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATUS = Path("/proc/self/status")


@contextmanager
def memory_limit(size: int) -> Iterator[None]:
    """Lets the process map at most `size` bytes more than it has; what fits into memory that it has is not counted."""
    data = _mapped()
    if data is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = min(n for n in (data + size, soft, hard) if n != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _mapped() -> int | None:
    """The number of bytes that the process maps for itself; None where the system does not say."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), None)
