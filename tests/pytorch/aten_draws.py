"""Random tensors, shapes and numbers, of which calls of ATen operators are made."""

from __future__ import annotations

import random
from typing import Any

import torch

Draw = random.Random

Call = tuple[tuple[Any, ...], dict[str, Any]]


def tensor(r: Draw, shape: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of a few values; of floats some are whole, zero or far from zero."""
    g = torch.Generator().manual_seed(r.getrandbits(32))
    if dtype is torch.bool:
        return torch.rand(tuple(shape), generator=g) < 0.5
    if not dtype.is_floating_point:
        low = 0 if dtype is torch.uint8 else -4
        return torch.randint(low, 6, tuple(shape), generator=g, dtype=dtype)
    x = torch.randn(tuple(shape), generator=g, dtype=torch.float64) * r.choice([0.5, 1, 3])
    if r.random() < 0.3:
        x = x.round()
    return x.to(dtype)


def shape(r: Draw, least: int = 0, most: int = 4) -> list[int]:
    return [r.choice([1, 2, 3, 4, 5]) if r.random() < 0.93 else 0 for _ in range(r.randint(least, most))]


def full_shape(r: Draw, least: int, most: int) -> list[int]:
    """A shape without dims of 0."""
    return [r.randint(1, 5) for _ in range(r.randint(least, most))]


def index(r: Draw, size: Any, n: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(r.getrandbits(32))
    return torch.randint(0, max(n, 1), tuple(size), generator=g)


def dtype(r: Draw) -> torch.dtype:
    return r.choice([torch.float32] * 5 + [torch.float64, torch.int64, torch.int32, torch.bool, torch.float16])


def like(r: Draw, dims: list[int]) -> list[int]:
    """A shape that broadcasts with another one."""
    kept = dims[r.randint(0, len(dims)) :] if r.random() < 0.5 else list(dims)
    return [1 if r.random() < 0.25 else n for n in kept]


def number(r: Draw) -> int | float:
    return r.choice([0, 1, 2, -1, 3, 0.5, -1.5, 2.0, 1.25])
