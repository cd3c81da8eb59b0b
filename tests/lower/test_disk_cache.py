"""The cache on disk: bounded, checksummed, and shared by processes that compile at once, whatever else lies in its directory."""

from __future__ import annotations

import multiprocessing
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from anyshape.disk_cache import DiskCache
from anyshape.lower import host_target
from anyshape.lower.llvm import jit, scalars
from tests.resident import HANGS

CODE = bytes(range(256)) * 8


def test_what_is_put_is_got(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "new" / "folder")
    assert cache.get("a" * 64) is None
    cache.put("a" * 64, CODE)
    assert cache.get("a" * 64) == CODE
    assert DiskCache(cache.directory).get("a" * 64) == CODE


def test_no_directory_keeps_nothing() -> None:
    cache = DiskCache(None)
    cache.put("a", CODE)
    assert cache.get("a") is None


@pytest.mark.parametrize("at", [0, 5, 20, 60, -1])
def test_a_flipped_bit_is_no_object(tmp_path: Path, at: int) -> None:
    cache = DiskCache(tmp_path)
    cache.put("k", CODE)
    (path,) = tmp_path.glob("*.aso")
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert cache.get("k") is None
    assert not path.exists(), "what is damaged goes, so that it is written again"


@pytest.mark.parametrize("length", [0, 1, 18, 30, 50, 100])
def test_a_cut_file_is_no_object(tmp_path: Path, length: int) -> None:
    cache = DiskCache(tmp_path)
    cache.put("k", CODE)
    (path,) = tmp_path.glob("*.aso")
    path.write_bytes(path.read_bytes()[:length])
    assert cache.get("k") is None


def test_an_object_under_another_name_is_refused(tmp_path: Path) -> None:
    """A file that was copied or renamed has good contents and is not what was asked for."""
    cache = DiskCache(tmp_path)
    cache.put("one", CODE)
    (path,) = tmp_path.glob("*.aso")
    path.rename(path.with_name(path.name.replace("one", "two")))
    assert cache.get("two") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_not_read(tmp_path: Path, mode: int) -> None:
    cache = DiskCache(tmp_path)
    cache.put("k", CODE)
    (path,) = tmp_path.glob("*.aso")
    path.chmod(mode)
    assert cache.get("k") is None
    cache.put("k", CODE)
    assert cache.get("k") == CODE, "one's own takes its place"


@pytest.mark.parametrize(("owner", "user", "is_read"), [(1234, 1234, True), (0, 1234, True), (4321, 1234, False)])
def test_a_file_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, user: int, is_read: bool
) -> None:
    cache, status_of = DiskCache(tmp_path), os.fstat
    cache.put("k", CODE)

    def owned(handle: int) -> os.stat_result:
        status = list(status_of(handle))
        status[stat.ST_UID] = owner
        return os.stat_result(status)

    monkeypatch.setattr(os, "fstat", owned)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert cache.get("k") == (CODE if is_read else None)


def test_links_pipes_and_what_cannot_be_read_are_no_objects(tmp_path: Path) -> None:
    """A pipe would be waited for; what a link leads to is somebody else's choice."""
    cache = DiskCache(tmp_path)
    cache.put("k", CODE)
    cache._path("link").symlink_to(cache._path("k"))
    cache._path("nowhere").symlink_to(tmp_path / "gone")
    os.mkfifo(cache._path("pipe"))
    assert [cache.get(name) for name in ("link", "nowhere", "pipe")] == [None] * 3


def test_an_object_of_another_version_is_refused(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("k", CODE)
    (path,) = tmp_path.glob("*.aso")
    path.write_bytes(path.read_bytes().replace(b"object-2", b"object-1", 1))
    assert cache.get("k") is None and not path.exists()


def test_the_oldest_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit_bytes=40_000)
    now = time.time()
    for k in range(60):
        cache.put(f"k{k}", CODE)
        for path in tmp_path.glob(f"k{k}.*"):
            os.utime(path, (now - 1000 + k, now - 1000 + k))
    assert kept(tmp_path) <= 40_000 * 17 // 16 + len(CODE)
    assert cache.get("k59") == CODE and cache.get("k0") is None


def kept(directory: Path) -> int:
    return sum(p.stat().st_size for p in directory.glob("*.aso"))


