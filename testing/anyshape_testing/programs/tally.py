"""Counts what random programs contained."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from anyshape_testing.programs.drawing import Drawn, sized_by_data
from anyshape_testing.programs.statements import Call, If, every


@dataclass
class Tally:
    """Counts. `contained`: programs with at least one of each kind of construct; `ops`: programs that call each op."""

    programs: int = 0
    drawn: int = 0
    statements: int = 0
    calls: int = 0
    refusals: int = 0
    contained: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)

    def add(self, d: Drawn, refusals: int) -> None:
        self.programs += 1
        self.refusals += refusals
        features: set[str] = set()
        sized = sized_by_data(d.ops)
        for s in every(d.program.statements):
            self.statements += 1
            if not isinstance(s, Call):
                features.add("a branch" if isinstance(s, If) else "a loop")
                continue
            self.calls += 1
            features.add(f"op {s.op}")
            if s.op in sized:
                features.add("a size found in data")
            for o in s.operands:
                features.add(
                    "a parameter that is an input" if isinstance(o.source, int) else "a parameter as an operand"
                )
                if not isinstance(o.source, int) and any(p.of is not None for p in o.source):
                    features.add("a parameter computed from dims")
        if any(d.values[r].type.shape is None for r in d.program.results):
            features.add("a result of unknown rank")
        self.ops.update(f for f in features if f.startswith("op "))
        self.contained.update(f for f in features if not f.startswith("op "))

    def merge(self, other: Tally) -> None:
        self.programs += other.programs
        self.drawn += other.drawn
        self.statements += other.statements
        self.calls += other.calls
        self.refusals += other.refusals
        self.contained += other.contained
        self.ops += other.ops

    def __str__(self) -> str:
        lines = [
            f"{self.programs} programs of {self.drawn} seeds, {self.statements} statements over {len(self.ops)} ops"
        ]
        lines += [f"  {n:6} with {what}" for what, n in self.contained.most_common()]
        rarest = ", ".join(f"{op[3:]} {n}" for op, n in self.ops.most_common()[:-6:-1])
        return "\n".join([*lines, f"  {self.refusals:6} refusals compared in words", f"  rarest ops: {rarest}"])
