"""What an author writes in a reference passes `make lint` and `make types` as it is: it is printed into generated files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.specs import ROOT

LIKED_BY_NO_LINTER = """from typing import Any

import numpy as np


def style_reference(x: Any, at: Any, l: Any) -> Any:
    pairs = [p for p in list(zip(at, at[1:]))]
    return (lambda y: (np.add.at(y, at, x), y)[1])(x.copy()), sum((a for a in x if not a == None)), pairs
"""
WRONG_ANYWHERE = LIKED_BY_NO_LINTER.replace("sum((a", "sum((b")


@pytest.mark.parametrize("text, folder, status", [
    (LIKED_BY_NO_LINTER, "strategies", 0), (WRONG_ANYWHERE, "strategies", 1), (LIKED_BY_NO_LINTER, "kernels", 1),
])  # fmt: skip
def test_style_is_the_authors_and_errors_are_found(text: str, folder: str, status: int) -> None:
    pytest.importorskip("ruff")
    words = ["ruff", "check", "--quiet", "--stdin-filename", f"generated/anyshape_ops/{folder}/mine.py", "-"]
    ran = subprocess.run([sys.executable, "-m", *words], input=text, text=True, capture_output=True, cwd=ROOT)
    assert ran.returncode == status, ran.stdout + ran.stderr
