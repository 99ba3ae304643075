"""What storing values in half precision does to each layer, and which layers to keep.

One build runs all variants: a weight or a stored value goes through
``Where(on, Cast(Cast(v, half), f32), v)``, and the switches of the layers are an input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from dataclasses import replace as changed
from math import isinf

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.naming import making, reading
from weft.ir.order import topological
from weft.ir.short_names import short_names
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.table import OPS
from weft.quantize.laboratory import Build, Run, switch_element
from weft.quantize.precision import Bits, PrecisionChoice, choose_precision
from weft.quantize.ptq import AccuracyMetric
from weft.quantize.report import decibels
from weft.quantize.samples import CalibrationSamples, RunInputs
from weft.quantize.sensitivity import ErrorSums
from weft.records import dataclass
from weft.reporting import announce
from weft.rewrite.half_precision import HALVES, HalfSites, kept_nodes
from weft.screen import Screen, Shown, several, some

_SENSITIVITY_SAMPLES, _REPORT_SAMPLES = 4, 32


@dataclass(frozen=True, slots=True)
class HalfPrecisionLayer:
    """Figures of one layer.

    Attributes:
        name: of its node; op: of its node.
        kept: whether it stays in float32.
        sqnr: signal to noise of what it stores in the network of half precision, in dB; infinite
            where nothing is lost, -infinite where numbers become infinities or NaNs.
        cosine: of the angle between that and the same in float32.
        own: signal to noise of the network's output with this layer alone rounded, in dB.
    """

    name: str
    op: str
    kept: bool
    sqnr: float
    cosine: float
    own: float


@dataclass(frozen=True, repr=False)
class HalfPrecisionReport(Shown):
    """What half precision does to a network.

    Attributes:
        name: of the network; precision: that values are stored in.
        samples: how many it was measured with.
        layers: figures of each, in graph order.
        output: signal to noise of the network's output, in dB.
        keep_float32: layers that stay in float32, as ``weft.Options`` takes them.
        accuracy: with these, where a metric was given; reference: in float32.
    """

    name: str
    precision: str
    samples: int
    layers: tuple[HalfPrecisionLayer, ...]
    output: float
    keep_float32: tuple[str, ...]
    accuracy: float | None = None
    reference: float | None = None

    def headings(self) -> tuple[str, ...]:
        """Of the table's columns."""
        return ("layer", "op", "stored as", "SQNR", "cosine", "alone")

    def rows(self) -> list[tuple[str, ...]]:
        """Of the table, one for each layer; signal to noise ratios in dB."""
        names = short_names(layer.name for layer in self.layers)
        return [
            (
                names[each.name],
                each.op,
                "float32" if each.kept else self.precision,
                decibels(each.sqnr),
                f"{each.cosine:.6f}",
                decibels(each.own),
            )
            for each in self.layers
        ]

    def facts(self) -> list[tuple[str, str]]:
        """What there is to say about the network."""
        found = [("output", f"{decibels(self.output)} dB signal to rounding noise")]
        if self.accuracy is not None and self.reference is not None:
            found.append(("accuracy", f"{self.accuracy:.4g}, {self.reference:.4g} in float32"))
        found.append(("in float32", some(self.keep_float32) or "none"))
        return found

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        what = f"{several(len(self.layers), 'layer')} with {several(self.samples, 'sample')}"
        title = f"{self.name} in {self.precision}: {what}"
        return Screen(title, self.facts(), self.headings(), self.rows(), range(3, 6))

    def record(self) -> dict[str, object]:
        """Plain data, for JSON, which has no infinity: ``None`` where nothing is lost, and
        ``"-inf"`` for the ratio to infinite noise.
        """
        plain = asdict(self)
        plain["layers"] = [{k: _finite(v) for k, v in each.items()} for each in plain["layers"]]
        return {name: _finite(value) for name, value in plain.items()}


