"""The laws of anyshape's own ops; the plugin is what any package of ops has."""

from __future__ import annotations

import pytest

from anyshape_testing.calls.packages import register
from anyshape_testing.mutation.making import Workshop
from anyshape_testing.plugin import (
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_terminal_summary,
    record_property,
)
from tests.specs import all_specs


@pytest.fixture(scope="session")
def workshop() -> Workshop:
    """All specs, to be changed one at a time."""
    register("anyshape_ops")
    return Workshop(all_specs())


__all__ = [
    "pytest_collection_modifyitems",
    "pytest_generate_tests",
    "pytest_terminal_summary",
    "record_property",
    "workshop",
]
