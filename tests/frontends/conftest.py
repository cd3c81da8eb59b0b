"""Fixtures of the frontend tests."""

from __future__ import annotations

import pytest

from tests.frontends.small_ops import TABLE


@pytest.fixture
def small_table(monkeypatch):
    """Every import sees the ops of small_ops alone."""
    monkeypatch.setattr("anyshape.frontends.onnx.loading.all_mappings", lambda: TABLE)
