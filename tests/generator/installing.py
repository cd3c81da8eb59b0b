"""A package of ops generated from YAML for one test, and announced as an installed package is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anyshape.graph.registry import all_ops, namespaces
from anyshape_gen.cli import main
from anyshape_testing.calls.packages import PACKAGES, PROPERTIES


@contextmanager
def installed(package: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Generates `package` from one spec file with this text, and removes it from the registries in the end."""
    (folder / "specs").mkdir()
    (folder / "specs" / "ops.yaml").write_text(text)
    assert main(["--specs", str(folder / "specs"), "--package", package, "--out", str(folder)]) == 0
    info = folder / f"{package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[anyshape.ops]\n{package} = {package}:OPS\n")
    monkeypatch.syspath_prepend(str(folder))
    with registered(package):
        yield package


@contextmanager
def registered(package: str) -> Iterator[None]:
    """Makes the registries look for packages anew, and removes this one from them in the end."""
    for known in (namespaces, all_ops):
        known.cache_clear()
    try:
        yield
    finally:
        for name in [n for n, p in PACKAGES.items() if p == package]:
            del PROPERTIES[name], PACKAGES[name]
        for known in (namespaces, all_ops):
            known.cache_clear()
        for name in [n for n in sys.modules if n.split(".")[0] == package]:
            del sys.modules[name]
