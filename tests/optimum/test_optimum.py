"""optimum's classes with `anyshape.onnxruntime` in the place of onnxruntime, with and without io_binding: the same answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("optimum.onnxruntime", reason="the package optimum-onnx is not installed: make test-optimum")

from tests.optimum.models import CASES, NOT_TRIED

Answers = Mapping[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported models, and the answers of both engines."""
    where = tmp_path_factory.mktemp("optimum")
    command("models", where)
    for engine in ("onnxruntime", "anyshape"):
        command("answers", engine, where, where / f"{engine}.json")
    return where


def command(module: str, *words: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.optimum.{module}", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def said(folder: Path, engine: str, key: str) -> Any:
    return json.loads((folder / f"{engine}.json").read_text())[key]


def alike(ours: Any, theirs: Any) -> None:
    """Asserts that answers have the same names, dtypes and shapes, integers the same values and floats the same within rounding; and
    that one refuses what the other does."""
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
        return
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.keys() == b.keys()
        for name, (dtype, values) in b.items():
            assert a[name][0] == dtype, name
            x, y = np.array(a[name][1], dtype), np.array(values, dtype)
            assert x.shape == y.shape, name
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=2e-5 if x.dtype.kind == "f" else 0, err_msg=name)


@pytest.mark.parametrize("bound", [False, True], ids=["arrays", "io_binding"])
@pytest.mark.parametrize("k", range(len(CASES)), ids=[f"{c.kind}-{c.folder}" for c in CASES])
def test_a_class_gives_the_same_answers(folder: Path, k: int, bound: bool) -> None:
    ours, theirs = (said(folder, engine, f"{k}, {bound}") for engine in ("anyshape", "onnxruntime"))
    assert bound or not isinstance(theirs, str), f"onnxruntime does not run it: {theirs}"
    alike(ours, theirs)


def test_models_that_its_tools_write_give_the_same_answers(folder: Path) -> None:
    alike(said(folder, "anyshape", "tools"), said(folder, "onnxruntime", "tools"))


def test_every_class_has_a_case() -> None:
    import optimum.onnxruntime as classes

    kinds = {n.removeprefix("ORTModelFor") for n in dir(classes) if n.startswith("ORTModelFor")}
    assert kinds == {c.kind for c in CASES} | NOT_TRIED.keys()


def test_answers_that_differ_are_seen() -> None:
    answer = [{"logits": ["float32", [[1.0, 2.0]]]}]
    alike(answer, [{"logits": ["float32", [[1.0, 2.00001]]]}])
    for other in (
        [{"logits": ["float32", [[1.0, 2.1]]]}],
        [{"logits": ["float32", [[1.0, float("nan")]]]}],
        [{"logits": ["float64", [[1.0, 2.0]]]}],
        [{"logits": ["float32", [1.0, 2.0]]}],
        [{"loss": ["float32", [[1.0, 2.0]]]}],
        "RuntimeError",
    ):
        with pytest.raises(AssertionError):
            alike(answer, other)
