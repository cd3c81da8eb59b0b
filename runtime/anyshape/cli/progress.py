"""Reports progress of work that takes more than a second, on stderr, so that stdout holds nothing but the result."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

QUIET = 1.0
"""Seconds before the first report"""


@contextmanager
def progress(what: str | Callable[[], str]) -> Iterator[None]:
    """Reports `what`, or what it says by then, and the seconds it has taken: on a terminal in one line that is erased at the end, elsewhere
    every ten seconds."""
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, done), daemon=True)
    with suppress(RuntimeError):  # no more threads are to be had: nothing is reported
        teller.start()
    try:
        yield
    finally:
        done.set()
        if teller.ident is not None:
            teller.join()


def _tell(what: str | Callable[[], str], done: threading.Event) -> None:
    start, terminal, said = time.monotonic(), sys.stderr.isatty(), False
    wait = QUIET
    while not done.wait(wait):
        seconds = time.monotonic() - start
        text = f"{what if isinstance(what, str) else what()} … {seconds:.0f} s"
        print(f"\r{text}\x1b[K" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)
        said, wait = True, 0.5 if terminal else 10.0
    if said and terminal:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
