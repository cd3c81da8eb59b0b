"""Reads stored results about ops: how many indices are proved, how many mutants their laws kill.

In: the texts of the stored records. Out: two columns of the table of ops, empty where nothing is stored or nothing was tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MUTATION = "mutation.json"


@dataclass(frozen=True)
class Reports:
    """Stored results by op."""

    indices: Mapping[str, Any] = field(default_factory=dict)
    """`{op: {"total": indices, "proved": of them}}`"""
    mutants: Mapping[str, Any] = field(default_factory=dict)
    """`{op: {"mutants": tried, "killed": of them}}`"""

    def of(self, op: str) -> dict[str, str]:
        safe, tried = self.indices.get(op), self.mutants.get(op)
        return {
            "proved": f"{safe['proved']} of {safe['total']}" if safe else "",
            "mutation": f"{tried['killed']} of {tried['mutants']}" if tried and tried["mutants"] else "",
        }


def reports(index_safety: str | None, mutation: str | None) -> Reports:
    """Parses the texts of the records; a malformed record counts as missing."""
    return Reports(_ops(index_safety, ("proved", "total")), _ops(mutation, ("killed", "mutants")))


def _ops(text: str | None, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        entries = json.loads(text or "{}").get("ops", {})
        return {op: entry for op, entry in entries.items() if all(isinstance(entry[key], int) for key in keys)}
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}
