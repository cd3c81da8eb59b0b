"""`make watch`: every way of saving is seen, what is wrong is said and survived, and Ctrl-C ends it cleanly."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from anyshape_gen.watch import Watch
from tests.generator.watching import ROOT, WAYS, Watched, by_rename, scratch, watched

SPEC = """ops:
  tried:
    summary: One more than x.
    inputs: {x: "i64[*d]"}
    outputs: {y: "i64[*d]"}
    kernel: "y[*i] = x[*i] + 1"
    reference: x + 1
    examples:
      - {x: [2, 3], y: [2, 3]}
"""
WRONG = SPEC.replace("x[*i] + 1", "x[*i] + 2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scratch(tmp_path, [ROOT / "specs/trigonometry.yaml"])
    (tmp_path / "specs/mine.yaml").write_text(SPEC)
    return tmp_path


def quiet(w: Watched) -> None:
    w.until("all laws hold, 5 calls")
    w.until("waiting for a change")


def test_every_way_of_saving_regenerates_and_tests(folder: Path) -> None:
    spec = folder / "specs/mine.yaml"
    with watched(folder, "tried", ANYSHAPE_EXAMPLES="5") as w:
        quiet(w)
        texts = (WRONG, SPEC, WRONG)
        for (name, save), text in zip(WAYS.items(), texts, strict=True):
            start = time.monotonic()
            save(spec, text)
            w.until("changed: ")
            w.until("  FAILS  " if text is WRONG else "  holds  ")
            print(f"{name}: first result after {time.monotonic() - start:.2f} s")
            w.until("of its laws fail" if text is WRONG else "all laws hold, 5 calls")
            w.until("waiting for a change")
        said = "\n".join(w.heard)
        assert "specs/mine.yaml:2:3: warning: no example of op 'tried' has values" in said
        assert "tried, specs/mine.yaml:2: tried:" in said and "from anyshape_testing.running import rerun" in said
        assert w.interrupt() == 0
        w.until("stopped watching")
        w.until("<end>")
        assert "Traceback" not in "\n".join(w.heard)


def test_an_interrupt_while_something_is_finalised_is_not_lost(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python cannot raise there, and says that it ignores the exception."""

    class Finalised:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)
            for _ in range(100):
                pass
            heard.append("not raised at once")

    heard: list[str] = []

    def generate() -> list[str]:
        Finalised()
        heard.append("dropped")
        return []

    before = signal.getsignal(signal.SIGINT)
    assert Watch(folder / "specs", None, "ops", generate, folder).forever() == 0
    assert heard == ["dropped"] and signal.getsignal(signal.SIGINT) is before
    captured = capsys.readouterr()
    assert "stopped watching" in captured.out and not captured.err


def test_it_survives_what_is_wrong_and_says_it(folder: Path) -> None:
    spec = folder / "specs/mine.yaml"
    with watched(folder, "tried", ANYSHAPE_EXAMPLES="5") as w:
        quiet(w)
        by_rename(spec, SPEC.replace("x[*i] + 1", "x[*i] + z"))
        w.until("specs/mine.yaml:6:")
        w.until("nothing was generated")
        w.until("waiting for a change")
        by_rename(spec, SPEC.replace("  tried:", "  tired:"))
        w.until("there is no op tried in", "did you mean 'tired'?")
        w.until("waiting for a change")
        spec.unlink()
        w.until("mine.yaml was deleted")
        w.until("there is no op tried in")
        w.until("waiting for a change")
        (folder / "specs/trigonometry.yaml").unlink()
        w.until("there are no *.yaml specs")
        w.until("waiting for a change")
        spec.write_bytes(b"ops: \xff")
        w.until("not UTF-8 text")
        w.until("waiting for a change")
        by_rename(spec, SPEC)
        quiet(w)


def test_a_save_ends_the_laws_that_run(folder: Path) -> None:
    spec = folder / "specs/mine.yaml"
    with watched(folder, "tried", ANYSHAPE_EXAMPLES="5000") as w:
        w.until("all laws hold, 5 calls")
        by_rename(spec, WRONG)
        w.until("tests stopped")
        w.until("FAILS")
