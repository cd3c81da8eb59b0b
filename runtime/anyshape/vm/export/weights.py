"""Weights of an exported model: the constants of its programs, each once, one behind the other.

In: programs. Out: where each constant is, and the bytes of all. In a file they stand behind a head, a digest of all that follows it, which
the code compares: a file of another model is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from anyshape.vm.program.table import Program
from anyshape.vm.run.arena import ALIGNMENT

DIGEST = 32
"""Bytes of the digest."""
MOST_INSIDE = 1 << 22
"""Bytes of weights that are put into the object by default: what is larger is mapped faster than it is linked."""


@dataclass(frozen=True)
class Weights:
    """`arrays` in their order, `offsets` of each in bytes."""

    arrays: tuple[NDArray[Any], ...]
    offsets: tuple[int, ...]
    is_file: bool

    @cached_property
    def digest(self) -> bytes:
        digest = hashlib.sha256()
        for a, offset in zip(self.arrays, self.offsets, strict=True):
            digest.update(f"{offset} {a.dtype} {a.shape} ".encode())
            digest.update(a.tobytes())
        return digest.digest()

    def content(self) -> bytes:
        """All bytes, those of the head included."""
        size = self.offsets[-1] + self.arrays[-1].nbytes if self.arrays else ALIGNMENT
        content = bytearray(size)
        content[:DIGEST] = self.digest
        for a, offset in zip(self.arrays, self.offsets, strict=True):
            content[offset : offset + a.nbytes] = a.tobytes()
        return bytes(content)


def own_bytes(w: Weights, offsets: Mapping[str, Collection[int]]) -> dict[str, int]:
    """The bytes of the constants that one level alone has, as matrices that are packed for it; `offsets`: those of each level's
    constants, by its name."""
    counts = Counter(offset for of_level in offsets.values() for offset in {*of_level})
    sizes = {offset: a.nbytes for a, offset in zip(w.arrays, w.offsets, strict=True)}
    return {name: sum(sizes[o] for o in {*of_level} if counts[o] == 1) for name, of_level in offsets.items()}


def collect(programs: Sequence[Program], is_file: bool | None) -> tuple[Weights, list[tuple[int, ...]]]:
    """The weights of programs, and for each program where its constants are. `is_file`: None lets the size decide."""
    places: dict[bytes, int] = {}
    arrays, end = list[NDArray[Any]](), ALIGNMENT
    listed = []
    for p in programs:
        offsets = []
        for a in p.constants:
            key = hashlib.sha256(a.tobytes()).digest()
            if key not in places:
                places[key] = end
                arrays.append(a)
                end += max(-(-a.nbytes // ALIGNMENT), 1) * ALIGNMENT
            offsets.append(places[key])
        listed.append(tuple(offsets))
    chosen = bool(arrays) and (end > MOST_INSIDE if is_file is None else is_file)
    return Weights(tuple(arrays), tuple(places.values()), chosen), listed
