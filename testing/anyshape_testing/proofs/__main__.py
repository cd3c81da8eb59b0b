"""`python -m anyshape_testing.proofs`: judges all claims of all ops by z3. Ends with 1 if one is false, or facts contradict each other."""

from __future__ import annotations

import argparse
from pathlib import Path

from anyshape_gen.analysis import analyse
from anyshape_gen.cli import read_folder
from anyshape_testing.proofs.judge import MILLISECONDS
from anyshape_testing.proofs.of_ops import judge_op, totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="anyshape_testing.proofs", description=__doc__)
    parser.add_argument("--specs", type=Path, default=Path("specs"), help="the folder of *.yaml specs")
    parser.add_argument("--op", default="", help="these ops only, separated by commas")
    parser.add_argument("--timeout", type=int, default=10 * MILLISECONDS, help="milliseconds of one query")
    args = parser.parse_args()
    chosen = set(filter(None, args.op.split(",")))
    ops = [a for a in analyse(read_folder(args.specs)).ops if not chosen or a.spec.name in chosen]
    if unknown := sorted(chosen - {a.spec.name for a in ops}):
        parser.error(f"no op is called {', '.join(unknown)}")
    judgements = [judge_op(a, args.timeout) for a in sorted(ops, key=lambda a: a.spec.name) if a.kernel is not None]
    print("\n".join(totals(judgements)))
    return 0 if all(j.holds for j in judgements) else 1


if __name__ == "__main__":
    raise SystemExit(main())
