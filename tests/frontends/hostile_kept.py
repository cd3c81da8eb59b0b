"""What the library itself wrote, damaged: saved models, and entries of the cache of objects, read in a child process that may not die.

    python -m tests.frontends.hostile_kept [--first SEED] [--count N]

An even seed damages a saved model, an odd one an entry of the cache: bits turned, bytes cut off, left out, doubled, put elsewhere, made
zeros or others of the file, in its head as often as anywhere. A model must be refused with an AnyshapeError or give what it gave; an entry
must be what was put there, or none.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import anyshape
from anyshape import ops
from anyshape.disk_cache import DiskCache
from anyshape.errors import AnyshapeError
from tests.frontends.isolated import run_from_command_line, run_isolated

X = np.arange(36, dtype=np.float32).reshape(3, 12)
KEY, CODE = "k" * 64, bytes(range(256)) * 16
HEAD = 256
"""Bytes at the beginning of a file that are damaged as often as all others"""


@cache
def written() -> tuple[bytes, bytes, bytes]:
    """A saved model with a product, constants and a size found in data; what it gives; an entry of the cache."""
    x = anyshape.input("x", "f32[n, 12]")
    weight = np.random.default_rng(0).standard_normal((12, 40)).astype(np.float32)
    exe = anyshape.compile(anyshape.function([x], [ops.softmax(ops.matmul(x, weight)), ops.nonzero(ops.relu(x))]))
    with tempfile.TemporaryDirectory() as folder:
        exe.save(Path(folder) / "m")
        cache = DiskCache(Path(folder) / "cache")
        cache.put(KEY, CODE)
        (entry,) = (Path(folder) / "cache").glob("*.aso")
        return (Path(folder) / "m").read_bytes(), _bytes(exe(X)), entry.read_bytes()


def _bytes(results: tuple[np.ndarray, ...]) -> bytes:
    return b"".join(str(r.shape).encode() + r.tobytes() for r in results)


def damaged(pick: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(pick.choice((1, 1, 1, 2, 4))):
        if not data:
            break
        at = pick.randrange(min(HEAD, len(data)) if pick.random() < 0.5 else len(data))
        end = min(len(data), at + pick.choice((1, 2, 8, 64, 4096)))
        change = pick.randrange(8)
        if change < 3:
            data[at] ^= 1 << pick.randrange(8)
        elif change == 3:
            del data[at:]
        elif change == 4:
            del data[at:end]
        elif change == 5:
            data[at:at] = data[at:end]
        elif change == 6:
            data[at:end] = bytes(end - at)
        else:
            there = pick.randrange(len(data))
            data[at:end] = data[there : there + end - at]
    return bytes(data)


def outcome(seed: int) -> str:
    """Empty for what may be; else what came instead."""
    pick = random.Random(seed)
    saved, expected, entry = written()
    with tempfile.TemporaryDirectory() as folder:
        try:
            if seed % 2:
                return _cached(Path(folder), damaged(pick, entry))
            (Path(folder) / "m").write_bytes(damaged(pick, saved))
            got = anyshape.load(Path(folder) / "m", rebuild=False)(X)
            return "" if _bytes(got) == expected else "a damaged model gives something else"
        except AnyshapeError:
            return ""
        except BaseException as e:
            return f"{type(e).__name__}: {e}"


def _cached(folder: Path, data: bytes) -> str:
    kept = DiskCache(folder)
    kept.put(KEY, CODE)
    (path,) = folder.glob("*.aso")
    path.write_bytes(data)
    if kept.get(KEY) not in (None, CODE):
        return "a damaged entry is taken for what was put there"
    kept.put(KEY, CODE)
    return "" if kept.get(KEY) == CODE else "what is damaged cannot be written anew"


def run(seeds: list[int] | range) -> Iterator[tuple[int, str]]:
    written()
    return run_isolated(seeds, outcome, lambda seed: "a cached object" if seed % 2 else "a saved model")


if __name__ == "__main__":
    raise SystemExit(run_from_command_line("hostile_kept", __doc__, run))
