"""Work done in several threads at once, of which none may fail unseen: what a thread raises, its starter would not hear of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[T], object], items: Iterable[T]) -> None:
    """work(item) for each item in a thread of its own, all begun at once. Raises the first of what they raise."""
    listed = list(items)
    begin = threading.Barrier(len(listed))
    raised: list[BaseException] = []

    def guarded(item: T) -> None:
        begin.wait()
        try:
            work(item)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(item,)) for item in listed]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]
