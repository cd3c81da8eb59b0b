"""Models of plain torch.nn code, exported with open dims and compiled once, beside eager at several sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import anyshape
from tests.pytorch.models import cases

CASES = cases()


def close(mine: Any, answer: Any) -> None:
    """Two structures of tensors are alike, but for rounding."""
    (flat, form), (expected, same_form) = pytree.tree_flatten(mine), pytree.tree_flatten(answer)
    assert form == same_form
    for a, b in zip(flat, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_model_compiled_once_agrees_with_eager_at_all_sizes(name: str) -> None:
    case = CASES[name]()
    model = case.model.eval()
    compiled = anyshape.compile(model, case.inputs(*case.sizes[0]), dynamic_shapes=case.dynamic_shapes)
    for sizes in case.sizes:
        inputs = case.inputs(*sizes)
        with torch.no_grad():
            close(compiled(*inputs), model(*inputs))
