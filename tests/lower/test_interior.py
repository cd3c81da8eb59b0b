"""Rows whose ends are padded, clamped, mirrored or wrapped: their insides are read as they lie, and nothing else of them is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Expr
from anyshape.equations.expr import ExprLike
from anyshape.equations.functions import clamp, exp, pad, reflect, remainder, tanh
from anyshape.lower import host_target
from anyshape.lower.ir.dag import Load, walk
from anyshape.lower.schedule.kernel_schedule import schedule_group
from anyshape.lower.schedule.tree import Interior, Scope
from anyshape.lower.target import Target
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

BEFORE = dims.symbol("before")
SIZES = [
    {N: n, M: m, K: k, B: b, BEFORE: before}
    for n, m, k, b, before in (
        (3, 98, 100, 5, 1), (2, 150, 200, 3, 30), (1, 5, 300, 2, 200), (2, 200, 120, 2, -40), (2, 1, 40, 3, 20), (3, 700, 701, 4, 0),
        (1, 300, 200, 1, -150), (0, 3, 4, 2, 1), (2, 300, 0, 1, 0),
    )
]  # fmt: skip
"""Rows that are inside but for an end, long pads, rows of nothing but pads, rows that are cut."""
MODES: dict[str, Callable[[ExprLike, Size], Expr]] = {
    "clamped": lambda i, n: clamp(i, 0, n - 1),
    "mirrored": reflect,
    "wrapped": remainder,
}


def padded(mode: str, dtype: str = "f32", step: int = 1, heavy: bool = False) -> Builder:
    """Planes of n x m elements as planes of b x k, with pads."""
    b = Builder(mode)
    x, y = b.input([N, M], dtype), b.tensor([B, K], dtype)
    i, j = b.eqs.indices("i", y.shape)
    down, along = i - 1, j * step - BEFORE
    if mode == "value":
        value = pad(x, 7)[down, along]
    else:
        value = x[MODES[mode](down, N), MODES[mode](along, M)]
    b.eqs.define(y[i, j], exp(tanh(exp(tanh(value)))) if heavy else value)
    b.output(y)
    return b


def interior(b: Builder) -> Interior | None:
    (scope,) = schedule_group(b.group()).phases
    assert isinstance(scope, Scope)
    return scope.interior


@pytest.mark.parametrize("mode", [*MODES, "value"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i64", "u8"])
def test_ends_of_rows(mode: str, dtype: str) -> None:
    sizes = [s for s in SIZES if mode == "value" or s[N]]
    check(padded(mode, dtype).group(), sizes)


@pytest.mark.parametrize("mode", [*MODES, "value"])
@pytest.mark.parametrize("level", ["avx2", "sse"])
def test_ends_of_rows_on_other_processors(mode: str, level: str) -> None:
    target: Target = host_target().limited(level)
    check(padded(mode).group(), [s for s in SIZES if s[N]], target=target)


@pytest.mark.parametrize("mode", [*MODES, "value"])
def test_what_has_an_inside(mode: str) -> None:
    inside = interior(padded(mode))
    assert inside is not None
    (store,) = inside.inside.stores
    loads = [n for n in walk([store.value]) if isinstance(n, Load)]
    assert not any(inside.rows.vector in n.domain for load in loads for n, _ in load.access.address.lets)
    assert interior(padded(mode, step=2)) is None, "every other element is no plain read"
    assert interior(padded(mode, heavy=True)) is None, "masks and places take little of it"
