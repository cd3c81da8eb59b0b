"""Loggers of the library: compiles, the cache, calls. Nothing is printed unless the program sets up Python's `logging`.

Below `logging.getLogger("anyshape")`. INFO: once for each model or program; DEBUG: once for each object of code, and for each call that
leaves the usual way. A call by the direct entry reports nothing. docs/observability.md lists the messages.
"""

from __future__ import annotations

import logging

COMPILE = logging.getLogger("anyshape.compile")
"""Compiled and loaded models, what stays dynamic in them, and programs that are compiled while calls run"""
CACHE = logging.getLogger("anyshape.cache")
"""Origin of object code: this process, the cache on disk, or LLVM"""
CALLS = logging.getLogger("anyshape.calls")
"""Calls that another executor ran than usual, and hooks that raised"""
