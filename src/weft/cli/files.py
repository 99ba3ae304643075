"""Arrays from files and to files: NumPy's, and images."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.atomic import replacing
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.npz import read_arrays, write_arrays
from weft.ir.types import TensorType
from weft.records import dataclass

IMAGES = frozenset(".png .jpg .jpeg .bmp .gif .webp .ppm .pgm .tif .tiff".split())


@dataclass(frozen=True, slots=True)
class Pixels:
    """How images become numbers.

    Attributes:
        scale: what 0..255 is multiplied by.
        mean: subtracted after that, one for each channel or one for all.
        std: what the difference is divided by.
    """

    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes ``.npy`` (one array) or ``.npz``."""
    if path.suffix != ".npz" and (path.suffix != ".npy" or len(arrays) != 1):
        raise UserError(
            "outputs must go to an .npz file, or to .npy for a single output",
            got=f"{len(arrays)} outputs for {path.name}",
        )
    with replacing(path) as file:
        if path.suffix == ".npz":
            write_arrays(arrays, file)
        else:
            np.save(file, next(iter(arrays.values())))


def _load_numpy(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except (OSError, ValueError) as error:
        raise UserError(
            "data must be a NumPy file (.npy, .npz) or an image",
            got=f"{path}: {error}",
        ) from None


# --- images ---------------------------------------------------------------------------------


def _image_layout(name: str, type: TensorType) -> tuple[int, int, int, bool]:
    """Height, width, channels, and whether the channels come before them."""
    shape = type.dims
    inner = shape[-3:] if len(shape) >= 3 else (1, *shape[-2:])
    if len(shape) >= 2 and all(extent == 1 for extent in shape[:-3]):
        if inner[0] in (1, 3):
            return inner[1], inner[2], inner[0], True
        if inner[2] in (1, 3):
            return inner[0], inner[1], inner[2], False
    raise UserError(
        "an image needs an input [1,C,H,W] or [1,H,W,C] with 1 or 3 channels",
        got=f"{name} {type}",
    )


def load_image(path: Path, name: str, type: TensorType, pixels: Pixels) -> np.ndarray:
    """An image as an input: resized, scaled, normalised, its channels where they belong."""
    if importlib.util.find_spec("PIL") is None:
        raise UserError(
            "reading images needs Pillow", got="no such package", fix="pip install pillow"
        )
    height, width, channels, first = _image_layout(name, type)
    # Optional, so not imported at the top.
    image: Any = importlib.import_module("PIL.Image")
    try:
        with image.open(path) as opened:
            picture = opened.convert("L" if channels == 1 else "RGB")
            picture = picture.resize((width, height), image.Resampling.BILINEAR)
            raw = np.asarray(picture).reshape(height, width, channels)
    except (OSError, ValueError) as error:
        raise UserError("an image must be readable", got=f"{path}: {error}") from None
    if type.dtype is DType.U8:
        values = raw
    else:
        scaled = raw.astype(np.float32) * np.float32(pixels.scale)
        values = (scaled - np.array(pixels.mean, np.float32)) / np.array(pixels.std, np.float32)
    ordered = values.transpose(2, 0, 1) if first else values
    return np.ascontiguousarray(ordered.reshape(type.dims).astype(type.dtype.numpy))


# --- inputs ---------------------------------------------------------------------------------


def _fitted(name: str, array: np.ndarray, type: TensorType) -> np.ndarray:
    """The array as the input wants it; only its shape may be short of leading ones."""
    if array.dtype != type.dtype.numpy:
        if array.dtype.kind == type.dtype.numpy.kind == "f":
            array = array.astype(type.dtype.numpy)
        else:
            raise UserError(
                f"input {name} must be {type.dtype.value}", got=f"{array.dtype}{list(array.shape)}"
            )
    if array.size != type.size or tuple(d for d in array.shape if d > 1) != tuple(
        d for d in type.dims if d > 1
    ):
        raise UserError(f"input {name} must be {type}", got=f"{array.dtype}{list(array.shape)}")
    return np.ascontiguousarray(array.reshape(type.dims))


def _split(text: str, names: Sequence[str]) -> tuple[str, Path]:
    """``NAME=FILE`` or ``FILE``."""
    name, equals, path = text.partition("=")
    if equals and name in names and not Path(text).exists():
        return name, Path(path)
    return "", Path(text)


class _Gathering:
    """Inputs that were found so far."""

    def __init__(self, types: Mapping[str, TensorType], pixels: Pixels) -> None:
        self.types = types
        self.pixels = pixels
        self.found: dict[str, np.ndarray] = {}

    def next(self, path: Path) -> str:
        """The first input that nothing was given for."""
        for name in self.types:
            if name not in self.found:
                return name
        raise UserError(f"the model has {len(self.types)} inputs", got=f"one more, {path}")

    def add(self, name: str, path: Path) -> None:
        if path.suffix.lower() in IMAGES:
            wanted = name or self.next(path)
            self.found[wanted] = load_image(path, wanted, self.types[wanted], self.pixels)
            return
        arrays = _load_numpy(path)
        if name or "" in arrays or len(arrays) == 1:
            wanted = name or self.next(path)
            if len(arrays) > 1 and wanted not in arrays:
                raise UserError(f"{path} must have an array {wanted}", got=", ".join(arrays))
            array = arrays.get(wanted, next(iter(arrays.values())))
            self.found[wanted] = _fitted(wanted, array, self.types[wanted])
            return
        matching = [each for each in arrays if each in self.types]
        if not matching:
            raise UserError(
                f"the arrays of {path} must have the names of inputs, {', '.join(self.types)}",
                got=", ".join(arrays) or "none",
            )
        for each in matching:
            self.found[each] = _fitted(each, arrays[each], self.types[each])


def gather_inputs(
    data: Sequence[str], types: Mapping[str, TensorType], pixels: Pixels | None = None
) -> dict[str, np.ndarray]:
    """Arrays for all inputs of a model.

    Args:
        data: ``FILE`` or ``NAME=FILE``; files without a name go to the inputs in order, the
            arrays of a ``.npz`` to the inputs of their names.
        types: of the inputs, by name.
        pixels: how images become numbers.
    """
    gathering = _Gathering(types, pixels or Pixels())
    for text in data:
        gathering.add(*_split(text, list(types)))
    missing = [f"{name} {type}" for name, type in types.items() if name not in gathering.found]
    if missing:
        raise UserError(
            "every input needs data",
            got=f"nothing for {', '.join(missing)}",
            fix="Give NAME=FILE for each, or --random",
        )
    return {name: gathering.found[name] for name in types}


def random_inputs(
    types: Mapping[str, TensorType], seed: int, *, quantized: bool = False
) -> dict[str, np.ndarray]:
    """Seeded random inputs: normal for floats, small whole numbers otherwise.

    Args:
        types: of the inputs by name.
        seed: of the generator.
        quantized: whether integers of 8 or 16 bits stand for numbers: they take all values then.
    """
    generator = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for name, type in types.items():
        if type.dtype.is_float:
            array = generator.standard_normal(type.dims)
        else:
            low, high = type.dtype.limits
            if not quantized or not 1 <= type.dtype.bytes <= 2 or not type.dtype.is_integer:
                low, high = max(low, -8), min(high, 8)
            array = generator.integers(low, high, type.dims, endpoint=True)
        found[name] = np.asarray(array).astype(type.dtype.numpy)
    return found


# --- sizes ----------------------------------------------------------------------------------

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_bytes(text: str) -> int:
    """``500``, ``64K``, ``200M`` or ``1.5G``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise UserError(
            "a size must be a number, optionally with K, M or G", got=text or repr(text)
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])
