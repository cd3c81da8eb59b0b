"""What is kept on disk between processes: object code, and what the generator made of a spec file.

In: a key (a hash of all that the bytes depend on) and bytes. Out: the same bytes later, or None. A file is written
under another name and renamed, carries a checksum of its key and contents, and is ignored (and removed) if it is damaged;
the oldest files go when the directory grows beyond its bound. Files that another user wrote, or could write, are not read.
Any number of processes may share it. No failure here is ever an error: what is not there is made again.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"anyshape-object-2\n"
_SUFFIX = ".aso"
_ABANDONED_SECONDS = 3600
_LEDGER = ".written"
_MARKS = 4096
"""As many bytes has the ledger when a sixteenth of the limit was written."""


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _read_own(path: Path) -> bytes | None:
    """A plain file that nobody else could have written (this user's or the superuser's, writable for its owner alone), else None: what
    it holds is run, and a checksum that anybody can compute says nothing of who wrote it."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return None
        if hasattr(os, "geteuid") and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022):
            return None
        return file.read()


@dataclass(frozen=True)
class DiskCache:
    """A directory of such files. `directory=None` keeps nothing.

    Its size is looked at when a process first writes there and whenever a sixteenth of `limit_bytes` was written, by any processes, which
    is by how much the limit may be exceeded. A ledger, a file that grows with what is written, says when that is, so that no process has to
    read the directory to write into it.
    """

    directory: Path | None
    limit_bytes: int = 256 << 20

    @staticmethod
    def standard(room: str = "", limit_bytes: int = 256 << 20) -> DiskCache:
        """At $ANYSHAPE_CACHE (empty: none), else ~/.cache/anyshape; or in a folder there, with a limit of its own."""
        chosen = os.environ.get("ANYSHAPE_CACHE")
        if chosen == "":
            return DiskCache(None)
        try:
            return DiskCache((Path(chosen) if chosen else Path.home() / ".cache" / "anyshape") / room, limit_bytes)
        except RuntimeError:
            return DiskCache(None)

    def _path(self, key: str) -> Path:
        assert self.directory is not None
        return self.directory / (key + _SUFFIX)

    def get(self, key: str) -> bytes | None:
        if self.directory is None:
            return None
        path = self._path(key)
        try:
            data = _read_own(path)
        except OSError:
            return None
        if data is None:
            return None
        head = len(_MAGIC) + 32
        if data.startswith(_MAGIC) and _checksum(key, data[head:]) == data[len(_MAGIC) : head]:
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
            handle, temporary = tempfile.mkstemp(dir=self.directory, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _checksum(key, data) + data)
                os.replace(temporary, self._path(key))
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
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
