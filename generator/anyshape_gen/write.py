"""Compares generated files with those on disk, and writes those that differ.

In: {path: text} and the folders that contain nothing but generated files. Out: differences, or written files. A file is
written only when its text changes, so that nothing that depends on it is rebuilt without need.
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
    """A file that differs from what the specs generate."""

    path: Path
    kind: str
    """`missing`, `changed` or `orphan`"""

    def __str__(self) -> str:
        return f"{self.kind}: {self.path.as_posix()}"


def differences(files: Mapping[Path, str], owned: Iterable[Path]) -> list[Difference]:
    """Compares all files; one below the `owned` folders that is not generated is an orphan."""
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
    """Writes files that differ and deletes orphans; returns the differences."""
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
    """Writes a file, and moves its time at least one second ahead of the old one: Python compares bytecode with its source by size and
    whole seconds, and would run the old one."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_bytes(text.encode())
    after = path.stat()
    if after.st_mtime_ns // SECOND <= before // SECOND:
        os.utime(path, ns=(after.st_atime_ns, before + SECOND))


def _remove_empty(folder: Path) -> None:
    if not any(p.name not in _IGNORED for p in folder.iterdir()) and not (folder / "__pycache__").exists():
        folder.rmdir()
