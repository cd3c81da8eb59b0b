"""The example's network in torch: an encoder over characters and one learned question per part of the answer.

Comes in: int64 ids [batch, length], 0 where there is no character. Goes out: logits of day, month and the year's
digits. Attention is written out with view, transpose and sizes taken from the tensors, and the mask is made inside
the network, so that the exported graph computes its shapes at run time, as graphs exported from real models do.
Needed for retraining only.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

QUESTIONS = 6  # day, month, four digits of the year


class Attention(nn.Module):
    """Multi-head attention of `asking` [batch, rows, width] over `given` [batch, length, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, self.size).transpose(1, 2)

    def forward(self, asking: Tensor, read: Tensor, absent: Tensor) -> Tensor:
        query, key, value = self.split(self.query(asking)), self.split(self.key(read)), self.split(self.value(read))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.size)
        hidden = absent[:, None, None, :].expand(scores.shape)
        weights = torch.softmax(scores.masked_fill(hidden, -1e9), dim=-1)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(asking.shape[0], asking.shape[1], -1)
        answer: Tensor = self.out(mixed)
        return answer


class Block(nn.Module):
    """Attention and a feed-forward step, each after a LayerNorm and added to what came in."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor, absent: Tensor) -> Tensor:
        normed = self.before(x)
        x = x + self.attention(normed, normed, absent)
        bent = nn.functional.gelu(self.up(self.between(x)))
        raised: Tensor = x + self.down(bent)
        return raised


def waves(rows: int, width: int) -> Tensor:
    """Sines and cosines of the position: a start from which "the character before" is quickly learned."""
    steps = torch.arange(rows)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(200.0) / width))
    return torch.stack([steps.sin(), steps.cos()], dim=-1).reshape(rows, width)


class DateReader(nn.Module):
    """Text in, date out."""

    def __init__(
        self, vocabulary: int, length: int, width: int = 128, heads: int = 4, inner: int = 192, layers: int = 3
    ) -> None:
        super().__init__()
        self.character = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.questions = nn.Parameter(torch.randn(QUESTIONS, width))
        self.reader = Attention(width, heads)
        self.day, self.month, self.digit = nn.Linear(width, 31), nn.Linear(width, 12), nn.Linear(width, 10)
        with torch.no_grad():
            self.position.weight.copy_(waves(length, width))

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        absent = ids == 0
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.character(ids) + self.position(places)
        for block in self.blocks:
            x = block(x, absent)
        asked = self.questions[None].expand(ids.shape[0], -1, -1)
        answers = self.reader(asked, self.norm(x), absent)
        return self.day(answers[:, 0]), self.month(answers[:, 1]), self.digit(answers[:, 2:])
