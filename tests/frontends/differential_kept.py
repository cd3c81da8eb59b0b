"""What differs from onnxruntime, or from it and ONNX's reference, and why it stays so: docs/onnx.md has it as a table.

    python -m tests.frontends.differential_kept     # prints the table
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Kept:
    """Trials of some operators and changes (patterns, as file names have them) that differ in one way; `said` is a part of what is said
    then. `example` is one of them, which `make test` runs."""

    kind: str
    operators: str
    change: str
    example: str
    reason: str
    said: str = ""

    def covers(self, kind: str, operator: str, change: str, why: str) -> bool:
        return (
            kind == self.kind
            and self.said in why
            and any(fnmatchcase(operator, o) for o in self.operators.split())
            and any(fnmatchcase(change, c) for c in self.change.split(" | "))
        )


KEPT: tuple[Kept, ...] = ()


def table() -> str:
    kinds = {"wrong": "both", "other": "onnxruntime", "refused": "refused", "died": "died"}
    lines = ["| operators | where | differs from | |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {e.operators} | {e.change} | {kinds[e.kind]} | {e.reason} |" for e in KEPT)])


if __name__ == "__main__":
    print(table())
