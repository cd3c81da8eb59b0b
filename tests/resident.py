"""How much memory a piece of code adds, told by a process of its own: what other tests left behind has no part in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HANGS = 600
"""Seconds after which a process hangs, on a machine however busy; no test waits for so long to learn anything else."""
_SCRIPT = """
def most():
    status = open("/proc/self/status").read()
    return int(status[status.index("VmHWM:"):].split()[1]) * 1024

{before}
_start = most()
{run}
print(most() - _start)
"""
LINUX = Path("/proc/self/status").exists()
"""Whether the system tells what `added` asks for."""


def added(before: str, run: str) -> int:
    """Measures by how many bytes `run` raises the most that was ever resident, after `before`."""
    script = _SCRIPT.format(before=before, run=run)
    command, root = [sys.executable, "-c", script], Path(__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, cwd=root)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
