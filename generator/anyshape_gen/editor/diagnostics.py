"""The findings of a folder of specs, some of whose files are open in the editor: those of `anyshape-gen check`.

In: texts by path. Out: errors and warnings by path. What did not change since the last time is not analysed again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from anyshape.disk_cache import DiskCache
from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse
from anyshape_gen.bounds.safety import prove_indices
from anyshape_gen.bounds.store import Safety
from anyshape_gen.check.advice import advice
from anyshape_gen.memo import Memo
from anyshape_gen.model.analysis import Analysis
from anyshape_gen.model.source import NOWHERE, Finding, Findings

ByFile = dict[str, list["Diagnostic"]]


@dataclass(frozen=True)
class Diagnostic:
    """A finding, as an error or a warning."""

    finding: Finding
    is_error: bool

    @property
    def text(self) -> str:
        """The words, and the names that could have been written."""
        listed = f"\n{self.finding.label}: {', '.join(self.finding.scope)}" if self.finding.scope else ""
        return self.finding.text + listed


@dataclass(frozen=True)
class ReadOnlyCache(DiskCache):
    """The generator's cache, in which no results of half-written texts are kept."""

    def put(self, key: str, data: bytes) -> None:
        pass


def cached() -> Memo:
    """A memo that begins with what the command has generated."""
    return Memo(ReadOnlyCache(DiskCache.standard("generator").directory))


@dataclass
class Checker:
    """Checks one folder again and again."""

    memo: Memo = field(default_factory=cached)
    proved: dict[str, Safety] = field(default_factory=dict)
    """verdicts on the indices of ops without findings"""

    def check(self, contents: Mapping[str, str], prove: Collection[str] = ()) -> ByFile:
        """The findings of all files, by path; every file is a key. The indices of ops of the files `prove` are proved, too."""
        analysis, errors = self._analysed(contents)
        warnings: Iterable[Finding] = ()
        if analysis is not None:
            warnings = advice(analysis)
            errors = self._refuted(analysis, prove) if prove else errors
        first = next(iter(contents), "")
        result: ByFile = {path: [] for path in contents}
        for findings, is_error in ((errors, True), (warnings, False)):
            for f in findings:
                at = f.span.file if f.span != NOWHERE else first
                result.setdefault(at, []).append(Diagnostic(f, is_error))
        return result

    def _analysed(self, contents: Mapping[str, str]) -> tuple[Analysis | None, Iterable[Finding]]:
        try:
            analysis = analyse(contents, memo=self.memo)
        except SpecError as e:
            return None, e.findings or (Finding(NOWHERE, str(e)),)
        finally:
            self.memo.end_round()
        return analysis, ()

    def _refuted(self, analysis: Analysis, prove: Collection[str]) -> Iterable[Finding]:
        """Proves indices; returns those that can be out of bounds."""
        findings = Findings()
        some = replace(analysis, ops=tuple(a for a in analysis.ops if a.file in prove))
        _, verdicts = prove_indices(some, self.proved, findings, self.memo)
        if not findings.items:
            self.proved.update(verdicts)
        return findings.ordered()
