"""Tries all mutants of all ops and of the library's functions, one after the other in processes of their own.

In: the analysis of a folder of specs. Out: an `OpResult` per op or function.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anyshape.graph.opdef import OpDef
from anyshape_gen.model.analysis import Analysis
from anyshape_gen.model.nodes import Node
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.mutants import Mutant, mutants
from anyshape_testing.calls.packages import PACKAGES, PROPERTIES
from anyshape_testing.mutation.library import library_functions, uncalled, with_function
from anyshape_testing.mutation.making import Generated, GeneratorFault, Workshop, load
from anyshape_testing.mutation.trying import Killers, Tests
from anyshape_testing.process.profile import load_profile

MEMORY = 8 << 30
NOBODY = Killers(None, None)
CALLS = 200
"""Instances of each rewrite"""


@dataclass(frozen=True)
class Tried:
    """A mutant, and the tests that killed it."""

    label: str
    place: str
    kind: str
    line: int
    killers: Killers

    @property
    def survives(self) -> bool:
        return self.killers.first is None


@dataclass(frozen=True)
class OpResult:
    """All mutants of one op, or of one function of the library. `refused`: the number of changed specs that the generator refused; they are
    no mutants."""

    op: str
    tried: tuple[Tried, ...]
    refused: int
    seconds: float


@dataclass(frozen=True)
class FailedTrial:
    """An op whose mutants could not be tried, and the error."""

    op: str
    error: str


class Trial:
    """All that is needed to try the mutants of any op; it is built once, before processes are forked."""

    def __init__(
        self,
        analysis: Analysis,
        package: str,
        declared: Mapping[str, Container[str]] | None = None,
        callers: Collection[str] = (),
    ) -> None:
        """`declared`: by op, labels of mutants that are declared equivalent, which get only the usual number of calls. `callers`: ops that
        only test functions of the library."""
        self.workshop = Workshop(analysis)
        self.library = library_functions(analysis)
        self.uncalled = uncalled(analysis)
        self.specs = {name: spec for name, spec in self.workshop.specs.items() if name not in callers}
        self.specs |= {name: f.spec for name, f in self.library.items()}
        """What is changed: ops, and the functions of the library"""
        self.declared = declared or {}
        self.tests: dict[str, Tests] = {}
        self.users: dict[object, list[str]] = {}
        of_library = {(f.span, f.name) for f in analysis.library}
        for a in analysis.ops:
            PACKAGES.setdefault(a.spec.name, package)
            for f in a.spec.defines:
                users = self.users.setdefault((f.span, f.name), [])
                users += [] if (f.span, f.name) in of_library else [a.spec.name]

    def mutants(self, name: str) -> Iterator[Mutant]:
        """All mutants of an op, or of a function of the library. A function of `define:` that several ops use is changed once, for the
        first of them."""

        def is_changed_elsewhere(f: Node) -> bool:
            return self.users[(f.span, getattr(f, "name", ""))][:1] != [name]

        return mutants(self.specs[name]) if name in self.library else mutants(self.specs[name], is_changed_elsewhere)

    def distinct(self, name: str, only: Container[str] | None = None) -> tuple[list[tuple[Mutant, Generated]], int]:
        """Generates the mutants of an op, or of a function of the library within the first op that calls it; returns those whose code
        differs from the op's and one another's, and the number that the generator refuses. `only`: labels of mutants to generate."""
        op = self._judges(name)[0]
        own = self.workshop.generate(self.workshop.specs[op])
        assert own is not None
        seen, refused = {own.text}, 0
        pairs: list[tuple[Mutant, Generated]] = []
        for m in self.mutants(name):
            if only is not None and m.label not in only:
                continue
            try:
                text = self.workshop.generate(self._within(m, op))
            except GeneratorFault as e:
                raise GeneratorFault(f"{e}, of the mutant {m.label!r}") from e
            if text is None:
                refused += 1
            elif text.text not in seen:
                seen.add(text.text)
                pairs.append((m, text))
        return pairs, refused

    def run(self, name: str, only: Collection[str] | None = None) -> OpResult:
        """Tries all mutants of an op or of a function of the library, or those with these labels."""
        start = time.perf_counter()
        if only is not None and not only:
            return OpResult(name, (), 0, 0.0)
        op = self._judges(name)[0]
        tests = self._tests(op)
        pairs, refused = self.distinct(name, only)
        tried = []
        for m, text in pairs:
            thorough = m.label not in self.declared.get(name, ())
            killers = tests.killers(_loaded(m, self._within(m, op), text), m.label.split(":")[0], thorough)
            if thorough and killers.first is None and m.label.startswith("defines:"):
                killers = self._elsewhere(m)
            tried.append(Tried(m.label, m.place, m.kind, m.line, killers))
        return OpResult(name, tuple(tried), refused, time.perf_counter() - start)

    def _judges(self, name: str) -> Sequence[str]:
        """The ops whose tests judge the mutants of an op or of a function of the library: itself, or those that call it."""
        return self.library[name].users if name in self.library else (name,)

    def _within(self, m: Mutant, op: str) -> OpSpec:
        """The spec of an op with a mutant's change of it, or of a function of the library that it calls."""
        if m.op not in self.library:
            return m.spec
        (changed,) = m.spec.defines
        return with_function(self.workshop.specs[op], changed)

    def _elsewhere(self, m: Mutant) -> Killers:
        """Tries a mutant of a shared function by the tests of the other ops that use it."""
        own = self.specs[m.op]
        (changed,) = [f for f, g in zip(m.spec.defines, own.defines, strict=True) if f != g]
        users = self._judges(m.op) if m.op in self.library else self.users[(changed.span, changed.name)]
        for op in users[1:]:
            spec = with_function(self.workshop.specs[op], changed)
            text = self.workshop.generate(spec)
            killers = self._tests(op).killers(load(spec, text), "defines") if text is not None else NOBODY
            if killers.first is not None:
                return killers
        return NOBODY

    def _tests(self, op: str) -> Tests:
        if op not in self.tests:
            PROPERTIES[op] = self.workshop.property_of(op)
            own = self.workshop.generate(self.workshop.specs[op])
            assert own is not None
            self.tests[op] = Tests(PROPERTIES[op], load(self.workshop.specs[op], own))
        return self.tests[op]