def _finite(value: object) -> object:
    if not isinstance(value, float) or not isinf(value):
        return value
    return None if value > 0 else str(value)


@dataclass(frozen=True)
class _Trial:
    """A network in which each layer may be rounded or not.

    Attributes:
        graph: simplified, all sizes known.
        half: the type that values are stored in.
        build: makes graphs run.
    """

    graph: Graph
    half: DType
    build: Build

    @cached_property
    def sites(self) -> HalfSites:
        return HalfSites(self.graph, frozenset())

    @cached_property
    def stored(self) -> dict[str, str]:
        """By value that is stored the name of its layer."""
        made = [value for node in self.graph.nodes for value in node.outputs if value]
        sites = self.sites
        return {
            value: sites.layer_of(value).name
            for value in made
            if self.graph.producers[value].name not in sites.moving and sites.is_stored(value)
        }

    @cached_property
    def weights(self) -> dict[str, list[int]]:
        """By name of a layer the places of its weights."""
        nodes, sites = self.graph.nodes, self.sites
        found = {
            node.name: [place for place in range(len(node.inputs)) if sites.is_weight(node, place)]
            for node in nodes
        }
        return {name: places for name, places in found.items() if places}

    @cached_property
    def layers(self) -> list[Node]:
        """The nodes that round a weight or what they store, in graph order."""
        names = {*self.stored.values(), *self.weights}
        return [node for node in self.graph.nodes if node.name in names]

    @cached_property
    def switched(self) -> tuple[Run, str]:
        """The build, and the name of its switches."""
        graph = self.graph
        builder = GraphBuilder(OPS, graph.name, taken=[*graph.types, *graph.by_name])
        type = TensorType(DType.BOOL, (len(self.layers),))
        switches = builder.input("rounded_layers", type)
        on = {
            node.name: switch_element(builder, switches, place)
            for place, node in enumerate(self.layers)
        }

        def rounded(value: str, layer: str) -> str:
            narrow = builder.op("Cast", value, attributes=CastAttributes(self.half))
            wide = builder.op("Cast", narrow, attributes=CastAttributes(DType.F32))
            return builder.op("Where", on[layer], wide, value)

        before: dict[str, str] = {}
        for value, layer in self.stored.items():
            before[value] = builder.fresh(f"{value}_exact")
            builder.declare(before[value], graph.types[value])
            made = rounded(before[value], layer)
            builder.nodes[-1] = making(builder.nodes[-1], {made: value})
        nodes: list[Node] = []
        for node in graph.nodes:
            twins: dict[str, str] = {}
            for place in self.weights.get(node.name, ()):
                value = node.inputs[place]
                builder.declare(value, graph.types[value], graph.constants[value])
                twins[value] = rounded(value, node.name)
            nodes.append(making(reading(node, twins), before))
        outputs = tuple(dict.fromkeys((*graph.outputs, *self.stored)))
        edited = changed(
            graph,
            inputs=(*graph.inputs, switches),
            outputs=outputs,
            nodes=topological([*nodes, *builder.nodes]),
            types={**builder.types, **graph.types},
            constants={**graph.constants, **builder.constants},
        )
        alive = {*edited.inputs, *edited.constants}
        alive |= {value for node in edited.nodes for value in node.outputs}
        types = {name: type for name, type in edited.types.items() if name in alive}
        return self.build(changed(edited, types=types)), switches

    def run(self, sample: RunInputs, rounded: Collection[str]) -> Mapping[str, np.ndarray]:
        """The outputs and all that is stored, where these layers are rounded."""
        run, switches = self.switched
        on = np.array([node.name in rounded for node in self.layers])
        return {name: np.array(each) for name, each in run({**sample, switches: on}).items()}

    def errors(
        self, samples: CalibrationSamples, rounded: Collection[str], values: Collection[str]
    ) -> dict[str, ErrorSums]:
        """Errors of values where these layers are rounded."""
        found = {value: ErrorSums() for value in values}
        for sample in samples:
            exact, made = self.run(sample, ()), self.run(sample, rounded)
            for value, sums in found.items():
                sums.add(exact[value], made[value])
        return found


