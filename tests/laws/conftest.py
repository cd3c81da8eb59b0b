"""The laws of anyshape's own ops; the plugin is what any package of ops has."""

from anyshape.testing.plugin import pytest_collection_modifyitems, pytest_generate_tests, pytest_terminal_summary

__all__ = ["pytest_collection_modifyitems", "pytest_generate_tests", "pytest_terminal_summary"]
