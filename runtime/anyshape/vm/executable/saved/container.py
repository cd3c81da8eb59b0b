"""Container of a saved model: a file of a header, a record, blobs and arrays, each with a checksum.

In: a record (what JSON can hold) that refers to blobs and arrays by number. Out: one file, and read access to it over a memory map.

    header   HEADER: magic, format version, sizes, checksum of the record, signature of that, checksum of the header itself
    record   JSON; its `blobs` and `arrays` say where those are, and their checksums
    data     from the next page on: blobs (program tables, machine code) and arrays, each at a multiple of 64

Header, record and blobs are checked when the file is opened, so that everything that decides what runs is as it was written. Arrays
are checked one by one by `check`: they may be large, and opening a file should not read them. Where there is a signing
key (`anyshape.signing`), the header is signed, the record says that it is, and checksums of arrays are cryptographic like all others,
so that the signature is one of the whole file.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import from_numpy, parse_dtype
from anyshape.errors import SavedFileError
from anyshape.files import SAVED, open_plain, replacing
from anyshape.signing import SIZE, VARIABLE, is_equal, signature, signing_key

Array = NDArray[Any]

FORMAT = 3
HEADER = struct.Struct("<12sIQQ32s32s32s")
"""Magic, format version, bytes of the file, bytes of the record, SHA-256 of the record, signature of what is before it (zeros: none),
SHA-256 of the header before it."""
ALIGNMENT = 64
PAGE = 4096
AGAIN = "compile the model again and save it"


def _aligned(n: int, unit: int = ALIGNMENT) -> int:
    return (n + unit - 1) // unit * unit


def array_digest(a: Array, signed: bool = False) -> str:
    """A checksum at the speed of memory: sums of words along the rows and columns of a table, one row per page, hashed. It finds damage,
    not malice; that of a `signed` file is SHA-256 of all."""
    data = a.reshape(-1).view(np.uint8)
    if signed:
        return hashlib.sha256(data.data).hexdigest()
    words = data[: data.size // PAGE * PAGE].view("<u8").reshape(-1, PAGE // 8)
    digest = hashlib.sha256(f"{a.dtype.itemsize} {a.size}".encode())
    digest.update(words.sum(axis=1, dtype=np.uint64).tobytes())
    digest.update(words.sum(axis=0, dtype=np.uint64).tobytes())
    digest.update(data[words.size * 8 :].tobytes())
    return digest.hexdigest()


class Builder:
    """Collects blobs and arrays, then writes the file."""

    def __init__(self) -> None:
        self._key = signing_key()
        self._pieces: list[bytes | Array] = []
        self._end = 0
        self.blobs: list[list[Any]] = []
        self.arrays: list[list[Any]] = []
        self._by_id: dict[int, int] = {}
        self._by_digest: dict[tuple[Any, ...], int] = {}
        self._kept: list[Array] = []

    def _place(self, piece: bytes | Array, size: int) -> int:
        at = _aligned(self._end)
        self._pieces.append(piece)
        self._end = at + size
        return at

    def blob(self, data: bytes) -> int:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs.append([self._place(data, len(data)), len(data), digest])
        return len(self.blobs) - 1

    def array(self, a: Array) -> int:
        """Adds an array, unless an equal one is there; its number."""
        if id(a) not in self._by_id:
            self._kept.append(a)
            dense = np.ascontiguousarray(a).reshape(a.shape)
            key = (str(from_numpy(dense.dtype)), dense.shape, array_digest(dense, self._key is not None))
            if key not in self._by_digest:
                dtype, shape, digest = key
                self._by_digest[key] = len(self.arrays)
                self.arrays.append([self._place(dense, dense.nbytes), dtype, list(shape), digest])
            self._by_id[id(a)] = self._by_digest[key]
        return self._by_id[id(a)]

    def write(self, path: Path, record: dict[str, Any]) -> None:
        """Writes the file beside its place and renames it, so that a reader sees the old file or the new one, whole."""
        whole = {**record, "signed": self._key is not None, "blobs": self.blobs, "arrays": self.arrays}
        text = json.dumps(whole, separators=(",", ":")).encode()
        start = _aligned(HEADER.size + len(text), PAGE)
        with replacing(path) as file:
            file.write(header(start + self._end, text, self._key) + text)
            at = 0
            for piece in self._pieces:
                file.seek(start + _aligned(at))
                view = piece if isinstance(piece, bytes) else piece.reshape(-1).view(np.uint8).data
                at = _aligned(at) + file.write(view)
            file.truncate(start + self._end)


def header(size: int, text: bytes, key: bytes | None = None) -> bytes:
    """Makes the header of a file of so many bytes with that record."""
    head = HEADER.pack(SAVED, FORMAT, size, len(text), hashlib.sha256(text).digest(), b"", b"")[: -SIZE - 32]
    head += _signature(key, head) if key is not None else bytes(SIZE)
    return head + hashlib.sha256(head).digest()


def _signature(key: bytes, head: bytes) -> bytes:
    return signature(key, "saved model", head)


class Container:
    """An open file. Raises SavedFileError for one that is not as it was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_plain(path) as file:
                self._size = os.fstat(file.fileno()).st_size
                if self._size < HEADER.size:
                    raise self.refusal(f"it ends after {self._size} bytes")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as e:
            raise SavedFileError(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}") from None
        text = self._checked_text()
        try:
            self.record: dict[str, Any] = json.loads(text)
        except RecursionError:
            raise self.refusal("its record is nested without end") from None
        except ValueError as e:
            raise self.refusal(f"its record is no JSON ({e})") from None
        self._start = _aligned(HEADER.size + len(text), PAGE)
        try:
            self._blobs = [self._checked_blob(*b) for b in self.record["blobs"]]
            self._arrays = [self._mapped(*a[:3]) for a in self.record["arrays"]]
            self._signed = self.record["signed"]
            if not isinstance(self._signed, bool):
                raise TypeError(self._signed)
        except (KeyError, TypeError, ValueError) as e:
            raise self.refusal(f"its record is not as `save` writes it ({e!r})") from e
        self._good: set[int] = set()

    def refusal(self, why: str, remedy: str = AGAIN) -> SavedFileError:
        return SavedFileError(f"{self.path} is refused: {why}; {remedy}")

    def _checked_text(self) -> bytes:
        magic, version, size, length, digest, code, head_digest = HEADER.unpack_from(self._map)
        if magic != SAVED:
            raise self.refusal("it is no saved model", "save one with `exe.save(path)` or `anyshape compile -o path`")
        if version != FORMAT:
            raise self.refusal(f"its format is {version}, and this version of anyshape reads format {FORMAT}")
        if hashlib.sha256(self._map[: HEADER.size - 32]).digest() != head_digest:
            raise self.refusal("its header is damaged")
        key = signing_key()
        if key is not None and not is_equal(_signature(key, self._map[: HEADER.size - SIZE - 32]), code):
            how = "signed by another key" if any(code) else "not signed"
            raise self.refusal(f"it is {how}, and {VARIABLE} asks for its own", "save it again with that key")
        if size != self._size:
            raise self.refusal(f"it should have {size} bytes and has {self._size}")
        text = self._map[HEADER.size : HEADER.size + length]
        if hashlib.sha256(text).digest() != digest:
            raise self.refusal("its record is damaged")
        return text

    def _checked_blob(self, at: int, size: int, digest: str) -> bytes:
        data = self._map[self._start + at : self._start + at + size]
        if hashlib.sha256(data).hexdigest() != digest:
            raise self.refusal("its programs or its machine code are damaged")
        return data

    def _mapped(self, at: int, dtype: str, shape: list[int]) -> Array:
        return np.ndarray(shape, parse_dtype(dtype).numpy, self._map, self._start + at)

    def blob(self, number: int) -> bytes:
        return self._blobs[number]

    def array(self, number: int) -> Array:
        """A read-only view of the map."""
        return self._arrays[number]

    def check(self, numbers: Iterable[int] | None = None) -> None:
        """Reads the arrays (all, without numbers) and compares their checksums, each once."""
        for k in range(len(self._arrays)) if numbers is None else numbers:
            if k not in self._good:
                if array_digest(self._arrays[k], self._signed) != self.record["arrays"][k][3]:
                    raise self.refusal("its constants are damaged")
                self._good.add(k)
