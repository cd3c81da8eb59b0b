"""Authenticates files that hold machine code: a message authentication code under a key that the environment gives.

In: `ANYSHAPE_SIGNING_KEY`, a secret of at least 16 bytes that whoever writes and whoever reads share; nothing, or an empty text, for
no key. Out: HMAC-SHA256 (RFC 2104) of bytes, for one purpose each. Saved models and entries of the cache carry it where there is a key.
"""

from __future__ import annotations

import hashlib
import hmac
import os

from anyshape.errors import ArgumentError

VARIABLE = "ANYSHAPE_SIGNING_KEY"
SIZE = 32
"""Bytes of a code."""
_SHORTEST = 16


def signing_key() -> bytes | None:
    """The key of this process, None if it has none. Raises ArgumentError for one that is too short to keep anything out."""
    key = os.fsencode(os.environ.get(VARIABLE, ""))
    if key and len(key) < _SHORTEST:
        raise ArgumentError(f"{VARIABLE} must have at least {_SHORTEST} bytes, got {len(key)}")
    return key or None


def signature(key: bytes, purpose: str, *pieces: bytes) -> bytes:
    """The authentication code of the pieces, delimited by their lengths; every purpose has another code."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for piece in (purpose.encode(), *pieces):
        code.update(len(piece).to_bytes(8, "little"))
        code.update(piece)
    return code.digest()


def is_equal(a: bytes, b: bytes) -> bool:
    """Whether two codes are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(a, b)
