"""The networks of the benchmarks: files, inputs, expected outputs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import weft
from bench.folders import models_folder, zoo_folder
from bench.quantized import quantize
from weft.cli.files import random_inputs

TINY = models_folder() / "tiny"
ZOO = zoo_folder()

CONVOLUTIONAL = (
    "resnet18",
    "resnet50",
    "vgg16",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mnasnet1_0",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "densenet121",
    "efficientnet_b0",
    "convnext_tiny",
)
RECURRENT = ("lstm_256", "gru_256", "bilstm_256")
OTHERS = ("vit_b_16", "bert", "mlp_8192")
SMALL = ("ic", "kws", "vww", "ad")
INTEGERS = tuple(f"{name}_int8" for name in ("resnet18", "resnet50", "mobilenet_v2", *SMALL))
"""Networks of 8-bit integers: ``bench.quantized`` makes those of the zoo."""
DEFAULT = (*CONVOLUTIONAL, *OTHERS, *RECURRENT)
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "residual": ("resnet18", "resnet50", "regnet_y_400mf", "resnext50_32x4d"),
    "plain": ("vgg16", "alexnet", "squeezenet1_1", "repvgg_a0"),
    "mobile": (
        "mobilenet_v2",
        "mobilenet_v3_large",
        "mobilenetv4_conv_small",
        "mnasnet1_0",
        "shufflenet_v2_x1_0",
        "ghostnet_100",
        "efficientnet_b0",
    ),
    "branching": ("densenet121", "googlenet", "inception_v3", "hrnet_w18_small", "cs3darknet_m"),
    "mixed with attention": (
        "convnext_tiny",
        "edgenext_small",
        "mobilevitv2_050",
        "levit_128s",
        "fastvit_t8",
    ),
    "transformers": ("vit_b_16", "swin_t", "mixer_s16_224", "bert", "gpt2", "t5_encoder"),
    "image to image": ("unet", "deeplabv3_resnet50", "espcn"),
    "sound": ("wavenet", "conv_tasnet"),
    "recurrent": RECURRENT[:2],
    "video": ("r3d_18",),
    "dense": ("mlp_8192",),
}
"""Forty networks; ``families`` names them all, and each family those of it."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": (*DEFAULT, *SMALL),
    "convolutional": CONVOLUTIONAL,
    "other": OTHERS,
    "small": SMALL,
    "families": tuple(each for members in FAMILIES.values() for each in members),
    **FAMILIES,
}


def named(names: Sequence[str]) -> list[str]:
    """Networks and groups of networks as networks, each once.

    Raises:
        ValueError: it is neither.
    """
    known = {*INTEGERS, *(each for members in GROUPS.values() for each in members)}
    found = [each for name in names for each in GROUPS.get(name, (name,))]
    if unknown := sorted(set(found) - known):
        raise ValueError(f"no such network or group: {', '.join(unknown)}")
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Network:
    """A network as a file, with one set of inputs.

    Attributes:
        name: which.
        path: the ONNX file.
        inputs: arrays in order.
    """

    name: str
    path: Path
    inputs: tuple[np.ndarray, ...]

    @property
    def in_zoo(self) -> bool:
        """Whether ``bench.zoo`` can build it with PyTorch."""
        return self.name not in (*SMALL, *INTEGERS)


def floats_of(name: str) -> str:
    """The network of floats that one of integers was made of, or the network itself."""
    return name.removesuffix("_int8") if name in INTEGERS else name


def path_of(name: str) -> Path:
    floats = floats_of(name)
    if floats != name:
        return TINY / f"{name}.onnx" if floats in SMALL else ZOO / f"{floats}.int8.onnx"
    return TINY / f"{name}_float.onnx" if name in SMALL else ZOO / f"{name}.ts.onnx"


def ensure(name: str) -> None:
    """Exports a network of the zoo if its file is absent."""
    if path_of(name).exists() or floats_of(name) in SMALL:
        return
    if floats_of(name) != name:
        ensure(floats_of(name))
        quantize(path_of(floats_of(name)), path_of(name))
    else:
        subprocess.run([sys.executable, "-m", "bench.zoo", name, "--force"], check=True)


def network(name: str) -> Network:
    path = path_of(name)
    floats = floats_of(name)
    if floats in SMALL:
        net = weft.load(path).bound()
        return Network(name, path, tuple(random_inputs(net.inputs, 0).values()))
    with np.load(ZOO / f"{floats}.npz") as golden:
        return Network(name, path, (golden["x"],))
