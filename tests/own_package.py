"""A package of ops generated from a text of specs for one test, and announced as an installed package is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyshape.graph.registry import all_ops, packages
from anyshape_gen.cli import main
from anyshape_testing.running import PACKAGES, PROPERTIES


@contextmanager
def installed(folder: Path, package: str, text: str) -> Iterator[str]:
    """Yields the name of the package, whose ops are among `anyshape.ops` until the block ends."""
    (folder / "specs").mkdir()
    (folder / "specs" / "own.yaml").write_text(text)
    assert main(["--specs", str(folder / "specs"), "--package", package, "--out", str(folder)]) == 0
    dashed = package.replace("_", "-")
    info = folder / f"{package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dashed}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[anyshape.ops]\n{package} = {package}:OPS\n")
    sys.path.insert(0, str(folder))
    for known in (packages, all_ops):
        known.cache_clear()
    try:
        yield package
    finally:
        sys.path.remove(str(folder))
        for name in [n for n, p in PACKAGES.items() if p == package]:
            del PROPERTIES[name], PACKAGES[name]
        for known in (packages, all_ops):
            known.cache_clear()
        for name in [n for n in sys.modules if n.split(".")[0] == package]:
            del sys.modules[name]
