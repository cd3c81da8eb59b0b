"""`python -m anyshape_testing.proofs`: judges by z3 what was proved of all ops, and the certificates of all ops when they are exported.

Out: what is not true, by name, and the numbers; 1 if a claim is false, or facts contradict each other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from anyshape_gen.analysis import analyse
from anyshape_gen.generation import read_folder
from anyshape_testing.calls.packages import register
from anyshape_testing.proofs.certificates import CertificateJudgement
from anyshape_testing.proofs.judge import LIMIT
from anyshape_testing.proofs.of_exports import judge_exported
from anyshape_testing.proofs.of_ops import judge_op, totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="anyshape_testing.proofs", description=__doc__)
    parser.add_argument("--specs", type=Path, default=Path("specs"), help="the folder of *.yaml specs")
    parser.add_argument("--package", default="anyshape_ops", help="the package generated from them")
    parser.add_argument("--op", default="", help="these ops only, separated by commas")
    parser.add_argument("--limit", type=int, default=2 * LIMIT, help="the most work of one query, as z3 counts it")
    args = parser.parse_args()
    chosen, analysis = set(filter(None, args.op.split(","))), analyse(read_folder(args.specs))
    if unknown := sorted(chosen - {a.spec.name for a in analysis.ops}):
        parser.error(f"no op is called {', '.join(unknown)}")
    ops = [a for a in sorted(analysis.ops, key=lambda a: a.spec.name) if not chosen or a.spec.name in chosen]
    judgements = [judge_op(a, args.limit) for a in ops if a.kernel is not None]
    print("\n".join(totals(judgements)), flush=True)
    certificates = CertificateJudgement()
    for op in sorted(register(args.package)):
        if not chosen or op in chosen:
            certificates += judge_exported(op, args.limit)
    print("\n".join([*dict.fromkeys(certificates.notes), f"certificates: {certificates}"]))
    return 0 if certificates.holds and all(j.holds for j in judgements) else 1


if __name__ == "__main__":
    raise SystemExit(main())
