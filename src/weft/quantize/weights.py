"""Weights as integers, and biases that make up for their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from weft.ir.graph import Graph
from weft.quantize.adaptive_rounding import RoundingResult, adapted_rows, scale_of_rows
from weft.quantize.calibrators import weight_bounds
from weft.quantize.config import QuantizationConfig
from weft.quantize.insert import with_room
from weft.quantize.moments import ColumnMoments, as_rows, from_rows
from weft.quantize.scheme import QuantizationParameters
from weft.quantize.sites import QuantizedLayer
from weft.records import dataclass


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """A layer's weight as integers.

    Attributes:
        parameters: how they stand for numbers.
        integers: of the weight's shape.
        bias: of the layer, in floating point, corrected; nothing where it has none.
        rounding: the errors before and after adaptive rounding, if there was any.
    """

    parameters: QuantizationParameters
    integers: np.ndarray
    bias: np.ndarray | None
    rounding: RoundingResult | None = None

    @property
    def rounded(self) -> np.ndarray:
        """The numbers that the integers stand for, f32."""
        return self.parameters.dequantize(self.integers)


@dataclass
class WeightQuantizer:
    """Quantizes weights, each once for each number of bits.

    Attributes:
        graph: that has them.
        config: schemes and methods.
        moments: of the layers' columns, where corrections need them.
        activations: parameters of the layers' inputs.
    """

    graph: Graph
    config: QuantizationConfig
    activations: Mapping[str, QuantizationParameters]
    moments: dict[str, ColumnMoments] = field(default_factory=dict[str, ColumnMoments])
    known: dict[tuple[str, int], QuantizedWeight] = field(
        default_factory=dict[tuple[str, int], QuantizedWeight]
    )

    def __call__(self, layer: QuantizedLayer, bits: int) -> QuantizedWeight:
        """The weight of a layer with so many bits."""
        key = (layer.node.name, bits)
        if key not in self.known:
            self.known[key] = self._quantized(layer, bits)
        return self.known[key]

    def _quantized(self, layer: QuantizedLayer, bits: int) -> QuantizedWeight:
        weight = self.graph.constants[layer.weight]
        scheme = self.config.weight_scheme(bits, layer.axis)
        bounds = weight_bounds(weight, scheme, self.config.weight_calibration)
        parameters = scheme.parameters(*bounds)
        bias = self.graph.constants[layer.bias] if layer.bias else None
        data = self.activations.get(layer.data)
        if bias is not None and data is not None:
            parameters = with_room(parameters, bias, data)
        moments = self.moments.get(layer.node.name)
        whole, result = parameters.quantize(weight), None
        if moments is not None and moments.products is not None and scheme.symmetric:
            rows = as_rows(layer, weight)
            scale = scale_of_rows(parameters, rows.shape)
            result = adapted_rows(rows, scale, scheme.limits, moments.second)
            whole = from_rows(layer, result.integers, weight).astype(scheme.dtype.numpy)
        if moments is not None and bias is not None and self.config.bias_correction:
            lost = as_rows(layer, weight - parameters.dequantize(whole))
            mean = np.sum(lost * moments.mean[:, None, :], axis=-1)
            bias = (bias + mean.reshape(bias.shape)).astype(bias.dtype)
        return QuantizedWeight(parameters, whole, bias, result)
