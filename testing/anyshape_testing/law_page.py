"""Writes the tables of docs/laws.md: calls of each law on each op in the last run that kept its counts.

    python -m anyshape_testing.law_page [--counts docs/law-counts.json] [--page docs/laws.md]

In: the counts that a run of the laws kept (LAW_COUNTS), and the page. Out: the page, with new tables after its marker.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anyshape.properties import Property
from anyshape_testing.calls.packages import register
from anyshape_testing.laws.catalogue import LAWS, silences
from anyshape_testing.running.counts import Counts, read

MARKER = "<!-- What follows is written by anyshape_testing.law_page from law-counts.json. -->"


def with_counts(page: str, counts: Counts, properties: Mapping[str, Property]) -> str:
    """Returns the page with these counts after its marker. Raises ValueError where it has none."""
    if MARKER not in page:
        raise ValueError(f"the page has no line {MARKER}")
    return page.split(MARKER)[0] + MARKER + "\n\n" + "\n".join(_tables(counts, properties)) + "\n"


def _tables(counts: Counts, properties: Mapping[str, Property]) -> Iterator[str]:
    by_number = {law.split()[0]: ops for law, ops in counts.items()}
    silent = {op: silences(p) for op, p in properties.items()}
    yield "## By law"
    yield ""
    yield "| law | says | ops | does not apply to | weak, with a reason | calls accepted | of calls drawn | fewest |"
    yield "|---|---|---|---|---|---|---|---|"
    for law in LAWS:
        ops = by_number.get(law.number, {})
        accepted, drawn = (sum(c[k] for c in ops.values()) for k in (0, 1))
        fewest = min(((c[0], op) for op, c in ops.items()), default=None)
        never = sum(law.number in s for s in silent.values())
        weak = sum(law.number in p.weak for p in properties.values())
        least = f"{fewest[0]}, {fewest[1]}" if fewest is not None else ""
        yield f"| {law.number} | {law.says} | {len(ops)} | {never} | {weak} | {accepted:,} | {drawn:,} | {least} |"
    yield ""
    yield "## By op"
    yield ""
    yield "Calls accepted. A dash: the law does not apply; w: weak, for the reason on the op's page; nothing: it was not run."
    yield ""
    yield f"| op | {' | '.join(law.number for law in LAWS)} |"
    yield "|---" * (len(LAWS) + 1) + "|"
    for op, p in properties.items():
        cells = (_cell(law.number, op, p, silent[op], by_number) for law in LAWS)
        yield f"| [{op}](ops/{op}.md) | {' | '.join(cells)} |"


def _cell(number: str, op: str, p: Property, silent: Mapping[str, str], by_number: Counts) -> str:
    if number in silent:
        return "–"
    counts = by_number.get(number, {}).get(op)
    return "" if counts is None else f"{counts[0]} w" if number in p.weak else str(counts[0])


def command(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "anyshape_testing.law_page", description="Write the counts of laws into their page."
    )
    parser.add_argument("--counts", type=Path, default=Path("docs/law-counts.json"), help="what a run of laws kept")
    parser.add_argument("--page", type=Path, default=Path("docs/laws.md"), help="the page, which has a marker")
    args = parser.parse_args(argv)
    properties = register("anyshape_ops")
    args.page.write_text(with_counts(args.page.read_text(), read(args.counts), dict(sorted(properties.items()))))
    return 0


if __name__ == "__main__":
    sys.exit(command())
