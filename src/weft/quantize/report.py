"""What quantization did to each layer, and why some hurt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import inf, isinf

import numpy as np

from weft.cached import cached_property
from weft.ir.short_names import short_names
from weft.quantize.histogram import RunningHistogram
from weft.quantize.scheme import QuantizationParameters
from weft.quantize.sensitivity import ErrorSums, QuantizedUnit
from weft.quantize.weights import QuantizedWeight
from weft.records import dataclass
from weft.screen import Screen, Shown, several, some

_BARS = 64
_FEW_CLIPPED, _MANY_TIMES, _LOST = 1e-3, 4.0, 6.0


@dataclass(frozen=True, slots=True)
class ValueHistogram:
    """How the elements of a value are distributed.

    Attributes:
        low: where the first bar begins; high: where the last one ends.
        shares: of the elements in each bar, in all 1.
        range_low: the smallest number that the integers stand for; range_high: the largest.
        clipped: the share of elements outside of it.
    """

    low: float
    high: float
    shares: tuple[float, ...]
    range_low: float
    range_high: float
    clipped: float


@dataclass(frozen=True, slots=True)
class QuantizedLayerReport:
    """Figures of one layer.

    Attributes:
        name: of its node.
        op: of its node.
        bits: of its weight, where it has one that is quantized.
        sqnr: signal to noise of its output in the quantized network, in dB.
        cosine: of the angle between its outputs with and without quantization.
        own: signal to noise of the network's output with this layer alone quantized, in dB.
        weight: signal to noise of its weight, in dB, where it has one.
        data: signal to noise of its input as quantized, in dB.
        why: what limits it.
        histogram: of its output.
    """

    name: str
    op: str
    bits: int | None
    sqnr: float
    cosine: float
    own: float
    weight: float | None
    data: float
    why: str
    histogram: ValueHistogram

    def record(self) -> dict[str, object]:
        """Plain data, for JSON, which has no infinity."""
        found = {name: getattr(self, name) for name in self.__slots__ if name != "histogram"}
        return {name: None if _infinite(value) else value for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class FloatNode:
    """A node that computes in floating point.

    Attributes:
        name: of the node; op: what it computes.
        reason: why.
    """

    name: str
    op: str
    reason: str


@dataclass(frozen=True, repr=False)
class QuantizationReport(Shown):
    """What quantization did to a network.

    Attributes:
        name: of the network.
        samples: how many it was calibrated with.
        layers: figures of each, in graph order.
        output: signal to noise of the network's output, in dB.
        floats: the nodes that compute in floating point.
        accuracy: of the quantized network, where a metric was given; reference: of the original.
        equalized: how many pairs of layers were equalized.
    """

    name: str
    samples: int
    layers: tuple[QuantizedLayerReport, ...]
    output: float
    floats: tuple[FloatNode, ...]
    accuracy: float | None = None
    reference: float | None = None
    equalized: int = 0

    @cached_property
    def short_names(self) -> Mapping[str, str]:
        """What tells the layers apart in their names."""
        return short_names(layer.name for layer in self.layers)

    @property
    def worst(self) -> QuantizedLayerReport | None:
        """The layer that hurts the network's output most on its own; nothing without layers."""
        return min(self.layers, key=lambda layer: layer.own, default=None)

    def headings(self) -> tuple[str, ...]:
        """Of the table's columns."""
        return ("layer", "op", "weight", "SQNR", "cosine", "alone", "weights", "input", "limit")

    def rows(self) -> list[tuple[str, ...]]:
        """Of the table, one for each layer; signal to noise ratios in dB."""
        names = self.short_names
        return [
            (
                names[layer.name],
                layer.op,
                f"int{layer.bits}" if layer.bits else "",
                decibels(layer.sqnr),
                f"{layer.cosine:.5f}",
                decibels(layer.own),
                "" if layer.weight is None else decibels(layer.weight),
                decibels(layer.data),
                layer.why,
            )
            for layer in self.layers
        ]

    def facts(self) -> list[tuple[str, str]]:
        """What there is to say about the network."""
        found = [("output", f"{decibels(self.output)} dB signal to quantization noise")]
        if self.accuracy is not None and self.reference is not None:
            found.append(("accuracy", f"{self.accuracy:.4g}, {self.reference:.4g} in float"))
        found.append(("in float", some(f"{op} ({why})" for op, why in self._float_ops()) or "none"))
        if (worst := self.worst) is not None:
            name = self.short_names[worst.name]
            found.append(("hurts most", f"{name}: {decibels(worst.own)} dB alone, {worst.why}"))
        return found

    def _float_ops(self) -> Iterator[tuple[str, str]]:
        """Ops that compute in floating point and why, those with most nodes first."""
        counted = Counter((each.op, each.reason) for each in self.floats)
        for (op, why), count in counted.most_common():
            yield op if count == 1 else f"{count} {op}", why

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        what = f"{several(len(self.layers), 'layer')} with {several(self.samples, 'sample')}"
        title = f"Quantization of {self.name}: {what}"
        headings = self.headings()
        return Screen(title, self.facts(), headings, self.rows(), range(3, len(headings) - 1))

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {
            "name": self.name,
            "samples": self.samples,
            "output_sqnr": None if isinf(self.output) else self.output,
            "accuracy": self.accuracy,
            "reference_accuracy": self.reference,
            "equalized_pairs": self.equalized,
            "layers": [layer.record() for layer in self.layers],
            "floats": [asdict(each) for each in self.floats],
        }


