"""Attributes of every mapping that are anything at all, and what the library wrote itself, damaged: a sample of each, and former finds."""

from __future__ import annotations

import pytest

from tests.frontends import hostile_attributes, hostile_kept
from tests.frontends.hostile_attributes import mapped, node_of
from tests.frontends.hostile_files import tried

DAMAGED = 200
ONCE_WRONG = [
    *(("com.microsoft:RotaryEmbedding", seed) for seed in (586, 3831, 6191, 9436)),
    *(("com.microsoft:FusedMatMul", seed) for seed in (1170, 1760, 7660, 7955, 8545, 11495)),
    *(("com.microsoft:EmbedLayerNormalization", seed) for seed in (1758, 2938)),
    *(("com.microsoft:TransposeMatMul", seed) for seed in (2064, 2949, 4424, 5604, 9439, 10324)),
    *(("com.microsoft:Attention", seed) for seed in (3821, 5001, 5296, 10901)),
    *(("com.microsoft:GroupQueryAttention", seed) for seed in (7662, 7957, 12382)),
    *(("com.microsoft:MatMulNBits", seed) for seed in (7073, 10908)),
    *(("SimplifiedLayerNormalization", seed) for seed in (5523, 7293, 8178)),
]
"""Seeds that once ended in something else, with the operator of each: another mapping moves what a seed alone says"""


def test_attributes_of_every_mapping() -> None:
    """One node of each."""
    count = len(mapped())
    assert count > 250 and {hostile_attributes.chosen(k) for k in range(count)} == {*mapped()}
    wrong = {seed: why for seed, why in hostile_attributes.run(range(count)) if why}
    assert not wrong, f"python -m tests.frontends.hostile_attributes --count 1 --first SEED: {wrong}"


@pytest.mark.parametrize(("operator", "seed"), ONCE_WRONG)
def test_attributes_that_were_found(operator: str, seed: int) -> None:
    (m,) = (m for m in mapped() if m.operator == operator)
    assert tried(seed, *node_of(m, seed)) == ""


def test_damaged_files_of_the_library() -> None:
    saved, _, entry = hostile_kept.written()
    assert len(saved) > 1000 and len(entry) > len(hostile_kept.CODE)
    wrong = {seed: why for seed, why in hostile_kept.run(range(DAMAGED)) if why}
    assert not wrong, f"python -m tests.frontends.hostile_kept --count 1 --first SEED: {wrong}"
