"""Arguments of the command line: what each command takes, what it refuses, and that no words at all end in a traceback."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.cli.main import main
from anyshape.cli.parser import parser
from anyshape.cli.run import _file_name
from tests.frontends.models import chain, model, node, tensor

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 1e6)
    (tmp_path / "m.onnx").write_bytes(chain().SerializeToString())
    anyshape.compile(tmp_path / "m.onnx").save(tmp_path / "m.anyshape")
    return str(tmp_path / "m.onnx")


def commands() -> dict[str, argparse.ArgumentParser]:
    (sub,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(sub.choices)


def exit_code(words: list[str]) -> int | str | None:
    try:
        return main(words)
    except SystemExit as e:
        return e.code


REFUSED = [
    (["run", "m.onnx", "--seed", "-1"], "of at least 0"), (["diff", "m.onnx", "--seed", "-1"], "of at least 0"),
    (["run", "m.onnx", "--seed", "٣"], "whole number"), (["run", "m.onnx", "--seed", "9" * 5000], "whole number"),
    (["run", "m.onnx", "--repeat", "-1"], "from 0 to 1000000"), (["run", "m.onnx", "--repeat", "9" * 30], "from 0 to 1000000"),
    (["profile", "m.onnx", "--repeat", "0"], "from 1 to 1000000"), (["run", "m.onnx", "--threads", "-1"], "of at least 0"),
    (["run", "m.onnx", "--threads", "65"], "from 1 to 64"), (["diff", "m.onnx", "--tolerance", "nan"], "not negative"),
    (["diff", "m.onnx", "--tolerance", "-0.1"], "not negative"), (["diff", "m.onnx", "--tolerance", "much"], "not negative"),
    (["run", "m.onnx", "--dim", "batch=²"], "NAME=1:512"), (["run", "m.onnx", "--dim", "batch=1:²"], "NAME=1:512"),
    (["run", "m.onnx", "--dim", "batch=" + "1" * 5000], "NAME=1:512"), (["run", "m.onnx", "--shape", "x=²x4"], "NAME=4x128"),
    (["run", "m.onnx", "--shape", "x=" + "1" * 5000], "NAME=4x128"), (["run", "m.onnx", "--ints", "²:3"], "LOW:HIGH"),
    (["run", "m.onnx", "--ints=0:" + "9" * 30], "LOW:HIGH"), (["run", "m.onnx", "--ints=--3:5"], "LOW:HIGH"),
    (["explain", "m.onnx", "--memory", "--at", "batch=" + "9" * 30], "NAME=8"),
    (["run", "m.onnx", "--input", "x=null"], "no array of numbers"), (["run", "m.onnx", "--input", 'x={"a": 1}'], "no array of numbers"),
    (["run", "m.onnx", "--input", 'x=[["a", "b", "c", "d"]]'], "cannot be converted"),
    (["run", "m.onnx", "--input", "x=[[1, 2], [3]]"], "NAME=file.npy"), (["run", "m.onnx", "--input", "x=bad.npz"], "bad.npz"),
    (["run", "m.onnx", "--input", "x=two.npz"], "it has no array 'x'; it has a, b"),
    (["run", "m.onnx", "--input", "x=none.npy"], "none.npy"),
    (["run", "m.onnx", "--output-dir", "m.onnx"], "cannot be written"), (["compile", "m.onnx", "-o", ""], "cannot be written"),
    (["run", "m.anyshape", "--repair"], "a saved model; pass repair"), (["simplify", "m.anyshape", "o.onnx"], "it is a saved model"),
    (["bench", "m.anyshape"], "is a saved model"), (["bench", "m.onnx", "--repeat", "0"], "from 1 to 1000000"),
    (["bench", "m.onnx", "--plot", "p.pdf"], "ends in .svg or .png"), (["bench", "m.onnx", "--plot", ""], "ends in .svg or .png"),
    (["bench", "m.onnx", "--plot", "gone/p.svg"], "cannot be written"), (["bench", "m.onnx", "--threads", "65"], "from 1 to 64"),
    (["explain", "m.onnx", "--memory", "--plot", "p.pdf"], "ends in .svg or .png"), (["explain", "m.onnx", "--plot", "p.svg"], "--memory"),
    (["explain", "m.onnx", "--memory", "--plot", "gone/p.svg"], "cannot be written"),
    (["bench", "gone.onnx"], "gone.onnx"), (["bench", "m.onnx", "--shape", "z=2x4"], "has no input 'z'"),
    (["profile", "m.anyshape"], "is a saved model"), (["diff", "m.anyshape"], "is a saved model"),
    (["run", "m.onnx", "--dim=--"], "--dim has no value"), (["run", "m.onnx", "--output-dir=--"], "--output-dir has no value"),
    (["simplify", "m.onnx"], "the file to write as its second argument"), (["simplify", "m.onnx", "o", "p", "--check"], "unrecognized"),
    (["run", "m.onnx", "--repeat", "1", "o"], "unrecognized arguments: o"), (["export", "m.onnx", "--static", "o"], "unrecognized"),
    (["simplify", "m.onnx", "--shapes-only", "--check"], "does not simplify"),
    (["simplify", "m.onnx", "o", "--failures"], "--failures asks about shapes: pass --shapes-only too"),
    (["simplify", "m.onnx", "--shapes-only", "--solve", "y=1xx2"], "--solve must be NAME=1x512"),
    (["simplify", "m.onnx", "--shapes-only", "--solve", "z=1x4"], "has no value 'z'"),
    (["simplify", "m.onnx", "--shapes-only", "--solve", "y=1"], "of 2 dims"),
    (["simplify", "m.onnx", "--shapes-only", "--up-to", "-1"], "from 0 to 1000000"),
    (["simplify", "m.onnx", "--shapes-only", "--solve=--"], "--solve has no value"),
    (["simplify", "m.anyshape", "--shapes-only"], "it is a saved model"),
    (["export", "m.onnx", "--budget", "64mb"], "64MB or 512KiB"), (["export", "m.onnx", "--budget", "9" * 30], "64MB or 512KiB"),
    (["export", "--op", "exp", "--input", "x=f32[n]", "--ranks", "0:2"], "for an --input of any rank"),
    (["export", "--op", "exp", "--ranks", "3:2"], "the least and the greatest rank"),
    (["export", "m.onnx", "--ranks", "0:2"], "are for --op"),
    (["export", "--op", "softmax", "--input", "x=f32[...]", "--param", "axis=1", "--ranks", "1:2"], "axis"),
    (["export", "m.onnx", "--target", "wasm32", "--shared"], "wasm32 has no shared libraries"),
    (["export"], "a model, or --op"), (["export", "m.onnx", "--op", "exp"], "a model, or --op"), (["export", "gone.onnx"], "gone.onnx"),
    (["export", "m.onnx", "--target", "vax"], "there is no target 'vax'"), (["export", "m.onnx", "--name", "a-b"], "letters, digits and _"),
    (["export", "m.onnx", "--out", "m.onnx"], "cannot write to m.onnx"), (["export", "m.onnx", "--dim", "z=3"], "has a dim 'z'. Dims"),
    (["export", "m.onnx", "--static"], "takes a fully static program only"), (["export", "m.onnx", "--param", "axis=0"], "are for --op"),
    (["export", "--op", "exp"], "must say the type of x"), (["export", "--op", "exp", "--input", "z=f32[n]"], "has no input z"),
    (["export", "--op", "exp", "--input", "x=f32["], "f32["), (["export", "--op", "expp"], "did you mean"),
    (["export", "--op", "exp,log"], "of several ops, --for onnxruntime or --for torch writes one library"),
    (["export", "--op", "exp,log", "--input", "x=f32[n]"], "export each one alone"),
    (["export", "--op", "softmax", "--input", "x=f32[n]", "--param", "axes=0"], "has no parameter axes; it has axis"),
    (["export", "--op", "exp", "--input", "x=f32[...]"], "must say which ranks x may have"),
    (["export", "m.onnx", "--out", ""], "cannot write to"),
    (["show", "m.anyshape"], "`anyshape explain m.anyshape` describes a model"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_is_refused(words: list[str], said: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("two.npz", a=np.zeros(3), b=np.zeros(3))
    Path("bad.npz").write_bytes(Path("two.npz").read_bytes()[:100])
    Path("none.npy").write_bytes(b"")
    assert exit_code(words) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err and len(err) < 25_000


@pytest.mark.parametrize("words", [
    ["run", "m.onnx", "--seed", "9223372036854775807"], ["run", "m.onnx", "--repeat", "0"], ["run", "m.onnx", "--ints=-5:5"],
    ["diff", "m.onnx", "--tolerance", "0"], ["diff", "m.onnx", "--tolerance", "inf"], ["run", "m.onnx", "--dim", "batch=1:"],
    ["run", "m.anyshape", "--threads", "1"], ["explain", "m.anyshape"], ["simplify", "m.onnx", "--shapes-only", "--up-to", "0"],
    ["simplify", "m.onnx", "--shapes-only", "--solve", "y=?x4", "s.onnx"], ["simplify", "m.onnx", "--failures", "--shapes-only"],
    ["export", "m.anyshape", "--weights", "file"],
    ["export", "m.onnx", "--static", "--dim", "batch=3", "--budget", "1GiB"],
    ["export", "--op", "concat", "--input", "xs.0=f32[n]", "--input", "xs.1=f32[m]"],
     ["export", "--op", "exp", "--input", "x=f32[...]", "--ranks", "0:2"],
    ["export", "--op", "dyn.reshape", "--input", "x=f32[n]", "--input", "newshape=i64[2]"],
])  # fmt: skip
def test_what_is_taken(words: list[str], path: str) -> None:
    if words[0] == "diff":
        pytest.importorskip("onnxruntime")
    assert exit_code(words) == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["--version"]) == 0
    assert capsys.readouterr().out == f"anyshape {anyshape.__version__}\n"


def test_archives_of_arrays_are_read(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.savez("one.npz", whatever=x)
    np.savez_compressed("named.npz", x=x, other=np.zeros(1))
    for file in ("one.npz", "named.npz"):
        assert main(["run", path, "--input", f"x={file}", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["outputs"]["y"]["values"] == anyshape.compile(path)(x).tolist()


def test_outputs_are_written(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Under any name; dtypes that NumPy has not, come back through --input."""
    shape = ["n"]
    half = model(
        [node("Cast", "x", "../y:é", to=16), node("Neg", "x", "../y:e")], [tensor("x", shape)], "../y:é ../y:e"
    )
    Path("half.onnx").write_bytes(half.SerializeToString())
    assert main(["run", "half.onnx", "--input", "x=[1, 2.5]", "--output-dir", "out/in", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert list(files) == ["../y:é", "../y:e"] and all(Path(f).parent == Path("out/in") for f in files.values())
    np.testing.assert_array_equal(np.load(files["../y:e"]), np.array([-1, -2.5], np.float32))
    back = model([node("Cast", "x", "y", to=1)], [tensor("x", shape, 16)], "y")
    Path("back.onnx").write_bytes(back.SerializeToString())
    assert main(["run", "back.onnx", "--input", f"x={files['../y:é']}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["y"]["values"] == [1.0, 2.5]


def test_names_of_files_differ_and_stay_in_their_folder() -> None:
    taken: set[str] = set()
    assert [_file_name(n, taken) for n in ("a", "A", "a/b", "a:b", "..", "", ".x", "é" * 300)] == [
        "a.npy", "A_1.npy", "a_b.npy", "a_b_1.npy", "_..npy", "_.npy", "_x.npy", "_" * 100 + ".npy",
    ]  # fmt: skip


def test_lists_are_written_member_by_member(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    split = model([node("SplitToSequence", "x", "y", axis=0)], [tensor("x", [3, 2])], "y")
    Path("list.onnx").write_bytes(split.SerializeToString())
    assert main(["run", "list.onnx", "--output-dir", "o", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert sorted(answer["files"]) == ["y.0", "y.1", "y.2"] and len(answer["outputs"]["y"]) == 3
    assert np.load(answer["files"]["y.2"]).shape == (1, 2)


JSON = {
    "run": (["m.onnx"], {"inputs", "chosen", "outputs", "files", "variants", "seconds"}),
    "compile": (["m.onnx", "-o", "c.anyshape"], {"inputs", "outputs", "report", "saved"}),
    "explain": (["m.onnx"], {"inputs", "outputs", "dims", "data_dependent", "required", "report"}),
    "profile": (
        ["m.onnx", "--repeat", "1"],
        {"inputs", "chosen", "seconds", "policy", "limits", "kernels", "ops", "html", "trace"},
    ),
    "bench": (
        ["m.onnx", "--repeat", "1"],
        {"inputs", "chosen", "threads", "seconds", "ratio", "nodes", "alone", "differences", "plot"},
    ),
    "simplify": (["m.onnx", "s.onnx"], {"changes", "before", "after", "written", "check"}),
    "diff": (["m.onnx"], {"inputs", "chosen", "tolerance", "outputs", "agree"}),
    "accelerate": (
        ["m.onnx", "fast.onnx", "libfast.so", "--least", "0", "--repeat", "1"],
        {"inputs", "chosen", "threads", "target", "replaced", "left", "seconds", "written"},
    ),
    "quantise": (
        ["product.onnx", "--least", "0"],
        {
            "weights",
            "group",
            "symmetric",
            "method",
            "activations",
            "narrowed",
            "kept",
            "before",
            "after",
            "outputs",
            "notes",
            "written",
        },
    ),
    "export": (["m.onnx"], {"files", "target", "levels", "dims", "memory", "library", "fits"}),
    "show": (["exp", "--stage", "relation"], {"op", "stages"}),
}
SHAPES = {
    "changes",
    "model",
    "inputs",
    "outputs",
    "values",
    "bodies",
    "body_sizes",
    "dims",
    "data",
    "conditions",
    "unsupported",
    "solved",
    "failures",
    "written",
}


def test_every_command_answers_in_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert set(JSON) == set(commands()) - {"serve", "batch"}  # tests/serving/live, tests/tables/live
    product = model([node("MatMul", "x w", "y")], [tensor("x", ["n", 4])], "y", {"w": np.eye(4, dtype=np.float32)})
    Path("product.onnx").write_bytes(product.SerializeToString())
    for name, (words, keys) in JSON.items():
        assert main([name, *words, "--json"]) == 0
        out, err = capsys.readouterr()
        assert set(json.loads(out)) == keys and not err, name
    assert main(["explain", "m.onnx", "--memory", "--timings", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"memory", "target", "exported", "plot", "timings"}
    assert main(["simplify", "m.onnx", "--shapes-only", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == SHAPES
    assert main(["run", "gone.onnx", "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == "ModelError" and json.loads(out)["message"] in err


def test_a_policy_tells_what_it_gained(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "m.onnx", "--repeat", "20", "--policy", "specialised"]) == 0
    assert "times as fast as the program for all sizes" in capsys.readouterr().out
    assert main(["run", "m.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["variants"] == []
    for policy, said in (
        ("bucketed", "bucketed by powers of two, for batch"),
        ("padded", "bucketed by powers of two, padded, for batch"),
        ("specialised", "specialised, for batch"),
    ):
        assert main(["explain", "m.onnx", "--policy", policy]) == 0
        assert f"policy of sizes: {said}; no call has asked" in capsys.readouterr().out
        assert main(["profile", "m.onnx", "--repeat", "2", "--policy", policy]) == 0
        assert re.search(
            rf"policy of sizes: {said}: variant for batch=.* times as fast as the program", capsys.readouterr().out
        )
    for command in ("explain", "profile"):
        assert main([command, "m.onnx"]) == 0
        assert "policy" not in capsys.readouterr().out


def test_json_has_no_numbers_that_json_has_not(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    logarithm = model([node("Log", "x", "y")], [tensor("x", ["n"])], "y")
    Path("log.onnx").write_bytes(logarithm.SerializeToString())

    def never(text: str) -> Any:
        raise AssertionError(text)

    assert main(["run", "log.onnx", "--input", "x=[0, -1, 1]", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=never)
    assert answer["outputs"]["y"]["values"] == ["-inf", "nan", 0.0]


def test_a_difference_that_does_not_come_again_is_an_error(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    draws = model([node("RandomNormalLike", "x", "r"), node("Add", "x r", "y")], [tensor("x", ["n"])], "y")
    Path("draws.onnx").write_bytes(draws.SerializeToString())
    assert main(["diff", "draws.onnx", "--tolerance", "1e-9"]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


def run_to(where: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = f'exec "$@" {where}'
    words = ("sh", "-c", command, "sh", sys.executable, "-m", "anyshape", *words)
    more["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("runtime", "generated"))
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **more})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_output_that_cannot_be_written(path: str) -> None:
    full = run_to("> /dev/full", "explain", path)
    said = "anyshape: standard output cannot be written: No space left on device\n"
    assert full.returncode == 2 and full.stderr.endswith(said) and "Traceback" not in full.stderr
    assert run_to("> /dev/full", "explain", path, "--json").returncode == 2
    for words in (("--version",), ("--help",), ("run", "--help")):
        lost = run_to("> /dev/full", *words)
        assert (lost.returncode, lost.stderr) == (2, said), words
        assert run_to("| head -c 5", *words).returncode == run_to("", *words).returncode == 0
    assert run_to("2> /dev/full", "explain", "gone").returncode == 2
    assert run_to(">&-", "explain", path).returncode == 0
    narrow = run_to("", "run", path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert narrow.returncode == 0 and "Traceback" not in narrow.stderr


# --- words at random

VALUES = (
    "", "0", "1", "2", "-1", "3:1", "1:3", "0:", "²", "٣", "9" * 30, "1" * 5000, "nan", "inf", "-inf", "1e-3", "x", "x=",
    "=x", "x=3", "x=²x4",
    "x=2x4", "y=2x4", "y=?x4",
    "x=scalar", "x=[1, 2]", "x=[[1.0]", "x=[null]", "x={}", 'x="a"', "x=m.onnx", "x=a.npy", "x=a.npz", "x=bad.npz", "x=none.npy", "batch=3",
    "batch=0:", "batch=5:2", "batch=²", "m.onnx", "m.anyshape", "nothing", "/dev/null", "/dev/full", "fifo", ".", "a\0b", "\udcff", "exp",
    "relation", "all", "axis=0", "axis=[", "x=" + "[" * 3000, "=", "--", "-",
)  # fmt: skip


def words_at_random(pick: random.Random, name: str, command: argparse.ArgumentParser) -> list[str]:
    """A command with a file or a random word in each of its places, and up to four of its options with random values."""
    words = [name]
    for action in command._actions:
        if not action.option_strings:
            right = "exp" if action.dest == "op" else "m.onnx"
            words.append(right if pick.random() < 0.7 else pick.choice(VALUES))
    for action in pick.choices([a for a in command._actions if a.option_strings], k=pick.randrange(5)):
        words.append(pick.choice(action.option_strings))
        if action.nargs != 0:
            value = pick.choice(VALUES)
            words[-1:] = (
                [f"{words[-1]}={value}"] if words[-1].startswith("--") and pick.random() < 0.5 else [words[-1], value]
            )
    return words


@pytest.mark.parametrize("name", sorted(commands()))
def test_no_words_end_in_a_traceback(name: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = commands()[name]
    np.savez("a.npz", x=np.zeros((2, 4)))
    np.save("a.npy", np.zeros((2, 4)))
    Path("bad.npz").write_bytes(Path("a.npz").read_bytes()[:100])
    Path("none.npy").write_bytes(b"")
    os.mkfifo("fifo")
    good = Path("m.onnx").read_bytes(), Path("m.anyshape").read_bytes()
    ended: set[int | str | None] = set()
    for seed in range(25 if name in ("show", "profile", "bench", "diff", "export") else 100):
        words = words_at_random(random.Random(f"{name} {seed}"), name, command)
        code = exit_code(words)
        assert code in (0, 1, 2, 130), (words, code)
        assert "Traceback" not in capsys.readouterr().err, words
        ended.add(code)
        for file, data in zip(("m.onnx", "m.anyshape"), good):
            Path(file).write_bytes(data)  # -o may have replaced it
    assert {0, 2} <= ended
