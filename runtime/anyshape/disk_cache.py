"""What is kept on disk between processes: object code, and what the generator made of a spec file.

In: a key (a hash of all that the bytes depend on) and bytes. Out: the same bytes later, or None. A file is written
under another name and renamed, carries a checksum of its key and contents, and is ignored (and removed) if it is damaged;
the oldest files go when the directory grows beyond its bound. Files that another user wrote, or could write, are not read, nor is a
directory used that another user owns or could write into. With a signing key (`anyshape.signing`) the checksum is a code under it.
Any number of processes may share it. No failure here is ever an error: what is not there is made again.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anyshape.files import open_plain, replacing
from anyshape.signing import is_equal, signature, signing_key

_MAGIC = b"anyshape-object-2\n"
_SUFFIX = ".aso"
_SIGNED = ".signed"
_ABANDONED_SECONDS = 3600
_LEDGER = ".written"
_MARKS = 4096
"""The size of the ledger, in bytes, when a sixteenth of the limit was written."""


def _checksum(key: str, data: bytes, secret: bytes | None) -> bytes:
    if secret is not None:
        return signature(secret, "cache", key.encode(), data)
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _read_own(path: Path) -> bytes | None:
    """A plain file that nobody else could have written (this user's or the superuser's, writable for its owner alone), else None: what
    it holds is run, and a checksum that anybody can compute says nothing of who wrote it."""
    with open_plain(path, follow=False) as file:
        return file.read() if _is_own(os.fstat(file.fileno())) else None


def _is_own(status: os.stat_result) -> bool:
    """Whether nobody but this user and the superuser could have written it."""
    return not hasattr(os, "geteuid") or (status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022)


@cache
def _warn(directory: Path) -> None:
    """Warns once for each directory: without a cache every process compiles what it runs."""
    message = (
        f"{directory} is not used as a cache: it belongs to another user, or others may write into it (chmod go-w)"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def _place() -> Path | None:
    """$ANYSHAPE_CACHE (empty: none), else anyshape in $XDG_CACHE_HOME, else the platform's directory for caches. The latter two are taken
    if they are absolute: in the working directory there may be what somebody else put there."""
    chosen = os.environ.get("ANYSHAPE_CACHE")
    if chosen is not None:
        return Path(chosen).absolute() if chosen else None
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        place = root / "anyshape" if root.is_absolute() else platform_cache(sys.platform)
    except RuntimeError:  # there is no home
        return None
    return place if place.is_absolute() else None


def platform_cache(platform: str) -> Path:
    """The directory that a platform (`sys.platform`) has for the caches of this user's programs, as the package platformdirs has it."""
    if platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "anyshape" / "Cache"
    return Path.home() / ("Library/Caches" if platform == "darwin" else ".cache") / "anyshape"


@dataclass(frozen=True)
class DiskCache:
    """A directory of cached files. `directory=None` keeps nothing.

    Its size is looked at when a process first writes there and whenever a sixteenth of `limit_bytes` was written, by any processes, which
    is by how much the limit may be exceeded. A ledger, a file that grows with what is written, says when that is, so that no process has to
    read the directory to write into it.
    """

    directory: Path | None
    limit_bytes: int = 256 << 20

    @staticmethod
    def standard(room: str = "", limit_bytes: int = 256 << 20) -> DiskCache:
        """The cache at $ANYSHAPE_CACHE (empty: none), at $XDG_CACHE_HOME/anyshape or where the platform has caches; or one in a folder
        there, with a limit of its own."""
        place = _place()
        return DiskCache(None if place is None else place / room, limit_bytes)

    def obstacle(self) -> str | None:
        """Why nothing can be kept in the directory, with what to do; None where it can, and the directory is there then."""
        if self.directory is None:
            return "there is no cache: ANYSHAPE_CACHE is empty, or there is no home directory"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(self.directory.stat()):
                return f"{self.directory} is not used: it belongs to another user, or others may write into it (chmod go-w)"
        except OSError as e:
            return f"{self.directory} cannot be used: {e.strerror or e}"
        return None if os.access(self.directory, os.W_OK | os.X_OK) else f"{self.directory} cannot be written to"

    def _path(self, key: str, secret: bytes | None = None) -> Path:
        """Signed files have names of their own, so that processes with and without a key do not take each other's for damaged."""
        assert self.directory is not None
        return self.directory / (key + (_SIGNED if secret is not None else "") + _SUFFIX)

    def _is_safe(self) -> bool:
        """Whether the directory is one that nobody else could put files into."""
        assert self.directory is not None
        if _is_own(self.directory.stat()):
            return True
        _warn(self.directory)
        return False

    def get(self, key: str) -> bytes | None:
        if self.directory is None:
            return None
        secret = signing_key()
        path = self._path(key, secret)
        try:
            data = _read_own(path) if self._is_safe() else None
        except OSError:
            return None
        if data is None:
            return None
        head = len(_MAGIC) + 32
        if data.startswith(_MAGIC) and is_equal(_checksum(key, data[head:], secret), data[len(_MAGIC) : head]):
            with suppress(OSError):
                os.utime(path)
            return data[head:]
        with suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, data: bytes) -> None:
        if self.directory is None:
            return
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_safe():
                return
            secret = signing_key()
            with replacing(self._path(key, secret), mode=0o600, durable=False) as file:
                file.write(_MAGIC + _checksum(key, data, secret) + data)
            if self._is_time_to_look(len(data)):
                self._trim()
        except OSError:
            return

    def _is_time_to_look(self, written: int) -> bool:
        """Marks what was written in the ledger; whether that makes a sixteenth, or nobody ever looked. Then it begins anew."""
        assert self.directory is not None
        mark = max(1, self.limit_bytes // 16 // _MARKS)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(self.directory / _LEDGER, flags, 0o600), "ab", buffering=0) as ledger:
            before = os.fstat(ledger.fileno()).st_size
            ledger.write(b"." * min(2 * _MARKS, -(-written // mark)))
            if before > 0 and os.fstat(ledger.fileno()).st_size * mark <= self.limit_bytes // 16:
                return False
            ledger.truncate(1)
        return True

    def _trim(self) -> None:
        """Remove what a dead process left half written, and the files used longest ago until three quarters are left."""
        assert self.directory is not None
        for path in self.directory.glob(".new-*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        entries = []
        for path in self.directory.glob("*" + _SUFFIX):
            with suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes * 3 // 4:
                return
            with suppress(OSError):
                path.unlink()
                total -= size
