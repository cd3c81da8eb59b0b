"""Commands of the tests, which authors of ops run: no words end in a traceback, and what is refused ends with exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anyshape_testing.draw_report import command as draw_report
from anyshape_testing.matrix.__main__ import main as matrix
from anyshape_testing.mutation.__main__ import main as mutation
from anyshape_testing.programs.__main__ import main as programs
from anyshape_testing.quick import command as quick

REFUSED: list[tuple[Callable[..., int], str, str]] = [
    (quick, "nothing", "there is no op nothing"),
    (quick, "relu --package nothing", "nothing is not installed"),
    (quick, "relu --jobs 0", "from 1 to 1024"),
    (quick, "relu --jobs -1", "from 1 to 1024"),
    (quick, "relu --jobs 99999999999", "from 1 to 1024"),
    (quick, "relu --seconds nan", "not negative"),
    (quick, "relu --seconds -1", "not negative"),
    (draw_report, "nothing", "there is no op nothing"),
    (draw_report, "relu --calls -1", "from 1 to 100000"),
    (draw_report, "relu --above nan", "not negative"),
    (programs, "--count 0", "at least 1"),
    (programs, "--start -1", "at least 0"),
    (programs, "--seed ²", "at least 0"),
    (programs, "--jobs 0", "from 1 to 1024"),
    (programs, "--seed 1 --package nothing", "nothing is not installed"),
    (mutation, "--op nothing", "no spec has an op nothing"),
    (mutation, "--specs nothing/at/all", "there are no *.yaml specs"),
    (mutation, "--jobs 0", "from 1 to 1024"),
    (mutation, "--op relu --package nothing", "nothing is not installed"),
    (matrix, "--jobs 0", "from 1 to 1024"),
]


@pytest.mark.parametrize(("command", "words", "text"), REFUSED)
def test_what_is_refused(
    command: Callable[..., int], words: str, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    try:
        code: int | str | None = command(words.split())
    except SystemExit as e:
        code = e.code
    printed = capsys.readouterr()
    assert code == 2 and text in printed.out + printed.err and "Traceback" not in printed.err


def test_what_is_in_order_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert programs(["--seed", "1"]) == 0
    assert draw_report(["relu", "--calls", "5", "--above", "0"]) == 0
    assert "1 ops: 5 calls" in capsys.readouterr().out
