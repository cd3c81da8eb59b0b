"""The command line: what it prints, how it fails."""

from __future__ import annotations

import argparse
import json
import runpy
import shlex
import threading
import time
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.cli.main import main
from anyshape.cli.memory import curves
from anyshape.cli.parser import parser
from anyshape.cli.progress import progress
from anyshape.cli.random_inputs import TRIES, accepted_inputs, make_inputs
from anyshape.errors import AnyshapeError
from anyshape.types import parse_type
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import arena_of, export, export_target
from anyshape_testing.exports.loaded import Exported
from tests.frontends.models import chain, model, node, tensor

pytestmark = pytest.mark.usefixtures("small_table")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "m.onnx").write_bytes(chain().SerializeToString())
    return str(tmp_path / "m.onnx")


def test_run_prints_results_and_times(path, capsys):
    assert main(["run", path, "--shape", "x=3x4", "--repeat", "2", "--timings"]) == 0
    out = capsys.readouterr().out
    assert "x: float32[3, 4]" in out and "y: float32[3, 4]" in out
    assert "best of 2" in out and "timings:" in out


def test_run_takes_values_and_files(path, tmp_path, capsys):
    assert main(["run", path, "--input", "x=[[1, 2, 3, 4]]"]) == 0
    assert "[[2. 5. 8. 11.]]" in " ".join(capsys.readouterr().out.split()).replace("[ ", "[")
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    assert main(["run", path, "--input", f"x={tmp_path}/x.npy"]) == 0
    assert "y: float32[2, 4]" in capsys.readouterr().out


def test_run_chooses_what_nobody_says_and_tells(path, capsys):
    assert main(["run", path]) == 0
    assert "batch=8" in capsys.readouterr().out


def test_compile_and_explain(path, capsys):
    assert main(["compile", path, "--dim", "batch=1:64"]) == 0
    assert "1 kernel" in capsys.readouterr().out
    assert main(["explain", path]) == 0
    out = capsys.readouterr().out
    assert "f32[batch, 4]" in out and "batch: x[0]" in out and "stayed dynamic" in out


def test_explain_memory(path, tmp_path, capsys):
    assert main(["explain", path, "--memory", "--at", "batch=8"]) == 0
    assert "memory of " in capsys.readouterr().out
    saved = str(tmp_path / "m.anyshape")
    assert main(["compile", path, "-o", saved]) == 0
    assert main(["explain", saved, "--memory"]) == 0
    assert "not kept in a saved model" in capsys.readouterr().out


