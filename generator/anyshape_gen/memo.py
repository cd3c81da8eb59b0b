"""Caches results of the generator's steps, in this process and on disk, so that only what changed is computed again.

In: a spec file, a key, the input objects, which are compared by identity, and a function that computes the result. Out: the result.
Steps are pure, so that results are the same with and without a cache. Between processes the results of a spec file are kept in the disk
cache, under a hash of its text and of the generator.
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
"""Packages on whose code the result of a step depends"""


@cache
def generator_version() -> str:
    """Hashes the source of the generator, and the versions of Python and of the YAML parser."""
    made_by = [code_version(package) for package in MADE_BY]
    return " ".join([*made_by, platform.python_version(), yaml.__version__])


@contextmanager
def uncollected() -> Iterator[None]:
    """Disables the garbage collector while a file is unpickled: many objects are created, none is garbage, and it would scan them often."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass
class _File:
    """Results of one spec file: {key: (input objects, result)}."""

    name: str = ""
    """the file's key in the disk cache; empty: it is not kept there"""
    kept: dict[tuple[Hashable, ...], tuple[tuple[object, ...], Any]] = field(default_factory=dict)
    asked: set[tuple[Hashable, ...]] = field(default_factory=set)
    written: bool = True

    def read(self, data: bytes) -> None:
        """Loads results that another process computed; the ids in keys become those of this process."""
        for key, of, result in pickle.loads(data):
            self.kept[(key, *map(id, of))] = of, result
            self.asked.add((key, *map(id, of)))

    def text(self) -> bytes:
        """Pickles all results as one object graph, so that shared objects are shared after loading."""
        return pickle.dumps([(whole[0], of, result) for whole, (of, result) in self.kept.items()], protocol=5)


class Memo:
    """Results by file and key. `end_round` drops those that were not asked for since `begin_round`, and writes new ones to disk."""

    def __init__(self, disk: DiskCache | None = None) -> None:
        self._disk = disk or DiskCache(None)
        self._files: dict[str, _File] = {}

    @staticmethod
    def standard() -> Memo:
        """Makes a memo with a folder of its own in the user's cache."""
        return Memo(DiskCache.standard("generator", limit_bytes=64 << 20))

    def begin_round(self, contents: Mapping[str, str]) -> None:
        """Begins a round with these spec files, by path; drops results of other files, and loads those of changed ones from disk."""
        for path in self._files.keys() - contents.keys():
            del self._files[path]
        if self._disk.directory is not None:
            for path, content in contents.items():
                self._read(self._files.setdefault(path, _File()), path, content)

    def _read(self, file: _File, path: str, content: str) -> None:
        """Loads the results of this content, unless the file had it in the last round."""
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
        """Returns `make()`, or its cached result for an equal key and the same objects `of`. A result is kept only if `lasts` says so."""
        file = self._files.setdefault(path, _File())
        whole = (key, *map(id, of))
        file.asked.add(whole)
        if whole in file.kept:
            known: T = file.kept[whole][1]
            return known
        result = make()
        if lasts(result):
            # The objects are kept beside the result: an id belongs to an object only as long as it lives.
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
