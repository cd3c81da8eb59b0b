"""Errors that are caught by name."""

from __future__ import annotations


class TooHardError(RuntimeError):
    """Whether arrays overlap is too hard to say."""
