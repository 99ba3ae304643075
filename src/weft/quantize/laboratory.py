"""One build of a network in which every value may be quantized or not, and weights exchanged.

Calibration, measured sensitivity and corrections run a network in many variants. Here a value goes
through ``Where(on, DequantizeLinear(QuantizeLinear(v)), v)``, and scales, zero points, switches,
weights and biases are inputs: a variant takes a run, no compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from dataclasses import replace as changed
from typing import TypeAlias

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.naming import making, reading
from weft.ir.order import topological
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import evaluate
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import SliceAttributes
from weft.ops.table import OPS
from weft.quantize.samples import RunInputs
from weft.quantize.scheme import QuantizationParameters, QuantizationScheme
from weft.quantize.sites import QuantizationSites
from weft.records import dataclass

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
class _Switches:
    """The inputs that say how values are quantized, each with an element for each value.

    There are few of them however many values: a C function does not take a thousand arguments.
    """

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
            wanted: names of values; the quantizable ones and the outputs if not given. Each other
                choice is built on its own: fewer values run faster, but take time to compile.
        """
        every = wanted is None
        names = tuple(dict.fromkeys((*self.graph.outputs, *self.values) if every else wanted))
        if names not in self.built:
            self.built[names] = self.build(self._graph_of(names))
        given = {name: np.asarray(array) for name, array in sample.items()}
        switches = self._parts[1]
        used = [variant.activations.get(value, self._neutral) for value in self.values]
        given[switches.on] = np.array([value in variant.activations for value in self.values])
        given[switches.scale] = np.array([each.scale for each in used], np.float32)
        zero_points = np.array([each.zero_point for each in used])
        given[switches.zero_point] = zero_points.astype(self.scheme.dtype.numpy)
        for name in self.exchanged:
            array = variant.constants.get(name, self.graph.constants[name])
            given[name] = np.asarray(array, order="C")
        found = self.built[names](given)
        return {name: found[self._outputs.get(name, name)] for name in names}

    @cached_property
    def _neutral(self) -> QuantizationParameters:
        return self.scheme.parameters(-1.0, 1.0)

    @cached_property
    def _parts(self) -> tuple[Graph, _Switches, Mapping[str, str]]:
        """The graph of all variants, its switches, and what inputs are called as outputs."""
        graph = self.graph
        builder = GraphBuilder(OPS, graph.name, taken=[*graph.types, *graph.by_name])
        count = len(self.values)
        switches = _Switches(
            builder.input("quantized_on", TensorType(DType.BOOL, (count,))),
            builder.input("quantized_scale", TensorType(DType.F32, (count,))),
            builder.input("quantized_zero_point", TensorType(self.scheme.dtype, (count,))),
        )
        before: dict[str, str] = {}
        after: dict[str, str] = {}
        for place, value in enumerate(self.values):
            exact = value if value in graph.inputs else builder.fresh(f"{value}_float")
            builder.declare(exact, graph.types[value])
            on, scale, zero_point = (
                switch_element(builder, each, place)
                for each in (switches.on, switches.scale, switches.zero_point)
            )
            whole = builder.op("QuantizeLinear", exact, scale, zero_point)
            rounded = builder.op("DequantizeLinear", whole, scale, zero_point)
            made = builder.op("Where", on, rounded, exact)
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
    def _outputs(self) -> Mapping[str, str]:
        return self._parts[2]

    def _graph_of(self, names: Collection[str]) -> Graph:
        outputs = tuple(dict.fromkeys(self._outputs.get(name, name) for name in names))
        return changed(self._parts[0], outputs=outputs)


def switch_element(builder: GraphBuilder, value: str, place: int) -> str:
    """One element of a vector of switches, as a scalar.

    Args:
        builder: of the graph.
        value: the vector.
        place: of the element.
    """
    cut = SliceAttributes((place,), (place + 1,), (0,))
    found = builder.op("Slice", value, attributes=cut)
    return builder.op("Reshape", found, attributes=ReshapeAttributes(()))
