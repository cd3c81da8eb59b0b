"""Recurrent taggers, a decoder in a loop, a mixture of experts and a graph network for the zoo: sizes that data decides."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.models.zoo.exported import Exported

WORDS = 100
BATCH_AND_LENGTH = {0: "batch", 1: "length"}


class Tagger(nn.Module):
    """A tagger of two bidirectional layers over sequences of different lengths."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 24)
        self.layers = kind(24, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 7)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=True)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)
        y: Tensor = self.head(states)
        return y


def _tagger(kind: type[nn.LSTM] | type[nn.GRU]) -> Exported:
    arguments = (torch.randint(0, WORDS, (3, 6)), torch.tensor([6, 4, 2]))
    axes = {"ids": BATCH_AND_LENGTH, "lengths": {0: "batch"}, "y": BATCH_AND_LENGTH}
    return Exported(Tagger(kind), arguments, ["ids", "lengths"], ["y"], axes)


def lstm() -> Exported:
    return _tagger(nn.LSTM)


def gru() -> Exported:
    return _tagger(nn.GRU)


class Greedy(nn.Module):
    """Writes word after word, each the likeliest after the last."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50)

    def forward(self, start: Tensor, count: Tensor) -> Tensor:
        state, word, out = torch.zeros(start.shape[0], 16), start, start.unsqueeze(1)
        for _ in range(int(count)):
            state = torch.tanh(self.words(word) + state)
            word = self.head(state).argmax(-1)
            out = torch.cat([out, word.unsqueeze(1)], 1)
        return out


def greedy() -> Exported:
    scripted = torch.jit.script(Greedy().eval())
    axes = {"start": {0: "batch"}, "y": {0: "batch", 1: "written"}}
    return Exported(scripted, (torch.tensor([3, 7]), torch.tensor(4)), ["start", "count"], ["y"], axes)


class Experts(nn.Module):
    """Each token goes through two of three experts: rows are picked by NonZero and added back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, 16)
        weights, chosen = torch.softmax(self.gate(flat), -1).topk(2, -1)
        out = torch.zeros_like(flat)
        for k, expert in enumerate(self.experts):
            row, column = torch.nonzero(chosen == k, as_tuple=True)
            out = out.index_add(0, row, expert(flat[row]) * weights[row, column].unsqueeze(-1))
        return out.reshape(x.shape)


def experts() -> Exported:
    axes = {"x": BATCH_AND_LENGTH, "y": BATCH_AND_LENGTH}
    return Exported(Experts(), (torch.randn(2, 5, 16),), ["x"], ["y"], axes)


class GraphNetwork(nn.Module):
    """Sums, counts and maxima over the edges that end in a node."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def gathered(self, h: Tensor, edges: Tensor) -> Tensor:
        sent = h[edges[0]]
        to = edges[1].unsqueeze(-1).expand(-1, h.shape[1])
        total = torch.zeros_like(h).scatter_add(0, to, sent)
        count = torch.zeros(h.shape[0]).scatter_add(0, edges[1], torch.ones(edges.shape[1]))
        most = torch.full_like(h, -1e4).scatter_reduce(0, to, sent, "amax", include_self=True)
        return total / count.clamp(min=1).unsqueeze(-1) + torch.relu(most)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        h = torch.relu(self.second(self.gathered(h, edges)) + h)
        y: Tensor = self.head(self.gathered(h, edges))
        return y


def graph_network() -> Exported:
    arguments = (torch.randn(6, 8), torch.randint(0, 6, (2, 11)))
    axes = {"x": {0: "nodes"}, "edges": {1: "edges"}, "y": {0: "nodes"}}
    return Exported(GraphNetwork(), arguments, ["x", "edges"], ["y"], axes)
