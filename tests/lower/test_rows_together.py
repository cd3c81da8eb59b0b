"""Short sums of several rows: the lanes of as many as a vector has are added up together, in the order in which one row's are."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from anyshape.equations.functions import reduce_, sqrt
from anyshape.lower import Group, host_target
from anyshape.lower.emit.scopes import rows
from tests.lower.groups import B, Builder, M, N
from tests.lower.native import Native, check

SIZES = [{N: n, M: m, B: 2} for n, m in ((1, 1), (3, 15), (0, 20), (4, 0), (2, 16), (33, 17), (70, 70), (5, 200))]
LEVELS = [level for level in ("", "avx2", "sse") if level != "avx2" or host_target().vector_bytes >= 32]


def distances(extent: int, dtype: str = "f32", shared: bool = True) -> Group:
    """How far each row is from each row of another operand, or from the one at the same place."""
    b = Builder("distances")
    x, z = b.input([B, N, extent], dtype), b.input([M if shared else N, extent], dtype)
    y = b.output(b.tensor([B, N, *([M] if shared else [])], dtype))
    g, i, *j = b.eqs.indices("i", y.shape)

    def square(k):  # type: ignore[no-untyped-def]
        apart = x[g, i, k] - z[*(j or [i]), k]
        return apart * apart

    b.eqs.define(y[g, i, *j], sqrt(reduce_("sum", [extent], square)))
    return b.group()


def are_together(group: Group) -> bool:
    with patch.object(rows, "emit_together", side_effect=InterruptedError):
        try:
            Native(group)
        except InterruptedError:
            return True
    return False


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("extent", "dtype"), [(16, "f32"), (64, "f32"), (77, "f32"), (20, "f64")])
def test_distances_are_those_of_the_interpreter(extent: int, dtype: str, level: str) -> None:
    target = host_target().limited(level) if level else None
    check(distances(extent, dtype), SIZES, tolerance=1e-5 if dtype == "f32" else 1e-12, target=target)


def test_a_row_is_added_up_alike_in_a_block_and_alone() -> None:
    """The last row of 17 is alone, and the first of a block when it comes first."""
    native, rng = Native(distances(77)), np.random.default_rng(3)
    x, z = native.group.inputs
    points, targets = rng.standard_normal((2, 3, 77), np.float32), rng.standard_normal((17, 77), np.float32)
    sizes = {B: 2, N: 3, M: 17}
    _, (forwards,) = native.run({x: points, z: targets}, sizes)
    _, (backwards,) = native.run({x: points, z: targets[::-1].copy()}, sizes)
    assert forwards.tobytes() == backwards[..., ::-1].tobytes()


def test_only_short_rows_that_share_an_operand_are_together() -> None:
    assert are_together(distances(64)) and are_together(distances(100))
    assert not are_together(distances(4096)) and not are_together(distances(64, shared=False))
