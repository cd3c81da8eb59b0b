"""What a step made, remembered by what it was made of: nothing is made again but what changed, in this process or in the next.

In: a spec file, a key, the objects whose identity the key names, and how to make the result. Out: the result. Steps are pure, so that
what comes out is the same with and without a memory. Between processes the results of a spec file are kept in the disk cache, under a
hash of its text and of the generator.
"""

from __future__ import annotations

import gc
import hashlib
import pickle
import platform
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import yaml

from anyshape.code_version import code_version
from anyshape.disk_cache import DiskCache

T = TypeVar("T")
MADE_BY = ("anyshape_gen", "anyshape.dims", "anyshape.rules", "anyshape.dtypes", "anyshape.errors")
"""Packages whose code decides what a step makes"""


@cache
def generator_version() -> str:
    """Changes with any line of the generator, and with what reads YAML and Python."""
    made_by = [code_version(package) for package in MADE_BY]
    return " ".join([*made_by, platform.python_version(), yaml.__version__])


@contextmanager
def uncollected() -> Iterator[None]:
    """Reading makes many objects that stay; the collector would look at all of them, again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()


@dataclass
class _File:
    """The results of one spec file: {key: (objects of the key, result)}."""

    name: str = ""
    """in the disk cache; empty: it is not kept there"""
    kept: dict[tuple[Hashable, ...], tuple[tuple[object, ...], Any]] = field(default_factory=dict)
    asked: set[tuple[Hashable, ...]] = field(default_factory=set)
    written: bool = True

    def read(self, data: bytes) -> None:
        """What another process made; ids are those of this one."""
        for key, of, result in pickle.loads(data):
            self.kept[(key, *map(id, of))] = of, result
            self.asked.add((key, *map(id, of)))

    def text(self) -> bytes:
        """One object graph, so that what was one object is one when it is read."""
        return pickle.dumps([(whole[0], of, result) for whole, (of, result) in self.kept.items()], protocol=5)


class Memo:
    """Results by file and key. `end_round` drops what the round did not ask for, and writes what it made."""

    def __init__(self, disk: DiskCache | None = None) -> None:
        self._disk = disk or DiskCache(None)
        self._files: dict[str, _File] = {}

    @staticmethod
    def standard() -> Memo:
        """With a room of its own in the cache of the user."""
        return Memo(DiskCache.standard("generator", limit_bytes=64 << 20))

    def begin_round(self, contents: Mapping[str, str]) -> None:
        """The spec files of this round, by path."""
        for path in self._files.keys() - contents.keys():
            del self._files[path]
        if self._disk.directory is not None:
            for path, content in contents.items():
                self._read(self._files.setdefault(path, _File()), path, content)

    def _read(self, file: _File, path: str, content: str) -> None:
        """What was made of this content before, unless it is what the file had in the last round."""
        name = hashlib.sha256("\0".join((generator_version(), path, content)).encode()).hexdigest()
        if file.name == name:
            return
        data = self._disk.get(name)
        if data is not None:
            with uncollected():
                file.read(data)
        file.name, file.written = name, data is not None

    def get(
        self,
        path: str,
        key: Hashable,
        of: tuple[object, ...],
        make: Callable[[], T],
        lasts: Callable[[T], bool] = lambda result: True,
    ) -> T:
        """`make()`, or what it gave for an equal key and the very same objects `of`. What raises, or does not last, is not kept."""
        file = self._files.setdefault(path, _File())
        whole = (key, *map(id, of))
        file.asked.add(whole)
        if whole in file.kept:
            known: T = file.kept[whole][1]
            return known
        result = make()
        if lasts(result):
            # The objects are kept beside the result: an id is theirs as long as they live.
            file.kept[whole] = of, result
            file.written = False
        return result

    def end_round(self) -> None:
        for file in self._files.values():
            for key in file.kept.keys() - file.asked:
                del file.kept[key]
            file.asked.clear()
            if file.name and not file.written:
                self._disk.put(file.name, file.text())
                file.written = True
