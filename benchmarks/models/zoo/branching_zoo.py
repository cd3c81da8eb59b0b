"""Programs for the zoo whose branches and loops an exporter keeps: If, Loop and Scan."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._higher_order_ops import scan

from benchmarks.models.zoo.exported import Exported

SEQUENCES = {0: "batch", 1: "length"}


class Chunked(nn.Module):
    """A scripted encoder of long sequences: short ones whole, long ones in chunks that a loop appends to a list."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(8, 16), nn.Linear(16, 6)

    def encoded(self, x: Tensor) -> Tensor:
        p = torch.softmax(x @ x.transpose(1, 2) * 0.25, -1)
        return torch.tanh(p @ x)

    def forward(self, x: Tensor, chunk: int) -> Tensor:
        h = self.into(x)
        if h.size(1) <= chunk:
            y = self.encoded(h)
        else:
            y = self.encoded(h[:, :chunk])
            at = chunk
            while at < h.size(1):
                y = torch.cat([y, self.encoded(h[:, at : at + chunk])], 1)
                at += chunk
        z: Tensor = self.out(y)
        return z


def chunked() -> Exported:
    axes = {"x": SEQUENCES, "y": SEQUENCES}
    return Exported(
        torch.jit.script(Chunked().eval()), (torch.randn(2, 9, 8), torch.tensor(4)), ["x", "chunk"], ["y"], axes
    )


class StateSpace(nn.Module):
    """A selective state space: each step forgets and adds by what it reads; with a branch that data decides."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.gates, self.out = nn.Linear(6, 12), nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept, added = torch.sigmoid(self.gates(x)), self.into(x)

        def step(state: Tensor, read: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            state = state * read[0] + read[1] * (1 - read[0])
            return state, torch.tanh(state)

        last, states = scan(step, torch.zeros(x.shape[0], 12), (kept.transpose(0, 1), added.transpose(0, 1)))
        y = self.out(states.transpose(0, 1))
        return torch.cond(y.mean() > 0, lambda t: t * 2, lambda t: t - 1, (y,)), last


def state_space() -> Exported:
    return Exported(StateSpace(), (torch.randn(2, 7, 6),), ["x"], ["y", "last"], {"x": SEQUENCES})
