"""Reports rejected draws: for each op, how many random calls are drawn for one that its rule accepts, and what refuses the others.

    python -m anyshape_testing.draw_report [OP,…] [--calls 100] [--above 0.2] [--package anyshape_ops]

In: ops. Out: a line for each op of whose draws more than a share is refused, sorted by that share, and below it the asserts that refuse
them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis.errors import Unsatisfiable

from anyshape.errors import ArgumentError
from anyshape.properties import Property
from anyshape_testing.calls.packages import register
from anyshape_testing.commands import command_line, count, share
from anyshape_testing.compare.wording import is_of
from anyshape_testing.draw.corpus import corpus
from anyshape_testing.process.profile import load_profile

_NUMBERS = re.compile(r"\[[^\]]*\]|-?\d+")
MOST_CALLS = 100_000
MOST = 6
"""The most reasons that are listed for one op"""


@dataclass(frozen=True)
class Draws:
    """Numbers of drawn, valid and refused calls of one op."""

    op: str
    draws: int
    valid: int
    refused: Counter[str]
    """Refused draws by the assert that refuses them, else by the message without its numbers."""

    @property
    def share(self) -> float:
        """The share of draws that were rejected."""
        return 1 - self.valid / max(1, self.draws)

    def lines(self) -> list[str]:
        first = f"{self.op}: {self.valid} calls of {self.draws} drawn, {self.share:.0%} refused"
        return [first, *(f"    {n:5d}  {reason}" for reason, n in self.refused.most_common(MOST))]


def draws_of(p: Property, calls: int) -> Draws:
    """Draws a number of valid calls of an op, and counts draws. Where no call can be drawn, none is valid."""
    try:
        drawn = corpus(p, calls)
    except Unsatisfiable:
        return Draws(p.op, 0, 0, Counter({"no call was drawn that is accepted": 1}))
    refused: Counter[str] = Counter()
    for said, n in drawn.refused.items():
        refused[reason(p, said)] += n
    return Draws(p.op, drawn.draws, len(drawn.valid), refused)


def reason(p: Property, said: str) -> str:
    """Returns the assert whose message this is, or the message without its numbers."""
    for a in p.asserts:
        if is_of(a, said):
            return f"{a.source}: {a.message.replace('.*', '…')}"
    return _NUMBERS.sub("…", said.rpartition(f"{p.op}: ")[2])


@command_line
def command(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "anyshape_testing.draw_report", description="Which draws are refused, and by what."
    )
    parser.add_argument("ops", nargs="?", default="", help="names, separated by commas; without any, all")
    parser.add_argument("--calls", type=count(1, MOST_CALLS), default=100, help="valid calls of each")
    parser.add_argument("--above", type=share, default=0.0, help="only ops with a larger share of refused draws")
    parser.add_argument("--package", default="anyshape_ops", help="the package of ops that has them")
    args = parser.parse_args(argv)
    known = register(args.package)
    chosen = args.ops.split(",") if args.ops else list(known)
    unknown = [op for op in chosen if op not in known]
    if unknown:
        raise ArgumentError(f"there is no op {', '.join(unknown)} in {args.package}")
    load_profile(args.calls)
    reports = [draws_of(known[op], args.calls) for op in chosen]
    for d in sorted(reports, key=lambda d: -d.share):
        if d.share >= args.above:
            print("\n".join(d.lines()), flush=True)
    draws, valid = sum(d.draws for d in reports), sum(d.valid for d in reports)
    print(f"{len(reports)} ops: {valid} calls of {draws} drawn, {1 - valid / max(1, draws):.0%} refused")
    return 0


if __name__ == "__main__":
    sys.exit(command())
