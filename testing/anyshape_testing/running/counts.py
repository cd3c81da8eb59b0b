"""Summarises the calls of each law on each op at the end of a run, and keeps them in a file.

In: the records of laws. Out: lines, and JSON `{law: {op: [accepted, drawn]}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Counts = Mapping[str, Mapping[str, tuple[int, int]]]
"""Numbers of accepted and of drawn calls, by law and op"""


def by_law(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, tuple[int, int]]]:
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    for said in records:
        counts.setdefault(str(said["law"]), {})[str(said["op"])] = int(said["accepted"]), int(said["drawn"])
    return counts


def summary(counts: Counts) -> Iterator[str]:
    """Yields a line for each law."""
    for law, ops in sorted(counts.items()):
        accepted, drawn = (sum(c[k] for c in ops.values()) for k in (0, 1))
        least, op = min((c[0], op) for op, c in ops.items())
        yield f"{law}: {len(ops)} ops, {accepted} random calls of {drawn} drawn; at least {least} ({op})"


def keep(path: Path, counts: Counts) -> None:
    """Writes the counts, and keeps those that other runs wrote of other laws and ops."""
    known = read(path)
    merged = {law: dict(sorted({**known.get(law, {}), **counts.get(law, {})}.items())) for law in {**known, **counts}}
    lines = [
        f"  {json.dumps(law)}: {{\n" + ",\n".join(f"    {json.dumps(op)}: {list(c)}" for op, c in ops.items()) + "\n  }"
        for law, ops in sorted(merged.items())
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """Reads what `keep` wrote; nothing where there is no file."""
    if not path.exists():
        return {}
    return {law: {op: (c[0], c[1]) for op, c in ops.items()} for law, ops in json.loads(path.read_text()).items()}
