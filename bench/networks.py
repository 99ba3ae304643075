"""The networks of the benchmarks: files, inputs, expected outputs.

``resnet18@8`` is ResNet-18 for eight images at once: the file of one image with other shapes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
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
    """Networks and groups of networks as networks, each once; ``@8`` behind a name for a batch.

    Raises:
        ValueError: it is neither.
    """
    known = {*INTEGERS, *(each for members in GROUPS.values() for each in members)}
    found = [
        f"{each}{at}{batch}"
        for single, at, batch in (name.partition("@") for name in names)
        for each in GROUPS.get(single, (single,))
    ]
    if unknown := sorted({each for each in found if not _known(each, known)}):
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
        return images_of(self.name)[0] not in (*SMALL, *INTEGERS)


def _known(name: str, known: Collection[str]) -> bool:
    """Whether it is one of the networks, alone or in a batch."""
    single, at, batch = name.partition("@")
    return single in known and (not at or (batch.isdigit() and int(batch) > 1))


def batched(name: str, batch: int) -> str:
    """The name of a network for so many images, unless it names its own number."""
    return name if batch == 1 or "@" in name else f"{name}@{batch}"


def images_of(name: str) -> tuple[str, int]:
    """The network of one image, and the number of images."""
    single, _, batch = name.partition("@")
    return single, int(batch or 1)


def floats_of(name: str) -> str:
    """The network of floats that one of integers was made of, or the network itself."""
    return name.removesuffix("_int8") if name in INTEGERS else name


def path_of(name: str) -> Path:
    single, batch = images_of(name)
    if batch > 1:
        return ZOO / "batches" / f"{single}.{batch}.onnx"
    floats = floats_of(name)
    if floats != name:
        return TINY / f"{name}.onnx" if floats in SMALL else ZOO / f"{floats}.int8.onnx"
    return TINY / f"{name}_float.onnx" if name in SMALL else ZOO / f"{name}.ts.onnx"


def ensure(name: str) -> None:
    """Exports a network of the zoo if its file is absent, and sets its batch."""
    single, batch = images_of(name)
    if batch > 1:
        ensure(single)
        source, path = path_of(single), path_of(name)
        if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
            net = weft.load(source).bound()
            shapes = {each: (batch, *of.shape[1:]) for each, of in net.inputs.items()}
            path.parent.mkdir(exist_ok=True)
            net.with_shapes(shapes).save(path)
        return
    if path_of(name).exists() or floats_of(name) in SMALL:
        return
    if floats_of(name) != name:
        ensure(floats_of(name))
        quantize(path_of(floats_of(name)), path_of(name))
    else:
        subprocess.run([sys.executable, "-m", "bench.zoo", name, "--force"], check=True)


def network(name: str) -> Network:
    path = path_of(name)
    single, batch = images_of(name)
    return Network(name, path, tuple(turned(each, batch) for each in _inputs(single)))


def turned(image: np.ndarray, batch: int) -> np.ndarray:
    """So many different images, each the given one rolled along its last axis."""
    return np.concatenate([np.roll(image, n, -1) for n in range(batch)])


def _inputs(single: str) -> tuple[np.ndarray, ...]:
    floats = floats_of(single)
    if floats in SMALL:
        return tuple(random_inputs(weft.load(path_of(single)).bound().inputs, 0).values())
    with np.load(ZOO / f"{floats}.npz") as golden:
        return (golden["x"],)
