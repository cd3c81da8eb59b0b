"""Memory that this process can still have.

Out: bytes. Linux promises memory that is not there, and ends a process that then writes to it; so large requests look first: at what the
kernel estimates to be available without swapping (`MemAvailable` of proc_meminfo(5)), and at the limit of the control group (`memory.max`
of cgroup v2), of which pages of files that can be dropped are not counted as used.
"""

from __future__ import annotations

import sys
from pathlib import Path

LOOKED_AT = 1 << 26
"""Bytes from which on a request first looks whether they are available: a system may promise more than it has."""
MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")


def available_memory(meminfo: Path = MEMINFO, group: Path = GROUP) -> int:
    """Number of bytes that are available; that of all addresses where the system does not say."""
    return max(0, min(_of_machine(meminfo), _of_group(group)))


def _of_machine(meminfo: Path) -> int:
    kibibytes = _numbers(meminfo).get("MemAvailable:")
    return sys.maxsize if kibibytes is None else kibibytes * 1024


def _of_group(group: Path) -> int:
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no group, or no limit: "max"
        return sys.maxsize
    return limit - used + _numbers(group / "memory.stat").get("inactive_file", 0)


def _numbers(path: Path) -> dict[str, int]:
    """Reads a file of lines with a name and a number."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
        return {words[0]: int(words[1]) for words in lines if len(words) > 1}
    except (OSError, ValueError):
        return {}


def spendable(size: int) -> int:
    """Number of bytes that may be taken, in small pieces, before this is asked again; 0 where `size` bytes are not available."""
    return size + LOOKED_AT if size + 2 * LOOKED_AT <= available_memory() else 0
