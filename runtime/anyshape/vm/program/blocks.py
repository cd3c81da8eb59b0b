"""Head of a block, which is an element of a list in memory; and lists as a call's arguments and results, packed into arrays.

A block is `bytes, rank, dims…`, as 64-bit words, up to the next multiple of 64 bytes; then the elements, `bytes` of them.

A list that is an argument is one array of words: `length`, then for each element `bytes, rank, dims…, address`, or, of lists in
lists, what they are packed as. A list that is a result is two arrays: words without addresses, and all elements of all tensors, each
from a multiple of 64 bytes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, U8, DType, parse_dtype
from anyshape.strings import as_strings
from anyshape.types import ListType, TensorType
from anyshape.vm.program.address import address_of

Array = NDArray[Any]
BYTES, RANK, DIMS = 0, 1, 2
"""Places of words in a head."""
ALIGNMENT = 64
WORDS = parse_dtype("i64")


def head_bytes(rank: int) -> int:
    """Number of bytes from the beginning of a block to its elements."""
    return (8 * (DIMS + rank) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def array_type(t: TensorType) -> TensorType:
    """The type of the array that a program takes for an argument."""
    return TensorType(WORDS, (0,)) if isinstance(t, ListType) else t


def result_dtypes(t: TensorType) -> tuple[DType, ...]:
    """The dtypes of the arrays that a program returns for a result."""
    return (WORDS, U8) if isinstance(t, ListType) else (t.dtype,)


def pack(argument: Any, t: TensorType) -> Array:
    """Packs an argument as the program takes it; the arrays in it have to outlive the call."""
    return np.array(_words(argument, t), np.int64) if isinstance(t, ListType) else argument


def _words(elements: Sequence[Any], t: TensorType) -> list[int]:
    assert isinstance(t, ListType)
    words = [len(elements)]
    for element in elements:
        if isinstance(t.element, ListType):
            words += _words(element, t.element)
        else:
            words += [element.nbytes, element.ndim, *element.shape, address_of(element)]
    return words


def unpack(arrays: Iterator[Array], t: TensorType) -> Any:
    """Unpacks a result from as many of the arrays as it takes."""
    words = next(arrays)
    if not isinstance(t, ListType):
        return words
    return _ListDecoder(words.tolist(), next(arrays), t.tensor.dtype).read(t)


def shown(result: Any, t: TensorType) -> Any:
    """Converts a result to what callers see: an optional to its element or None, characters to strings."""
    if t.dtype is CHAR and result.ndim:
        return as_strings(result)
    if not isinstance(t, ListType):
        return result
    elements = [shown(element, t.element) for element in result]
    if not t.optional:
        return elements
    return elements[0] if elements else None


class _ListDecoder:
    def __init__(self, words: list[int], data: Array, dtype: DType) -> None:
        self.words, self.data, self.dtype = words, data, dtype.numpy
        self.at = self.offset = 0

    def word(self) -> int:
        self.at += 1
        return self.words[self.at - 1]

    def read(self, t: TensorType) -> Any:
        if isinstance(t, ListType):
            return [self.read(t.element) for _ in range(self.word())]
        size, rank = self.word(), self.word()
        shape = [self.word() for _ in range(rank)]
        start = self.offset
        self.offset += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        return self.data[start : start + size].view(self.dtype).reshape(shape)
