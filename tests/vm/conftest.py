"""Handmade ops are found by their names while these tests run, beside whatever the generated package registers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyshape.graph import registry
from anyshape.passes import simplify

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def handmade_ops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import handmade

    monkeypatch.setattr(registry, "all_ops", lambda: handmade.OPS)
    monkeypatch.setattr(simplify, "all_ops", lambda: handmade.OPS)
    monkeypatch.setenv("ANYSHAPE_KERNELS", "interpret")
    yield
