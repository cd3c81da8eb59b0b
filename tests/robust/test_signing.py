"""A signing key: saved models and cached objects that it did not sign are refused. The place of the cache, and who owns it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.disk_cache import DiskCache, platform_cache
from anyshape.errors import ArgumentError, SavedFileError
from anyshape.signing import VARIABLE
from anyshape.vm.executable.saved import container

KEYS = "k" * 16, "another key of some length"


def saved(path: Path) -> Path:
    x = anyshape.input("x", "f32[n, 4]")
    w = anyshape.constant(np.arange(16, dtype=np.float32).reshape(4, 4))
    anyshape.compile(anyshape.function([x], ops.matmul(x, w))).save(path)
    return path


def test_a_signed_model_is_read_by_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((2, 4), np.float32)
    monkeypatch.setenv(VARIABLE, KEYS[0])
    signed = saved(tmp_path / "signed")
    expected = anyshape.load(signed, verify=True)(x)
    monkeypatch.setenv(VARIABLE, KEYS[1])
    with pytest.raises(SavedFileError, match="signed by another key"):
        anyshape.load(signed)
    monkeypatch.delenv(VARIABLE)
    np.testing.assert_array_equal(anyshape.load(signed, verify=True)(x), expected)  # who has no key asks for none
    plain = saved(tmp_path / "plain")
    monkeypatch.setenv(VARIABLE, KEYS[0])
    with pytest.raises(SavedFileError, match="not signed"):
        anyshape.load(plain)


def test_no_checksum_makes_up_for_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `test_saved.altered` does to unsigned files: a record of one's own under a header with right checksums."""
    monkeypatch.setenv(VARIABLE, KEYS[0])
    data = saved(tmp_path / "m").read_bytes()
    size, length = container.HEADER.unpack_from(data)[2:4]
    text = data[container.HEADER.size : container.HEADER.size + length].replace(b'"main"', b'"mine"')
    code = container.HEADER.unpack_from(data)[5]
    for forged in (container.header(size, text), container.header(size, text, KEYS[1].encode())):
        (tmp_path / "forged").write_bytes(forged + text + data[len(forged) + len(text) :])
        with pytest.raises(SavedFileError, match="signed"):
            anyshape.load(tmp_path / "forged")
    assert any(code)


