"""Every mapped operator of ATen beside torch, on calls drawn from its schema, with dims open and of several dtypes.

Another seed draws other calls: ANYSHAPE_SEED=7, and more of each: ANYSHAPE_EXAMPLES.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
import torch

from anyshape.errors import AnyshapeError
from anyshape_ops.aten import ATEN
from tests.pytorch.aten_calls import drawn, overload
from tests.pytorch.aten_mapped import ours

NAMES = [name for name in ATEN if not name.startswith(("operator.", "torch.", "math."))]
CALLS = max(1, int(os.environ.get("ANYSHAPE_EXAMPLES", "20")) // 10)
SEED = os.environ.get("ANYSHAPE_SEED", "0")
RELATIVE = {torch.float16: 2e-3, torch.float32: 1e-4, torch.float64: 1e-4}
ABSOLUTE = {torch.float16: 2e-3, torch.float32: 2e-5, torch.float64: 2e-5}
UNDEFINED = ("empty.memory_format", "empty_strided")
"""Operators whose results have no defined contents"""


def same(mine: list[Any], answer: Any, contents: bool = True) -> None:
    """Results are torch's, but for rounding."""
    expected = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    for a, b in zip(mine, expected):
        b = torch.as_tensor(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if contents:
            torch.testing.assert_close(
                a, b, rtol=RELATIVE.get(b.dtype, 0), atol=ABSOLUTE.get(b.dtype, 0), equal_nan=True
            )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_a_mapping_computes_what_torch_does(name: str) -> None:
    for k in range(CALLS):
        call, answer = drawn(name, random.Random(f"{name} {SEED} {k}"))
        same(ours(name, call, answer), answer, name not in UNDEFINED)


ONCE_WRONG: list[tuple[str, tuple[Any, ...]]] = [
    ("hardtanh", (torch.arange(-2, 3), -1, 0.5)),  # bounds are in the dtype of the tensor
    ("elu", (torch.arange(-2.0, 3), 1, 1.25, 3)),
    (
        "upsample_bilinear2d.vec",
        (torch.arange(30.0).reshape(1, 3, 5, 2), None, True, [0.5, 2.0]),
    ),  # corners decide, not scales
    ("topk", (torch.ones(1, 4, 1), 0, 0, False)),  # nothing of rows of one element
    ("clamp.Tensor", (torch.tensor([True, False]), None, torch.tensor([False, True]))),
    ("maximum", (torch.tensor([True, False]), torch.tensor([False]))),
    ("max.dim", (torch.tensor([[False, True]]), 1)),
    ("any.dims", (torch.tensor([[0, 1]]), [], True)),  # no axes are none, and not all
    ("gt.Tensor", (torch.tensor([True]), torch.tensor([False]))),
    (
        "scaled_dot_product_attention",
        (torch.ones(1, 2, 1, 3), torch.ones(1, 2, 3, 3), torch.rand(1, 2, 3, 3), None, 0.0, True),
    ),
    ("cat", ([torch.zeros(0), torch.ones(2, 3)], 0)),  # vectors of nothing are left out
]


@pytest.mark.parametrize(("name", "arguments"), ONCE_WRONG, ids=[name for name, _ in ONCE_WRONG])
def test_a_call_that_was_once_wrong(name: str, arguments: tuple[Any, ...]) -> None:
    answer = overload(name)(*arguments)
    same(ours(name, (arguments, {}), answer), answer)


def test_a_factor_is_in_the_dtype_of_a_sum() -> None:
    call = ((torch.tensor(3, dtype=torch.int32), torch.tensor(True)), {"alpha": -1})
    answer = overload("add.Tensor")(*call[0], **call[1])
    same(ours("add.Tensor", call, answer), answer)


def test_a_wrong_mapping_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATEN, "sin", ATEN["cos"])
    call = ((torch.ones(3),), {})
    with pytest.raises(AssertionError, match="not close"):
        same(ours("sin", call, torch.sin(torch.ones(3))), torch.sin(torch.ones(3)))


def test_a_mapping_of_another_dtype_or_rank_than_torchs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATEN, "sin", ATEN["isnan"])
    with pytest.raises(AnyshapeError, match="gives bool"):
        ours("sin", ((torch.ones(3),), {}), torch.sin(torch.ones(3)))
