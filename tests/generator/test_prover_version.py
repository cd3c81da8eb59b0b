"""Verdicts are kept as long as the code they rest on says the same."""

from __future__ import annotations

import pytest

from anyshape_gen.bounds.version import meaning, prover_sources

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
    """Its own modules, the arithmetic of dims, the nodes; not what reports on verdicts."""
    found = set(prover_sources())
    assert {
        "anyshape_gen.bounds.prove",
        "anyshape.dims.conditions",
        "anyshape_gen.nodes",
        "anyshape_gen.traverse",
    } <= found
    assert "anyshape_gen.bounds.report" not in found