def test_constants_of_a_signed_model_are_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two words of one row and column, changed so that the sums stay: the fast checksum does not see it, SHA-256 does."""
    page = np.zeros((2, container.PAGE // 8), np.uint64)
    forged = page.copy()
    forged[0, 0], forged[0, 1], forged[1, 0], forged[1, 1] = 5, 2**64 - 5, 2**64 - 5, 5
    assert container.array_digest(page) == container.array_digest(forged)
    assert container.array_digest(page, signed=True) != container.array_digest(forged, signed=True)
    monkeypatch.setenv(VARIABLE, KEYS[0])
    assert container.Container(saved(tmp_path / "m"))._signed


@pytest.mark.parametrize("key", ["short", "k" * 15])
def test_a_short_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    path = saved(tmp_path / "m")
    monkeypatch.setenv(VARIABLE, key)
    with pytest.raises(ArgumentError, match="at least 16 bytes"):
        anyshape.load(path)


def test_entries_of_the_cache_are_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("k", b"plain")
    monkeypatch.setenv(VARIABLE, KEYS[0])
    assert cache.get("k") is None, "nobody signed it"
    cache.put("k", b"signed")
    assert cache.get("k") == b"signed"
    signed = cache._path("k", KEYS[0].encode())
    signed.write_bytes(cache._path("k").read_bytes())
    assert cache.get("k") is None, "an unsigned one under the name of a signed one"
    cache.put("k", b"signed")
    monkeypatch.setenv(VARIABLE, KEYS[1])
    assert cache.get("k") is None
    monkeypatch.delenv(VARIABLE)
    assert cache.get("k") == b"plain", "who has no key finds what it put there"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("k", b"code")
    assert cache.directory is not None
    cache.directory.chmod(mode)
    with pytest.warns(RuntimeWarning, match="not used as a cache"):
        assert cache.get("k") is None
    cache.put("other", b"code")
    assert [p.name for p in cache.directory.glob("*.aso")] == ["k.aso"]
    cache.directory.chmod(0o755)
    assert cache.get("k") == b"code"


def test_a_directory_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache.put("k", b"code")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1 if os.getuid() else 1)
    if os.getuid():
        with pytest.warns(RuntimeWarning, match="belongs to another user"):
            assert cache.get("k") is None
    else:
        assert cache.get("k") == b"code", "the superuser's may be used"


PLACES = [
    ({"ANYSHAPE_CACHE": "/c"}, "/c"), ({"ANYSHAPE_CACHE": ""}, None), ({"XDG_CACHE_HOME": "/x"}, "/x/anyshape"),
    ({"XDG_CACHE_HOME": "x"}, "/h/.cache/anyshape"), ({"XDG_CACHE_HOME": ""}, "/h/.cache/anyshape"), ({}, "/h/.cache/anyshape"),
    ({"HOME": "h"}, None), ({"HOME": "h", "XDG_CACHE_HOME": "/x"}, "/x/anyshape"), ({"ANYSHAPE_CACHE": "/c", "HOME": "h"}, "/c"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "place"), PLACES)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, said: dict[str, str], place: str | None) -> None:
    for name in ("ANYSHAPE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/h")
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    directory = DiskCache.standard().directory
    assert (None if directory is None else str(directory)) == place


@pytest.mark.parametrize(
    ("platform", "said", "place"),
    [
        ("linux", {}, "/h/.cache/anyshape"),
        ("darwin", {}, "/h/Library/Caches/anyshape"),
        ("win32", {"LOCALAPPDATA": "/h/Local"}, "/h/Local/anyshape/Cache"),
        ("win32", {"LOCALAPPDATA": ""}, "/h/AppData/Local/anyshape/Cache"),
    ],
)
def test_each_platform_has_a_directory(
    monkeypatch: pytest.MonkeyPatch, platform: str, said: dict[str, str], place: str
) -> None:
    monkeypatch.setenv("HOME", "/h")
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert platform_cache(platform) == Path(place)


def test_the_directories_are_those_of_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("platformdirs")
    from platformdirs.macos import MacOS
    from platformdirs.unix import Unix
    from platformdirs.windows import Windows, get_win_folder_from_env_vars

    monkeypatch.setattr("platformdirs.windows.get_win_folder", get_win_folder_from_env_vars)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", "/h/Local")
    for platform, directories in (("linux", Unix), ("darwin", MacOS), ("win32", Windows)):
        assert platform_cache(platform) == Path(directories("anyshape", False).user_cache_dir), platform


def test_names_in_a_record_are_never_imported(tmp_path: Path) -> None:
    """`code` names packages: finding a submodule would import its parent."""
    import json
    import sys

    data = saved(tmp_path / "m").read_bytes()
    size, length = container.HEADER.unpack_from(data)[2:4]
    record = json.loads(data[container.HEADER.size : container.HEADER.size + length])
    record["code"]["tabnanny.below"] = "0"
    record["report"]["phase"] = 1
    text = json.dumps(record, separators=(",", ":")).encode()
    start = container._aligned(container.HEADER.size + length, container.PAGE)
    moved = container._aligned(container.HEADER.size + len(text), container.PAGE)
    body = container.header(size - start + moved, text) + text
    (tmp_path / "other").write_bytes(body.ljust(moved, b"\0") + data[start:])
    sys.modules.pop("tabnanny", None)
    exe = anyshape.load(tmp_path / "other")
    assert "tabnanny" not in sys.modules and "tabnanny.below" in exe.report.rebuilt
    with pytest.raises(SavedFileError, match="other code"):
        anyshape.load(tmp_path / "other", rebuild=False)