def test_the_bound_holds_over_processes_that_write_little_each(tmp_path: Path) -> None:
    """No process writes a sixteenth of the bound."""
    for k in range(60):
        DiskCache(tmp_path, limit_bytes=40_000).put(f"k{k}", CODE)
        assert kept(tmp_path) <= 40_000 * 17 // 16 + len(CODE)
    assert (tmp_path / ".written").stat().st_size <= 40_000 // 16 + 4096


def test_the_directory_is_read_once_for_each_sixteenth_of_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(DiskCache, "_trim", lambda self: looked.append(k))
    for k in range(100):
        DiskCache(tmp_path, limit_bytes=16 * 20 * len(CODE)).put(f"k{k}", CODE)
    assert looked[0] == 0 and 4 <= len(looked) <= 6
    (tmp_path / ".written").unlink()
    DiskCache(tmp_path).put("k", CODE)
    assert len(looked) in (6, 7), "nobody knows what lies there"


def test_foreign_files_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    (tmp_path / "folder.aso").mkdir()
    cache = DiskCache(tmp_path, limit_bytes=5_000)
    for k in range(20):
        cache.put(f"k{k}", CODE)
    assert cache.get("folder") is None
    assert (tmp_path / "notes.txt").read_text() == "not ours" and (tmp_path / "folder.aso").is_dir()


def test_abandoned_files_go(tmp_path: Path) -> None:
    old, young = tmp_path / ".new-old", tmp_path / ".new-young"
    for path in (old, young):
        path.write_bytes(CODE)
    os.utime(old, (0, 0))
    DiskCache(tmp_path).put("k", CODE)
    assert not old.exists() and young.exists()


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "below")
    cache.put("k", CODE)
    assert cache.get("k") is None


def test_a_key_is_target_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_target()
    keys = {jit.object_key("a", host), jit.object_key("b", host), jit.object_key("a", host.limited("sse"))}
    monkeypatch.setattr(jit.llvmlite, "__version__", "0.0")
    assert len({*keys, jit.object_key("a", host)}) == 4


def test_objects_of_other_passes_have_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_target()
    texts = ("a", f"{scalars.MARK}a")
    before = [jit.object_key(text, host) for text in texts]
    monkeypatch.setattr(scalars, "PASSES", scalars.PASSES[:-1])
    after = [jit.object_key(text, host) for text in texts]
    assert before[0] == after[0] and before[1] != after[1]


def _compile(directory: str, seed: int, out: Any) -> None:
    """A worker: compiles and runs a model while the directory is being damaged."""
    os.environ["ANYSHAPE_CACHE"] = directory
    import numpy as np

    import anyshape
    from anyshape import ops

    x = anyshape.input("x", "f32[n, 8]")
    w = anyshape.constant(np.arange(64, dtype=np.float32).reshape(8, 8) / 64)
    f = anyshape.function([x], [ops.softmax(ops.matmul(x, w)), ops.exp(ops.add(x, 1.0)), ops.sum(x, axes=(1,))])
    sums = []
    for _ in range(3):
        jit._IN_PROCESS.clear()
        results = anyshape.compile(f)(np.ones((4, 8), np.float32))
        sums.append(tuple(float(r.sum()) for r in results))
        for k, path in enumerate(sorted(Path(directory).glob("*.aso"))):
            if (k + seed) % 5 == 0:
                _damage(path, seed + k)
    out.put(sums)


def _damage(path: Path, how: int) -> None:
    """Damages a file as a full disk or another program might."""
    try:
        data = path.read_bytes()
        if how % 3 == 0:
            path.write_bytes(data[: len(data) // 2])
        elif how % 3 == 1:
            path.write_bytes(data[:-40] + b"\0" * 40)
        else:
            path.unlink()
    except OSError:
        return


def test_processes_share_a_directory_that_is_being_damaged(tmp_path: Path) -> None:
    (tmp_path / "foreign.aso").write_bytes(b"not an object")
    (tmp_path / ".new-foreign").write_bytes(b"half")
    context = multiprocessing.get_context("spawn")
    out: Any = context.Queue()
    workers = [context.Process(target=_compile, args=(str(tmp_path), k, out)) for k in range(3)]
    for w in workers:
        w.start()
    results = [out.get(timeout=HANGS) for _ in workers]
    for w in workers:
        w.join(timeout=HANGS)
    assert [w.exitcode for w in workers] == [0, 0, 0]
    assert len({s for sums in results for s in sums}) == 1
    assert not [p for p in tmp_path.glob(".new-*") if p.name != ".new-foreign"], "nothing half written stays"
