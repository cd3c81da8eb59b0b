"""The log, which names once what programs set and nothing here heeds."""

from __future__ import annotations

import logging
from threading import Lock

LOGGER = logging.getLogger("anyshape.onnxruntime")
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""The levels of Python's log for onnxruntime's severities: verbose, info, warning, error, fatal"""

_named: set[str] = set()
_lock = Lock()


def ignored(what: str, why: str) -> None:
    """Warns that something has no effect; of each thing once in a process."""
    with _lock:
        if what in _named:
            return
        _named.add(what)
    LOGGER.warning("%s has no effect: %s", what, why)
