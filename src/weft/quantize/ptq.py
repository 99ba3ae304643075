"""Post-training quantization of a graph: calibration, corrections, precision, and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from dataclasses import replace as changed
from typing import TypeAlias

import numpy as np

from weft.cached import cached_property
from weft.errors import UserError
from weft.ir.compose import bind_symbols, symbols
from weft.ir.edit import set_constants
from weft.ir.graph import Graph
from weft.quantize.collecting import (
    activation_parameters,
    collect_histograms,
    moments_of,
    require_layers,
)
from weft.quantize.config import QuantizationConfig, chosen_nodes
from weft.quantize.equalize import Equalized, equalized
from weft.quantize.histogram import RunningHistogram
from weft.quantize.insert import bias_scale, insert_qdq, integer_interface, quantized_bias
from weft.quantize.laboratory import Build, Laboratory, QuantizedVariant, Run
from weft.quantize.precision import Bits, PrecisionChoice, choose_precision
from weft.quantize.prepare import prepared
from weft.quantize.report import FloatNode, QuantizationReport, layer_report
from weft.quantize.samples import CalibrationSamples, SampleSource, collect_samples
from weft.quantize.scheme import QuantizationParameters
from weft.quantize.sensitivity import (
    ErrorSums,
    QuantizedUnit,
    accumulated,
    observed_outputs,
    sensitivities,
    units_of,
)
from weft.quantize.sites import QuantizationSites, find_sites
from weft.quantize.weights import QuantizedWeight, WeightQuantizer
from weft.records import dataclass

AccuracyMetric: TypeAlias = Callable[[Run], float]
"""``metric(run)``: how good a network is; more is better."""
_FOR_ACCURACY = "kept in floating point for accuracy"
_SENSITIVITY_SAMPLES, _SENSITIVITY_RUNS, _REPORT_SAMPLES = 4, 200, 32


@dataclass(frozen=True)
class QuantizedGraph:
    """What quantization gives.

    Attributes:
        graph: with QuantizeLinear and DequantizeLinear.
        report: what it did to each layer.
    """

    graph: Graph
    report: QuantizationReport


def quantize_graph(
    graph: Graph,
    source: SampleSource,
    build: Build,
    config: QuantizationConfig | None = None,
    *,
    metric: AccuracyMetric | None = None,
    max_drop: float | None = None,
    most: int | None = None,
) -> QuantizedGraph:
    """Quantizes a graph after training.

    Args:
        graph: in floating point; an open batch is 1 while it is calibrated.
        source: samples of its inputs.
        build: makes graphs run.
        config: schemes, methods and exceptions.
        metric: measures accuracy.
        max_drop: by how much the metric may be less than in floating point: layers get more bits
            until it is not.
        most: samples to take of the source.

    Raises:
        UserError: samples do not fit, an option names no layer, or nothing can be quantized.
    """
    if max_drop is not None and metric is None:
        raise UserError(
            "quantize: max_drop needs an accuracy",
            fix="Give a metric, or labels with the samples.",
        )
    if max_drop is not None and not 0 <= max_drop < float("inf"):
        raise UserError("quantize: max_drop must be at least 0", got=f"{max_drop:g}")
    work = _Quantization.begin(graph, source, build, config or QuantizationConfig(), most)
    bits = work.first_bits()
    choice = work.choose(bits, metric, max_drop) if metric is not None else None
    return work.done(choice.bits if choice else bits, choice)


@dataclass
class _Quantization:
    """The state of one quantization."""

    config: QuantizationConfig
    graph: Graph
    names: Mapping[str, frozenset[str]]
    keep_float: frozenset[str]
    lab: Laboratory
    samples: CalibrationSamples
    equalization: Equalized | None
    measured: dict[str, ErrorSums] = field(default_factory=dict[str, ErrorSums])

    @staticmethod
    def begin(
        graph: Graph,
        source: SampleSource,
        build: Build,
        config: QuantizationConfig,
        most: int | None,
    ) -> _Quantization:
        base = prepared(graph)
        names = _names_of(base)
        keep_float = _nodes_named(config.keep_float, names, "keep_float")
        sites = _sites(base, keep_float, config)
        require_layers(sites, base)
        equalization = equalized(base, sites.layers) if config.equalize else None
        if equalization is not None:
            base = equalization.graph
        bound = bind_symbols(base, dict.fromkeys(symbols(base), 1)) if symbols(base) else base
        samples = collect_samples(source, {n: bound.types[n] for n in bound.inputs}, most)
        bound_sites = _sites(bound, keep_float, config)
        lab = Laboratory(bound, bound_sites, config.activations, build)
        return _Quantization(config, base, names, keep_float, lab, samples, equalization)

    @cached_property
    def histograms(self) -> dict[str, RunningHistogram]:
        """Of every value that may be quantized."""
        return collect_histograms(self.lab, self.samples, self.config.momentum)

    @cached_property
    def activations(self) -> dict[str, QuantizationParameters]:
        """Parameters where everything is quantized that can be."""
        return activation_parameters(self.lab.sites, self.histograms, self.config)

    @cached_property
    def weights(self) -> WeightQuantizer:
        """Quantizes weights; those that need the columns of their layer are done."""
        found = WeightQuantizer(self.lab.graph, self.config, self.activations)
        adaptive = self.config.adaptive_rounding
        if not (adaptive or self.config.bias_correction):
            return found
        bits = self.first_bits()
        for layer, moments in moments_of(self.lab, self.samples, products=adaptive):
            found.moments[layer.node.name] = moments
            found(layer, bits[layer.node.name] or 8)
            # Products take much memory; with more bits, the nearest integers do.
            moments.products = None
        return found

    @cached_property
    def units(self) -> tuple[QuantizedUnit, ...]:
        """The layers, and the arithmetic between them."""
        return tuple(units_of(self.lab.graph, self.lab.sites))

    def first_bits(self) -> dict[str, Bits]:
        """The bits that are asked for; of units without a weight those of activations."""
        found: dict[str, Bits] = {
            unit.node.name: self.config.weights.bits if unit.layer else self.config.activations.bits
            for unit in self.units
        }
        for pattern, bits in self.config.weight_bits.items():
            chosen = _nodes_named((pattern,), self.names, "weight_bits")
            layers = [unit.node.name for unit in self.units if unit.layer is not None]
            found.update(dict.fromkeys((name for name in layers if name in chosen), bits))
        return found

    # --- precision --------------------------------------------------------------------------

    def choose(
        self, bits: Mapping[str, Bits], metric: AccuracyMetric, max_drop: float | None
    ) -> PrecisionChoice:
        """The bits with which the metric is high enough."""
        outputs = self.lab.graph.outputs

        def measure(bits: Mapping[str, Bits]) -> float:
            variant = self.variant(bits)
            return float(metric(lambda inputs: self.lab.run(inputs, variant, outputs)))

        reference = float(metric(lambda inputs: self.lab.run(inputs, wanted=outputs)))
        if max_drop is None:
            return PrecisionChoice(bits, measure(bits), reference, 1)
        self._measure_layers(bits)
        ordered = sorted(bits, key=lambda name: self.measured[name].decibels)
        return choose_precision(ordered, bits, measure, reference, max_drop)

    def variant(self, bits: Mapping[str, Bits]) -> QuantizedVariant:
        """What runs with these bits."""
        sites = self.sites(bits)
        parameters = activation_parameters(sites, self.histograms, self.config)
        constants: dict[str, np.ndarray] = {}
        for layer in sites.layers:
            weight = self.weights(layer, bits[layer.node.name] or 8)
            constants[layer.weight] = weight.rounded
            if layer.bias is not None and weight.bias is not None:
                scale = bias_scale(weight.parameters, parameters[layer.data])
                whole = quantized_bias(weight.bias, scale).astype(np.float32) * scale
                constants[layer.bias] = whole.reshape(weight.bias.shape)
        return QuantizedVariant(parameters, constants)

    def sites(self, bits: Mapping[str, Bits]) -> QuantizationSites:
        """What is quantized with these bits."""
        floats = {name for name, count in bits.items() if count is None}
        return _sites(self.lab.graph, self.keep_float | floats, self.config)

    def _measure_layers(self, bits: Mapping[str, Bits]) -> None:
        missing = [unit for unit in self.units if unit.node.name not in self.measured]
        rounded = {
            unit.layer.weight: self.weights(unit.layer, bits[unit.node.name] or 8).rounded
            for unit in missing
            if unit.layer is not None
        }
        # Deep networks have many layers to try: fewer samples each.
        count = min(_SENSITIVITY_SAMPLES, _SENSITIVITY_RUNS // max(1, len(self.units)))
        few = self.samples.first(max(1, count))
        found = sensitivities(self.lab, missing, self.activations, rounded, few)
        self.measured.update(found)

    # --- the result -------------------------------------------------------------------------

    def done(self, bits: Mapping[str, Bits], choice: PrecisionChoice | None) -> QuantizedGraph:
        """The graph with these bits, and the report."""
        sites = self.sites(bits)
        parameters = activation_parameters(sites, self.histograms, self.config)
        weights = {
            layer.node.name: self.weights(layer, bits[layer.node.name] or 8)
            for layer in sites.layers
        }
        biases = {
            layer.bias: corrected
            for layer in sites.layers
            if layer.bias and (corrected := weights[layer.node.name].bias) is not None
        }
        graph = set_constants(self.graph, biases) if self.config.bias_correction else self.graph
        made = insert_qdq(
            graph,
            parameters,
            {name: weight.parameters for name, weight in weights.items()},
            {name: weight.integers for name, weight in weights.items()},
        )
        if self.config.integer_io:
            made = integer_interface(made)
        return QuantizedGraph(made, self._report(bits, sites, parameters, weights, choice))

    def _report(
        self,
        bits: Mapping[str, Bits],
        sites: QuantizationSites,
        parameters: Mapping[str, QuantizationParameters],
        weights: Mapping[str, QuantizedWeight],
        choice: PrecisionChoice | None,
    ) -> QuantizationReport:
        # Layers that have other bits than those that they were measured with are measured again.
        first = self.first_bits()
        for name in (name for name, count in bits.items() if count != first[name]):
            self.measured.pop(name, None)
        self._measure_layers(bits)
        by_name = self.lab.graph.by_name
        units = tuple(units_of(self.lab.graph, sites))
        outputs = observed_outputs(self.lab)
        values = tuple(dict.fromkeys([*(unit.end for unit in units), *outputs]))
        few = self.samples.first(_REPORT_SAMPLES)
        sums = accumulated(self.lab, self.variant(bits), values, few)
        layers = tuple(
            layer_report(
                unit,
                (self.lab.graph.constants[unit.layer.weight], weights[unit.node.name])
                if unit.layer
                else None,
                parameters,
                self.histograms,
                (sums[unit.end], self.measured[unit.node.name]),
            )
            for unit in units
        )
        raised = {name for name, count in bits.items() if count is None} - self.keep_float
        floats = tuple(
            FloatNode(name, by_name[name].op, _FOR_ACCURACY if name in raised else why)
            for name, why in sites.floats.items()
        )
        whole = ErrorSums()
        for value in outputs:
            whole = _added(whole, sums[value])
        return QuantizationReport(
            self.graph.name,
            len(self.samples),
            layers,
            whole.decibels,
            floats,
            choice.accuracy if choice else None,
            choice.reference if choice else None,
            len(self.equalization.pairs) if self.equalization else 0,
        )


def _sites(
    graph: Graph, keep_float: frozenset[str], config: QuantizationConfig
) -> QuantizationSites:
    bits = config.activations.bits
    return find_sites(graph, keep_float, bits=bits, integer_io=config.integer_io)


def _added(one: ErrorSums, other: ErrorSums) -> ErrorSums:
    return changed(
        one,
        signal=one.signal + other.signal,
        noise=one.noise + other.noise,
        other=one.other + other.other,
        product=one.product + other.product,
    )


def _names_of(graph: Graph) -> dict[str, frozenset[str]]:
    """What nodes may be called: their names and those of the layers that they come from."""
    found: dict[str, set[str]] = {}
    for node in graph.nodes:
        for name in (node.name, *node.origin.sources):
            found.setdefault(name, set()).add(node.name)
    return {name: frozenset(nodes) for name, nodes in found.items()}


def _nodes_named(
    patterns: tuple[str, ...], names: Mapping[str, frozenset[str]], what: str
) -> frozenset[str]:
    chosen = chosen_nodes(patterns, names.keys(), what)
    return frozenset[str]().union(*(names[name] for name in chosen))
