"""The page of examples/browser in a headless browser: dates and rows of several sizes, and a refusal, as text on the page."""

from __future__ import annotations

import html
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from anyshape_testing.exports.javascript import command, page_text
from anyshape_testing.process.profile import LONG

READY = 'data-ready="yes"'
EXAMPLE = Path(__file__).parents[2] / "examples/browser"

pytestmark = [
    pytest.mark.skipif(
        not LONG, reason="exporting the date reader takes many seconds; test_one_op.py calls a page too"
    ),
    pytest.mark.skipif(command("browser") is None, reason="there is no browser here (chromium)"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    path = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    words = [sys.executable, str(EXAMPLE / "export.py"), str(folder)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def shown(folder: Path, **inputs: str) -> str:
    text = html.unescape(page_text(folder, f"?{urlencode(inputs)}", READY))
    assert READY in text, text[-2000:]
    return text


def test_the_page_as_it_opens(folder: Path) -> None:
    text = shown(folder)
    for date in ("1987-03-03", "1999-12-25", "1931-03-09", "0.6000  8.0000\n0.6000  8.0000\n0.3846  9.2308"):
        assert date in text


def test_inputs_of_other_sizes(folder: Path) -> None:
    texts = {"1999-01-02": "1999-01-02", "signed on the twenty-first of august 1958": "1958-08-21"}
    text = shown(folder, texts="\n".join(texts), rows="0 0 2", scale="1 1 3")
    for line, date in texts.items():
        assert f"<td>{line}</td><td>{date}</td>" in text
    assert "0.0000  0.0000  3.0000" in text


def test_a_refusal(folder: Path) -> None:
    text = shown(folder, rows="1 2 3", scale="1 2")
    assert "AnyshapeError: input scale: dim 0 must be n = 3, got 2" in text
