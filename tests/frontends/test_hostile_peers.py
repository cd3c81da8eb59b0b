"""The comparison of damaged files with onnxruntime: each kind of damage changes a file, and each end of an engine is told apart."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.frontends import hostile_peers
from tests.frontends.hostile_files import KINDS, broken_alike, whole
from tests.frontends.hostile_peers import ENGINES, OUTCOMES, outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_damage_changes_a_file_and_is_drawn_again(kind: str) -> None:
    files = [broken_alike(kind, seed) for seed in range(30)]
    assert files == [broken_alike(kind, seed) for seed in range(30)]
    changed = [data for name, data in files if data != whole()[name].SerializePartialToString()]
    assert len(changed) >= 28 and len(set(changed)) >= 20


@pytest.mark.parametrize("engine", ENGINES)
def test_files_end_in_results_or_refusals(engine: str) -> None:
    ends = {what for kind in KINDS[:3] for _, what, _ in outcomes(engine, kind, range(6))}
    assert ends == {"result", "refused"}


def _raises(seed: int, data: bytes) -> str:
    raise ValueError("no error of the engine")


def _dies(seed: int, data: bytes) -> str:
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "result"


@pytest.mark.parametrize(
    ("does", "ends"),
    [
        (_raises, [("other error", "ValueError: no error of the engine")] * 2),
        (_dies, [("result", ""), ("process died", "the process ended with -9 (SIGKILL)")]),
    ],
)
def test_other_ends(
    does: Callable[[int, bytes], str], ends: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile_peers, "_onnxruntime", does)
    assert [e[1:] for e in outcomes("onnxruntime", KINDS[0], range(2))] == ends
    assert {what for what, _ in ends} < set(OUTCOMES)
