"""Tests of the PyTorch frontend; they are left out where torch is not installed (`make test-torch` installs it)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("torch") is not None else ["test_*.py"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
