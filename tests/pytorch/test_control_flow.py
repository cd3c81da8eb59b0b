"""Control flow of torch in modules and in graphs of `torch.compile`: cond, while_loop, scan and map are branches and loops of ours."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import anyshape
from anyshape.errors import UnsupportedError
from anyshape.frontends.torch.backend import STATISTICS

pytestmark = pytest.mark.filterwarnings("ignore")


class Choice(nn.Module):
    """Branches on an element, one in the other, on a parameter that both read."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        def positive(y: Tensor) -> Tensor:
            return torch.cond(y.max() > 2, lambda z: self.linear(z), lambda z: z + 1, (y,))

        return torch.cond(x.sum() > 0, positive, lambda y: y * y.shape[0], (x,)) * 2


class Doubling(nn.Module):
    """Doubles until an element is large; counts how often."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return while_loop(lambda k, y: y.max() < 100, lambda k, y: (k + 1, y * 2 + x), (torch.tensor(0), x + 0))


class Decay(nn.Module):
    """A running mean along the first axis, and all values of it."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(mean: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            after = mean * 0.5 + row
            return after, after.relu()

        return scan(step, torch.zeros_like(x[0]), x)


class Rows(nn.Module):
    """A function of each row."""

    def forward(self, x: Tensor) -> Tensor:
        return torch_map(lambda row, w: row.softmax(0) * w, x, x.sum(0))


INPUTS = [torch.full((2, 3), -1.0), torch.full((5, 3), 1.0), torch.arange(12.0).reshape(4, 3)]


@pytest.mark.parametrize("make", [Choice, Doubling, Decay, Rows])
def test_control_flow_is_ours(make: Any) -> None:
    model = make().eval()
    f = anyshape.compile(model, (INPUTS[0].abs(),), dynamic_shapes=({0: Dim("n")},))
    inputs = [x.abs() if make is Doubling else x for x in INPUTS]
    for x in inputs:
        torch.testing.assert_close(f(x), model(x), check_stride=False)


def test_branches_in_a_graph_of_torch_compile() -> None:
    torch._dynamo.reset()
    STATISTICS.compiled = 0
    STATISTICS.eager.clear()
    model = Choice().eval()
    f = torch.compile(model, backend="anyshape", dynamic=True)
    with torch.no_grad():
        for x in INPUTS:
            torch.testing.assert_close(f(x), model(x))
    assert STATISTICS.compiled == 1 and not STATISTICS.eager


def test_a_graph_with_a_branch_that_is_not_supported_runs_in_torch_there() -> None:
    def model(x: Tensor) -> Tensor:
        y = x.exp()
        return torch.cond(y.sum() > 4, lambda v: torch.special.bessel_j0(v) * 2, lambda v: v + 1, (y,)).relu()

    torch._dynamo.reset()
    STATISTICS.eager.clear()
    f = torch.compile(model, backend="anyshape", dynamic=True)
    with torch.no_grad():
        for x in (torch.eye(3), -torch.eye(2) - 3):
            torch.testing.assert_close(f(x), model(x))
    assert {"aten.special_bessel_j0.default", "cond"} <= STATISTICS.eager.keys()


def test_a_branch_with_what_is_not_supported_is_refused_by_name() -> None:
    class Strange(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 0, lambda y: torch.as_strided(y, (2,), (1,)).clone(), lambda y: y[:2] + 0, (x,))

    with pytest.raises(UnsupportedError, match=r"as_strided(.|\n)*higher_order\.cond: a graph within it"):
        anyshape.compile(Strange(), (torch.ones(4),))
