"""Saved models that are cut off, altered or no models at all: refused with a message, or right; never a crash, never a wrong result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import ADD, DOUBLE, PRODUCT, call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anyshape
from anyshape.errors import AnyshapeError, SavedFileError
from anyshape.files import is_saved
from anyshape.vm import compile
from anyshape.vm.executable.saved import container, load

X = np.arange(36, dtype=np.float32).reshape(3, 12)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[np.ndarray[Any, Any]], Path]:
    """A file with everything in it, what it computes, and a place for damaged ones."""
    x = anyshape.input("x", "f32[n, 12]")
    rng = np.random.default_rng(0)
    weight = anyshape.constant(rng.standard_normal((12, 400)).astype(np.float32))
    bias = anyshape.constant(rng.standard_normal(400).astype(np.float32))
    exe = compile(anyshape.function([x], call(ADD, call(PRODUCT, call(DOUBLE, x), weight), bias)), kernels="native")
    path = tmp_path_factory.mktemp("saved") / "m"
    exe.save(path)
    return path.read_bytes(), exe.run({"x": X}), path


def refused_or_right(data: bytes, good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> str:
    """The message, or nothing if it runs, and then right."""
    _, expected, path = good
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    try:
        got = load(path, rebuild=False).run({"x": X})
    except AnyshapeError as e:
        return str(e)
    for g, w in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g, w)
    return ""


BOUNDED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@BOUNDED
@given(where=st.floats(0, 1, exclude_max=True), data=st.data())
def test_bit_flips(where: float, data: st.DataObject, good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> None:
    altered = bytearray(good[0])
    head = int.from_bytes(altered[24:32], "little") + container.HEADER.size
    at = int(where * (head if data.draw(st.booleans(), label="in the record") else len(altered)))
    altered[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    message = refused_or_right(bytes(altered), good)
    assert message or at >= head, "a record that is not as it was written must be refused"


@BOUNDED
@given(where=st.floats(0, 1, exclude_max=True))
def test_cut_off(where: float, good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> None:
    assert refused_or_right(good[0][: int(where * len(good[0]))], good)


@BOUNDED
@given(junk=st.binary(max_size=400), begins_well=st.booleans())
def test_anything_at_all(junk: bytes, begins_well: bool, good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> None:
    assert refused_or_right((container.SAVED if begins_well else b"") + junk, good)


def test_every_byte_of_the_header(good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> None:
    for at in range(container.HEADER.size):
        altered = bytearray(good[0])
        altered[at] ^= 0x40
        assert "is refused" in refused_or_right(bytes(altered), good)


def test_more_than_was_written(good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> None:
    assert "bytes" in refused_or_right(good[0] + b"\0", good)


def test_damaged_constants(good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> None:
    """Found by the first call, and by `verify`; a call after that says the same again."""
    data, _, path = good
    path.unlink()
    path.write_bytes(data)
    opened = container.Container(path)
    at = opened.record["arrays"][opened.record["programs"][0]["constants"][0]][0]
    altered = bytearray(data)
    altered[opened._start + at] ^= 1
    path.unlink()
    path.write_bytes(altered)
    exe = load(path)
    for _ in range(2):
        with pytest.raises(SavedFileError, match="constants are damaged; compile the model again"):
            exe(X)
    with pytest.raises(SavedFileError, match="constants are damaged"):
        load(path, verify=True)


def test_messages_say_what_to_do(good: tuple[bytes, list[np.ndarray[Any, Any]], Path]) -> None:
    other = bytearray(good[0])
    other[12] = 99
    assert "format is 99" in refused_or_right(bytes(other), good)
    assert "is no saved model; save one with" in refused_or_right(b"x" * 5000, good)
    assert "ends after 0 bytes" in refused_or_right(b"", good)
    assert refused_or_right(good[0], good) == "" and is_saved(good[2])


def test_the_checksum_of_arrays_sees_moves() -> None:
    a = np.arange(5000, dtype=np.float64)
    digest = container.array_digest(a)
    for swap in ([0, 1], [0, 512], [0, 1024], [4000, 4999]):
        b = a.copy()
        b[swap] = b[swap[::-1]]
        assert container.array_digest(b) != digest
    assert container.array_digest(a[:-1]) != digest
    assert container.array_digest(a.astype(np.float32)) != digest
