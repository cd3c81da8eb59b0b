"""Laws 3, 4, 6 and 7 on random programs.

    python -m anyshape.testing.programs --count 5000 [--start 0] [--package anyshape_ops]
    python -m anyshape.testing.programs --seed 17          that program alone, printed

Seeds are tried from `--start` on until `--count` programs came of them. What does not hold is printed with its seed, at the end too;
the exit code tells whether anything was found.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from anyshape.testing.programs.seeds import drawn_from, run_seed
from anyshape.testing.programs.tally import Tally
from anyshape.testing.running import register


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one seed alone")
    parser.add_argument("--package", default="anyshape_ops", help="whose ops are called")
    options = parser.parse_args()
    ops = tuple(register(options.package))
    if options.seed is not None:
        d = drawn_from(options.seed, ops)
        print(d.program if d is not None else f"no program comes of seed {options.seed}")
        run_seed(options.seed, ops, Tally())
        return 0
    tally, seed, said = Tally(), options.start, time.perf_counter()
    failed: list[int] = []
    while tally.programs + len(failed) < options.count:
        try:
            run_seed(seed, ops, tally)
        except Exception as e:  # a search reports everything that it finds
            failed.append(seed)
            print(f"seed {seed}: {e}\n{traceback.format_exc(limit=-4)}", flush=True)
        seed += 1
        if time.perf_counter() - said > 30:
            said = time.perf_counter()
            print(f"... {tally.programs} programs hold, {len(failed)} do not", flush=True)
    print(tally)
    print(f"{len(failed)} programs do not hold{f': seeds {failed}' if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
