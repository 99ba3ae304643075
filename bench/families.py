"""Forty networks of a dozen families at their usual sizes, for `bench.peers --names families`.

`bench.zoo` builds those that are neither torchvision's nor its own from here; it gives all of them
weights of realistic statistics.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

WORDS = 64


@dataclass(frozen=True)
class Member:
    """A network of a family.

    Attributes:
        build: the network, with weights as its library draws them.
        image: channels, rows and columns of its input; empty for words.
        words: how many it takes, and of how many it may be.
    """

    build: Callable[[], nn.Module]
    image: tuple[int, ...] = ()
    words: tuple[int, int] = (0, 0)


class Stage(nn.Sequential):
    """Two 3x3 convolutions, each with batch norm and ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        for channels in (inputs, outputs):
            self.append(nn.Conv2d(channels, outputs, 3, padding=1, bias=False))
            self.append(nn.BatchNorm2d(outputs))
            self.append(nn.ReLU())


class UNet(nn.Module):
    """Ronneberger et al. 2015 with padding, half of the channels, and batch norm."""

    def __init__(
        self, channels: tuple[int, ...] = (32, 64, 128, 256, 512), classes: int = 2
    ) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            Stage(before, after) for before, after in zip((3, *channels), channels, strict=False)
        )
        steps = list(zip(channels[:0:-1], channels[-2::-1], strict=True))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(deep, flat, 2, 2) for deep, flat in steps)
        self.up = nn.ModuleList(Stage(2 * flat, flat) for _, flat in steps)
        self.head = nn.Conv2d(channels[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = list[torch.Tensor]()
        for number, stage in enumerate(self.down):
            x = stage(nn.functional.max_pool2d(x, 2) if number else x)
            kept.append(x)
        kept.pop()
        for grow, stage in zip(self.grow, self.up, strict=True):
            x = stage(torch.cat([kept.pop(), grow(x)], dim=1))
        return self.head(x)


class Espcn(nn.Sequential):
    """Shi et al. 2016: an image of three times as many rows and columns."""

    def __init__(self, scale: int = 3) -> None:
        super().__init__(
            nn.Conv2d(1, 64, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, scale * scale, 3, padding=1),
            nn.PixelShuffle(scale),
        )


class Segmenter(nn.Module):
    """The first output of one of torchvision's segmentation networks."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)["out"]


class Words(nn.Module):
    """The last hidden states of one of `transformers`' networks.

    Args:
        causal: how many words there are, each of which sees those before it only; all see all if
            it is none.
    """

    def __init__(self, inner: nn.Module, causal: int = 0) -> None:
        super().__init__()
        self.inner = inner
        # A mask of their own, as the exporter lacks an operator of theirs.
        later = torch.full((causal, causal), torch.finfo(torch.float32).min).triu(1)
        self.register_buffer("mask", later[None, None] if causal else None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(input_ids=x, attention_mask=self.mask, return_dict=False)[0]


def _timm(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import timm  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

        return timm.create_model(name, pretrained=False)

    return build


def _deeplab() -> nn.Module:
    from bench.zoo import vision  # noqa: PLC0415 (which imports this module)

    return Segmenter(
        vision.get_model("deeplabv3_resnet50", weights=None, weights_backbone=None, num_classes=21)
    )


def _gpt2() -> nn.Module:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import GPT2Config, GPT2Model  # noqa: PLC0415 # pyright: ignore

    return Words(GPT2Model(GPT2Config(use_cache=False, attn_implementation="eager")), WORDS)


def _t5() -> nn.Module:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import T5Config, T5EncoderModel  # noqa: PLC0415 # pyright: ignore

    return Words(T5EncoderModel(T5Config(use_cache=False)))


IMAGE, LARGER = (3, 224, 224), (3, 256, 256)
MEMBERS: Mapping[str, Member] = MappingProxyType(
    {
        "ghostnet_100": Member(_timm("ghostnet_100"), IMAGE),
        "repvgg_a0": Member(_timm("repvgg_a0"), IMAGE),
        "hrnet_w18_small": Member(_timm("hrnet_w18_small"), IMAGE),
        "mobilenetv4_conv_small": Member(_timm("mobilenetv4_conv_small"), IMAGE),
        "mobilevitv2_050": Member(_timm("mobilevitv2_050"), LARGER),
        "edgenext_small": Member(_timm("edgenext_small"), LARGER),
        "levit_128s": Member(_timm("levit_128s"), IMAGE),
        "fastvit_t8": Member(_timm("fastvit_t8"), LARGER),
        "mixer_s16_224": Member(_timm("mixer_s16_224"), IMAGE),
        "cs3darknet_m": Member(_timm("cs3darknet_m"), LARGER),
        "unet": Member(UNet, LARGER),
        "espcn": Member(Espcn, (1, 240, 320)),
        "deeplabv3_resnet50": Member(_deeplab, LARGER),
        "gpt2": Member(_gpt2, words=(WORDS, 50257)),
        "t5_encoder": Member(_t5, words=(WORDS, 32128)),
    }
)
