"""Versions of the code that made a result: a hash over the sources of a package.

In: a package's name. Out: hex digits, the same wherever the same sources are installed. Saved models and cached objects that no text
identifies carry it, so that nothing made by other code is ever run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

VERSION = "0.1.0"
"""The version of the package; `pyproject.toml` says the same, which a test holds."""
_OUTSIDE = {"anyshape": ("cli", "frontends"), "anyshape_ops": ("onnx",)}
"""Rooms whose code decides how a function comes to be, not what is made of it."""


@cache
def code_version(package: str) -> str:
    """Hashes the sources of a package or of a module without one; without sources, the name alone."""
    digest = hashlib.sha256(package.encode())
    spec = find_spec(package)
    if spec is not None and spec.origin and spec.submodule_search_locations is None:
        digest.update(Path(spec.origin).read_bytes())
    for root in sorted((spec.submodule_search_locations or ()) if spec is not None else ()):
        for path in _sources(root, _OUTSIDE.get(package, ())):
            digest.update(b"\0" + os.path.relpath(path, root).encode() + b"\0")
            with open(path, "rb", buffering=0) as file:
                digest.update(file.read())
    return digest.hexdigest()


def _sources(root: str, outside: tuple[str, ...]) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        left_out = (*outside, "__pycache__") if folder == root else ("__pycache__",)
        folders[:] = sorted(f for f in folders if f not in left_out)
        yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".py"))
