"""Parses arguments of the command line: NAME=4x128, NAME=1:512, NAME=file.npy or NAME=[2, -1]."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import ArgumentError
from anyshape.files import open_plain
from anyshape.public import short

MOST_DIGITS = 400
"""Digits of a size: Python refuses to read a number of some thousand"""
MOST_CALLS = 1_000_000
"""Calls that are measured: all times are kept"""


def named(words: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Splits words NAME=TEXT into {name: text}. Raises ArgumentError for another form and for a name given twice."""
    texts: dict[str, str] = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        if not equals or not name or not text:
            raise ArgumentError(f"{option} must be {form}, got {word!r}")
        if name in texts:
            raise ArgumentError(f"{option} is passed twice for {name}")
        texts[name] = text
    return texts


def shapes(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parses shapes of inputs: `ids=4x128`, or `NAME=scalar`."""
    form = "NAME=4x128 (or NAME=scalar)"
    sizes: dict[str, tuple[int, ...]] = {}
    for name, text in named(words, "--shape", form).items():
        pieces = () if text == "scalar" else tuple(text.split("x"))
        if not all(map(_is_number, pieces)):
            raise ArgumentError(f"--shape must be {form}, got {name}={short(text)}")
        sizes[name] = tuple(int(p) for p in pieces)
    return sizes


def dims(words: Sequence[str]) -> dict[str, int | tuple[int, int | None]]:
    """Parses sizes and bounds of named dims: `batch=8`, `seq=1:512`, or `seq=1:` for no upper bound."""
    form = "NAME=8, NAME=1:512 or NAME=1:"
    bindings: dict[str, int | tuple[int, int | None]] = {}
    for name, text in named(words, "--dim", form).items():
        low, colon, high = text.partition(":")
        if not _is_number(low) or not (_is_number(high) or high == ""):
            raise ArgumentError(f"--dim must be {form}, got {name}={short(text)}")
        bindings[name] = (int(low), int(high) if high else None) if colon else int(low)
    return bindings


def numbers(words: Sequence[str], option: str) -> dict[str, int]:
    """Parses numbers: `batch=8`."""
    texts = named(words, option, "NAME=8")
    for name, text in texts.items():
        if not _is_number(text):
            raise ArgumentError(f"{option} must be NAME=8, got {name}={short(text)}")
    return {name: int(text) for name, text in texts.items()}


def bounds(text: str, option: str) -> tuple[int, int]:
    """Parses a range LOW:HIGH."""
    low, colon, high = text.partition(":")
    try:
        limits = int(low), int(high)
    except ValueError:
        raise ArgumentError(f"{option} must be LOW:HIGH, got {text!r}") from None
    if not colon or limits[0] >= limits[1]:
        raise ArgumentError(f"{option} must be LOW:HIGH with LOW below HIGH, got {text!r}")
    return limits


def _is_number(text: str) -> bool:
    """Whether a text is a number without a sign, which no size of more than `MOST_DIGITS` is."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def repeats(number: int, least: int) -> int:
    """Checks `--repeat`: a number of calls whose times can be kept."""
    if not least <= number <= MOST_CALLS:
        raise ArgumentError(f"--repeat must be a number of calls, from {least} to {MOST_CALLS}, got {number}")
    return number


def arrays(words: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Reads arrays: `mask=mask.npy` from a file, `shape=[2,-1]` from JSON."""
    form = "NAME=file.npy or NAME=[1, 2]"
    values: dict[str, NDArray[Any]] = {}
    for name, text in named(words, "--input", form).items():
        try:
            values[name] = _stored(text) if text.endswith(".npy") else np.array(json.loads(text))
        except (OSError, ValueError, MemoryError, RecursionError) as e:
            raise ArgumentError(f"--input must be {form}, got {name}={text}: {e}") from None
    return values


def _stored(path: str) -> NDArray[Any]:
    with open_plain(path) as file:
        a: NDArray[Any] = np.load(file, allow_pickle=False)
    return a


def literals(words: Sequence[str]) -> dict[str, Any]:
    """Parses values of parameters as JSON: `axis=-1`, `newshape=[2, -1]`, `keepdims=true`; a text that is not JSON stays a string."""
    values: dict[str, Any] = {}
    for name, text in named(words, "--param", "NAME=VALUE").items():
        try:
            values[name] = json.loads(text)
        except (ValueError, RecursionError):
            values[name] = text
    return values
