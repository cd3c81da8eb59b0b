"""Networks that give an answer for each pixel, for the zoo: a segmenter, a denoiser of diffusion, a detector without suppression."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.zoo.exported import Exported
from benchmarks.models.zoo.vision_zoo import IMAGES, normed


class Segmenter(nn.Module):
    """Dilated convolutions side by side, and the mean of the image, resized to the size of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*normed(3, 8, 3, 2), nn.ReLU(), *normed(8, 16, 3, 2), nn.ReLU())
        self.dilated = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=d, dilation=d) for d in (1, 2, 3))
        self.pooled, self.head = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        mean = self.pooled(functional.adaptive_avg_pool2d(features, 1)).expand(-1, -1, *features.shape[2:])
        joined = torch.relu(torch.cat([*(branch(features) for branch in self.dilated), mean], 1))
        scores = functional.interpolate(self.head(joined), size=x.shape[2:], mode="bilinear", align_corners=False)
        return scores, scores.argmax(1)


def segmenter() -> Exported:
    axes = {"x": IMAGES, "scores": IMAGES, "classes": {0: "batch", 1: "height", 2: "width"}}
    return Exported(Segmenter(), (torch.randn(2, 3, 48, 64),), ["x"], ["scores", "classes"], axes)


class Attended(nn.Module):
    """Pixels attend to the words of a text."""

    def __init__(self, channels: int, text: int) -> None:
        super().__init__()
        self.norm, self.out = nn.GroupNorm(4, channels), nn.Linear(channels, channels)
        self.q = nn.Linear(channels, channels, bias=False)
        self.k, self.v = nn.Linear(text, channels, bias=False), nn.Linear(text, channels, bias=False)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        b, c, h, w = x.shape

        def heads(t: Tensor) -> Tensor:
            return t.reshape(b, -1, 4, c // 4).transpose(1, 2)

        pixels = self.norm(x).flatten(2).transpose(1, 2)
        y = functional.scaled_dot_product_attention(heads(self.q(pixels)), heads(self.k(text)), heads(self.v(text)))
        return x + self.out(y.transpose(1, 2).reshape(b, h * w, c)).transpose(1, 2).reshape(b, c, h, w)


class Timed(nn.Module):
    """A residual block that a step of time shifts and scales."""

    def __init__(self, i: int, o: int, width: int) -> None:
        super().__init__()
        self.first, self.time = (
            nn.Sequential(nn.GroupNorm(4, i), nn.SiLU(), nn.Conv2d(i, o, 3, 1, 1)),
            nn.Linear(width, 2 * o),
        )
        self.norm, self.second, self.side = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, 1, 1), nn.Conv2d(i, o, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        shift, scale = self.time(functional.silu(time))[:, :, None, None].chunk(2, 1)
        y: Tensor = self.side(x) + self.second(functional.silu(self.norm(self.first(x)) * (1 + scale) + shift))
        return y


class Denoiser(nn.Module):
    """One step of diffusion: a UNet of latents, a sinusoidal embedding of the step, attention to a text."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.into, self.out = nn.Conv2d(4, 16, 3, 1, 1), nn.Conv2d(16, 4, 3, 1, 1)
        self.down, self.middle, self.up = Timed(16, 32, 32), Timed(32, 32, 32), Timed(48, 16, 32)
        self.shrink, self.attended = nn.Conv2d(32, 32, 3, 2, 1), Attended(32, 24)

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        rates = torch.exp(torch.arange(8) * (-math.log(10000) / 8))
        angles = step[:, None].float() * rates[None]
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        first = self.into(x)
        down = self.shrink(self.down(first, time))
        middle = self.attended(self.middle(down, time), text)
        back = functional.interpolate(middle, size=first.shape[2:], mode="nearest")
        y: Tensor = self.out(self.up(torch.cat([back, first], 1), time))
        return y


def denoiser() -> Exported:
    axes = {"x": IMAGES, "step": {0: "batch"}, "text": {0: "batch", 1: "words"}, "y": IMAGES}
    arguments = (torch.randn(2, 4, 16, 24), torch.tensor([3, 500]), torch.randn(2, 5, 24))
    return Exported(Denoiser(), arguments, ["x", "step", "text"], ["y"], axes)


class Yolo(nn.Module):
    """Boxes of two scales about points of a grid, sides as expectations over bins, and the best five; classes count from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            *normed(3, 8, 3, 2), nn.SiLU(), *normed(8, 16, 3, 2), nn.SiLU(), *normed(16, 16, 3, 2), nn.SiLU()
        )
        self.second = nn.Sequential(*normed(16, 32, 3, 2), nn.SiLU())
        self.pooled = nn.Conv2d(96, 16, 1)
        self.joined = nn.Sequential(*normed(32, 16, 3), nn.SiLU())
        self.heads = nn.ModuleList(nn.Conv2d(16, 4 * 8 + 3, 1) for _ in range(2))

    @staticmethod
    def points(x: Tensor, stride: int) -> Tensor:
        down = (torch.arange(x.shape[2], dtype=torch.float32) + 0.5) * stride
        across = (torch.arange(x.shape[3], dtype=torch.float32) + 0.5) * stride
        y, x = torch.meshgrid(down, across, indexing="ij")
        return torch.stack([x, y], -1).reshape(-1, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fine = self.first(x)
        coarse = self.second(fine)
        pools = [coarse]
        for _ in range(2):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        coarse = self.pooled(torch.cat(pools, 1))
        fine = self.joined(torch.cat([fine, functional.interpolate(coarse, size=fine.shape[2:], mode="nearest")], 1))
        levels = [head(f) for head, f in zip(self.heads, (fine, coarse))]
        points = torch.cat([self.points(f, s) for f, s in zip(levels, (8, 16))])
        strides = torch.cat([torch.full((f.shape[2] * f.shape[3], 1), float(s)) for f, s in zip(levels, (8, 16))])
        cells = torch.cat([f.flatten(2) for f in levels], 2).transpose(1, 2)
        bins = cells[..., :32].reshape(cells.shape[0], -1, 4, 8).softmax(-1)
        sides = (bins * torch.arange(8, dtype=torch.float32)).sum(-1) * strides
        boxes = torch.cat([points - sides[..., :2], points + sides[..., 2:]], -1)
        best, classes = cells[..., 32:].sigmoid().max(-1)
        scores, kept = best.topk(5, 1)
        return boxes.gather(1, kept.unsqueeze(-1).expand(-1, -1, 4)), scores, classes.gather(1, kept) + 1


def yolo() -> Exported:
    out = {0: "batch"}
    axes = {"x": IMAGES, "boxes": out, "scores": out, "classes": out}
    return Exported(Yolo(), (torch.randn(2, 3, 64, 96),), ["x"], ["boxes", "scores", "classes"], axes)
