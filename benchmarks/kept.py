"""Figures of an earlier run beside those that are measured anew: a file of results in which some rows are replaced.

In: the file, new rows, what names a row, all names in their order. Out: the rows for the file. Rows that nothing names any more are
dropped, and so are those measured on another number of threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def with_kept(
    path: Path, anew: Sequence[Row], name: Callable[[Row], Hashable], order: Sequence[Hashable], threads: int
) -> list[Row]:
    earlier = json.loads(path.read_text()) if path.exists() else []
    rows = {name(r): r for r in (*earlier, *anew) if r["threads"] == threads}
    return [rows[n] for n in order if n in rows]
