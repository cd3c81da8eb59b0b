"""The command that draws at random: its targets run, seeds are reproduced, and those that were found once stay mended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import fuzz


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_targets_run_and_kept_seeds_hold(name: str) -> None:
    target = fuzz.TARGETS[name]
    seeds = [*fuzz.KEPT.get(name, ()), target.base + fuzz.FIRST]
    assert [(seed, why) for seed, why in target.run(seeds) if why] == []


def test_what_is_found_is_reported_kept_and_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"now": True}

    class Broken(fuzz.Target):
        def run(self, seeds: Sequence[int]) -> Iterator[tuple[int, str]]:
            yield from ((s, "it broke" if broken["now"] and s % 3 == 1 else "") for s in seeds)

    monkeypatch.setattr(fuzz, "STATE", tmp_path / "build" / "fuzz.json")
    monkeypatch.setattr(fuzz, "TARGETS", {"broken": Broken("", "", 0, 7)})
    assert fuzz.fuzz(["broken"], 0.05) > 0
    printed = capsys.readouterr().out
    seed = next(s for s in range(fuzz.FIRST, fuzz.FIRST + 3) if s % 3 == 1)
    assert f"--again broken:{seed}" in printed and str(seed) in fuzz.state()["broken"]["finds"]
    went_to = fuzz.state()["broken"]["next"]
    assert went_to > fuzz.FIRST and fuzz.again(f"broken:{seed}") == 1
    broken["now"] = False
    assert fuzz.again(f"broken:{seed}") == 0 and str(seed) not in fuzz.state()["broken"]["finds"]
    assert fuzz.fuzz(["broken"], 0.05) == 0 and fuzz.state()["broken"]["next"] > went_to, "it goes on where it ended"
