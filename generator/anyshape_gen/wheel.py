"""Writes the wheel of a generated package: an archive of its files, by the standard library alone.

In: the text of `pyproject.toml`, and the files by path. Out: the name of the wheel and its bytes, the same in every run.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from anyshape.errors import SpecError

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of all files in a wheel: the first that an archive can have"""


@dataclass(frozen=True)
class Project:
    """What a wheel says of its project."""

    name: str
    version: str
    python: str | None = None
    dependencies: tuple[str, ...] = ()
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        return f"{re.sub(r'[-_.]+', '_', self.name).lower()}-{self.version}"


TABLES = {"dependencies": list, "optional-dependencies": dict, "entry-points": dict, "scripts": dict}
"""Keys of `project` that are not texts"""


def read_project(text: str, path: str) -> Project:
    """Reads the table `project` of a `pyproject.toml`. Raises SpecError for a text without a name and a version, or with other tables."""
    try:
        table: Any = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError as e:
        raise SpecError(f"{path}: {e}") from None
    if not isinstance(table, dict):
        raise SpecError(f"{path}: project must be a table, got {table!r}")
    for key in ("name", "version"):
        if not isinstance(table.get(key), str):
            raise SpecError(f"{path}: a wheel needs project.{key}, a text, got {table.get(key)!r}")
    for key, kind in TABLES.items():
        if not isinstance(table.get(key, kind()), kind):
            raise SpecError(f"{path}: project.{key} must be a {kind.__name__}, got {table[key]!r}")
    extras = {name: tuple(demands) for name, demands in table.get("optional-dependencies", {}).items()}
    scripts = {"console_scripts": table["scripts"]} if "scripts" in table else {}
    return Project(
        name=table["name"],
        version=table["version"],
        python=table.get("requires-python"),
        dependencies=tuple(table.get("dependencies", ())),
        extras=extras,
        entry_points={**table.get("entry-points", {}), **scripts},
    )


ANY = "any"
"""The platform of a wheel without compiled code"""


def wheel(project: Project, files: Mapping[str, bytes], platform: str = ANY) -> tuple[str, bytes]:
    """The name of the wheel and the archive."""
    tag = f"py3-none-{platform}"
    folder = f"{project.stem}.dist-info"
    contents = {
        **files,
        f"{folder}/METADATA": "".join(f"{line}\n" for line in _metadata(project)).encode(),
        f"{folder}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: anyshape_gen\nRoot-Is-Purelib: {str(platform == ANY).lower()}\nTag: {tag}\n"
        ).encode(),
        f"{folder}/entry_points.txt": _entry_points(project.entry_points).encode(),
    }
    record = f"{folder}/RECORD"
    lines = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in sorted(contents.items())]
    contents[record] = "".join([*lines, f"{record},,\n"]).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in contents.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    return f"{project.stem}-{tag}.whl", archive.getvalue()


def _metadata(project: Project) -> Iterator[str]:
    yield from ("Metadata-Version: 2.1", f"Name: {project.name}", f"Version: {project.version}")
    if project.python:
        yield f"Requires-Python: {project.python}"
    yield from (f"Requires-Dist: {demand}" for demand in project.dependencies)
    for extra, demands in project.extras.items():
        yield f"Provides-Extra: {extra}"
        for demand in demands:
            plain, _, marker = demand.partition(";")
            also = f"({marker.strip()}) and " if marker else ""
            yield f"Requires-Dist: {plain.strip()}; {also}extra == '{extra}'"


def _entry_points(groups: Mapping[str, Mapping[str, str]]) -> str:
    blocks = (
        [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())] for group, points in groups.items()
    )
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
