"""How many processors this process may use.

In: nothing. Out: its affinity, and what its container grants of them, rounded up; at least 1.
"""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_2 = Path("/sys/fs/cgroup/cpu.max")
_CGROUP_1 = Path("/sys/fs/cgroup/cpu")


def usable_processors() -> int:
    """The number of processors that the process may use now: its affinity mask, or less where the control group grants less."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        allowed = os.cpu_count() or 1
    granted = _granted()
    return max(1, allowed if granted is None else min(allowed, granted))


def _granted() -> int | None:
    """The limit of the control group (version 2, else 1), if it has one."""
    try:
        if _CGROUP_2.exists():
            quota, period = _CGROUP_2.read_text().split()
        else:
            quota, period = ((_CGROUP_1 / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return -(-int(quota) // int(period)) if int(quota) > 0 else None
    except (OSError, ValueError):  # no group, or "max"
        return None
