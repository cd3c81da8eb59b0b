"""`python -m anyshape_testing.matrix`: tries the cells, and prints where a law does not notice a wrong op.

Out: a line for each finding, and the number of cells; exit code 1 for a finding that is not listed as open, or a listed one that is gone.
`--write` also writes the section of docs/testing.md that says which laws notice what of which op in which dtypes.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from anyshape_testing.calls.packages import register
from anyshape_testing.commands import command_line, jobs
from anyshape_testing.matrix.cells import cells
from anyshape_testing.matrix.forms import known_open
from anyshape_testing.matrix.page import written
from anyshape_testing.matrix.running import run_all, sample


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyshape_testing.matrix", description="Try whether laws notice what is wrong."
    )
    for name, what in (("law", "number"), ("kind", "kind of op"), ("dtype", "class of dtypes"), ("form", "small op")):
        parser.add_argument(f"--{name}", default="", help=f"of this {what} only, or of these, separated by commas")
    parser.add_argument("--sample", action="store_true", help="only the cells that `make test` tries")
    parser.add_argument(
        "--write", action="store_true", help="write the section of the page, which all cells are needed for"
    )
    parser.add_argument("--page", type=Path, default=Path("docs/testing.md"))
    parser.add_argument("--jobs", type=jobs, default=os.cpu_count() or 1)
    return parser


@command_line
def main(argv: Sequence[str] | None = None) -> int:
    options = arguments().parse_args(argv)
    register("anyshape_ops")
    every = list(cells())
    chosen = sample(every) if options.sample else every
    for name, of in (("law", "law"), ("kind", "kind"), ("dtype", "dtypes"), ("form", "form")):
        selected = [w for w in getattr(options, name).split(",") if w]
        chosen = [c for c in chosen if not selected or getattr(c, of) in selected]
    start, done, failed, new = time.perf_counter(), 0, set[str](), 0
    open_ = known_open()
    for op_findings in run_all(chosen, options.jobs):
        done += len(op_findings.cells)
        failed |= {str(f.cell) for f in op_findings.findings}
        new += sum(str(f.cell) not in open_ for f in op_findings.findings)
        for f in op_findings.findings:
            print(f"[{done}/{len(chosen)}] {'open: ' if str(f.cell) in open_ else ''}{f}", flush=True)
    mended = [cell for cell in map(str, chosen) if cell in open_ and cell not in failed]
    for cell in mended:
        print(f"said to be open, and notices all: {cell}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = f"{time.perf_counter() - start:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors"
    print(f"{len(chosen)} cells, {new} findings in others than the {len(open_)} that are open, {seconds}")
    if options.write and chosen == every:
        options.page.write_text(written(options.page.read_text(), every, open_))
    return 1 if new or mended else 0


if __name__ == "__main__":
    sys.exit(main())