def decibels(value: float) -> str:
    """A ratio for people; nothing is lost where there is no noise."""
    return "exact" if value == inf else f"{value:.1f}"


def _infinite(value: object) -> bool:
    return isinstance(value, float) and isinf(value)


# --- figures --------------------------------------------------------------------------------


def layer_report(
    unit: QuantizedUnit,
    weight: tuple[np.ndarray, QuantizedWeight] | None,
    activations: Mapping[str, QuantizationParameters],
    histograms: Mapping[str, RunningHistogram],
    sums: tuple[ErrorSums, ErrorSums],
) -> QuantizedLayerReport:
    """The figures of one layer.

    Args:
        unit: the layer.
        weight: in floating point, and quantized.
        activations: scales and zero points of values.
        histograms: of values.
        sums: of its output in the quantized network; of the network's with it alone quantized.
    """
    data = min(_rounding_noise(histograms[v], activations[v]) for v in unit.reads)
    own_weight = None if weight is None else _weight_noise(*weight)
    shown = histogram_of(histograms[unit.end], activations[unit.end])
    name = max(unit.reads, key=lambda v: -_rounding_noise(histograms[v], activations[v]))
    why = (
        _weight_limit(*weight)
        if weight is not None and own_weight is not None and own_weight < data
        else _data_limit(histograms[name], activations[name])
    )
    local = min(data, own_weight if own_weight is not None else data)
    if sums[0].decibels < local - _LOST and sums[1].decibels > sums[0].decibels + _LOST:
        why = f"errors of layers before; then {why}"
    return QuantizedLayerReport(
        unit.node.name,
        unit.node.op,
        None if weight is None else weight[1].parameters.scheme.bits,
        sums[0].decibels,
        sums[0].cosine,
        sums[1].decibels,
        own_weight,
        data,
        why,
        shown,
    )


def histogram_of(found: RunningHistogram, given: QuantizationParameters) -> ValueHistogram:
    """A histogram with few bars, and what of it is within the range of integers."""
    low, high = (float(end) for end in given.range)
    centers, counts = found.centers, found.counts
    total = max(found.total, 1)
    edges = np.linspace(
        found.low, found.high if found.high > found.low else found.low + 1, _BARS + 1
    )
    sums, _ = np.histogram(centers, edges, weights=counts)
    half = float(given.scale) / 2
    outside = counts[(centers < low - half) | (centers > high + half)].sum()
    return ValueHistogram(
        float(edges[0]),
        float(edges[-1]),
        tuple((sums / total).tolist()),
        low,
        high,
        float(outside) / total,
    )


def _rounding_noise(found: RunningHistogram, given: QuantizationParameters) -> float:
    """Signal to noise of a value that is quantized, in dB, by its histogram."""
    used = found.counts > 0
    x, counts = found.centers[used].astype(np.float32), found.counts[used]
    # Within a bin elements are even, so that a step is uniform noise.
    inside = given.rounded(x) - x
    low, high = (float(end) for end in given.range)
    uniform = float(given.scale) ** 2 / 12
    noise = np.where((x < low) | (x > high), inside**2, uniform)
    sums = ErrorSums(float(np.sum(counts * x**2)), float(np.sum(counts * noise)))
    return sums.decibels


def _weight_noise(exact: np.ndarray, found: QuantizedWeight) -> float:
    sums = ErrorSums()
    sums.add(exact, found.rounded)
    return sums.decibels


def _data_limit(found: RunningHistogram, given: QuantizationParameters) -> str:
    """Why the integers of an input lose much."""
    shown = histogram_of(found, given)
    usual = max(abs(found.quantile(0.001)), abs(found.quantile(0.999)), 1e-30)
    largest = max(abs(shown.range_low), abs(shown.range_high))
    if shown.clipped > _FEW_CLIPPED:
        return f"input: {shown.clipped:.1%} of the elements are cut off"
    if largest > _MANY_TIMES * usual:
        return f"input: outliers, the range is {largest / usual:.0f} times what 99.8% need"
    return f"input: {given.scheme.bits} bits over [{shown.range_low:.3g}, {shown.range_high:.3g}]"


def _weight_limit(exact: np.ndarray, found: QuantizedWeight) -> str:
    """Why the integers of a weight lose much."""
    scheme = found.parameters.scheme
    sizes = np.abs(exact).reshape(exact.shape[0], -1).max(axis=1)
    sizes = sizes[sizes > 0]
    spread = float(sizes.max() / np.median(sizes)) if sizes.size else 1.0
    if scheme.axis is None and spread > _MANY_TIMES:
        return f"weight: channels differ, the widest is {spread:.0f} times the usual"
    deviation = float(exact.std()) or 1.0
    peak = float(np.abs(exact).max()) / deviation
    if scheme.bits >= 8 and peak > 3 * _MANY_TIMES:
        return f"weight: the largest is {peak:.0f} standard deviations"
    return f"weight: {scheme.bits} bits"


def summary_order(layers: Sequence[QuantizedLayerReport]) -> list[QuantizedLayerReport]:
    """Layers, those that hurt most first."""
    return sorted(layers, key=lambda layer: layer.own)