def half_precision_report(
    graph: Graph,
    samples: CalibrationSamples,
    build: Build,
    precision: str,
    *,
    keep: Sequence[str] = (),
    metric: AccuracyMetric | None = None,
    max_drop: float | None = None,
) -> HalfPrecisionReport:
    """What storing values in half precision does to each layer.

    Args:
        graph: simplified, all sizes known.
        samples: of its inputs.
        build: makes graphs run.
        precision: ``bfloat16`` or ``float16``.
        keep: layers that stay in float32.
        metric: measures accuracy.
        max_drop: by how much the metric may be less than in float32: layers that hurt most stay in
            float32 until it is not.

    Raises:
        UserError: there is no layer, or ``max_drop`` stands without a metric.
    """
    if max_drop is not None and metric is None:
        fix = "Give a metric, or labels with the samples."
        raise UserError("precision: max_drop needs an accuracy", fix=fix)
    trial = _Trial(graph, HALVES[precision], build)
    kept = kept_nodes(graph, keep)
    names = [node.name for node in trial.layers if node.name not in kept]
    if not names:
        raise UserError("precision: there is no layer that half precision changes", got=graph.name)
    alone: dict[str, float] = {}
    few = samples.first(_SENSITIVITY_SAMPLES)
    for done, name in enumerate(names):
        announce("measuring layers", done, len(names))
        alone[name] = _together(trial.errors(few, {name}, graph.outputs)).decibels
    accuracy = reference = None
    if metric is not None:
        chosen = _chosen(trial, sorted(names, key=alone.__getitem__), metric, max_drop)
        accuracy, reference = chosen.accuracy, chosen.reference
        names = [name for name in names if chosen.bits[name]]
    values = (*graph.outputs, *trial.stored)
    found = trial.errors(samples.first(_REPORT_SAMPLES), names, values)
    return HalfPrecisionReport(
        graph.name,
        precision,
        len(samples),
        tuple(_layer(trial, node, names, found, alone) for node in trial.layers),
        _together({name: found[name] for name in graph.outputs}).decibels,
        tuple(node.name for node in trial.layers if node.name not in names),
        accuracy,
        reference,
    )


def _chosen(
    trial: _Trial, ordered: Sequence[str], metric: AccuracyMetric, max_drop: float | None
) -> PrecisionChoice:
    """The layers that are rounded where the accuracy is high enough, those that hurt most first."""

    def measure(bits: Mapping[str, Bits]) -> float:
        return metric(_variant(trial, [name for name in bits if bits[name]]))

    bits: dict[str, Bits] = dict.fromkeys(ordered, 8 * trial.half.bytes)
    most = float("inf") if max_drop is None else max_drop
    return choose_precision(ordered, bits, measure, metric(_variant(trial, ())), most)


def _variant(trial: _Trial, rounded: Collection[str]) -> Run:
    return lambda inputs: trial.run(inputs, rounded)


def _together(sums: Mapping[str, ErrorSums]) -> ErrorSums:
    """The errors of several values as one."""
    found = ErrorSums()
    for each in sums.values():
        found.signal += each.signal
        found.noise += each.noise
        found.other += each.other
        found.product += each.product
    return found


def _layer(
    trial: _Trial,
    node: Node,
    rounded: Collection[str],
    found: Mapping[str, ErrorSums],
    alone: Mapping[str, float],
) -> HalfPrecisionLayer:
    values = [value for value, layer in trial.stored.items() if layer == node.name]
    values = values or [value for value in node.outputs if value in found]
    sums = _together({value: found[value] for value in values})
    kept = node.name not in rounded
    own = alone.get(node.name, float("inf"))
    return HalfPrecisionLayer(node.name, node.op, kept, sums.decibels, sums.cosine, own)
