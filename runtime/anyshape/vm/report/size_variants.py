"""Variants of a program for some sizes: which there are, what ran them, and what they gained."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum, unique
from statistics import median

from anyshape.policies import Padding, SizeBound, SizeBounds
from anyshape.wording import counted

Key = tuple[int, ...]
TIMED = 32
"""Calls of one size that are timed, of the program for all sizes and of the variant each."""
COMPARED = 5
"""Calls of one size that the program for all sizes is timed for, by a call in turns where the variant was ready before that."""
KEYS = 64
"""Sizes of a variant whose calls are timed."""


@unique
class State(StrEnum):
    COUNTED = "counted"
    QUEUED = "being compiled"
    READY = "compiled"
    FAILED = "refused"


@dataclass(eq=False, kw_only=True)
class SizeVariant:
    """`bounds`: sizes by name; `calls`: how many came while it was not compiled; `compile_seconds`: of the last compile; `generic`, `own`:
    seconds of timed calls by their sizes, run by the program for all sizes and by the variant. `reason`: why it was refused, or is not
    padded."""

    bounds: SizeBounds
    state: State = State.COUNTED
    reason: str = ""
    calls: int = 0
    compile_seconds: float = 0.0
    generic: dict[Key, list[float]] = field(default_factory=dict)
    own: dict[Key, list[float]] = field(default_factory=dict)

    def timed(self, key: Key, seconds: float, *, own: bool) -> bool:
        """Notes the time of a call. Returns whether the time of another such call is of use."""
        times = self.own if own else self.generic
        if key in times or len(times) < KEYS:
            kept = times.setdefault(key, [])
            if len(kept) < TIMED:
                kept.append(seconds)
            return len(kept) < TIMED
        return False

    def lacks(self, key: Key) -> bool:
        """Whether the program for all sizes was timed less often than the variant for calls of one size, and too seldom to compare."""
        return len(self.generic.get(key, ())) < min(COMPARED, len(self.own.get(key, ())))

    @property
    def gain(self) -> float | None:
        """Time of the program for all sizes over that of the variant: of medians, the geometric mean over sizes of which both ran."""
        both = [math.log(median(self.generic[k]) / median(self.own[k])) for k in self.own if k in self.generic]
        return math.exp(sum(both) / len(both)) if both else None

    def __str__(self) -> str:
        text = f"{', '.join(f'{name}={_spelled(b)}' for name, b in self.bounds.items())}: {self.state}"
        if self.state is State.READY:
            gain = (
                "no call yet to compare"
                if self.gain is None
                else f"{self.gain:.2f} times as fast as the program for all sizes"
            )
            text += f" in {self.compile_seconds * 1e3:.0f} ms, {gain}"
        elif self.state is State.COUNTED:
            text += f" {counted(self.calls, 'call')}"
        return text + (f": {self.reason}" if self.reason else "")


def _spelled(b: SizeBound) -> str:
    if isinstance(b, int):
        return str(b)
    least, most = b
    return f"{least}..{'' if most is None else most}{' padded' if isinstance(b, Padding) else ''}"
