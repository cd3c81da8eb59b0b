"""All cells, op by op in processes of their own; and those few that stand for all where there is no time.

In: cells. Out: what is found of each op's, as they are done.
"""

from __future__ import annotations

import multiprocessing
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from anyshape_testing.matrix.cells import Cell, Finding, tried
from anyshape_testing.matrix.making import make


@dataclass(frozen=True)
class OpFindings:
    """The cells of one op, and what was found."""

    cells: Sequence[Cell]
    findings: Sequence[Finding]


def by_op(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Those of one op together: they share its calls and what is compiled for it."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.form, cell.dtypes), []).append(cell)
    return list(groups.values())


def _all_tried(cells: Sequence[Cell]) -> OpFindings:
    findings = [f for cell in cells for f in tried(cell)]
    make.cache_clear()  # with all programs
    return OpFindings(cells, findings)


def run_all(cells: Sequence[Cell], jobs: int) -> Iterator[OpFindings]:
    """In the order in which they are done. Raises BrokenProcessPool where a cell ends its process."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        yield from (done.result() for done in as_completed([pool.submit(_all_tried, c) for c in by_op(cells)]))


def sample(cells: Sequence[Cell]) -> list[Cell]:
    """Some, by their hashes: every law, kind of op and class of dtypes is among them, and every law with a few of each."""
    chosen: list[Cell] = []
    seen: set[tuple[str, str]] = set()
    for cell in sorted(cells, key=lambda c: zlib.crc32(str(c).encode())):
        new = {("law", cell.law), ("kind", cell.kind), ("form", cell.form), ("dtypes", cell.dtypes)} - seen
        if new:
            chosen.append(cell)
            seen |= new
    return chosen
