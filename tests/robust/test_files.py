"""Files that people and models name: FIFOs, devices, links and names that no file can have are refused, and never waited for or
replaced."""

from __future__ import annotations

import ast
import os
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anyshape
from anyshape import ops
from anyshape.cli.main import main
from anyshape.errors import AnyshapeError
from anyshape.files import is_saved, open_plain, replacing, write_plain
from anyshape.frontends.onnx.embedding import embedded
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.writing import write_model
from tests.resident import HANGS

RUNTIME = Path(anyshape.__file__).parent
SYSTEM = {"available.py", "processors.py", "target.py", "code_version.py"}
"""What reads files of the system or of the package itself, which nobody names."""
LONG = "a" * 5000


def add(location: str = "", folder: Path | None = None) -> Any:
    """y = x + w, whose w is external data at a location; with a folder, the path of the model there."""
    values = [helper.make_tensor_value_info(name, 1, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:])
    w = graph.initializer.add(name="w", data_type=1, dims=[3], data_location=1)
    for key, value in (("location", location), ("length", "12")):
        w.external_data.add(key=key, value=value)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if folder is None:
        return model
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def small() -> anyshape.Executable:
    x = anyshape.input("x", "f32[n]")
    return anyshape.compile(anyshape.function([x], ops.exp(x)))


def special(folder: Path) -> dict[str, Path]:
    """One of each kind of what is no plain file."""
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(folder / "fifo")
    (folder / "folder").mkdir()
    return {
        "fifo": folder / "fifo", "link": folder / "link", "folder": folder / "folder", "null": Path("/dev/null"),
        "zero": Path("/dev/zero"), "long": folder / LONG, "nul": folder / "a\0b", "gone": folder / "gone" / "below",
    }  # fmt: skip


def within(seconds: float, run: Callable[[], object]) -> BaseException | None:
    """What it raises; fails the test if it does not end."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            run()
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it waits for what never comes"
    return raised[0] if raised else None


READERS: dict[str, Callable[[Path], object]] = {
    "compile": lambda p: anyshape.compile(p),
    "load": lambda p: anyshape.load(p),
    "simplify": lambda p: anyshape.simplify(p),
    "external data": lambda p: anyshape.compile(add(p.name, p.parent)),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_plain_file_is_refused_by_readers(tmp_path: Path, reader: str) -> None:
    for what, path in special(tmp_path).items():
        if reader == "external data" and path.parent != tmp_path:
            continue
        raised = within(HANGS, partial(READERS[reader], path))
        assert isinstance(raised, AnyshapeError), (what, raised)
        assert not is_saved(path)


COMMANDS = {
    "run": [], "compile": [], "explain": [], "profile": ["--repeat", "1"], "simplify": ["{folder}/o.onnx", "--check"], "diff": [],
    "export": ["--out", "{folder}/out"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_external_data_that_is_no_plain_file(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command refuses such data also where another library would read it."""
    pytest.importorskip("onnxruntime")
    places = {what: path for what, path in special(tmp_path).items() if path.parent == tmp_path}
    words = [w.format(folder=tmp_path) for w in COMMANDS[command]]
    for what, path in places.items():
        model = add(path.name, tmp_path)
        raised = within(HANGS, partial(_two, [command, str(model), *words]))
        assert raised is None, (what, raised)
        assert "'w'" in capsys.readouterr().err, what
    (tmp_path / "w").write_bytes(np.float32([1, 2, 3]).tobytes())
    assert main([command, str(add("w", tmp_path)), *words]) == 0


def test_all_data_of_a_model_is_put_into_it(tmp_path: Path) -> None:
    """Data of graphs and tensors in nodes is put in too, and elements that share bytes."""
    (tmp_path / "w").write_bytes(np.float32([1, 2, 3]).tobytes() + bytes([0x21, 0x43]))
    model = onnx.load(add("w", tmp_path), load_external_data=False)
    packed = model.graph.initializer.add(name="u", data_type=onnx.TensorProto.UINT4, dims=[3], data_location=1)
    for key, value in (("location", "w"), ("offset", "12"), ("length", "2")):
        packed.external_data.add(key=key, value=value)
    inner = helper.make_graph([], "inner", [], [], [])
    inner.initializer.add().CopyFrom(model.graph.initializer[0])
    outer = helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)
    outer.attribute.append(helper.make_attribute("value", model.graph.initializer[0]))
    model.graph.node.append(outer)
    whole = embedded(Source(model, "m", tmp_path))
    w, u = map(numpy_helper.to_array, whole.graph.initializer)
    np.testing.assert_array_equal(w, [1, 2, 3])
    np.testing.assert_array_equal(u.astype(int), [1, 2, 3])
    branch, _, value = whole.graph.node[1].attribute
    for t in (branch.g.initializer[0], value.t):
        np.testing.assert_array_equal(numpy_helper.to_array(t), [1, 2, 3])
    assert model.graph.initializer[0].data_location == 1, "the original is as it was"


