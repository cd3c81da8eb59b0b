"""Generated files and the disk: what differs, what is no longer generated, and bringing both in line.

In: {path: text} and the folders that hold nothing but generated files. Out: differences, or files written. A file is
written only when its text changes, so that nothing downstream is rebuilt for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

SECOND = 1_000_000_000
_IGNORED = ("__pycache__", ".mypy_cache", ".ruff_cache")


@dataclass(frozen=True)
class Difference:
    """A file that is not what the specs say."""

    path: Path
    kind: str
    """`missing`, `changed` or `orphan`"""

    def __str__(self) -> str:
        return f"{self.kind}: {self.path.as_posix()}"


def differences(files: Mapping[Path, str], owned: Iterable[Path]) -> list[Difference]:
    """What is wrong on disk; everything below the `owned` folders that is not generated is an orphan."""
    result = []
    for path, text in sorted(files.items()):
        if not path.exists():
            result.append(Difference(path, "missing"))
        elif path.read_bytes() != text.encode():
            result.append(Difference(path, "changed"))
    for folder in sorted(owned):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path not in files and not any(part in _IGNORED for part in path.parts):
                result.append(Difference(path, "orphan"))
    return result


def synchronise(files: Mapping[Path, str], owned: Iterable[Path]) -> list[Difference]:
    """Writes what differs and deletes orphans; returns what it did."""
    result = differences(files, owned)
    for difference in result:
        if difference.kind == "orphan":
            difference.path.unlink()
            _remove_empty(difference.path.parent)
        else:
            difference.path.parent.mkdir(parents=True, exist_ok=True)
            write(difference.path, files[difference.path])
    return result


def write(path: Path, text: str) -> None:
    """A second later than it was, at least: Python takes its bytecode for that of this text if size and whole seconds are the same, and
    `make watch` would test what was there before."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_bytes(text.encode())
    after = path.stat()
    if after.st_mtime_ns // SECOND <= before // SECOND:
        os.utime(path, ns=(after.st_atime_ns, before + SECOND))


def _remove_empty(folder: Path) -> None:
    if not any(p.name not in _IGNORED for p in folder.iterdir()) and not (folder / "__pycache__").exists():
        folder.rmdir()
