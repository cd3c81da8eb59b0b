"""Every operation on files fails once, while models are saved, simplified, exported, loaded and compiled with a cache: what is lost is the
action, with an AnyshapeError, and never a file that was there, nor the cache's answers. A process that ends there loses no more. It is a
sample of the operations unless ANYSHAPE_LONG=1."""

from __future__ import annotations

import errno
import io
import multiprocessing
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import anyshape
from anyshape import ops
from anyshape.cli.main import main
from anyshape.disk_cache import DiskCache
from anyshape.errors import AnyshapeError
from anyshape_testing.process.profile import LONG
from tests.robust.injected_faults import Fault, injected

CODES = (errno.ENOSPC, errno.EIO, errno.EACCES)
MOST = 400
"""Operations of an action that are certainly more than it has"""
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def model(scale: float) -> anyshape.Function:
    x = anyshape.input("x", "f32[n, m]")
    return anyshape.function([x], ops.tanh(ops.mul(x, np.float32(scale))))


def onnx_model() -> Any:
    values = [helper.make_tensor_value_info(name, 1, ["n", "m"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@dataclass(frozen=True)
class Action:
    """Something that is done with files in a folder. `prepare` comes before it, without faults; `check` says whether its file, of that
    name, is the new one; `is_silent`: faults are no errors of it, since it does without the file."""

    run: Callable[[Path], object]
    prepare: Callable[[Path], object] = lambda folder: None
    file: str | None = None
    is_silent: bool = False


def save(folder: Path) -> None:
    anyshape.compile(model(2)).save(folder / "f.anyshape")


def command(words: str, folder: Path) -> None:
    """A command whose files are in the folder, on the model there. Raises AnyshapeError with its message."""
    said = io.StringIO()
    paths = [str(folder / w) if w.endswith((".onnx", ".html", ".json", ".anyshape")) else w for w in words.split()]
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        code = main(paths)
    if code:
        raise AnyshapeError(said.getvalue())


def put_model(folder: Path) -> None:
    onnx.save(onnx_model(), folder / "in.onnx")


def export(folder: Path) -> None:
    anyshape.compile(model(3)).export(folder / "out")


def load(folder: Path) -> None:
    np.testing.assert_allclose(anyshape.load(folder / "h.anyshape")(X), np.tanh(X * 5), rtol=1e-6)


def cache(folder: Path) -> None:
    """Entries are written and read again; what is not there is None."""
    kept = DiskCache(folder / "cache")
    for k in range(3):
        kept.put(f"key{k}", b"object" * 100)
    assert all(kept.get(f"key{k}") in (b"object" * 100, None) for k in range(3))


ACTIONS = {
    "save over a file": Action(
        save, lambda folder: anyshape.compile(model(7)).save(folder / "f.anyshape"), "f.anyshape"
    ),
    "save to a new file": Action(save, file="f.anyshape"),
    **{
        words.split()[0]: Action(partial(command, words), put_model, words.split()[-1])
        for words in (
            "compile in.onnx -o new.anyshape",
            "simplify in.onnx new.onnx",
            "explain in.onnx --html new.html",
            "profile in.onnx --shape x=2x3 --repeat 1 --trace new.json",
        )
    },
    "export": Action(export),
    "load": Action(load, lambda folder: anyshape.compile(model(5)).save(folder / "h.anyshape")),
    "cache": Action(cache, is_silent=True),
}


def demand_new(folder: Path, action: Action) -> None:
    """Asserts that the file of an action is whole: a model gives its results, and what is read by others has its end."""
    if action.file is None:
        return
    file = folder / action.file
    if file.suffix in (".html", ".json"):
        assert file.read_text().rstrip().endswith(("</html>", "}", "]"))
        return
    scale = 2 if file.name == "f.anyshape" else 1
    e = anyshape.load(file) if file.suffix == ".anyshape" else anyshape.compile(file)
    np.testing.assert_allclose(np.asarray(e(X)), np.tanh(X * scale), rtol=1e-6)


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


@pytest.mark.parametrize("name", ACTIONS)
def test_each_operation_fails_once(name: str, tmp_path: Path) -> None:
    action, at = ACTIONS[name], 0
    for at in range(0, MOST, 1 if LONG else 4):
        code = CODES[at % len(CODES)]
        folder = tmp_path / str(at)
        folder.mkdir()
        action.prepare(folder)
        before = files(folder)
        with injected(Fault(at, code)) as fault:
            try:
                action.run(folder)
                failed = False
            except AnyshapeError as e:
                failed = True
                assert os.strerror(code) in str(e), e
        if not fault.happened:
            assert not failed and at > 0, "it has no operation"
            break
        assert not (failed and action.is_silent), fault.done[-1]
        assert not failed or files(folder) == before
        action.run(folder)  # the next one succeeds
        demand_new(folder, action)
    assert 2 < at < MOST, f"{at} operations"


@pytest.mark.parametrize("name", [n for n, a in ACTIONS.items() if n not in ("load", "export")])
def test_a_process_that_ends_at_any_operation(name: str, tmp_path: Path) -> None:
    action, context = ACTIONS[name], multiprocessing.get_context("fork")
    for at in range(0, MOST, 1 if LONG else 16):
        folder = tmp_path / str(at)
        folder.mkdir()
        action.prepare(folder)
        before = files(folder)
        child = context.Process(target=_run_in, args=(action, folder, at))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -9), child.exitcode
        now = files(folder)
        assert all(now[file] == data or file == action.file for file, data in before.items())
        if action.file in now and now[action.file] != before.get(action.file):
            demand_new(folder, action)
        action.run(folder)
        demand_new(folder, action)
        if child.exitcode == 0:
            break
    assert 2 < at < MOST, f"{at} operations"


def _run_in(action: Action, folder: Path, at: int) -> None:
    with injected(Fault(at, kills=True)):
        action.run(folder)


def test_a_fault_is_noticed_where_it_is_not_handled(tmp_path: Path) -> None:
    """The harness makes operations fail, half a write included, and nothing else."""
    with (
        injected(Fault(1)),
        pytest.raises(OSError, match="No space left"),
        os.fdopen(os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT), "wb") as file,
    ):
        file.write(b"abcdef")
    assert (tmp_path / "f").read_bytes() == b"abc"
    with injected(Fault(5)) as fault:
        os.stat(tmp_path)
    assert fault.done == ["stat"] and not fault.happened
