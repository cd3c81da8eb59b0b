"""Models of plain `torch.nn` code, small, each with an example, dims, and inputs at other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F


@dataclass(frozen=True)
class Case:
    """A model, and how it is tried: `inputs(*sizes)` are arguments; the first sizes are those of the example."""

    model: nn.Module
    inputs: Callable[..., tuple[Any, ...]]
    sizes: Sequence[tuple[int, ...]]
    dynamic_shapes: Any


class Block(nn.Module):
    """A layer of an encoder, or with `causal` of a decoder."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def split(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        return x.view(b, t, self.heads, w // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (self.split(part) for part in self.qkv(self.first(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.second(x))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.norm, self.blocks = nn.LayerNorm(32), nn.ModuleList([Block(32, 4) for _ in range(2)])
        self.pooler = nn.Linear(32, 32)

    def forward(self, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for block in self.blocks:
            x = block(x, bias)
        return {"last": x, "pooled": torch.tanh(self.pooler(x[:, 0]))}


class Gpt(nn.Module):
    """A decoder with a cache of keys and values of each layer, as GPT-2 has it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.heads = nn.Embedding(60, 32), nn.Embedding(128, 32), 4
        self.norms = nn.ModuleList([nn.LayerNorm(32) for _ in range(5)])
        self.attend = nn.ModuleList([nn.Linear(32, 96) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(32, 32) for _ in range(2)])
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.Linear(32, 64), nn.GELU("tanh"), nn.Linear(64, 32)) for _ in range(2)]
        )

    def forward(self, ids: Tensor, cache: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        b, t = ids.shape
        past = cache[0].shape[3]
        x = self.words(ids) + self.places(torch.arange(past, past + t))
        mask = torch.arange(past + t)[None, :] <= torch.arange(past, past + t)[:, None]
        after = []
        for k in range(2):
            parts = self.attend[k](self.norms[2 * k](x)).view(b, t, 3, self.heads, 8).permute(2, 0, 3, 1, 4)
            keys = torch.cat([cache[k][0], parts[1]], 2)
            values = torch.cat([cache[k][1], parts[2]], 2)
            after.append(torch.stack([keys, values]))
            scores = (parts[0] @ keys.transpose(-1, -2) / math.sqrt(8)).masked_fill(~mask, float("-inf"))
            x = x + self.out[k]((scores.softmax(-1) @ values).transpose(1, 2).reshape(b, t, 32))
            x = x + self.mlp[k](self.norms[2 * k + 1](x))
        return self.norms[4](x) @ self.words.weight.t(), after


class Llama(nn.Module):
    """RMSNorm, rotary positions, grouped queries, gated MLP, and a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(60, 32), nn.Linear(32, 60, bias=False)
        self.q, self.kv, self.o = (nn.Linear(32, n, bias=False) for n in (32, 32, 32))
        self.gate, self.up, self.down = (
            nn.Linear(32, 48, bias=False),
            nn.Linear(32, 48, bias=False),
            nn.Linear(48, 32, bias=False),
        )
        self.norms = nn.ModuleList([nn.RMSNorm(32, eps=1e-6) for _ in range(3)])
        self.register_buffer("rates", 1.0 / 10000 ** (torch.arange(0, 8, 2) / 8), persistent=False)

    def transposed(self, x: Tensor, at: Tensor) -> Tensor:
        angles = torch.cat([at[:, None] * self.rates] * 2, -1)
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * angles.cos() + half * angles.sin()

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, t = ids.shape
        past = keys.shape[2]
        at = torch.arange(past, past + t)
        x = self.words(ids)
        n = self.norms[0](x)
        q = self.transposed(self.q(n).view(b, t, 4, 8).transpose(1, 2), at)
        kv = self.kv(n).view(b, t, 4, 8).transpose(1, 2)
        keys = torch.cat([keys, self.transposed(kv[:, :2], at)], 2)
        values = torch.cat([values, kv[:, 2:]], 2)
        spread = [v.repeat_interleave(2, dim=1) for v in (keys, values)]
        mask = torch.arange(past + t)[None, :] <= at[:, None]
        y = F.scaled_dot_product_attention(q, *spread, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, 32))
        n = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(n)) * self.up(n))
        return self.head(self.norms[2](x)), keys, values


