"""Policies of the run time: heuristics that change how long a call takes, and never what it computes.

In: ANYSHAPE_WITHOUT, names of policies with commas between them. Out: which policies are in use. The variable exists for measuring alone:
`python -m benchmarks.policies` runs the same calls with a policy and without it. It is read once per process.
"""

from __future__ import annotations

import os
from enum import StrEnum, unique
from functools import cache

from anyshape.errors import ArgumentError

VARIABLE = "ANYSHAPE_WITHOUT"


@unique
class Policy(StrEnum):
    """Policy by its name in ANYSHAPE_WITHOUT. Each docstring says how a call runs without the policy."""

    AFFINITY = "affinity"
    """The system alone decides on which processor a worker runs."""
    STALLS = "stalls"
    """A part whose worker lost its processor is waited for until the system gives the worker another."""
    SPINS = "spins"
    """Workers without a part, and a caller whose parts are done, sleep at once."""
    ALLOCATOR = "allocator"
    """NumPy allocates every result."""
    STORE = "store"
    """NumPy allocates results for which the piece of 2 MiB has no room."""
    AHEAD = "ahead"
    """Memory of large results is touched by the first call that needs it."""
    READING = "reading"
    """Memory that the system has just given is in no cache when a call comes to use it."""
    MAPPING = "mapping"
    """Arena regions of varying size below 2 MiB come from the process's heap, as large as the call needs them and untouched."""
    ENTRY = "entry"
    """Calls go through ctypes: arguments are bound and results are made by Python."""


@cache
def policies_left_out() -> frozenset[Policy]:
    """The policies that the environment leaves out. Raises ArgumentError for a name that no policy has."""
    names = {name for name in os.environ.get(VARIABLE, "").split(",") if name}
    if unknown := sorted(names - set(Policy)):
        raise ArgumentError(f"{VARIABLE} names no policy by {', '.join(unknown)}; there are {', '.join(Policy)}")
    return frozenset(map(Policy, names))


def in_use(policy: Policy) -> bool:
    """Tests whether the process runs with the policy."""
    return policy not in policies_left_out()