def _loaded(m: Mutant, spec: OpSpec, text: Generated) -> tuple[OpDef, ...]:
    try:
        return load(spec, text)
    except SyntaxError as e:
        raise GeneratorFault(f"what the generator wrote is no Python, of the mutant {m.label!r}: {e.text}") from e


_trial: Trial | None = None
_only: Mapping[str, Collection[str]] = {}


def _start() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    load_profile(CALLS, shrink=False)


def _one(op: str) -> OpResult | FailedTrial:
    assert _trial is not None
    try:
        return _trial.run(op, _only.get(op))
    except Exception as e:  # other ops are still tried
        return FailedTrial(op, f"{type(e).__name__}: {e}")


def run_all(
    trial: Trial, ops: Sequence[str], jobs: int, only: Mapping[str, Collection[str]] | None = None
) -> Iterator[OpResult | FailedTrial]:
    """Yields results in the order in which ops are done. `only`: by op, the labels of the mutants to try, where not all are."""
    global _trial, _only
    _trial, _only = trial, only or {}
    with multiprocessing.get_context("fork").Pool(jobs, initializer=_start, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(_one, ops)


def undeclared(declared: Mapping[str, Mapping[str, str]], trial: Trial) -> list[str]:
    """Lists declarations of mutants that do not, or no longer, exist."""
    wrong = []
    for op, labels in declared.items():
        known = {m.label for m, _ in trial.distinct(op, labels)[0]} if op in trial.specs else set()
        wrong += [f"{op}: there is no mutant {label!r}" for label in labels if label not in known]
    return wrong
