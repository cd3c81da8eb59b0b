"""Parses arguments of the command line: numbers, NAME=4x128, NAME=1:512, NAME=file.npy, NAME=file.npz or NAME=[2, -1]."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import ArgumentError
from anyshape.files import open_plain
from anyshape.vm.run import memory_budget

LARGEST = (1 << 63) - 1
"""The largest number that a dim or an element may be"""


def whole(text: str) -> int | None:
    """Reads a number from 0 to LARGEST in decimal digits, those of ASCII; None for another text."""
    plain = text.isascii() and text.isdigit() and len(text.lstrip("0")) <= len(str(LARGEST))
    return int(text) if plain and int(text) <= LARGEST else None


def count(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """Makes a reader of an option's number."""

    def read(text: str) -> int:
        number = whole(text)
        if number is None or not least <= number <= most:
            more = f"from {least} to {most}" if most < LARGEST else f"of at least {least}"
            raise argparse.ArgumentTypeError(f"it must be a whole number {more}, got {text!r}")
        return number

    return read


def byte_count(text: str) -> int:
    """Reads a number of bytes: `4096`, `64MB` (10^6), `512KiB` (2^10)."""
    number = memory_budget.byte_count(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"it must be a number of bytes, as 64MB or 512KiB, got {text!r}")
    return number


MOST_RANK = 12


def ranks(text: str) -> tuple[int, int]:
    """Reads the least and the greatest rank: `0:4`."""
    first, _, last = text.partition(":")
    low, high = whole(first), whole(last)
    if low is None or high is None or not low <= high <= MOST_RANK:
        raise argparse.ArgumentTypeError(
            f"it must be the least and the greatest rank, as 0:4, of at most {MOST_RANK}, got {text!r}"
        )
    return low, high


def share(text: str) -> float:
    """Reads a tolerance: a number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"it must be a number that is not negative, got {text!r}")
    return number


def part(text: str) -> float:
    """Reads a share of a whole: a number from 0 to less than 1."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"it must be a number from 0 to less than 1, got {text!r}")
    return number


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
        pieces = () if text == "scalar" else tuple(map(whole, text.split("x")))
        known = tuple(p for p in pieces if p is not None)
        if len(known) < len(pieces):
            raise ArgumentError(f"--shape must be {form} of 64 bits, got {name}={text}")
        sizes[name] = known
    return sizes


def partial_shapes(words: Sequence[str]) -> dict[str, tuple[int | None, ...]]:
    """Parses shapes that values are to have: `y=1x512`, `y=?x512` with any first dim, or `y=scalar`."""
    form = "NAME=1x512, with ? for any size (or NAME=scalar)"
    sizes: dict[str, tuple[int | None, ...]] = {}
    for name, text in named(words, "--solve", form).items():
        pieces = [] if text == "scalar" else text.split("x")
        sizes[name] = tuple(None if p == "?" else whole(p) for p in pieces)
        if any(n is None and p != "?" for n, p in zip(sizes[name], pieces)):
            raise ArgumentError(f"--solve must be {form} of 64 bits, got {name}={text}")
    return sizes


def dims(words: Sequence[str]) -> dict[str, int | tuple[int, int | None]]:
    """Parses sizes and bounds of named dims: `batch=8`, `seq=1:512`, or `seq=1:` for no upper bound."""
    form = "NAME=8, NAME=1:512 or NAME=1:"
    bindings: dict[str, int | tuple[int, int | None]] = {}
    for name, text in named(words, "--dim", form).items():
        first, colon, second = text.partition(":")
        low, high = whole(first), whole(second)
        if low is None or (high is None and second):
            raise ArgumentError(f"--dim must be {form}, numbers of 64 bits, got {name}={text}")
        bindings[name] = (low, high) if colon else low
    return bindings


def numbers(words: Sequence[str], option: str) -> dict[str, int]:
    """Parses numbers: `batch=8`."""
    values: dict[str, int] = {}
    for name, text in named(words, option, "NAME=8").items():
        number = whole(text)
        if number is None:
            raise ArgumentError(f"{option} must be NAME=8, a number of 64 bits, got {name}={text}")
        values[name] = number
    return values


def bounds(text: str, option: str) -> tuple[int, int]:
    """Parses a range LOW:HIGH."""
    first, _, second = text.partition(":")
    low, high = _signed(first), _signed(second)
    if low is None or high is None:
        raise ArgumentError(f"{option} must be LOW:HIGH, numbers of 64 bits, got {text!r}")
    if low >= high:
        raise ArgumentError(f"{option} must be LOW:HIGH with LOW below HIGH, got {text!r}")
    return low, high


def _signed(text: str) -> int | None:
    number = whole(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def arrays(words: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Reads arrays: `mask=mask.npy` from a file, `mask=inputs.npz` from an archive, `shape=[2,-1]` from JSON."""
    form = "NAME=file.npy, NAME=file.npz or NAME=[1, 2]"
    values: dict[str, NDArray[Any]] = {}
    for name, text in named(words, "--input", form).items():
        try:
            values[name] = _stored(text, name) if text.endswith((".npy", ".npz")) else np.array(json.loads(text))
        except json.JSONDecodeError:
            raise ArgumentError(
                f"--input must be {form}, got {name}={text}, which is no JSON, and no name of such a file"
            ) from None
        except (OSError, MemoryError, RecursionError) as e:
            raise ArgumentError(f"--input must be {form}, got {name}={text}: {e}") from None
        except Exception as e:  # of damaged files NumPy raises what zipfile, zlib, struct and its parsers do
            raise ArgumentError(f"--input must be {form}, got {name}={text}: {e or type(e).__name__}") from None
        if values[name].dtype.kind == "O":
            raise ArgumentError(f"--input must be {form}, got {name}={text}, which is no array of numbers or texts")
    return values


def _stored(path: str, name: str) -> NDArray[Any]:
    """Reads the array of a file; of an archive, the one of this name, or its only one."""
    with open_plain(path) as file:
        stored: Any = np.load(file, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            return stored
        with stored:
            key = name if name in stored.files or len(stored.files) != 1 else stored.files[0]
            if key not in stored.files:
                raise ValueError(f"it has no array {name!r}; it has {', '.join(stored.files) or 'none'}")
            a: NDArray[Any] = stored[key]
            return a


def literals(words: Sequence[str]) -> dict[str, Any]:
    """Parses values of parameters as JSON: `axis=-1`, `newshape=[2, -1]`, `keepdims=true`; a text that is not JSON stays a string."""
    return {name: _literal(text) for name, text in named(words, "--param", "NAME=VALUE").items()}


def choices(words: Sequence[str]) -> dict[str, list[Any]]:
    """Parses values of parameters, of which a name may have several: `axis=-1`, `axis=0`."""
    values: dict[str, list[Any]] = {}
    for word in words:
        for name, value in literals([word]).items():
            values.setdefault(name, []).append(value)
    return values


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
