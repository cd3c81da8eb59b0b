"""Networks of tables and of time series for the zoo: a transformer over columns, and a forecast of many series."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.models.zoo.exported import Exported


class Columns(nn.Module):
    """Each column is a token: numbers scale vectors, gaps have a vector of their own, categories are rows of one table."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias, self.gap = (nn.Parameter(torch.randn(5, 16) * 0.3) for _ in range(3))
        self.table, self.start = nn.Embedding(3 * 10, 16), nn.Parameter(torch.randn(1, 1, 16))
        self.register_buffer("offsets", torch.tensor([0, 10, 20]))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 3)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        gaps = torch.isnan(numbers).unsqueeze(-1)
        values = torch.nan_to_num(numbers).unsqueeze(-1) * self.weight + self.bias
        tokens = torch.where(gaps, self.gap, values)
        start = self.start.expand(numbers.shape[0], -1, -1)
        words = self.table(categories.remainder(10) + self.offsets)
        y: Tensor = self.head(self.body(torch.cat([start, tokens, words], 1))[:, 0]).softmax(-1)
        return y


def columns() -> Exported:
    arguments = (torch.randn(4, 5), torch.randint(0, 30, (4, 3)))
    rows = {0: "rows"}
    return Exported(
        Columns(), arguments, ["numbers", "categories"], ["y"], {"numbers": rows, "categories": rows, "y": rows}
    )


class Forecast(nn.Module):
    """Series are normed by their own mean and deviation, cut into overlapping patches, mixed, and continued by eight steps."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(8, 16), nn.Linear(16, 8)
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)

    def forward(self, series: Tensor) -> Tensor:
        mean, spread = series.mean(1, keepdim=True), series.var(1, keepdim=True, unbiased=False).add(1e-5).sqrt()
        normed = ((series - mean) / spread).transpose(1, 2)
        patches = self.into(normed.unfold(2, 8, 4)).flatten(0, 1)
        mixed = self.norm(patches + self.mix(patches, patches, patches, need_weights=False)[0])
        steps = self.out(mixed[:, -1]).reshape(series.shape[0], -1, 8).transpose(1, 2)
        y: Tensor = steps * spread + mean
        return y


def forecast() -> Exported:
    axes = {"series": {0: "batch", 1: "past", 2: "channels"}, "y": {0: "batch", 2: "channels"}}
    return Exported(Forecast(), (torch.randn(2, 24, 3),), ["series"], ["y"], axes)