class T5(nn.Module):
    """An encoder and a decoder with buckets of relative positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.bias = nn.Embedding(40, 24), nn.Embedding(8, 3)
        self.projections = nn.ModuleList([nn.Linear(24, 24, bias=False) for _ in range(12)])
        self.norm = nn.RMSNorm(24)

    def buckets(self, n: int, m: int) -> Tensor:
        apart = torch.arange(m)[None, :] - torch.arange(n)[:, None]
        far = 2 + (torch.log(apart.abs().float().clamp(min=1) / 2) / math.log(8) * 2).to(torch.long)
        near = torch.where(apart.abs() < 2, apart.abs(), far.clamp(max=3))
        return self.bias(near + (apart > 0) * 4).permute(2, 0, 1)[None]

    def attend(self, k: int, x: Tensor, of: Tensor, bias: Tensor | None) -> Tensor:
        q, key, v = (p(y).unflatten(-1, (3, 8)).transpose(1, 2) for p, y in zip(self.projections[4 * k :], (x, of, of)))
        scores = q @ key.transpose(2, 3)
        scores = scores if bias is None else scores + bias
        return self.projections[4 * k + 3]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, ids: Tensor, answer: Tensor) -> Tensor:
        x, y = self.words(ids), self.words(answer)
        x = x + self.attend(0, self.norm(x), self.norm(x), self.buckets(ids.shape[1], ids.shape[1]))
        t = answer.shape[1]
        causal = torch.full((t, t), float("-inf")).triu(1)
        y = y + self.attend(1, self.norm(y), self.norm(y), self.buckets(t, t) + causal)
        y = y + self.attend(2, self.norm(y), x, None)
        return self.norm(y) @ self.words.weight.t()


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.start = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 32, 4, 4))
        self.block, self.norm, self.head = Block(32, 4), nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x)
        x = x + F.interpolate(self.places, size=x.shape[2:], mode="bilinear", align_corners=False)
        x = torch.cat([self.start.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], 1)
        return self.head(self.norm(self.block(x))[:, 0])


class Swin(nn.Module):
    """Attention in windows, of which every other layer's are shifted."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.merge = nn.Conv2d(3, 16, 2, 2), nn.Linear(64, 32, bias=False)
        self.blocks = nn.ModuleList([Block(16, 2), Block(16, 2)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).permute(0, 2, 3, 1)
        for k, block in enumerate(self.blocks):
            b, h, w, c = x.shape
            y = torch.roll(x, (-2, -2), (1, 2)) if k else x
            y = y.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
            y = block(y)
            y = y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
            x = torch.roll(y, (2, 2), (1, 2)) if k else y
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.head(self.norm(self.merge(x)).mean((1, 2)))


class Whisper(nn.Module):
    """An encoder of sound with two convolutions, and a decoder of text that attends to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sound = nn.Sequential(nn.Conv1d(8, 32, 3, padding=1), nn.GELU(), nn.Conv1d(32, 32, 3, 2, 1), nn.GELU())
        self.encoder, self.words = Block(32, 4), nn.Embedding(30, 32)
        self.decoder, self.cross = Block(32, 4, causal=True), nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, sound: Tensor, ids: Tensor) -> Tensor:
        heard = self.sound(sound).transpose(1, 2)
        rates = torch.exp(-torch.arange(16) * 0.5)
        at = torch.arange(heard.shape[1])[:, None] * rates
        heard = self.encoder(heard + torch.cat([at.sin(), at.cos()], 1))
        x = self.decoder(self.words(ids))
        x = x + self.cross(x, heard, heard, need_weights=False)[0]
        return (x @ self.words.weight.t()).log_softmax(-1)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.wide = nn.Conv2d(3, 16, 4, 4), nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16)
        self.scale, self.head = nn.Parameter(torch.full((16,), 0.1)), nn.Linear(16, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.down(F.gelu(self.up(self.norm(self.wide(x).permute(0, 2, 3, 1)))))
        x = x + (self.scale * y).permute(0, 3, 1, 2)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class UNet(nn.Module):
    """Two levels down and up again, with batch and group normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.two = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.low = nn.Sequential(
            nn.AvgPool2d(2), nn.Conv2d(16, 16, 3, padding=1), nn.InstanceNorm2d(16, affine=True), nn.LeakyReLU()
        )
        self.up, self.last = nn.ConvTranspose2d(16, 16, 2, 2), nn.Conv2d(40, 1, 1)
        self.one[1].running_mean.normal_()

    def forward(self, x: Tensor) -> Tensor:
        one = self.one(x)
        two = self.two(one)
        up = torch.cat([self.up(self.low(two)), two], 1)
        up = F.interpolate(up, scale_factor=2.0, mode="nearest")
        return torch.sigmoid(self.last(torch.cat([up, one], 1)))


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers, and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 12)
        self.lstm = nn.LSTM(12, 10, 2, batch_first=True, bidirectional=True)
        self.gru, self.head = nn.GRU(20, 8), nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        y, (_, cell) = self.lstm(self.words(ids))
        z, _ = self.gru(y.transpose(0, 1))
        return self.head(z).softmax(-1), cell


