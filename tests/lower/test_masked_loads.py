"""Short elements under a mask: vectors that lie in memory as a whole are loaded as such, others lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.equations.functions import and_, ge, lt, where
from anyshape.lower import host_target
from tests.lower.forbidden import before_forbidden_memory, behind_forbidden_memory
from tests.lower.groups import Builder, M, N
from tests.lower.native import Native, check


def shifted(dtype: str, by: int) -> Builder:
    """Rows of which each element is twice the one so many places further on, or 0 where there is none."""
    b = Builder("shifted")
    x, y = b.input([N, M], dtype), b.tensor([N, M], dtype)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], where(and_(ge(j + by, 0), lt(j + by, M)), x[i, j + by] + x[i, j + by], 0))
    b.output(y)
    return b


@pytest.mark.parametrize("dtype", ["f16", "i16", "u8", "f32"])
@pytest.mark.parametrize("by", [-3, 0, 3])
@pytest.mark.parametrize("placed", [before_forbidden_memory, behind_forbidden_memory])
def test_nothing_outside_of_a_tensor_is_read(
    placed: Callable[[NDArray[np.generic]], NDArray[np.generic]], by: int, dtype: str
) -> None:
    group = shifted(dtype, by).group()
    target, (x,) = host_target().limited("avx2"), group.inputs
    native = Native(group, target)
    for rows, width in ((1, 1), (1, 5), (2, 7), (3, 8), (2, 13), (5, 33)):
        array = np.arange(rows * width).reshape(rows, width).astype(x.dtype.numpy)
        status, (y,) = native.run({x: placed(array)}, {N: rows, M: width})
        padded = np.pad(array, ((0, 0), (3, 3)))
        assert status == 0
        assert (y == 2 * padded[:, 3 + by : 3 + by + width]).all()


def test_short_elements_are_loaded_as_whole_vectors() -> None:
    """Elements that an instruction masks are not looked at by where they lie."""
    target = host_target().limited("avx2")
    if target.masks and not target.scalef:
        texts = {t: Native(shifted(t, 1).group(), target).kernel.text for t in ("f16", "f32")}
        assert {t: "ptrtoint" in text for t, text in texts.items()} == {"f16": True, "f32": False}
    check(shifted("f16", 1).group(), [{N: n, M: m} for n, m in ((0, 5), (1, 1), (3, 77), (40, 33))], target=target)
