"""Networks of 8-bit integers for the benchmarks: made of the zoo's by onnxruntime's quantizer.

Weights are symmetric ``i8`` with one scale for each output channel, activations ``u8`` or ``i8``,
calibrated on random images; the file holds pairs of QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

_IMAGES = 4
"""That activations are calibrated on."""


class _Images:
    """Random images of a network's input, as onnxruntime's calibration reads them."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        random = np.random.default_rng(0)
        made = (random.normal(size=shape).astype(np.float32) for _ in range(_IMAGES))
        self.left: Iterator[Mapping[str, np.ndarray]] = iter([{name: each} for each in made])

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self.left, None)


def quantize(source: Path, made: Path, activations: str = "u8") -> None:
    """Writes a quantized network.

    Args:
        source: a network of floats with one input of fixed shape.
        made: the file to write.
        activations: ``u8`` or ``i8``.
    """
    quantization: Any = importlib.import_module("onnxruntime.quantization")
    shapes: Any = importlib.import_module("onnxruntime.quantization.shape_inference")
    (given,) = onnx.load(source, load_external_data=False).graph.input
    shape = tuple(each.dim_value for each in given.type.tensor_type.shape.dim)
    kind = quantization.QuantType.QUInt8 if activations == "u8" else quantization.QuantType.QInt8
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        shapes.quant_pre_process(str(source), str(prepared))
        part = Path(folder) / "made.onnx"
        quantization.quantize_static(
            str(prepared),
            str(part),
            _Images(given.name, shape),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=kind,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )
        made.write_bytes(part.read_bytes())
