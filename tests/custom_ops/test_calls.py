"""Which kernels a library has: element types, ranks, presence and attributes by search, or as they are said; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anyshape.cli.main import main
from anyshape.cli.show import variant
from anyshape.custom_ops import Choice, calls_of
from anyshape.errors import AnyshapeError
from anyshape.vm.export.op_calls import MOST_CALLS
from anyshape_testing.laws.custom_ops import missing


def described(op: str, **choice: Any) -> list[str]:
    return [c.described for c in calls_of(variant(op), Choice(**choice))]


def test_ranks_that_the_op_takes_are_tried() -> None:
    assert described("softmax", ranks=(0, 2)) == ["softmax(x: f32[x_0])", "softmax(x: f32[x_0, x_1])"]
    assert len(described("add")) == 25 and len(described("matmul")) == 16
    (normed,) = described("batch_norm", ranks=(1, 2))
    assert normed.startswith("batch_norm(x: f32[x_0, x_1], scale: f32[scale_0]")


def test_inputs_may_be_absent_and_rows_have_several_tensors() -> None:
    assert described("clip", ranks=(0, 1))[:3] == [
        "clip(x: f32[])", "clip(x: f32[], high: f32[])", "clip(x: f32[], low: f32[])",
    ]  # fmt: skip
    rows = described("concat", ranks=(1, 1))
    assert [r.count("xs.") for r in rows] == [1, 2, 3, 4]


def test_element_types_and_attributes_are_multiplied() -> None:
    calls = described("softmax", ranks=(1, 1), dtypes=("f64", "f32", "i64"), params={"axis": [0, -1]})
    assert calls == [f"softmax(x: {t}[x_0], axis={a})" for a in (0, -1) for t in ("f32", "f64")]
    assert described("gather", ranks=(1, 1)) == ["gather(x: f32[x_0], index: i64[index_0])"]
    assert "bool[" in described("logical_not", ranks=(1, 1))[0]


def test_types_that_are_said_are_in_the_order_of_the_op() -> None:
    types = {"index": "i64[k, 2]", "x": "f32[n, m]"}
    assert described("gather_nd", types=types) == ["gather_nd(x: f32[n, m], index: i64[k, 2])"]
    assert len(described("softmax", types={"x": "f32[...]"}, ranks=(1, 3))) == 3
    rows = {f"xs.{k}": "f32[n]" for k in (10, 2, 1)}
    assert described("concat", types=rows)[0].index("xs.2") < described("concat", types=rows)[0].index("xs.10")


@pytest.mark.parametrize(("op", "choice", "said"), [
    ("string_concat", {}, "string_concat cannot be a custom op of onnxruntime: a is of strings"),
    ("fresh_seed", {}, "without a seed"),
    ("softmax", {"ranks": (0, 0)}, "softmax: no call with inputs of ranks 0 to 0: .*say other --ranks, or the types of"),
    ("reshape", {}, "newshape is missing"),
    ("dyn.reshape", {}, "--input must say the types of its inputs and of its operands newshape"),
    ("where", {"ranks": (0, 6)}, f"more than {MOST_CALLS} calls of ranks 0 to 6; say fewer"),
])  # fmt: skip
def test_what_is_refused(op: str, choice: dict[str, Any], said: str) -> None:
    with pytest.raises(AnyshapeError, match=said):
        calls_of(variant(op), Choice(**choice))


EXPORT = ["export", "--for", "onnxruntime"]


@pytest.mark.parametrize(("words", "said"), [
    ([], "say them by --op"), (["m.onnx", "--op", "exp"], "MODEL: not with --for onnxruntime"),
    (["--op", "exp", "--shared", "--budget", "1kB"], "--shared, --budget: not with"), (["--op", "expp"], "did you mean"),
    (["--op", "exp,add", "--input", "x=f32[n]"], "--input says the types of one op's call"),
    (["--op", "exp,softmax", "--param", "axs=0"], "no op of exp, softmax has a parameter axs; they have axis"),
    (["--op", "exp", "--target", "wasm32"], "no shared libraries"), (["--op", "exp", "--name", "a-b"], "letters, digits and _"),
    (["--op", "string_concat"], "is of strings"),
])  # fmt: skip
def test_what_the_command_refuses(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EXPORT, *words]) == 2
    assert said in capsys.readouterr().err
    assert main(["export", "--op", "exp", "--dtypes", "f32"]) == 2
    assert "are for --for onnxruntime" in capsys.readouterr().err


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_command_writes_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--op", "relu,softmax", "--ranks", "1:1", "--param", "axis=0", "--out", str(tmp_path), "--json"]
    assert main([*EXPORT, *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kernels"] == ["relu(x: f32[x_0])", "softmax(x: f32[x_0], axis=0)"] and answer["domain"] == "anyshape"
    assert {Path(p).name for p in answer["files"]} == {"custom_ops.o", "custom_ops.onnxruntime.c", "libcustom_ops.so"}