def test_explain_memory_has_the_formula_of_the_export(tmp_path, capsys):
    x, w = anyshape.input("x", "f32[n, m]"), anyshape.input("w", "f32[m, k]")
    exe = anyshape.compile(anyshape.function([x, w], ops.softmax(ops.matmul(ops.exp(x), w))), dims={"k": (3, 9)})
    exe.save(tmp_path / "m.anyshape")
    model, picture = str(tmp_path / "m.anyshape"), tmp_path / "p.svg"
    assert main(["explain", model, "--memory", "--target", "x86-64-v4", "--plot", str(picture), "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert main(["export", model, "--out", str(tmp_path), "--target", "x86-64-v4", "--json"]) == 0
    assert explained["exported"] == json.loads(capsys.readouterr().out)["memory"]
    assert explained["exported"][0].startswith("arena = ") and "m*n" in explained["exported"][0]
    text = picture.read_text()
    assert text.count("<polyline") == 3 and "bytes over k, where n = 64, m = 64" in text
    assert main(["explain", model, "--memory", "--plot", str(picture), "--at", "n=5"]) == 0
    assert "bytes over m, where n = 5, k = 9" in picture.read_text()


def test_a_model_that_cannot_be_exported_has_no_formula_and_says_why(tmp_path, capsys):
    x = anyshape.input("x", "f32[n]")
    noise = anyshape.function([x], ops.add(x, ops.random_normal(ops.fresh_seed(), 0.0, 1.0, [x.shape[0]])))
    anyshape.compile(noise).save(tmp_path / "m.anyshape")
    words = ["explain", str(tmp_path / "m.anyshape"), "--memory"]
    assert main(words) == 0
    assert "none: " in capsys.readouterr().out
    assert main([*words, "--plot", str(tmp_path / "p.svg")]) == 2
    assert "fresh_seed: random numbers without a seed" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--dim", "--bounds"])
def test_a_bound_of_a_dim_has_two_names_in_every_command(option, path, capsys):
    assert main(["explain", path, "--memory", option, "batch=1:4"]) == 0
    assert main(["run", path, option, "batch=1:4", "--shape", "x=5x4"]) == 2
    assert "must be at most 4, got 5" in capsys.readouterr().err


def test_an_op_of_any_rank_is_refused_with_the_option_that_says_ranks(tmp_path, capsys):
    words = ["export", "--op", "softmax", "--input", "x=f32[...]", "--out", str(tmp_path / "c")]
    assert main(words) == 2
    assert "--ranks must say which ranks x may have, as --ranks 0:4" in capsys.readouterr().err
    assert main([*words, "--ranks", "1:2"]) == 0


def test_curves_of_memory_are_what_the_exported_function_returns():
    x, w = anyshape.input("x", "f32[n, m]"), anyshape.input("w", "f32[m, 8]")
    f = anyshape.function([x, w], ops.softmax(ops.matmul(ops.exp(x), w)))
    target, options = export_target(None), make_options({"dims": {}})
    c, (over_n, over_m) = Exported(export(f, "m", target, options)), curves(arena_of(f, target, options), {"m": 3})
    assert (over_n.fixed, over_m.fixed) == ("m = 3", "n = 64") and over_n.sizes[:2] == [1, 16]
    assert over_n.bytes == [c.arena_bytes([n, 3]) for n in over_n.sizes]
    assert over_m.bytes == [c.arena_bytes([64, m]) for m in over_m.sizes]


def test_compile_saves_and_run_loads(path, tmp_path, capsys):
    saved = str(tmp_path / "m.anyshape")
    assert main(["compile", path, "-o", saved]) == 0
    assert f"saved in {saved}" in capsys.readouterr().out
    assert main(["run", saved, "--input", "x=[[1, 2, 3, 4]]", "--timings"]) == 0
    out = capsys.readouterr().out
    assert "[[2. 5. 8. 11.]]" in " ".join(out.split()).replace("[ ", "[")
    assert "  load" in out and "  lower" not in out, "nothing is compiled"
    assert main(["explain", saved]) == 0
    assert "f32[batch, 4]" in capsys.readouterr().out
    assert main(["run", saved, "--dim", "batch=2"]) == 2
    assert "pass dims when you compile" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "{gone}"], "cannot be read"),
        (["run", "{path}", "--shape", "x"], "NAME=4x128"),
        (["run", "{path}", "--shape", "x=4xb"], "NAME=4x128"),
        (["run", "{path}", "--shape", "z=4"], "no input 'z'"),
        (["run", "{path}", "--shape", "x=99999999999999999999x4"], "of 64 bits"),
        (["run", "{path}", "--shape", "x=4611686018427387904x4"], "does not fit in memory"),
        (["run", "{path}", "--input", "x=" + "[" * 3000], "recursion"),
        (["run", "{path}", "--dim", "batch=99999999999999999999"], "64 bits"),
        (["run", "\0"], "cannot be read"),
        (["compile", "{path}", "-o", "\0"], "cannot be written"),
        (["run", "{path}", "--shape", "x=4"], "rank 2"),
        (["run", "{path}", "--shape", "x=2x5"], "x"),
        (["run", "{path}", "--input", "x=gone.npy"], "gone.npy"),
        (["run", "{path}", "--ints", "5:1"], "LOW:HIGH"),
        (["explain", "{path}", "--dim", "bach=3"], "did you mean 'batch'"),
        (["explain", "{path}", "--dim", "batch=many"], "NAME=1:512"),
        (["explain", "{path}", "--memory", "--at", "batch=1:8"], "NAME=8"),
        (["explain", "{path}", "--memory", "--at", "bach=8"], "there are batch"),
        (["run", "{path}", "--shape", "x=" + "9" * 5000], "NAME=4x128"),
        (["run", "{path}", "--dim", "batch=" + "9" * 5000], "NAME=1:512"),
        (["run", "{path}", "--dim", "batch=\u00b2"], "NAME=1:512"),
        (["run", "{path}", "--dim", "batch=2:\u0664"], "NAME=1:512"),
        (["run", "{path}", "--input", "x=[[" + "9" * 5000 + "]]"], "NAME=file.npy"),
        (["run", "{path}", "--ints", "0:" + "9" * 5000], "LOW:HIGH"),
        (["explain", "{path}", "--memory", "--at", "batch=" + "9" * 5000], "NAME=8"),
        (["compile", "{bad}"], "Det"),
    ],
)
def test_what_is_wrong_is_one_message_and_exit_code_2(words, said, path, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 1e6)  # a busy machine has no sign of life to give
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(model([node("Det", "x", "y")], [tensor("x", [2, 2])], "y").SerializeToString())
    places = {"path": path, "bad": str(bad), "gone": str(tmp_path / "gone.onnx")}
    assert main([w.format(**places) for w in words]) == 2
    caught = capsys.readouterr()
    assert said in caught.err and caught.err.startswith("anyshape: ") and "Traceback" not in caught.err


