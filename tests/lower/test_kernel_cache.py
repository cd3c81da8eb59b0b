"""Kernels on disk: what another process lowered is read with the group's own tensors, dims, constants and messages, or not at all."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyshape.dims import symbol
from anyshape.disk_cache import DiskCache
from anyshape.lower import Group, Kernel, Lowering, PackedConstant, host_target, kernel_cache, lower_group, sharing
from anyshape.lower.kernel import WrittenCode
from anyshape.lower.kernel_cache import MADE_BY, KernelCache, StoredCode, key_of
from anyshape.lower.llvm.jit import object_key
from anyshape.lower.sharing import SharedKernels
from anyshape.lower.structural_key import StructuralKeyWriter
from tests.lower.test_products_of_bytes import Case
from tests.lower.test_sharing import A, B, C, assert_equal_kernels, doubled, layer, picked

GROUPS = {
    "packed constant": layer(0),
    "dims": doubled(A // 2, A // 2 * B),
    "bounded dim": doubled(symbol("n", 1, 64), 3),
    "messages": picked("first", A, "node7", "data"),
    "packed sums": Case("u8", "i8", "scalar", "none", k=37, m=50).with_constant_b().group,
}


def lowering(folder: Path) -> Lowering:
    """Makes a lowering that shares nothing with another but the folder, as one in another process."""
    return Lowering(host_target(), SharedKernels(), KernelCache(DiskCache(folder)))


def assert_same(kernel: Kernel, expected: Kernel) -> None:
    """Compares kernels, and packed constants by their contents."""
    pairs = [*zip(kernel.inputs, expected.inputs, strict=True)]
    for got, reference in pairs:
        if isinstance(got, PackedConstant) and isinstance(reference, PackedConstant):
            assert (got.tensor, got.layout) == (reference.tensor, reference.layout)
            np.testing.assert_array_equal(got.array, reference.array)
        else:
            assert got is reference
    assert_equal_kernels(replace(kernel, inputs=()), replace(expected, inputs=()))


def refuse(*_: object) -> Kernel:
    raise AssertionError("a group was lowered whose kernel is on disk")


@pytest.mark.parametrize("name", GROUPS)
def test_another_process_reads_the_kernel(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = GROUPS[name]
    expected = lowering(tmp_path).lower(group)
    monkeypatch.setattr(sharing, "lower_group", refuse)
    kernel = lowering(tmp_path).lower(group)
    assert_same(kernel, expected)
    assert kernel.polls == expected.polls
    if name.startswith("packed"):
        assert any(isinstance(i, PackedConstant) for i in kernel.inputs)


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        (layer(0), layer(1), True),  # other weights
        (doubled(A, A + B), doubled(B, B + C), True),
        (doubled(A, B), doubled(B, A), False),
        (layer(0), layer(0, scale=3.0), False),
        (picked("first", A), picked("first", B), False),  # messages spell the names of dims
        (picked("first", A), picked("first", A, "node7"), False),
    ],
)
def test_a_group_of_one_form_has_its_own_tensors(one: Group, other: Group, is_shared: bool, tmp_path: Path) -> None:
    lowering(tmp_path).lower(one)
    count = len([*tmp_path.glob("*.aso")])
    kernel = lowering(tmp_path).lower(other)
    assert_same(kernel, lower_group(other, host_target()))
    assert (len([*tmp_path.glob("*.aso")]) == count) is is_shared


def test_neither_weights_nor_text_are_written(tmp_path: Path) -> None:
    lowering(tmp_path).lower(layer(0))
    (path,) = tmp_path.glob("*.aso")
    stored, (weight,) = path.read_bytes(), layer(0).constants.values()
    assert weight.tobytes()[:64] not in stored and b"define" not in stored
    assert path.stat().st_size < 5_000


def test_a_kernel_whose_object_is_gone_is_lowered_again(tmp_path: Path) -> None:
    group = GROUPS["packed constant"]
    written = lowering(tmp_path).lower(group)
    stored = lowering(tmp_path).lower(group)
    assert isinstance(written.code, WrittenCode) and isinstance(stored.code, StoredCode)
    assert stored.code.object_key(host_target()) == object_key(written.text, host_target())
    assert stored.text == written.text


class Calls:
    """A pickle of this runs a function when it is read."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.putenv, ("ANYSHAPE_TEST_CALLED",)


@pytest.mark.parametrize(
    "content", [b"", b"junk", pickle.dumps("text"), pickle.dumps(Calls()), pickle.dumps(host_target())]
)
def test_what_is_no_kernel_is_lowered_again(content: bytes, tmp_path: Path) -> None:
    group, writer, disk = doubled(A, 3), StructuralKeyWriter(), DiskCache(tmp_path)
    disk.put(key_of((host_target(), *writer.group(group))), content)
    assert KernelCache(disk).read(key_of((host_target(), *writer.group(group))), writer, host_target()) is None
    assert_equal_kernels(lowering(tmp_path).lower(group), lower_group(group, host_target()))


def test_a_kernel_with_a_symbol_of_its_own_is_not_written(tmp_path: Path) -> None:
    group, writer, disk = doubled(A, 3), StructuralKeyWriter(), KernelCache(DiskCache(tmp_path))
    writer.group(group)
    kernel = lower_group(doubled(B, 3), host_target())
    disk.write("k", kernel, writer, host_target())
    assert not [*tmp_path.glob("*.aso")]
    disk.write("k", lower_group(group, host_target()), writer, host_target())
    assert [*tmp_path.glob("*.aso")]


def test_keys_depend_on_all_code_that_the_lowering_runs() -> None:
    """`import anyshape.lower` loads nothing but MADE_BY and modules that decide no text: errors, files and the public names."""
    program = "import sys, anyshape.lower; print(*(m for m in sys.modules if m.startswith('anyshape.')))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    aside = {
        f"anyshape.{name}" for name in ("code_version", "disk_cache", "errors", "files", "logs", "public", "signing")
    }
    rest = {m for m in loaded if not any(m == p or m.startswith(p + ".") for p in MADE_BY)}
    assert rest <= aside
    assert "anyshape.dims.expr" in loaded  # which MADE_BY covers


def test_the_standard_cache_is_a_folder_of_the_object_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHAPE_CACHE", str(tmp_path))
    kernel_cache.cache_clear()
    try:
        Lowering(host_target(), SharedKernels(), kernel_cache()).lower(doubled(A, 5))
    finally:
        kernel_cache.cache_clear()
    assert [*(tmp_path / "kernels").glob("*.aso")]
