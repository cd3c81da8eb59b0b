"""Runs the laws and examples of one op in a few processes, and prints each as it ends: `make watch` does so on every save.

In: a package of ops, an op's name, how many random calls a law gets. Out: a line for each law that holds, and for each that does not
what `report` says: the call, the spec's line and a script that makes the call again.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum
from functools import partial
from importlib import import_module
from select import select
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape.errors import SpecError, UnsupportedError
from anyshape.graph.registry import all_ops
from anyshape.processors import usable_processors
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.commands import command_line, jobs, share
from anyshape_testing.draw.corpus import FEW
from anyshape_testing.laws.catalogue import LAWS, Law, silences, stale
from anyshape_testing.process import time_budget
from anyshape_testing.process.collector import leave_out_what_stays
from anyshape_testing.process.profile import LEAST, load_profile, usual
from anyshape_testing.running.accounting import Record, WeakLaw

EXAMPLES = "examples:test_example"
ORDER = (
    "2",
    "2b",
    "2c",
    "3a",
    "4a",
    "3b",
    "1a",
    "9",
    "1b",
    "4b",
    "7b",
    "5",
    "13",
    "14",
    "7a",
    "12",
    "10",
    "6b",
    "6a",
    "11",
)
"""Cheapest first; what compiles comes last."""
SHARED = ("1b kernel == interpreter", "7a native == Python == loaded")
"""Laws that compile the same programs: one process runs them, and compiles each program once."""
GRACE = 0.75
"""The share of a round's seconds by which it may take longer, for the calls that laws cannot do without"""
MANY = 10
"""Examples from which on they are divided among the processes"""


class Verdict(IntEnum):
    """The outcome of a law, or of the examples."""

    FAILS = 0
    HOLDS = 1
    SHORT = 2
    """A law that had no time for as many calls as it takes to say that it holds."""


@dataclass(frozen=True)
class Check:
    """A law of an op, or all of its examples."""

    name: str
    runs: tuple[tuple[str, Callable[[Record], None]], ...]
    """the text before an error, and the function to run"""


def checks(package: str, op: str) -> list[Check]:
    """Lists the checks of this op: its examples, and the laws that apply to it. Raises UnsupportedError for a package that is not
    installed, and SpecError where the spec calls a law weak that does not apply."""
    register(package)
    if op not in {known.name for known in all_ops().values()}:
        raise UnsupportedError(
            f"{package} is not among the packages of ops that are installed, so anyshape does not know {op}: "
            "pip install --editable the folder of its pyproject.toml"
        )
    p = PROPERTIES[op]
    if said := stale(p):
        raise SpecError(said)
    by_number = {law.number: law for law in LAWS}
    return [_examples(op), *(_check(by_number[n], op) for n in ORDER if by_number[n].silent(p) is None)]


def _examples(op: str) -> Check:
    module, name = EXAMPLES.split(":")
    law = getattr(import_module(f"anyshape_testing.laws.{module}"), name)
    cases = tuple((f"{e.source}: ", lambda _, e=e: law((op, e))) for e in PROPERTIES[op].examples)
    return Check(f"{len(cases)} examples", cases)


def _check(law: Law, op: str) -> Check:
    return Check(str(law), (("", lambda record: law.function(op, record)),))


def run(check: Check) -> tuple[Verdict, str]:
    """Runs a check; returns its verdict, and the text to print."""
    start = time.perf_counter()
    said: dict[str, Any] = {}
    error, problem = _problem(check, said.__setitem__)
    seconds = f"{time.perf_counter() - start:5.2f} s"
    calls = f", {said['accepted']} calls of {said['drawn']} drawn" if "accepted" in said else ""
    why = f"; weak: {said['weak']}" if "weak" in said else ""
    few = "weak" not in said and said.get("accepted", 0) < said.get("required", 0)
    verdict = Verdict.FAILS if error is not None else Verdict.SHORT if few else Verdict.HOLDS
    word = "WEAK" if isinstance(error, WeakLaw) else "weak" if error is None and why else WORDS[verdict]
    return verdict, f"  {word:<5}  {seconds}  {check.name}{calls}{why}{problem}"


