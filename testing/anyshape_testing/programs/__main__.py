"""Tests random programs by laws 3, 4, 6 and 7.

    python -m anyshape_testing.programs --count 5000 [--start 0] [--jobs 2] [--package anyshape_ops]
    python -m anyshape_testing.programs --seed 17          prints and tests that program only

Seeds are tried from `--start` on, in batches, until `--count` programs were tested. A program for which a law fails is a find: it is
printed with its seed, and counted in the last line; the exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from anyshape_testing.calls.packages import register
from anyshape_testing.commands import command_line, count, jobs
from anyshape_testing.programs.search import outcomes, search
from anyshape_testing.programs.seeds import drawn_from, run_seed
from anyshape_testing.programs.tally import Tally


@command_line
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=count(1), default=200, help="how many programs")
    parser.add_argument("--start", type=count(0), default=0, help="the first seed")
    parser.add_argument("--jobs", type=jobs, default=1, help="how many processes")
    parser.add_argument("--seed", type=count(0), help="one seed alone")
    parser.add_argument("--package", default="anyshape_ops", help="whose ops are called")
    options = parser.parse_args(argv)
    if options.seed is not None:
        ops = tuple(register(options.package))
        d = drawn_from(options.seed, ops)
        print(d.program if d is not None else f"no program comes of seed {options.seed}")
        run_seed(options.seed, ops, Tally())
        return 0

    def say(text: str) -> None:
        print(text, flush=True)

    results = outcomes(options.start, options.package, options.jobs)
    tally, finds, end = search(results, options.count, say)
    say(str(tally))
    if finds:
        say(f"seeds of what does not hold: {', '.join(map(str, finds))}")
    say(
        f"{tally.programs + len(finds)} programs, {tally.calls} calls, {len(finds)} finds, "
        f"seeds {options.start}..{end - 1}"
    )
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
