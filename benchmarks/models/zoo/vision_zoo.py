"""Convolutional networks for the zoo, over images of any size."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.zoo.exported import Exported

IMAGES = {0: "batch", 2: "height", 3: "width"}


def normed(i: int, o: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(i, o, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]


class Residual(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(*normed(i, o, 3, stride), nn.ReLU(), *normed(o, o, 3))
        self.side = nn.Sequential(*normed(i, o, 1, stride)) if stride > 1 or i != o else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.main(x) + self.side(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2)]
        self.body = nn.Sequential(*normed(3, 16, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(functional.adaptive_avg_pool2d(self.body(x), 1).flatten(1))
        return y


class Inverted(nn.Module):
    """MobileNet's block: wide, depthwise, narrow."""

    def __init__(self, i: int, o: int, stride: int, factor: int) -> None:
        super().__init__()
        h = i * factor
        wide, deep, narrow = normed(i, h, 1), normed(h, h, 3, stride, groups=h), normed(h, o, 1)
        self.body = nn.Sequential(*wide, nn.ReLU6(), *deep, nn.ReLU6(), *narrow)
        self.residual = stride == 1 and i == o

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


class MobileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = [Inverted(16, 24, 2, 4), Inverted(24, 24, 1, 4), Inverted(24, 32, 2, 4)]
        self.body = nn.Sequential(*normed(3, 16, 3, 2), nn.Hardswish(), *blocks)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.body(x).mean((2, 3)))
        return y


class UNet(nn.Module):
    """Down twice, up by interpolation and by a transposed convolution, with the skipped features beside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.middle, self.last = map(self.level, (3, 16, 32, 32), (16, 32, 32, 16))
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.head = nn.Conv2d(16, 2, 1)

    @staticmethod
    def level(i: int, o: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(i, o, 3, 1, 1), nn.GroupNorm(4, o), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(functional.max_pool2d(a, 2))
        m = self.middle(functional.avg_pool2d(b, 2))
        m = functional.interpolate(m, size=b.shape[2:], mode="bilinear", align_corners=False) + b
        u = functional.interpolate(self.up(m), size=a.shape[2:], mode="nearest")
        y: Tensor = self.head(self.last(torch.cat([u, a], 1)))
        return y


def resnet() -> Exported:
    return Exported(ResNet(), (torch.randn(2, 3, 64, 64),), ["x"], ["y"], {"x": IMAGES, "y": {0: "batch"}})


def mobilenet() -> Exported:
    return Exported(MobileNet(), (torch.randn(2, 3, 64, 64),), ["x"], ["y"], {"x": IMAGES, "y": {0: "batch"}})


def unet() -> Exported:
    return Exported(UNet(), (torch.randn(2, 3, 32, 32),), ["x"], ["y"], {"x": IMAGES, "y": IMAGES})
