"""Asserts that a block raises, without pytest, whose import takes a tenth of a second of those in which `make test OP=` answers.

In: an error and a regular expression. Out: nothing, or AssertionError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raises(error: type[Exception], match: str = "") -> Iterator[None]:
    """Asserts that the block raises this error with a message in which `match` is found; other errors pass through."""
    try:
        yield
    except error as e:
        assert re.search(match, str(e)), f"{type(e).__name__} says {str(e)!r}, wanted {match!r}"
        return
    raise AssertionError(f"no {error.__name__} was raised" + (f", wanted {match!r}" if match else ""))
