"""Runs the ops of a package generated from YAML texts: `python -m tests.generator.page_ops FOLDER CALLS`, specs in FOLDER/specs.

Every example of every op, then its laws with so many calls; prints what does not hold, and exits 1 then.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

CHEAP = 5
"""Number of calls with which the laws in LONG are left out."""
LONG = ("6a", "6b", "13", "14")


def main(folder: Path, calls: int) -> int:
    from anyshape_gen.cli import main as generate

    os.chdir(folder)
    info = folder / "page_ops-0.1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: page-ops\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[anyshape.ops]\npage_ops = page_ops:OPS\n")
    with contextlib.redirect_stdout(io.StringIO()):
        status = generate(["--specs", "specs", "--package", "page_ops", "--out", "."])
    if status:
        return status
    sys.path.insert(0, str(folder))
    from anyshape_testing.calls.packages import register
    from anyshape_testing.process.collector import leave_out_what_stays
    from anyshape_testing.process.profile import load_profile
    from anyshape_testing.quick import checks, run

    leave_out_what_stays()
    load_profile(calls)
    failed = 0
    for op in register("page_ops"):
        mine = [c for c in checks("page_ops", op) if calls > CHEAP or c.name.split()[0] not in LONG]
        for holds, line in map(run, mine):
            failed += not holds
            if not holds:
                print(f"{op}: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), int(sys.argv[2])))
