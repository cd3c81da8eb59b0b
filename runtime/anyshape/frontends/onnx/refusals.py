"""Collects what is not supported over a whole model, for one UnsupportedError."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from anyshape.errors import UnsupportedError


def repairable(does: str) -> str:
    """Words for a message about a fault that `repaired` repairs."""
    return f"; compile(repair=True), or `anyshape simplify --repair`, {does}"


class ImportRefusal(UnsupportedError):
    """One node, tensor or input that cannot be imported; the importer catches it and continues."""


IN_BODY = re.compile(r"in its body(?:, (\d+) deep)?, ")


def within(op: str, e: UnsupportedError) -> ImportRefusal:
    """Words the refusal of a node in a body as one of the node around it, with the innermost operator and its depth."""
    text = str(e)
    prefix = IN_BODY.match(text)
    if prefix is None:
        return ImportRefusal(f"in its body, {op}: {text}")
    return ImportRefusal(f"in its body, {int(prefix.group(1) or 1) + 1} deep, {text[prefix.end() :]}")


@dataclass(frozen=True, kw_only=True)
class Unsupported:
    """One kind of thing that is not supported, with the number of its occurrences and the first of them."""

    op: str
    domain: str
    opset: int | None
    reason: str
    count: int
    first: str


class UnsupportedModel(UnsupportedError):
    """The one error of an import; `entries` lists everything that was refused."""

    def __init__(self, message: str, entries: Iterable[Unsupported] = ()) -> None:
        super().__init__(message)
        self.entries = tuple(entries)


@dataclass
class Refusals:
    """Collects refusals; `finish` raises if there are any."""

    model: str
    by_reason: dict[tuple[str, str, int | None, str], list[str]] = field(default_factory=dict)

    def add(self, op: str, domain: str, opset: int | None, reason: str, source: str) -> None:
        message = reason.replace(f" (at {source})", "").replace(f" ({source})", "")
        self.by_reason.setdefault((op, domain or "ai.onnx", opset, message), []).append(source)

    def entries(self) -> tuple[Unsupported, ...]:
        return tuple(
            Unsupported(op=op, domain=domain, opset=opset, reason=reason, count=len(at), first=at[0])
            for (op, domain, opset, reason), at in self.by_reason.items()
        )

    def finish(self) -> None:
        entries = self.entries()
        if entries:
            lines = [f"  {_line(e)}" for e in entries]
            raise UnsupportedModel(f"{self.model}: not supported:\n" + "\n".join(lines), entries)


def _line(e: Unsupported) -> str:
    often = f"{e.count} times, first " if e.count > 1 else ""
    where = "" if e.opset is None else f" ({e.domain}, opset {e.opset})"
    return f"{e.op}{where}: {e.reason} ({often}{e.first})"
