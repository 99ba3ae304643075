"""Networks that round values to integers, compared with a framework operator by operator.

A sum that is rounded otherwise by a bit may become the next integer, and such steps add up from
layer to layer.  So every operator is computed from the framework's own values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from weft.api.net import Net
from weft.api.step_run import Oracle
from weft.ops.rounding import roundings
from weft.options import Options
from weft.records import dataclass
from weft.runtime.compare import Difference
from weft.surgery.isolate import isolated

_ROUNDING = ("QuantizeLinear", "DynamicQuantizeSymmetric", "DynamicQuantizeAsymmetric")
_INTEGERS = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True)
class Rounded:
    """How a network compares.

    Attributes:
        operators: what each operator makes of the framework's values.
        outputs: of the whole network, compared with the framework's: steps have added up.
        code: the same outputs, compared with those of the references of Weft's ops.
    """

    operators: list[Difference]
    outputs: list[Difference]
    code: list[Difference]


def rounds(net: Net) -> bool:
    """Whether a network rounds values to integers."""
    return bool(roundings(net.graph)) or any(node.op in _ROUNDING for node in net.graph.nodes)


def in_steps(difference: Difference) -> bool:
    """Whether values are integers that stand for numbers: they are compared in steps."""
    return difference.type.startswith(_INTEGERS)


def cuts(net: Net, known: Collection[str]) -> list[str]:
    """What operators make, of the values that a framework knows."""
    producers = net.graph.producers
    return [
        name
        for name in producers
        if name in known and producers[name].op not in ("DequantizeLinear", "Identity")
    ]


def compare_rounded(
    net: Net,
    inputs: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    options: Options,
) -> Rounded:
    """Compares a network with what a framework made of the same inputs.

    Args:
        net: the network.
        inputs: by name.
        expected: the framework's values by their names in the network.
        options: how it is compiled; a plan is that of the whole network, not of the parts.
    """
    outputs = net.graph.outputs
    graph, given = isolated(net.graph, cuts(net, expected))
    parts = net.with_graph(graph)
    own = {name: expected[value] for value, name in given.items()}
    made = {name: expected[name] for name in graph.outputs if name in expected}
    operators = parts.verify(
        {**inputs, **own}, oracle=_known(made), options=replace(options, plan=None)
    )
    order = [inputs[name] for name in net.graph.inputs]
    ends = {name: expected[name] for name in outputs if name in expected}
    whole = net.verify(*order, oracle=_known(ends), options=options)
    checks = dict(zip(outputs, net.reference(*order), strict=True))
    code = net.verify(*order, oracle=_known(checks), options=options)
    return Rounded([each for each in operators if each.value in made], whole, code)


def _known(arrays: Mapping[str, np.ndarray]) -> Oracle:
    """What is known to be right, whatever is asked for."""

    def oracle(_: Mapping[str, np.ndarray], __: Collection[str]) -> Mapping[str, np.ndarray]:
        return arrays

    return oracle
