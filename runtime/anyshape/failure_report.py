"""Failure reports: the words in which a kernel records why it refuses its data, and the messages made from them.

In: the words before a kernel's table of scalars, which a kernel that refuses its data fills. Out: a message, from a template.

Kernels that refuse nothing never touch those words. Of several parts that refuse, the one with the lowest number reports, in whatever
order they run: the message is that of one part alone. In the text of a template, marks stand between NULs: `3` is scalar 3, `index` the
index that is out of range. After the text, separated by the character 1, come the equation and the elements that were read:
`0 f32 4,#2 x` is the first element of the report, x[…], of a tensor whose second dim is 4 and whose third is scalar 2.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from anyshape.dtypes import CHAR, DType, parse_dtype

MOST_ELEMENTS = 5
"""The most elements that one failure report has."""
AREA = 16
"""The number of words before the scalars."""
ASK = -AREA
"""The word of the report that belongs to the caller: whom to ask whether the call is to stop (`lower/llvm/polling.py`)."""


class FailureReport(IntEnum):
    """Offsets of the words of a report from the first scalar."""

    LOCK = -1
    """1 while a part writes."""
    PART = -2
    """The part that refuses, counted from 1; 0: none."""
    ERROR = -3
    """The number of the kernel's error, as its status has it."""
    ELEMENTS = -4
    """A bit for each element that the report has."""
    INDEX = -5
    FIRST = -6
    """The number of the first element in its tensor; the next word is its value, as an i64 or as the bits of an f64."""

    @classmethod
    def element(cls, k: int) -> int:
        return cls.FIRST - 2 * k


def take(memory: Any) -> list[int]:
    """Reads the words before a table's scalars, and clears them for the next kernel that fails."""
    words = [int(w) for w in memory[:AREA]]
    memory[1:AREA] = [0] * (AREA - 1)
    return words


INDEX = "\0index\0"


def scalar(k: int) -> str:
    """The mark of a scalar."""
    return f"\0{k}\0"


def element(k: int, name: str, dtype: str, inner: Sequence[int | str] | None) -> str:
    """The description of an element that was read. `inner`: all dims but the first, as numbers or `#` and the number of a scalar; None for
    rank 0."""
    return f"{k} {dtype} {'-' if inner is None else ','.join(map(str, inner))} {name}"


def template(words: str, equation: str, elements: Sequence[str]) -> str:
    """The template of a message, for `refusal`: text with marks, the equation, and the elements that a report may have."""
    return "\1".join((words, equation, *elements))


def refusal(template: str, scalars: Sequence[int], report: Sequence[int]) -> str:
    """The message of a failed check. `report` are the words before the scalars, the last one directly before them."""
    words, equation, *elements = template.split("\1")
    values = {"index": report[FailureReport.INDEX], **{str(k): n for k, n in enumerate(scalars)}}
    said = "".join(str(values[piece]) if k % 2 else piece for k, piece in enumerate(words.split("\0")))
    return whole(
        said,
        equation,
        [_element(e, scalars, report) for k, e in enumerate(elements) if report[FailureReport.ELEMENTS] >> k & 1],
    )


def whole(words: str, equation: str, elements: Sequence[str]) -> str:
    """`words (equation: x[0] = 1, y[2] = 3)`."""
    said = ": ".join(part for part in (equation, ", ".join(elements)) if part)
    return f"{words} ({said})" if said else words


def _element(text: str, scalars: Sequence[int], report: Sequence[int]) -> str:
    number, dtype, inner, name = text.split(" ", 3)
    place = FailureReport.element(int(number))
    return f"{name}{_subscript(report[place], inner, scalars)} = {value_text(report[place - 1], dtype)}"


def _subscript(place: int, inner: str, scalars: Sequence[int]) -> str:
    if inner == "-":
        return ""
    index: list[int] = []
    for n in reversed(inner.split(",") if inner else []):
        size = max(scalars[int(n[1:])] if n.startswith("#") else int(n), 1)
        index.append(place % size)
        place //= size
    return f"[{', '.join(map(str, (place, *reversed(index))))}]"


def value_text(word: int, name: str) -> str:
    """The value that a word stands for, as an element of that dtype is written."""
    dtype = parse_dtype(name)
    if dtype.is_float:
        return element_text(struct.unpack("d", struct.pack("q", word))[0], dtype)
    return element_text(word % 2**64 if dtype.kind == "uint" else word, dtype)


def element_text(value: Any, dtype: DType) -> str:
    """A value as an element of that dtype is written."""
    if dtype.is_float:
        return str(dtype.numpy.type(value))
    if dtype is CHAR:
        return repr(chr(int(value)))
    return str(bool(value)) if dtype.is_bool else str(int(value))