WORDS = {Verdict.FAILS: "FAILS", Verdict.HOLDS: "holds", Verdict.SHORT: "short"}


def _problem(check: Check, record: Record) -> tuple[Exception | None, str]:
    for where, one in check.runs:
        try:
            one(record)
        except Exception as e:  # whatever a law raises is its result
            return e, "\n" + spell_error(where, e)
    return None, ""


def warm() -> None:
    """Makes the test library initialise itself, before time is measured."""

    @settings(max_examples=1, database=None)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        data.draw(st.sampled_from((0, 1)))

    draw()


def spell_error(where: str, e: BaseException) -> str:
    """Spells an error with the note of `running.report`; notes of the test library, which repeat it, are left out."""
    ours = [note for note in getattr(e, "__notes__", ()) if note.startswith("\nlaw ")]
    words = f"{where}{type(e).__name__}: {e}".strip()
    return "\n".join(f"    {line}" for line in "\n".join([words, *ours[:1]]).splitlines())


def main(package: str, op: str) -> bool:
    """Runs and prints all laws with a few calls each and, where they hold, again with the usual number. Returns whether all hold."""
    return all_hold(package, op, (FEW, usual()), usable_processors())


def all_hold(package: str, op: str, rounds: Sequence[int], jobs: int, seconds: float = math.inf) -> bool:
    """Runs a round for every number of calls in `rounds`, and prints each law as it ends, then a summary; a round in which a law fails is
    the last. `jobs` forked processes take the laws one after the other, and keep compiled programs between rounds. A round ends after
    `seconds`, except that all examples and one call of each law are run; time that a law leaves goes to the laws after it."""
    work = shares(checks(package, op), jobs)
    for reason, numbers in _not_applying(op).items():
        print(f"  does not apply: {', '.join(numbers)}, {reason}", flush=True)
    crew = Crew(work, rounds, jobs, seconds)
    failed, laws = 0, sum(map(len, work))
    for number, examples in enumerate(rounds):
        start = time.perf_counter()
        # What takes long comes first where all of it is waited for, and last where a first answer is, or where time is short.
        first = number < len(rounds) - 1 or seconds < math.inf
        verdicts = crew.verdicts(number, range(len(work)) if first else range(len(work) - 1, -1, -1))
        failed = laws - sum(v is not Verdict.FAILS for v in verdicts)
        summary = f"{failed} of its laws fail" if failed else _held(verdicts)
        calls = f"{examples} calls each" if seconds == math.inf else f"up to {examples} calls each"
        print(f"{op}: {summary}, {calls}, {time.perf_counter() - start:.1f} s", flush=True)
        if failed:
            break
    crew.dismiss()
    return not failed


def _not_applying(op: str) -> dict[str, list[str]]:
    """Groups the laws that do not apply to the op by the reason."""
    by_reason: dict[str, list[str]] = {}
    for number, reason in silences(PROPERTIES[op]).items():
        by_reason.setdefault(reason, []).append(number)
    return by_reason


def _held(verdicts: Sequence[Verdict]) -> str:
    short = verdicts.count(Verdict.SHORT)
    return f"no law fails, and {short} had no time for {LEAST} calls" if short else "all laws hold"


def shares(laws: Sequence[Check], jobs: int) -> list[list[Check]]:
    """Divides the checks into shares: many examples into as many parts as there are processes, laws one by one, and last, together, those
    that compile the same programs."""
    together = [law for law in laws if law.name in SHARED]
    alone = [part for law in laws if law not in together for part in _parts(law, jobs)]
    return [*([law] for law in alone), *([together] if together else [])]


def _parts(law: Check, jobs: int) -> list[Check]:
    if len(law.runs) < MANY:
        return [law]
    parts = [law.runs[k::jobs] for k in range(jobs)]
    return [Check(f"{len(runs)} of {law.name}", runs) for runs in parts]


