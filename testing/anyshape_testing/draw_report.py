"""Which draws are in vain: of each op, how many random calls are drawn for one that its rule accepts, and what refuses the others.

    python -m anyshape_testing.draw_report [OP,…] [--calls 100] [--above 0.2] [--package anyshape_ops]

In: ops. Out: a line for each of which more than a share of the draws is refused, those with the most first, and below it the asserts
that refuse them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis.errors import Unsatisfiable

from anyshape.properties import Property
from anyshape_testing.corpus import corpus
from anyshape_testing.profile import load_profile
from anyshape_testing.running import register
from anyshape_testing.wording import is_of

_NUMBERS = re.compile(r"\[[^\]]*\]|-?\d+")
MOST = 6
"""Reasons that are told of one op"""


@dataclass(frozen=True)
class Draws:
    """What drawing calls of one op took."""

    op: str
    draws: int
    valid: int
    refused: Counter[str]
    """By the assert, where one refuses; else by what is said, without its numbers."""

    @property
    def share(self) -> float:
        """Of the draws, those in vain."""
        return 1 - self.valid / max(1, self.draws)

    def lines(self) -> list[str]:
        first = f"{self.op}: {self.valid} calls of {self.draws} drawn, {self.share:.0%} refused"
        return [first, *(f"    {n:5d}  {reason}" for reason, n in self.refused.most_common(MOST))]


def draws_of(p: Property, calls: int) -> Draws:
    """So many calls of an op. Where no call can be drawn, none is valid."""
    try:
        drawn = corpus(p, calls)
    except Unsatisfiable:
        return Draws(p.op, 0, 0, Counter({"no call was drawn that is accepted": 1}))
    refused: Counter[str] = Counter()
    for said, n in drawn.refused.items():
        refused[reason(p, said)] += n
    return Draws(p.op, drawn.draws, len(drawn.valid), refused)


def reason(p: Property, said: str) -> str:
    """The assert whose words these are, or the words without their numbers."""
    for a in p.asserts:
        if is_of(a, said):
            return f"{a.source}: {a.message.replace('.*', '…')}"
    return _NUMBERS.sub("…", said.rpartition(f"{p.op}: ")[2])


def command(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "anyshape_testing.draw_report", description="Which draws are refused, and by what."
    )
    parser.add_argument("ops", nargs="?", default="", help="names, separated by commas; without any, all")
    parser.add_argument("--calls", type=int, default=100, help="valid calls of each")
    parser.add_argument("--above", type=float, default=0.0, help="only ops with a larger share of refused draws")
    parser.add_argument("--package", default="anyshape_ops", help="the package of ops that has them")
    args = parser.parse_args(argv)
    known = register(args.package)
    load_profile(args.calls)
    reports = [draws_of(known[op], args.calls) for op in (args.ops.split(",") if args.ops else known)]
    for d in sorted(reports, key=lambda d: -d.share):
        if d.share >= args.above:
            print("\n".join(d.lines()), flush=True)
    draws, valid = sum(d.draws for d in reports), sum(d.valid for d in reports)
    print(f"{len(reports)} ops: {valid} calls of {draws} drawn, {1 - valid / max(1, draws):.0%} refused")
    return 0


if __name__ == "__main__":
    sys.exit(command())
