"""All mutants of all ops, op by op in processes of their own; only those whose spec or whose tests changed.

In: the analysis of a folder of specs, the properties of the generated package. Out: `Tried` per op.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anyshape.testing import Property
from anyshape.testing.mutation.making import Workshop, load
from anyshape.testing.mutation.trying import Tests
from anyshape.testing.profile import load_profile
from anyshape_gen.analysis_model import Analysis
from anyshape_gen.mutants import Mutant, mutants

MEMORY = 8 << 30


@dataclass(frozen=True)
class Tried:
    """One mutant that came into being. `killer`: what noticed it; None: nothing did."""

    label: str
    kind: str
    line: int
    killer: str | None


@dataclass(frozen=True)
class OpResult:
    """All mutants of one op. `refused`: how many the generator itself did not let through; they are no mutants."""

    op: str
    tried: tuple[Tried, ...]
    refused: int
    seconds: float


class Trial:
    """What trying the mutants of any op takes; made once, then forked."""

    def __init__(self, analysis: Analysis, properties: dict[str, Property]) -> None:
        self.workshop = Workshop(analysis)
        self.properties = properties
        self.owners = _owners(analysis)

    def mutants_of(self, op: str) -> Iterator[Mutant]:
        """A function that several ops use is changed once, for the first of them."""
        return mutants(self.workshop.specs[op], lambda f: self.owners[(f.span, getattr(f, "name", ""))] != op)

    def run(self, op: str) -> OpResult:
        start = time.perf_counter()
        tests = Tests(self.properties[op])
        own = self.workshop.generate(self.workshop.specs[op])
        seen = {own}
        tried, refused = [], 0
        for m in self.mutants_of(op):
            text = self.workshop.generate(m.spec)
            if text is None:
                refused += 1
            elif text not in seen:  # the same code is the same op
                seen.add(text)
                killer = tests.killer(load(m.spec, text), m.label.split(":")[0])
                tried.append(Tried(m.label, m.kind, m.line, killer))
        return OpResult(op, tuple(tried), refused, time.perf_counter() - start)


def _owners(analysis: Analysis) -> dict[object, str]:
    owners: dict[object, str] = {}
    for a in analysis.ops:
        for f in a.spec.defines:
            owners.setdefault((f.span, f.name), a.spec.name)
    return owners


_trial: Trial | None = None


def _limited() -> None:
    load_profile(60, shrink=False)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _one(op: str) -> OpResult:
    assert _trial is not None
    return _trial.run(op)


def run_all(trial: Trial, ops: Sequence[str], jobs: int) -> Iterator[OpResult]:
    """In the order in which they are done."""
    global _trial
    _trial = trial
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, initializer=_limited, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_one, ops)


__all__ = ["OpResult", "Trial", "Tried", "run_all"]