@pytest.mark.parametrize("error", [MemoryError(), ImportError("failed to map segment", name="m", path="/m.so")])
def test_spent_memory_is_one_message_too(error, path, capsys, monkeypatch):
    def compiled(args):
        raise error

    monkeypatch.setattr("anyshape.cli.commands._compiled", compiled)
    assert main(["run", path]) == 2
    said = capsys.readouterr().err
    assert said.startswith("anyshape: ") and ("not enough memory" in said or "map segment: a process" in said)
    error = ImportError("no such name", name="m", path="/m.py")
    with pytest.raises(ImportError, match="no such name"):
        main(["run", path])


def test_progress_needs_no_thread(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    with progress("working"):
        pass


def test_progress_says_what_is_true_by_then(monkeypatch, capsys):
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 0.01)
    count, said = 0, threading.Event()

    def text():
        said.set()
        return f"{count} rows"

    with progress(text):
        count = 7
        assert said.wait(60)
    assert "7 rows" in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    out = capsys.readouterr().out
    assert left.value.code == 0 and "--shape ids=4x128" in out and "explain" in out


def test_every_command_has_examples_that_it_takes(capsys):
    (commands,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    for name in commands.choices:
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        _, _, examples = capsys.readouterr().out.partition("examples:\n")
        lines = [line.split("  ")[0] for line in examples.replace("\n  ", "\n").strip().splitlines()]
        assert lines
        for line in lines:
            program, *words = shlex.split(line)
            assert program == "anyshape" and parser().parse_args(words)


def test_progress_speaks_only_of_what_is_long(capsys, monkeypatch):
    monkeypatch.setattr("anyshape.cli.progress.time", SimpleNamespace(monotonic=lambda: 7.0))
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 10_000.0)
    with progress("short"):
        pass
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 0.0)
    heard = ""
    with progress("long"):
        while not heard.endswith("\n"):
            time.sleep(0.01)
            heard += capsys.readouterr().err
    assert set(heard.splitlines()) == {"long … 0 s"}


def test_as_a_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["anyshape", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("anyshape", run_name="__main__")
    assert "anyshape explain" in capsys.readouterr().out


def test_chosen_sizes_are_such_that_the_model_takes_them() -> None:
    """A mask as long as what is kept and what is new together, which no type says; where nothing helps, the first sizes are told."""
    types = [parse_type(t) for t in ("f32[past]", "f32[new]", "f32[total]")]
    make = partial(make_inputs, ["kept", "new", "mask"], types, {}, {}, (0, 2), 0)
    calls: list[tuple[int, ...]] = []

    def call(feed: Mapping[str, Any]) -> None:
        calls.append(tuple(len(a) for a in feed.values()))
        if calls[-1][2] != calls[-1][0] + calls[-1][1]:
            raise AnyshapeError("no")

    feed, sizes = accepted_inputs(call, make)
    assert [len(a) for a in feed.values()] == [8, 8, 16] and sizes.chosen == {"new": 8, "past": 8, "total": 16}
    assert calls[0] == (8, 8, 8) and len(calls) <= 1 + TRIES

    def never(feed: Mapping[str, Any]) -> None:
        raise AnyshapeError("no")

    assert accepted_inputs(never, make)[1].chosen == {"new": 8, "past": 8, "total": 8}
