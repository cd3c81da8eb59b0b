"""Places in spec files, and findings with such places.

In: nothing but the text of spec files. Out: `Span` (carried by every node of the model), `Finding` (one error in
a spec) and `Findings`, the collector that prints them all at once with source line, caret, scope and suggestion.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from anyshape.errors import SpecError


@dataclass(frozen=True, order=True)
class Span:
    """A piece of one line of a spec file; lines and columns count from 1, `end` is the column after the last
    character."""

    file: str
    line: int
    col: int
    end: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


NOWHERE = Span("<built>", 0, 0, 0)
LONG_LIST = 12


@dataclass(frozen=True)
class Finding:
    """One error: its place, its text, and names that could have been written instead."""

    span: Span
    text: str
    scope: tuple[str, ...] = ()
    label: str = "in scope"
    """what the listed names are: `in scope`, or `known` keys, functions, kinds"""


@dataclass
class Findings:
    """Collects errors so that a spec author sees all of them in one run."""

    sources: dict[str, list[str]] = field(default_factory=dict)
    items: list[Finding] = field(default_factory=list)
    unreadable: int = 0
    """the number of texts with wrong syntax; what depends on them is not checked"""

    def add(self, span: Span, text: str, scope: Iterable[str] = (), label: str = "in scope") -> None:
        """Records an error; the same text at the same place is recorded once."""
        if span == NOWHERE and self.items:
            # The error follows from a text that could not be parsed, which has a finding already.
            return
        finding = Finding(span, text, tuple(sorted(set(scope))), label)
        if finding not in self.items:
            self.items.append(finding)

    def take(self, other: Findings) -> None:
        """Adds the findings of another collector."""
        self.sources.update(other.sources)
        self.unreadable += other.unreadable
        for f in other.items:
            self.add(f.span, f.text, f.scope, f.label)

    def distinct(self, what: str, named: Iterable[tuple[str, Span]]) -> None:
        """Records every name that is defined a second time."""
        first: dict[str, Span] = {}
        for name, span in named:
            if name in first:
                self.add(span, f"{what} '{name}' is there a second time; the first is at {first[name]}")
            first.setdefault(name, span)

    def unknown(self, span: Span, what: str, name: str, known: Iterable[str], where: str = "") -> None:
        """Records an unknown name, with the nearest known one as a suggestion and the names in scope.

        A long list of names of the language is left out where there is a suggestion.
        """
        names = sorted(set(known))
        hint = suggestion(name, names)
        label = "in scope" if what == "name" else "known"
        listed = [] if hint and label == "known" and len(names) > LONG_LIST else names
        self.add(span, f"unknown {what} '{name}'{where}{hint}", listed, label)

    def ordered(self) -> tuple[Finding, ...]:
        """All errors in file order."""
        return tuple(sorted(self.items, key=lambda f: (f.span, f.text)))

    def render(self) -> str:
        """Prints all errors in file order, each with its source line and a caret below."""
        return "\n".join(map(self._render_one, self.ordered()))

    def raise_if_any(self) -> None:
        if self.items:
            error = SpecError(self.render())
            error.findings = self.ordered()
            raise error

    def _render_one(self, finding: Finding) -> str:
        span = finding.span
        out = [f"{span}: {finding.text}"]
        lines = self.sources.get(span.file, [])
        if 1 <= span.line <= len(lines):
            line = lines[span.line - 1]
            width = max(1, min(span.end, len(line) + 1) - span.col)
            out += [f"    {line}", "    " + " " * (span.col - 1) + "^" + "~" * (width - 1)]
        if finding.scope:
            out.append(f"    {finding.label}: {', '.join(finding.scope)}")
        return "\n".join(out)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Words a suggestion, `; did you mean 'x'?`, where a known name is similar; else empty."""
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to a mistyped one; None where none is similar."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return near[0] if near else None
