"""Networks on emulated processors, with the instructions of each step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.api.network import Network, bound
from weft.api.planned import lowered, made_plan, plan_source
from weft.api.stepped import macs_of
from weft.options import Options
from weft.plan.report import report
from weft.records import dataclass
from weft.runtime.emulators import Emulated, emulated
from weft.targets.target import Target


@dataclass(frozen=True, slots=True)
class CountedStep:
    """One step of a plan on an emulated processor.

    Attributes:
        step: its number.
        ops: what it computes, in graph order.
        layers: the layers of the source model that it stands for.
        scheme: what generates its loops.
        macs: multiply-accumulates of its nodes.
        instructions: that it executed, the call and its arguments included.
        functions: the same by C function, most first.
    """

    step: int
    ops: tuple[str, ...]
    layers: tuple[str, ...]
    scheme: str
    macs: int
    instructions: int
    functions: dict[str, int]

    @property
    def per_mac(self) -> float:
        """Instructions for each multiply-accumulate; 0 without any."""
        return self.instructions / self.macs if self.macs else 0.0


@dataclass(frozen=True)
class CountedRun:
    """A run on an emulated processor.

    Attributes:
        emulated: outputs and whole counts.
        steps: the steps in order; empty where QEMU cannot count.
    """

    emulated: Emulated
    steps: tuple[CountedStep, ...]


def counted(net: Network, inputs: Sequence[np.ndarray], options: Options) -> CountedRun:
    """Runs a network on an emulated processor and counts its instructions step by step.

    Args:
        net: the network.
        inputs: in order.
        options: with the target, whose machine or board QEMU must emulate.

    Raises:
        UserError: it is not emulated, a program is missing, or the network does not run.
    """
    net = bound(net)
    plan = made_plan(net, options)
    files = plan_source(plan, lowered(plan, options.name or net.graph.name), options, stepped=True)
    name = options.target.name if isinstance(options.target, Target) else options.target
    done = emulated(files, [tuple(inputs)], name, steps=True)
    if not done.steps:
        return CountedRun(done, ())
    found = [
        CountedStep(
            row.step,
            row.ops,
            tuple(dict.fromkeys(name for names in row.sources for name in names)) or row.nodes,
            row.scheme,
            macs,
            sum(functions.values()),
            dict(functions),
        )
        for row, macs, functions in zip(
            report(plan).rows, macs_of(plan), done.steps[0], strict=False
        )
    ]
    return CountedRun(done, tuple(found))
