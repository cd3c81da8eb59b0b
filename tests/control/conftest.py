"""Every test of control flow runs in each executor: the native loop, the walking interpreter, and kernels that are interpreted too."""

from __future__ import annotations

from typing import Any

import pytest

EXECUTORS: dict[str, dict[str, Any]] = {
    "native": {},
    "walk": {"loop": "python"},
    "interpret": {"kernels": "interpret"},
    "unfused": {"fuse": False},
}


@pytest.fixture(params=list(EXECUTORS))
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return EXECUTORS[request.param]
