"""The C programs of examples/embed, built by CMake and run: the texts that the date reader knows, and tokens that Python decodes too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anyshape
from anyshape_testing.laws.exported_ops import RUNS_HERE
from anyshape_testing.process.profile import LONG
from tests.examples.example_files import EXAMPLES, load_example

pytestmark = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("cc") and RUNS_HERE),
    reason="there is no CMake, no C compiler or no target",
)


def said(*words: object) -> str:
    """Runs a command; what it prints."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=absolute())
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def absolute() -> dict[str, str]:
    """The environment with paths that hold in any folder."""
    path = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embed")
    said("cmake", "-S", EXAMPLES / "embed", "-B", folder, f"-DPython3_EXECUTABLE={sys.executable}")
    said("cmake", "--build", folder)
    return folder


@pytest.mark.skipif(not LONG, reason="exporting the date reader takes many seconds; test_decoder_in_c is the short one")
def test_dates_in_c(build: Path) -> None:
    texts = {
        "the 3rd of March, 1987": "1987-03-03",
        "CALL ME BACK BY DEC 25 '99": "1999-12-25",
        "geboren am 9. März 1931": "1931-03-09",
    }
    weights = build / "models/dates.weights"
    assert said(build / "read_dates", weights, *texts).split() == [*texts.values()]
    for text, date in texts.items():
        assert said(build / "read_dates", weights, text).split() == [date]
    (build / "other.weights").write_bytes(bytes(weights.stat().st_size))
    other = subprocess.run([build / "read_dates", build / "other.weights", "x"], capture_output=True, text=True)
    assert other.returncode == 1 and "the weights are not those of this model, dates" in other.stderr


def test_decoder_in_c(tmp_path: Path) -> None:
    model = anyshape.compile(load_example("decoding/run.py", "decoding_run").decoder(), threads=1)
    model.export(tmp_path, name="decoder")
    compiler = [shutil.which("cc"), "-O1", "-Wall", "-Wextra", "-Werror", "-std=c11", "-I", tmp_path]
    said(*compiler, EXAMPLES / "embed/decode.c", tmp_path / "libdecoder.a", "-o", tmp_path / "decode")
    for prompt in ([7], [7, 12, 30], list(range(1, 60))):
        tokens, _ = model(np.array(prompt))
        assert [int(t) for t in said(tmp_path / "decode", *prompt).split()] == tokens.tolist()
    for prompt in ([], [7, 200]):
        with pytest.raises(anyshape.AnyshapeError) as python:
            model(np.array(prompt, np.int64))
        c = subprocess.run(list(map(str, [tmp_path / "decode", *prompt])), capture_output=True, text=True)
        assert c.returncode == 1 and c.stderr.strip() == str(python.value)
