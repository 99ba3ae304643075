"""Networks of one-dimensional convolutions for `bench.zoo`: WaveNet and Conv-TasNet."""

from __future__ import annotations

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]


class GatedLayer(nn.Module):
    """A causal dilated convolution with two taps, gated, then a residual and a skip output."""

    def __init__(self, channels: int, skips: int, dilation: int) -> None:
        super().__init__()
        self.before = dilation
        self.both = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.residual = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, skips, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        content, gate = self.both(nn.functional.pad(x, (self.before, 0))).chunk(2, dim=1)
        gated = torch.tanh(content) * torch.sigmoid(gate)
        return x + self.residual(gated), self.skip(gated)


class WaveNet(nn.Module):
    """Van den Oord et al. 2016: a stack of gated layers for each cycle of dilations."""

    def __init__(
        self, channels: int = 64, skips: int = 128, cycles: int = 2, depth: int = 10
    ) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        dilations = [2**layer for _ in range(cycles) for layer in range(depth)]
        self.layers = nn.ModuleList([GatedLayer(channels, skips, each) for each in dilations])
        self.last = nn.Sequential(
            nn.ReLU(), nn.Conv1d(skips, skips, 1), nn.ReLU(), nn.Conv1d(skips, 256, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        total = torch.zeros(())
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.last(total)


class SeparableBlock(nn.Module):
    """A dilated depthwise convolution between two pointwise ones, normalized over all frames."""

    def __init__(self, width: int, hidden: int, dilation: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv1d(width, hidden, 1),
            nn.PReLU(),
            nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden),
            nn.PReLU(),
            nn.GroupNorm(1, hidden),
        )
        self.residual = nn.Conv1d(hidden, width, 1)
        self.skip = nn.Conv1d(hidden, width, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.inner(x)
        return x + self.residual(hidden), self.skip(hidden)


class ConvTasNet(nn.Module):
    """Luo and Mesgarani 2019 with two speakers: an encoder, masks, a decoder."""

    def __init__(
        self, filters: int = 512, width: int = 128, hidden: int = 512, cycles: int = 3
    ) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, filters, 16, stride=8, bias=False)
        self.enter = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1))
        dilations = [2**layer for _ in range(cycles) for layer in range(8)]
        self.blocks = nn.ModuleList([SeparableBlock(width, hidden, each) for each in dilations])
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(width, 2 * filters, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(filters, 1, 16, stride=8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        encoded = self.encoder(x)
        x = self.enter(encoded)
        total = torch.zeros(())
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        masks = self.masks(total).chunk(2, dim=1)
        return torch.cat([self.decoder(encoded * mask) for mask in masks], dim=1)
