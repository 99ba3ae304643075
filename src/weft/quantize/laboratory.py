"""One build of a network in which every value may be quantized or not, and weights exchanged.

Calibration, measured sensitivity and corrections run a network in many variants. Here a value goes
through ``Where(on, DequantizeLinear(QuantizeLinear(v)), v)``, and scales, zero points, switches,
weights and biases are inputs: a variant takes a run, no compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import cached_property
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.naming import making, reading
from weft.ir.order import topological
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.quantize.samples import RunInputs
from weft.quantize.scheme import QuantizationParameters, QuantizationScheme
from weft.quantize.sites import QuantizationSites

Run: TypeAlias = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
"""Inputs by name to outputs by name, which the next run may overwrite."""
Build: TypeAlias = Callable[[Graph], Run]
"""What makes a graph run."""


def by_reference(graph: Graph) -> Run:
    """Runs a graph by the ops' NumPy references."""
    return lambda inputs: evaluate(graph, inputs, OPS)


@dataclass(frozen=True)
class QuantizedVariant:
    """What is quantized in a run.

    Attributes:
        activations: for the values that are quantized, how.
        constants: weights and biases that differ from the network's.
    """

    activations: Mapping[str, QuantizationParameters] = field(
        default_factory=dict[str, QuantizationParameters]
    )
    constants: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


FLOAT = QuantizedVariant()


@dataclass(frozen=True)
class _Switch:
    """The inputs that say how a value is quantized."""

    on: str
    scale: str
    zero_point: str


@dataclass(frozen=True)
class Laboratory:
    """A network whose variants run.

    Attributes:
        graph: prepared, all sizes known.
        sites: where it may be quantized.
        scheme: of activations.
        build: makes graphs run.
    """

    graph: Graph
    sites: QuantizationSites
    scheme: QuantizationScheme
    build: Build
    built: dict[tuple[str, ...], Run] = field(default_factory=dict[tuple[str, ...], Run])

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The values that are computed or given, and may be quantized."""
        return tuple(v for v in self.sites.values if v not in self.graph.constants)

    @cached_property
    def exchanged(self) -> tuple[str, ...]:
        """The weights and biases of layers."""
        found = (value for each in self.sites.layers for value in (each.weight, each.bias))
        return tuple(dict.fromkeys(filter(None, found)))

    def run(
        self,
        sample: RunInputs,
        variant: QuantizedVariant = FLOAT,
        wanted: Collection[str] | None = None,
    ) -> Mapping[str, np.ndarray]:
        """Values that a variant computes for a sample; valid until the next run.

        Args:
            sample: the inputs.
            variant: what is quantized.
            wanted: names of values; the quantizable ones and the outputs if not given.
        """
        every = wanted is None
        names = tuple(dict.fromkeys((*self.graph.outputs, *self.values) if every else wanted))
        if names not in self.built:
            self.built[names] = self.build(self._graph_of(names))
        given = {name: np.asarray(array) for name, array in sample.items()}
        for value, switch in self._switches.items():
            parameters = variant.activations.get(value, self._neutral)
            given[switch.on] = np.array(value in variant.activations)
            given[switch.scale] = parameters.scale
            given[switch.zero_point] = parameters.zero_point
        for name in self.exchanged:
            array = variant.constants.get(name, self.graph.constants[name])
            given[name] = np.ascontiguousarray(array)
        found = self.built[names](given)
        return {name: found[self._outputs.get(name, name)] for name in names}

    @cached_property
    def _neutral(self) -> QuantizationParameters:
        return self.scheme.parameters(-1.0, 1.0)

    @cached_property
    def _parts(self) -> tuple[Graph, Mapping[str, _Switch], Mapping[str, str]]:
        """The graph of all variants, its switches, and what inputs are called as outputs."""
        graph = self.graph
        builder = GraphBuilder(OPS, graph.name, taken=[*graph.types, *graph.by_name])
        switches: dict[str, _Switch] = {}
        before: dict[str, str] = {}
        after: dict[str, str] = {}
        for value in self.values:
            exact = value if value in graph.inputs else builder.fresh(f"{value}_float")
            builder.declare(exact, graph.types[value])
            switch = _Switch(
                builder.input(f"{value}_on", TensorType(DType.BOOL, ())),
                builder.input(f"{value}_scale", TensorType(DType.F32, ())),
                builder.input(f"{value}_zero_point", TensorType(self.scheme.dtype, ())),
            )
            whole = builder.op("QuantizeLinear", exact, switch.scale, switch.zero_point)
            rounded = builder.op("DequantizeLinear", whole, switch.scale, switch.zero_point)
            made = builder.op("Where", switch.on, rounded, exact)
            switches[value] = switch
            (after if value in graph.inputs else before)[value] = (
                made if value in graph.inputs else exact
            )
            if value not in graph.inputs:
                builder.nodes[-1] = making(builder.nodes[-1], {made: value})
        nodes = [making(reading(node, after), before) for node in graph.nodes]
        kept = {n: a for n, a in graph.constants.items() if n not in self.exchanged}
        edited = changed(
            graph,
            inputs=(*graph.inputs, *builder.inputs, *self.exchanged),
            nodes=topological([*nodes, *builder.nodes]),
            types={**builder.types, **graph.types},
            constants={**kept, **builder.constants},
        )
        made_here = {value for node in edited.nodes for value in node.outputs}
        alive = {*edited.inputs, *edited.constants, *made_here}
        types = {name: type for name, type in edited.types.items() if name in alive}
        return changed(edited, types=types), switches, after

    @cached_property
    def _switches(self) -> Mapping[str, _Switch]:
        return self._parts[1]

    @cached_property
    def _outputs(self) -> Mapping[str, str]:
        return self._parts[2]

    def _graph_of(self, names: Collection[str]) -> Graph:
        outputs = tuple(dict.fromkeys(self._outputs.get(name, name) for name in names))
        return changed(self._parts[0], outputs=outputs)
