"""Symbolic shapes of exported programs: what is said of sizes is what the module gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import anyshape
from anyshape.dims import evaluate
from anyshape.errors import ArgumentError, UnsupportedError


class Model(torch.nn.Module):
    """A size of two, and one that data decides."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 6)

    def forward(self, x: Any, y: Any) -> Any:
        both = torch.cat([self.linear(x), y], 0)
        return both.reshape(-1, 3), both.nonzero(), x


def exported() -> Any:
    dims = {"x": {0: Dim("rows", max=100)}, "y": {0: Dim("more", max=100)}}
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        return torch.export.export(Model().eval(), (torch.randn(3, 4), torch.randn(5, 6)), dynamic_shapes=dims)


def test_shapes_of_an_exported_program_are_those_of_its_module() -> None:
    shapes, model = anyshape.shapes(exported()), Model()
    assert shapes.inputs == ("x", "y") and len(shapes.outputs) == 3
    assert [d.most for d in shapes.dims.values()] == [100, 100]
    assert all(t.type is not None for t in shapes.values.values()) and len(shapes.values) > 4
    rows, more = (shapes.values[name].type.shape[0] for name in ("x", "y"))  # type: ignore[union-attr, index]
    for n, m in ((3, 5), (2, 2), (1, 0), (0, 0), (50, 51)):
        numbers = {rows: n, more: m}
        assert all(evaluate(c.cond, numbers) for c in shapes.conditions)
        triples, places, same = model(torch.ones(n, 4), torch.ones(m, 6))
        types = [shapes.values[name].type for name in shapes.outputs]
        assert tuple(evaluate(k, numbers) for k in types[0].shape) == triples.shape  # type: ignore[union-attr]
        assert types[1].shape[1] == places.shape[1] and types[2].shape[1] == same.shape[1]  # type: ignore[union-attr, index]


def test_modules_and_operators_without_a_mapping_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"pass torch\.export\.export\(module"):
        anyshape.shapes(Model())

    class Complex(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x).abs()

    with pytest.raises(UnsupportedError, match="_fft_r2c"):
        anyshape.shapes(torch.export.export(Complex(), (torch.randn(4),)))
