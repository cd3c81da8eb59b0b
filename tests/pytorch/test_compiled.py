"""Compiled kernels of packages as far as no kernel runs: kinds of calls, tables that are damaged, libraries that do not load."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from anyshape.errors import ModelError
from anyshape.torch.compiled import CompiledLibrary, library_of_package
from anyshape.torch.kinds import ONE, TensorKind, described, read_kinds, value_kind
from anyshape.torch.schema import Argument

X, XS, SCALE = Argument("x", "Tensor"), Argument("xs", "Tensor[]"), Argument("scale", "float", False, 1.0)
K, SHAPE = Argument("k", "SymInt"), Argument("shape", "SymInt[]")
TABLE: dict[str, Any] = {"format": 1, "library": "libmine.so", "asks": "", "operators": {}}


def test_kinds_tell_calls_apart_that_need_kernels_of_their_own() -> None:
    assert value_kind(SCALE, 0.0) != value_kind(SCALE, -0.0) and value_kind(SCALE, 1) == value_kind(SCALE, 1.0)
    assert value_kind(SCALE, math.nan) == value_kind(SCALE, float("nan"))
    assert value_kind(K, 3) == value_kind(K, 4) == ONE and value_kind(SHAPE, (3, 4)) == value_kind(SHAPE, (5, 6)) == 2
    assert value_kind(SHAPE, None) is None and value_kind(SHAPE, ()) == 0


def test_kinds_are_read_as_they_are_stored() -> None:
    arguments = (X, XS, SCALE, K, SHAPE)
    kinds = (TensorKind("f32", 2), (TensorKind("i64", 0), TensorKind("i64", 1)), "1.0", ONE, 3)
    assert read_kinds(arguments, json.loads(json.dumps(kinds))) == kinds
    said = described(arguments, kinds)
    assert said == "x: f32 of rank 2, xs: (i64 of rank 0, i64 of rank 1), scale: 1.0, k: an integer, shape: 3 integers"


@pytest.mark.parametrize(
    "stored", [None, [], [1], ["f32"], [["f32"]], [["f32", "2"]], [{"f32": 2}], [["f32", 2], ["f32", 2]], [[2, "f32"]]]
)
def test_kinds_of_no_call_are_refused(stored: Any) -> None:
    with pytest.raises(ModelError, match="kind"):
        read_kinds((X,), stored)


def folder_with(folder: Path, table: object, library: bytes | None = b"no library") -> Path:
    (folder / "compiled").mkdir()
    text = table if isinstance(table, str) else json.dumps(table)
    (folder / "compiled/mine.kernels.json").write_text(text)
    if library is not None:
        (folder / "compiled/libmine.so").write_bytes(library)
    return folder


def test_a_package_may_have_no_kernels(tmp_path: Path) -> None:
    assert library_of_package(tmp_path) is None


@pytest.mark.parametrize(
    "table", ["", "{", "[]", "null", {}, {**TABLE, "library": 3}, {**TABLE, "format": 2}, {**TABLE, "operators": []}]
)
def test_a_damaged_table_is_refused(table: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"mine\.kernels\.json: .*install"):
        library_of_package(folder_with(tmp_path, table))


@pytest.mark.parametrize("library", [None, b"", b"no library", b"\x7fELF" + bytes(100)])
def test_a_library_that_does_not_load_is_not_used(library: bytes | None, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"libmine\.so is not used: .*kernels are compiled when they are called"):
        assert library_of_package(folder_with(tmp_path, TABLE, library)) is None


@pytest.mark.parametrize(
    "entry",
    [
        None,
        3,
        {},
        {"kinds": [["f32", 1]]},
        {"kinds": [["f32", 1]], "function": "f", "inputs": [["f32"]], "outputs": []},
    ],
)
def test_a_damaged_entry_is_refused(entry: Any) -> None:
    library = CompiledLibrary(Path("mine.kernels.json"), {"op": [entry]}, None)
    with pytest.raises(ModelError, match=r"mine\.kernels\.json: op: no kernel"):
        library.calls("op", (X,))
    assert library.calls("another", (X,)) == {}


def test_float_attributes_have_executables_of_their_own() -> None:
    """A zero of another sign is another number, and each NaN is the same one."""
    from anyshape.torch import ops

    x = torch.tensor([-1.0, 2.0])
    for alpha in (0.0, -0.0, 0.0):
        want = torch.where(x > 0, x, x * alpha)
        got = ops.leaky_relu(x, alpha=alpha)
        assert torch.equal(got, want) and torch.equal(torch.signbit(got), torch.signbit(want))
