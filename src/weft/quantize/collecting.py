"""Passes over samples: what calibration and corrections must know of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.quantize.calibrators import Bounds, calibrated
from weft.quantize.config import QuantizationConfig
from weft.quantize.histogram import RunningHistogram
from weft.quantize.laboratory import Laboratory
from weft.quantize.moments import ColumnMoments, as_rows, columns, has_columns
from weft.quantize.samples import CalibrationSamples
from weft.quantize.scheme import QuantizationParameters
from weft.quantize.sites import QuantizationSites, QuantizedLayer
from weft.records import dataclass
from weft.reporting import announce

_MOST_BYTES = 1 << 29
"""Of products of columns that are collected in one pass over the samples."""


def collect_histograms(
    lab: Laboratory, samples: CalibrationSamples, momentum: float
) -> dict[str, RunningHistogram]:
    """What is known of every value that may be quantized."""
    found = {value: RunningHistogram(momentum) for value in lab.values}
    for constant in (v for v in lab.sites.values if v in lab.graph.constants):
        found[constant] = RunningHistogram(momentum)
        found[constant].add(lab.graph.constants[constant], constant)
    for done, sample in enumerate(samples):
        announce("calibrating", done, len(samples))
        made = lab.run(sample)
        for value in lab.values:
            found[value].add(made[value], value)
    return found


def activation_parameters(
    sites: QuantizationSites,
    histograms: Mapping[str, RunningHistogram],
    config: QuantizationConfig,
) -> dict[str, QuantizationParameters]:
    """Scale and zero point of every value that is quantized; those of one group share them.

    Args:
        sites: what is quantized.
        histograms: of at least these values.
        config: has the method and the scheme.
    """
    found: dict[str, QuantizationParameters] = {}
    for members in sites.members.values():
        ranges = [_range(value, sites, histograms, config) for value in members]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        parameters = config.activations.parameters(low, high)
        found.update(dict.fromkeys(members, parameters))
    return found


def _range(
    value: str,
    sites: QuantizationSites,
    histograms: Mapping[str, RunningHistogram],
    config: QuantizationConfig,
) -> Bounds:
    if value in sites.fixed:
        return sites.fixed[value]
    return calibrated(histograms[value], config.activations, config)


@dataclass(frozen=True)
class _Need:
    layer: QuantizedLayer
    bytes: int


def moments_of(
    lab: Laboratory, samples: CalibrationSamples, *, products: bool
) -> Iterator[tuple[QuantizedLayer, ColumnMoments]]:
    """The moments of the columns of every layer, in as many passes as memory allows for.

    Args:
        lab: runs the network.
        samples: to run on.
        products: whether products of columns are needed, too.
    """
    graph = lab.graph
    needs = [
        _Need(layer, _bytes_of(lab, layer) if products else 0)
        for layer in lab.sites.layers
        if has_columns(layer, graph)
    ]
    for part in _parts(needs):
        found = {
            layer.node.name: ColumnMoments.empty(
                layer, graph.constants[layer.weight], products=products
            )
            for layer in part
        }
        for done, sample in enumerate(samples):
            announce("collecting the inputs of layers", done, len(samples))
            made = lab.run(sample)
            for layer in part:
                found[layer.node.name].add(columns(graph, layer, made[layer.data]))
        for layer in part:
            yield layer, found.pop(layer.node.name)


def _bytes_of(lab: Laboratory, layer: QuantizedLayer) -> int:
    groups, _, depth = as_rows(layer, lab.graph.constants[layer.weight]).shape
    return groups * depth * depth * 8


def _parts(needs: Sequence[_Need]) -> Iterator[list[QuantizedLayer]]:
    part: list[QuantizedLayer] = []
    held = 0
    for need in needs:
        if part and held + need.bytes > _MOST_BYTES:
            yield part
            part, held = [], 0
        part.append(need.layer)
        held += need.bytes
    if part:
        yield part


def require_layers(sites: QuantizationSites, graph: Graph) -> None:
    """Refuse a network in which there is nothing to quantize."""
    if sites.layers:
        return
    if any(node.op == "QuantizeLinear" or node.op.startswith("QLinear") for node in graph.nodes):
        raise UserError(
            f"quantize: {graph.name} is quantized already", fix="Quantize the float network."
        )
    reasons = list(dict.fromkeys(sites.floats.values()))[:3]
    raise UserError(
        f"quantize: {graph.name} has no layer with a constant f32 weight that can be quantized",
        got="; ".join(reasons),
    )