class Experts(nn.Module):
    """A mixture of experts: each gets the rows that a router sends it, however many."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(16, 24), nn.SiLU(), nn.Linear(24, 16)) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        y = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            rows, place = torch.nonzero(chosen == k, as_tuple=True)
            y = y.index_add(0, rows, expert(x[rows]) * weights[rows, place][:, None])
        return y


class Detector(nn.Module):
    """Boxes of a grid, those with a score above a threshold, and of these the ones that overlap no better one by much."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 5, 3, 2, 1))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(image)[0]
        h, w = y.shape[1:]
        at = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij"), 0).flatten(1).t().float()
        scores = y[4].flatten().sigmoid()
        size = y[:2].flatten(1).t().sigmoid() * 3
        boxes = torch.cat([at - size, at + size], 1)
        keep = torch.nonzero(scores > 0.45)[:, 0]
        order = torch.argsort(scores[keep], descending=True, stable=True)
        boxes, scores = boxes[keep][order], scores[keep][order]
        low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        both = (high - low).clamp(min=0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        overlap = both / (area[:, None] + area[None, :] - both)
        worse = (overlap.triu(1) > 0.5).any(0)
        return boxes[~worse], scores[~worse]


def _ids(most: int, *size: int) -> Tensor:
    return torch.randint(0, most, size)


def cases() -> dict[str, Callable[[], Case]]:
    """Makes of the cases, by name."""
    batch, seq, past = Dim("batch"), Dim("seq"), Dim("past")

    def bert(b: int, t: int) -> tuple[Any, ...]:
        return _ids(50, b, t), (torch.rand(b, t) < 0.8).long()

    def gpt(b: int, t: int, p: int) -> tuple[Any, ...]:
        return _ids(60, b, t), [torch.randn(2, b, 4, p, 8) for _ in range(2)]

    def llama(b: int, t: int, p: int) -> tuple[Any, ...]:
        return _ids(60, b, t), torch.randn(b, 2, p, 8), torch.randn(b, 2, p, 8)

    def images(c: int) -> Callable[..., tuple[Any, ...]]:
        return lambda b, h, w: (torch.randn(b, c, h, w),)

    of_image = ({0: batch, 2: Dim.AUTO, 3: Dim.AUTO},)
    cached = {0: batch, 2: past}
    return {
        "bert": lambda: Case(Bert(), bert, [(2, 5), (1, 1), (3, 17)], {"ids": {0: batch, 1: seq}, "mask": {0: batch, 1: seq}}),
        "gpt": lambda: Case(
            Gpt(), gpt, [(2, 3, 4), (1, 1, 9), (2, 5, 0)],
            {"ids": {0: batch, 1: seq}, "cache": [{1: batch, 3: past}, {1: batch, 3: past}]},
        ),
        "llama": lambda: Case(
            Llama(), llama, [(2, 3, 4), (1, 1, 9), (2, 5, 0)], {"ids": {0: batch, 1: seq}, "keys": cached, "values": cached}
        ),
        "t5": lambda: Case(
            T5(), lambda b, n, m: (_ids(40, b, n), _ids(40, b, m)), [(2, 5, 3), (1, 2, 7), (3, 1, 1)],
            {"ids": {0: batch, 1: seq}, "answer": {0: batch, 1: Dim("length")}},
        ),
        "vit": lambda: Case(ViT(), images(3), [(2, 16, 24), (1, 8, 8), (3, 32, 20)], of_image),
        "swin": lambda: Case(
            Swin(), images(3), [(2, 16, 24), (1, 8, 32), (3, 32, 16)], ({0: batch, 2: 8 * Dim("h"), 3: 8 * Dim("w")},)
        ),
        "whisper": lambda: Case(
            Whisper(), lambda b, n, t: (torch.randn(b, 8, n), _ids(30, b, t)), [(2, 20, 4), (1, 7, 1), (2, 33, 9)],
            {"sound": {0: batch, 2: Dim.AUTO}, "ids": {0: batch, 1: seq}},
        ),
        "convnext": lambda: Case(ConvNeXt(), images(3), [(2, 16, 24), (1, 32, 8), (3, 20, 40)], of_image),
        "unet": lambda: Case(
            UNet(), images(1), [(2, 16, 24), (1, 8, 32), (3, 32, 16)], ({0: batch, 2: 4 * Dim("h"), 3: 4 * Dim("w")},)
        ),
        "tagger": lambda: Case(Tagger(), lambda b, t: (_ids(30, b, t),), [(2, 5), (1, 1), (4, 11)], ({0: batch, 1: seq},)),
        "experts": lambda: Case(Experts(), lambda n: (torch.randn(n, 16),), [(6,), (1,), (25,)], ({0: batch},)),
        "detector": lambda: Case(
            Detector(), lambda h, w: (torch.randn(1, 3, h, w),), [(16, 24), (8, 8), (31, 40)], ({2: Dim.AUTO, 3: Dim.AUTO},)
        ),
    }  # fmt: skip
