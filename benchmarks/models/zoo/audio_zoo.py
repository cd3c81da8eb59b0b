"""Audio for the zoo: a spectrum by STFT before a recurrent layer, and a codec of residual codes, over waves of any length."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.zoo.exported import Exported


class Spectrum(nn.Module):
    """Keyword scores of a wave: STFT, a bank of filters, a logarithm relative to the loudest, an LSTM, and the mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("bank", torch.rand(33, 12))
        self.recurrent, self.head = nn.LSTM(12, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        transformed = torch.stft(wave, 64, hop_length=32, window=self.window, center=True, return_complex=True)
        power = torch.view_as_real(transformed).pow(2).sum(-1)
        features = torch.log1p((power.transpose(1, 2) @ self.bank).abs())
        features = torch.maximum(features, features.amax((1, 2), keepdim=True) - 4)
        scores: Tensor = self.head(self.recurrent(features)[0].mean(1))
        return features, scores


def spectrum() -> Exported:
    axes = {"wave": {0: "batch", 1: "samples"}}
    return Exported(Spectrum(), (torch.randn(2, 400),), ["wave"], ["features", "scores"], axes)


class Snake(nn.Module):
    """The periodic activation of neural codecs."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(1, channels, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.alpha * x).pow(2) / (self.alpha + 1e-6)


class Causal(nn.Module):
    """A convolution over what is before, padded on the left so that the strides divide the length."""

    def __init__(self, i: int, o: int, size: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(i, o, size, stride, dilation=dilation)
        self.before, self.stride = dilation * (size - 1) + 1 - stride, stride

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(functional.pad(x, (self.before, -x.shape[-1] % self.stride), mode="reflect"))
        return y


class Codec(nn.Module):
    """A wave to codes and back: each quantiser codes what those before it left over, and the wave is cut to its length."""

    def __init__(self) -> None:
        super().__init__()
        down, up = [], []
        for k, stride in enumerate((2, 4)):
            down += [
                Causal(8 << k, 16 << k, 2 * stride, stride),
                Snake(16 << k),
                Causal(16 << k, 16 << k, 3, dilation=2),
            ]
        for k, stride in ((1, 4), (0, 2)):
            up += [nn.ConvTranspose1d(16 << k, 8 << k, 2 * stride, stride, stride // 2), Snake(8 << k)]
        self.encoder = nn.Sequential(Causal(1, 8, 7), *down)
        self.decoder = nn.Sequential(*up, nn.Conv1d(8, 1, 7, padding=3))
        self.books = nn.ParameterList(torch.randn(20, 32) for _ in range(3))

    def forward(self, wave: Tensor) -> tuple[Tensor, Tensor]:
        left = self.encoder(wave.unsqueeze(1)).transpose(1, 2)
        total, codes = torch.zeros_like(left), []
        for book in self.books:
            distances = left.pow(2).sum(-1, keepdim=True) - 2 * left @ book.t() + book.pow(2).sum(-1)
            codes.append(distances.argmin(-1))
            chosen = functional.embedding(codes[-1], book)
            left, total = left - chosen, total + chosen
        back = self.decoder(total.transpose(1, 2)).squeeze(1)
        return torch.stack(codes, 1), torch.tanh(back[:, : wave.shape[1]])


def codec() -> Exported:
    samples = {0: "batch", 1: "samples"}
    axes = {"wave": samples, "codes": {0: "batch", 2: "frames"}, "y": samples}
    return Exported(Codec(), (torch.randn(2, 200),), ["wave"], ["codes", "y"], axes)
