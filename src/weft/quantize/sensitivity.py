"""How much each layer hurts: measured, one layer quantized at a time and all of them together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf, isinf

import numpy as np

from weft.ir.graph import Graph, Node
from weft.ops.quantizable import scales_of
from weft.quantize.laboratory import Laboratory, QuantizedVariant
from weft.quantize.samples import CalibrationSamples
from weft.quantize.scheme import QuantizationParameters
from weft.quantize.sites import QuantizationSites, QuantizedLayer
from weft.records import dataclass
from weft.reporting import announce


@dataclass(frozen=True, slots=True)
class QuantizedUnit:
    """A layer, or arithmetic between layers, that is quantized or stays in floating point.

    Attributes:
        node: its node.
        end: the value that it gives, which is quantized.
        reads: the quantized values that it reads.
        layer: what is known of its weight, if it has one.
    """

    node: Node
    end: str
    reads: tuple[str, ...]
    layer: QuantizedLayer | None


def units_of(graph: Graph, sites: QuantizationSites) -> Iterator[QuantizedUnit]:
    """The units of a graph, in its order."""
    layers = {layer.node.name: layer for layer in sites.layers}
    quantized = set(sites.values)
    for node in graph.nodes:
        if node.name not in sites.ends or scales_of(graph, node) in (None, "shared"):
            continue
        layer = layers.get(node.name)
        end = layer.end if layer else sites.ends[node.name]
        data = (layer.data,) if layer else node.reads
        yield QuantizedUnit(node, end, tuple(v for v in data if v in quantized), layer)


@dataclass
class ErrorSums:
    """Energy of what should be, of what differs, and their product, over samples."""

    signal: float = 0.0
    noise: float = 0.0
    other: float = 0.0
    product: float = 0.0

    def add(self, exact: np.ndarray, found: np.ndarray) -> None:
        """Adds a value of one sample, without and with quantization.

        Infinities and NaNs where there should be others or numbers (float16 overflows) are
        infinite noise; where they should be, they count for nothing.
        """
        one, two = (each.reshape(-1).astype(np.float64) for each in (exact, found))
        numbers = np.isfinite(one) & np.isfinite(two)
        if not numbers.all():
            if not np.array_equal(one[~numbers], two[~numbers], equal_nan=True):
                self.noise = inf
            one, two = one[numbers], two[numbers]
        self.signal += float(one @ one)
        self.other += float(two @ two)
        self.product += float(one @ two)
        self.noise += float(np.sum((one - two) ** 2))

    @property
    def decibels(self) -> float:
        """Signal to quantization noise, in dB; infinite without noise, -infinite with infinite."""
        if not self.noise or isinf(self.noise):
            return -inf if self.noise else inf
        return 10 * float(np.log10(max(self.signal, 1e-300) / self.noise))

    @property
    def cosine(self) -> float:
        """Of the angle between what is and what should be; 0 where noise is infinite."""
        if isinf(self.noise):
            return 0.0
        size = float(np.sqrt(self.signal * self.other))
        return self.product / size if size else 1.0


def observed_outputs(lab: Laboratory) -> tuple[str, ...]:
    """The outputs, and where Softmax gives one, what it reads: it hides small differences."""
    found: list[str] = []
    for value in lab.graph.outputs:
        maker = lab.graph.producers.get(value)
        hidden = maker is not None and maker.op == "Softmax" and maker.inputs[0] in lab.values
        found.append(maker.inputs[0] if maker is not None and hidden else value)
    return tuple(dict.fromkeys(found))


def sensitivities(
    lab: Laboratory,
    units: Sequence[QuantizedUnit],
    activations: Mapping[str, QuantizationParameters],
    weights: Mapping[str, np.ndarray],
    samples: CalibrationSamples,
) -> dict[str, ErrorSums]:
    """Errors of the network's outputs with one unit quantized at a time, by name of its node.

    Args:
        lab: runs the network.
        units: to try.
        activations: of the values.
        weights: by the name of the constant, the numbers that its integers stand for.
        samples: to run on; few are enough.
    """
    wanted = observed_outputs(lab)
    exact = [_kept(lab.run(sample), wanted) for sample in samples]
    found: dict[str, ErrorSums] = {}
    for done, unit in enumerate(units):
        announce("measuring layers", done, len(units))
        variant = QuantizedVariant(
            {value: activations[value] for value in (*unit.reads, unit.end)},
            {} if unit.layer is None else {unit.layer.weight: weights[unit.layer.weight]},
        )
        sums = found[unit.node.name] = ErrorSums()
        for sample, expected in zip(samples, exact, strict=True):
            made = lab.run(sample, variant)
            for value in wanted:
                sums.add(expected[value], made[value])
    return found


def accumulated(
    lab: Laboratory,
    variant: QuantizedVariant,
    values: Sequence[str],
    samples: CalibrationSamples,
) -> dict[str, ErrorSums]:
    """Errors of values where all that a variant quantizes is quantized.

    Args:
        lab: runs the network.
        variant: what is quantized.
        values: to compare.
        samples: to run on.
    """
    found = {value: ErrorSums() for value in values}
    for done, sample in enumerate(samples):
        announce("comparing with floating point", done, len(samples))
        exact = _kept(lab.run(sample), values)
        made = lab.run(sample, variant)
        for value, sums in found.items():
            sums.add(exact[value], made[value])
    return found


def _kept(found: Mapping[str, np.ndarray], values: Collection[str]) -> dict[str, np.ndarray]:
    """Copies: the next run may use the memory."""
    return {value: np.array(found[value]) for value in values}
