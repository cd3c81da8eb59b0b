"""Opening files that people or models name: one way to read them, one way to write them.

In: a path. Out: an open plain file. What is no plain file is refused before it is opened: a FIFO makes its reader wait without end,
opening a
device may do things, and renaming over one (`-o /dev/null` as the superuser) would put a file in its place. Whatever is wrong with a
name or with what it leads to is an OSError whose `strerror` says it; callers make it their own error, with the words of their business.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from anyshape.errors import ArgumentError

PathLike = str | os.PathLike[str]
SAVED = b"anyshape\r\n\x1a\n"
"""The first bytes of a saved model"""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
}


def open_plain(path: PathLike, follow: bool = True) -> BinaryIO:
    """A plain file to read, never waited for; without `follow` the last part of the path may not be a link. Raises OSError."""
    flags = os.O_RDONLY | _flag("O_NONBLOCK") | _flag("O_NOCTTY") | _flag("O_CLOEXEC") | _flag("O_BINARY")
    with _named(path):
        _demand_plain(os.stat(path, follow_symlinks=follow), path)
        handle = os.open(path, flags | (0 if follow else _flag("O_NOFOLLOW")))
    try:
        _demand_plain(os.fstat(handle), path)  # what stands there now may be something else
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def size_of(path: PathLike) -> int | None:
    """The bytes of a file; None where the system does not say."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return None


def is_saved(path: PathLike) -> bool:
    """Tests whether a file begins like a saved model."""
    try:
        with open_plain(path) as file:
            return file.read(len(SAVED)) == SAVED
    except OSError:
        return False


@contextmanager
def replacing(path: PathLike, mode: int = 0o666, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends without an error: a reader sees the old one or the new one,
    whole.
    Its place is a new name or a plain file, not a link. `mode` is less what the process masks; `durable`: on the disk before it is renamed.
    Raises OSError."""
    with _named(path):
        target = Path(path)
        demand_replaceable(target)
        temporary = target.with_name(f".new-{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flag("O_NOFOLLOW") | _flag("O_CLOEXEC") | _flag("O_BINARY")
        file = os.fdopen(os.open(temporary, flags, mode), "wb")
    try:
        with file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        demand_replaceable(target)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_plain(path: PathLike, data: bytes) -> None:
    """Writes a whole file as `replacing` does."""
    with replacing(path) as file:
        file.write(data)


def demand_replaceable(path: PathLike) -> None:
    """Raises OSError for what is there and is no plain file."""
    with _named(path):
        try:
            there = os.lstat(path)
        except FileNotFoundError:
            return
        _demand_plain(there, path)


def _demand_plain(status: os.stat_result, path: PathLike) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        code = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
        raise OSError(code, f"it is {_KINDS.get(kind, 'something else')}, not a plain file", os.fspath(path))


@contextmanager
def _named(path: PathLike) -> Iterator[None]:
    """A name that no file can have (NUL in it, no text of this system) is an OSError as others are."""
    try:
        yield
    except ValueError as e:
        raise OSError(errno.EINVAL, str(e), os.fspath(path)) from None


def _flag(name: str) -> int:
    """A flag of `os.open`; 0 where the system has none."""
    return int(getattr(os, name, 0))


def write_files(folder: PathLike, contents: Mapping[str, bytes]) -> list[Path]:
    """Writes files of these names into a folder, which is made if it is not there; their paths. Raises ArgumentError where that is not
    possible."""
    files = {Path(folder) / name: content for name, content in contents.items()}
    try:
        os.makedirs(folder, exist_ok=True)
        for path, content in files.items():
            with replacing(path) as file:
                file.write(content)
    except (OSError, ValueError) as e:
        raise ArgumentError(f"cannot write to {os.fspath(folder)}: {getattr(e, 'strerror', None) or e}") from None
    return [*files]
