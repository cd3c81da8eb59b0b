"""Verdicts are kept as long as the code they rest on says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape.disk_cache import DiskCache
from anyshape_gen.bounds.version import PROVER, meaning, prover_code

CODE = '''
"""A module."""

LIMIT = 3  # steps


def f(a: int, *, deep: bool = False) -> int:
    """Twice."""
    return a * 2 if deep else f"{a}".count("x") + LIMIT
'''


@pytest.mark.parametrize(
    ("old", "new"), [("# steps", "# of a proof"), ('"""Twice."""', '"""Two times."""'), ("a * 2", "(a  *  2)")]
)
def test_what_is_said_about_code_is_no_part_of_it(old: str, new: str) -> None:
    assert old in CODE
    assert meaning(CODE.replace(old, new)) == meaning(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("a * 2", "a + 2"),
        ("False", "None"),
        ("deep", "deeper"),
        ('"x"', '"y"'),
        ("*, ", ""),
    ],
)
def test_any_change_of_code_is_seen(old: str, new: str) -> None:
    assert old in CODE
    assert meaning(CODE.replace(old, new)) != meaning(CODE)


def test_the_prover_is_all_that_a_proof_rests_on() -> None:
    """The prover is its own modules, the arithmetic of dims and the nodes; not what reports on verdicts."""
    modules = set(prover_code(DiskCache(None)))
    assert {
        "anyshape_gen.bounds.prove",
        "anyshape.dims.conditions",
        "anyshape_gen.model.nodes",
        "anyshape_gen.model.traverse",
    } <= modules
    assert "anyshape_gen.bounds.report" not in modules


def test_what_is_kept_of_a_module_is_what_it_says(tmp_path: Path) -> None:
    """Read from its text, from the cache that this filled, and from a cache that was damaged."""
    anew, cache = prover_code(DiskCache(None)), DiskCache(tmp_path)
    assert prover_code(cache) == anew
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(kept) >= len(anew)
    assert prover_code(cache) == anew
    for path, data in kept.items():
        path.write_bytes(data[: len(data) // 2])
    assert prover_code(cache) == anew and PROVER in anew
