"""The generator's command answers where nothing that it needs is installed, and no words end in a traceback."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import anyshape
from anyshape_gen.__main__ import main

ROOT = Path(__file__).parents[2]
PLAIN = """
import sys
for name in ("yaml", "jinja2", "sympy", "anyshape_testing", "scipy", "hypothesis"):
    sys.modules[name] = None  # an import of it is a ModuleNotFoundError
sys.path[:0] = [{runtime!r}, {generator!r}]
from anyshape_gen.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def in_a_plain_install(*words: str) -> subprocess.CompletedProcess[str]:
    code = PLAIN.format(runtime=str(ROOT / "runtime"), generator=str(ROOT / "generator"))
    return subprocess.run([sys.executable, "-I", "-c", code, *words], capture_output=True, text=True)


def test_help_needs_no_package() -> None:
    done = in_a_plain_install("--help")
    assert done.returncode == 0 and "new-op" in done.stdout, done.stderr
    assert in_a_plain_install("--version").stdout == f"anyshape_gen {anyshape.__version__}\n"


def test_what_is_not_installed_is_named() -> None:
    done = in_a_plain_install("--check")
    assert done.returncode == 2 and "which is not installed: pip install 'anyshape[gen]'" in done.stderr


def test_the_garbage_collector_of_a_caller_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    thresholds, count = gc.get_threshold(), gc.get_freeze_count()
    gc.set_threshold(701, 11, 12)
    try:
        assert main([]) == 2
        assert gc.get_threshold() == (701, 11, 12) and gc.get_freeze_count() <= count
    finally:
        gc.set_threshold(*thresholds)


def test_a_process_of_its_own_collects_less(tmp_path: Path) -> None:
    code = "import gc; from anyshape_gen.__main__ import process, THRESHOLDS; process(); print(gc.get_threshold() == THRESHOLDS)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=with_rooms())
    assert done.stdout.endswith("True\n"), done.stderr


def with_rooms() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


VALUES = ("", "x", "halve", "-1", "a\0b", "/dev/null", "..", "nothing/at/all", "\udcff", "=", "--", "²", "x" * 5000)


def test_no_words_end_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands run in a folder without specs, so that nothing is generated; `watch` would wait for them."""
    monkeypatch.chdir(tmp_path)
    ended: set[int | str | None] = set()
    for seed in range(300):
        pick = random.Random(seed)
        words = pick.choice(
            (
                [],
                ["gen"],
                ["new-op"],
                ["new-op", pick.choice(VALUES)],
                ["new-package", pick.choice(VALUES)],
                ["check"],
                [pick.choice(VALUES)],
            )
        )
        for option in pick.choices(("--specs", "--package", "--out", "--docs", "--file"), k=pick.randrange(3)):
            words = [*words, option, pick.choice(VALUES)]
        words += pick.choice(([], ["--check"], ["--prove"], ["--json"], ["--nothing"]))
        try:
            code: int | str | None = main(words)
        except SystemExit as e:
            code = e.code
        assert code in (0, 1, 2), (words, code)
        assert "Traceback" not in capsys.readouterr().err, words
        ended.add(code)
    assert 2 in ended
