"""What a loop along a long row hands to the next one waits in the memory of the result where that is safe, and in scratch where it is not.

A first cache of 512 bytes makes rows of more than 32 floats long. `check` runs every kernel with each result over each operand that it may
lie over, canaries around results, and in several parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from anyshape.dims import Size
from anyshape.dtypes import parse_dtype
from anyshape.equations import Expr, Tensor
from anyshape.equations.expr import cast
from anyshape.equations.functions import exp, reduce_
from anyshape.lower import Group, host_target
from anyshape.lower.emit.scopes import row_blocks as emit_row_blocks
from anyshape.lower.target import Target
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

SIZES = [{N: n, M: m, K: 3, B: 2} for n, m in ((3, 31), (2, 32), (3, 33), (9, 77), (1, 600), (0, 40), (2, 0), (17, 64))]


def small(level: str = "avx512") -> Target:
    return replace(host_target().limited(level), l1_bytes=512)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Records for every scope that is run in blocks of rows whether its rows may wait in a result."""
    seen: list[bool] = []
    home = emit_row_blocks._home

    def spy(*arguments: Any) -> Any:
        answer = home(*arguments)
        seen.append(answer is not None)
        return answer

    monkeypatch.setattr(emit_row_blocks, "_home", spy)
    return seen


def shares(
    value: Callable[[Expr, Expr, Expr, Expr], Expr], dtype: str = "f32", more: int = 0, columns: Size = M
) -> Group:
    """Results from exp(x - peak), its total, x and a row of factors: as softmax, and unlike it."""
    b = Builder("shares")
    x, z = b.input([N, columns]), b.input([columns])
    peak, total = b.tensor([N]), b.tensor([N])
    (i,), k = b.eqs.indices("i", [N]), b.eqs.index("k", columns)
    b.eqs.define(peak[i], reduce_("max", [columns], lambda r: x[i, r]))
    b.eqs.define(total[i], reduce_("sum", [columns], lambda r: exp(x[i, r] - peak[i])))
    for n in range(1 + more):
        y = b.output(Tensor(f"y{n}", parse_dtype(dtype), (N, columns)))  # scratch of a narrow dtype would be f32
        b.eqs.define(y[i, k], cast(value(exp(x[i, k] - peak[i]), total[i] + float(n), x[i, k], z[k]), y.dtype))
    return b.group()


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_softmax(waiting: list[bool], dtype: str, level: str) -> None:
    b = Builder("softmax")
    b.output(b.softmax(b.input([N, M], dtype)))
    assert check(b.group(), SIZES, target=small(level)).kernel.reusable == ((0, 0),)
    assert waiting == [True]


def test_rows_of_several_dims_and_a_computed_operand(waiting: list[bool]) -> None:
    b = Builder("scores")
    x, z = b.input([B, K, N, M]), b.input([N, M])
    b.output(b.softmax(b.map(lambda p, q: p * 0.125 + q, x, z)))
    check(b.group(), SIZES, target=small())
    assert waiting == [True]


@pytest.mark.parametrize(
    ("group", "waits"),
    [
        (shares(lambda e, t, x, z: e / t), True),
        (shares(lambda e, t, x, z: e / t + x), False),
        (shares(lambda e, t, x, z: e / t * z), False),
        (shares(lambda e, t, x, z: e / t, dtype="f64"), False),
        (shares(lambda e, t, x, z: e / t, dtype="f16"), False),
        (shares(lambda e, t, x, z: e / t, more=1), False),
        (shares(lambda e, t, x, z: e / t, columns=32), False),
        (shares(lambda e, t, x, z: e / t, columns=33), True),
    ],
)
def test_only_where_nothing_else_is_read_or_written(waiting: list[bool], group: Group, waits: bool) -> None:
    check(group, SIZES, tolerance=1e-3, target=small())
    assert waiting == [waits]