class Crew:
    """Forked processes that read numbers of shares from a pipe, one for each round, and write the verdict of every law to another pipe."""

    def __init__(self, work: Sequence[Sequence[Check]], rounds: Sequence[int], jobs: int, seconds: float) -> None:
        self.work, self.jobs, self.seconds = work, jobs, seconds
        self.rounds = [os.pipe() for _ in rounds]
        self.heard, writer = os.pipe()
        sys.stdout.flush()
        leave_out_what_stays()  # memory that forked processes share stays shared
        self.members = [self._fork(partial(self._work, rounds, writer)) for _ in range(min(jobs, len(work)))]
        os.close(writer)
        for taken, _ in self.rounds:
            os.close(taken)

    def _work(self, rounds: Sequence[int], writer: int) -> None:
        for _, put in self.rounds:  # a pipe ends when all its writing ends are closed
            os.close(put)
        for examples, (taken, _) in zip(rounds, self.rounds, strict=True):
            load_profile(examples)
            end = time.monotonic() + self.seconds
            while number := os.read(taken, 1):
                for k, law in enumerate(self.work[number[0]]):
                    seconds = self._budget(number[0], k, end - time.monotonic())
                    time_budget.begin(seconds, end + GRACE * self.seconds - time.monotonic() - seconds)
                    verdict, text = run(law)
                    print(text, flush=True)
                    os.write(writer, bytes([verdict]))

    def _budget(self, share: int, k: int, left: float) -> float:
        """Returns the seconds for law k of a share: an equal part, with the laws after it, of those left in all processes, and no more than
        are left."""
        behind = self.work[share + 1 :]
        laws = len(self.work[share]) - k + sum(map(len, behind))
        return min(left / (len(self.work[share]) - k), left * min(self.jobs, 1 + len(behind)) / laws)

    @staticmethod
    def _fork(work: Callable[[], None]) -> int:
        """Forks a child that does the work and ends; returns its process id."""
        child = os.fork()
        if child:
            return child
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def verdicts(self, number: int, order: Sequence[int]) -> list[Verdict]:
        """Collects the verdicts on the laws of these shares in this round; a law that ends its process has none."""
        _, put = self.rounds[number]
        os.write(put, bytes(order))
        os.close(put)
        verdicts, expected = b"", sum(len(self.work[share]) for share in order)
        while len(verdicts) < expected:
            if select([self.heard], [], [], 0.2)[0]:
                new = os.read(self.heard, expected)
                if not new:
                    break
                verdicts += new
            elif self._lost():
                break
        return list(map(Verdict, verdicts))

    def _lost(self) -> bool:
        """Whether a process ended before its work was done, which is printed once."""
        for member in tuple(self.members):
            ended, status = os.waitpid(member, os.WNOHANG)
            if ended:
                self.members.remove(member)
            if ended and status != 0:
                print(f"  FAILS  a law ended its process: {os.waitstatus_to_exitcode(status)}", flush=True)
                return True
        return False

    def dismiss(self) -> None:
        """Kills the processes."""
        for member in self.members:
            os.kill(member, signal.SIGKILL)
            os.waitpid(member, 0)
        os.close(self.heard)


@command_line
def command(argv: Sequence[str] | None = None) -> int:
    """`python -m anyshape_testing.quick OP,…`: runs every law of these ops on the usual number of calls."""
    parser = argparse.ArgumentParser(prog="anyshape_testing.quick", description="Run all laws of ops.")
    parser.add_argument("ops", help="names, separated by commas")
    parser.add_argument("--package", default="anyshape_ops", help="the package of ops that has them")
    parser.add_argument("--jobs", type=jobs, default=usable_processors(), help="processes")
    parser.add_argument(
        "--seconds",
        type=share,
        default=math.inf,
        help="for an op, its examples excepted: laws have fewer calls where they take longer",
    )
    args = parser.parse_args(argv)
    known = register(args.package)
    for op in args.ops.split(","):
        if op not in known:
            near = get_close_matches(op, known, 1)
            print(f"there is no op {op} in {args.package}" + (f"; did you mean {near[0]}?" if near else ""))
            return 2
    held = [all_hold(args.package, op, (usual(),), args.jobs, args.seconds) for op in args.ops.split(",")]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(command())
