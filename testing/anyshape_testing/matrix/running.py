"""Tries all cells, op by op in processes of their own; selects a sample of them for `make test`.

In: cells. Out: the findings for each op, in the order in which ops are done.
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
    """The cells of one op, and their findings."""

    cells: Sequence[Cell]
    findings: Sequence[Finding]


def by_op(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups cells by op: they share its calls and compiled programs."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.form, cell.dtypes), []).append(cell)
    return list(groups.values())


def _all_tried(cells: Sequence[Cell]) -> OpFindings:
    findings = [f for cell in cells for f in tried(cell)]
    make.cache_clear()  # with all programs
    return OpFindings(cells, findings)


def run_all(cells: Sequence[Cell], jobs: int) -> Iterator[OpFindings]:
    """Yields findings in the order in which ops are done. Raises BrokenProcessPool where a cell ends its process."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        yield from (done.result() for done in as_completed([pool.submit(_all_tried, c) for c in by_op(cells)]))


def sample(cells: Sequence[Cell]) -> list[Cell]:
    """Selects cells, in the order of their hashes, until every law, kind of op, form and class of dtypes is among them."""
    chosen: list[Cell] = []
    seen: set[tuple[str, str]] = set()
    for cell in sorted(cells, key=lambda c: zlib.crc32(str(c).encode())):
        new = {("law", cell.law), ("kind", cell.kind), ("form", cell.form), ("dtypes", cell.dtypes)} - seen
        if new:
            chosen.append(cell)
            seen |= new
    return chosen