def test_a_long_location_in_the_models_folder(tmp_path: Path) -> None:
    with pytest.raises(AnyshapeError, match="too long"):
        anyshape.compile(add(LONG, tmp_path))


WRITERS: dict[str, Callable[[Path], object]] = {
    "save": lambda p: small().save(p),
    "write_model": lambda p: write_model(add("w.bin"), p),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_but_a_plain_file_is_replaced(tmp_path: Path, writer: str) -> None:
    for what, path in special(tmp_path).items():
        before = os.lstat(path) if what not in ("long", "nul", "gone") else None
        with pytest.raises(AnyshapeError):
            WRITERS[writer](path)
        if before is not None:
            after = os.lstat(path)
            assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode), what
    old = tmp_path / "old"
    for path in (old, tmp_path / "new"):
        old.write_bytes(b"old")
        WRITERS[writer](path)
        assert path.stat().st_size > 100 and stat.S_ISREG(path.lstat().st_mode)
    assert not list(tmp_path.glob(".new-*"))


def test_the_command_line_names_files_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Inputs and outputs: each ends with one message and exit code 2."""
    paths, model = special(tmp_path), tmp_path / "m.onnx"
    model.write_bytes(exp_model().SerializeToString())
    os.mkfifo(tmp_path / "x.npy")
    commands = [
        ["run", str(paths["fifo"])],
        ["run", str(model), "--input", f"x={tmp_path / 'x.npy'}"],
        ["compile", str(model), "-o", str(paths["null"])],
        ["compile", str(model), "-o", str(paths["link"])],
        ["simplify", str(model), str(paths["fifo"])],
        ["simplify", str(paths["null"]), str(tmp_path / "out")],
    ]
    for command in commands:
        assert within(HANGS, partial(_two, command)) is None, command
        assert "anyshape: " in capsys.readouterr().err, command
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def _two(command: list[str]) -> None:
    assert main(command) == 2


def exp_model() -> Any:
    values = [helper.make_tensor_value_info(name, 1, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_a_file_that_fails_midway_leaves_the_old_one(tmp_path: Path) -> None:
    write_plain(tmp_path / "f", b"old")
    with pytest.raises(RuntimeError), replacing(tmp_path / "f") as file:
        file.write(b"half")
        raise RuntimeError
    with open_plain(tmp_path / "f") as file:
        assert file.read() == b"old"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.in_every_sample
def test_files_are_opened_in_one_place() -> None:
    """No call opens, reads or writes a file by its path but in `anyshape.files`, and in what reads the system's own files."""
    calls = {
        "open",
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "tofile",
        "fromfile",
        "memmap",
        "mkstemp",
        "load_model",
    }
    seen = 0
    for path in sorted(RUNTIME.rglob("*.py")):
        if path.name in SYSTEM or path == RUNTIME / "files.py" or "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func if isinstance(node, ast.Call) else None
            called = name.id if isinstance(name, ast.Name) else name.attr if isinstance(name, ast.Attribute) else ""
            seen += called in ("open_plain", "replacing", "write_plain")
            assert name is None or ast.unparse(name) != "onnx.load", (
                f"{path}:{node.lineno}: it opens what the model names"
            )
            assert called not in calls or _is_allowed(path, node), f"{path}:{getattr(node, 'lineno', 0)}: {called}"
    assert seen >= 10


def _is_allowed(path: Path, node: ast.AST) -> bool:
    """The ledger of the cache, which grows where others are replaced, the standard output of a command that lost its reader, and text
    in C and JavaScript that is a part of the package."""
    called = ast.unparse(node)
    own_text = {
        "c_tables.py": "(_FOLDER / 'adapter.",
        "loader.py": "_TEXT.read_text(",
        "document.py": "(_FOLDER / name)",
    }
    opened = path.name in ("disk_cache.py", "main.py") and called.startswith("os.open(")
    return opened or (path.name in own_text and called.startswith(own_text[path.name]))


def test_arrays_of_objects_are_not_unpickled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "m.onnx").write_bytes(exp_model().SerializeToString())
    assert main(["run", str(tmp_path / "m.onnx"), "--input", f"x={tmp_path / 'x.npy'}"]) == 2
    assert "allow_pickle" in capsys.readouterr().err
