"""What a generator is given: a fused definition over strided buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypedDict

import numpy as np

from weft.kernels.analyzed import Analyzed
from weft.loops.definition import Compute
from weft.loops.nodes import Buffer
from weft.plan.choice import MAX_ROUNDING
from weft.records import dataclass
from weft.targets.target import Target

LOOP_NAMES = frozenset(
    "block tile p lane patch slice column row group point spot wide chunk share tap rest "
    "part stretch".split()
)
"""Variables of the loops that generators add; no axis of a task has these names."""


@dataclass(frozen=True)
class Task(Analyzed):
    """One group to be made into a kernel.

    Attributes:
        name: wished name of the kernel.
        values: the graph's names of the inputs.
        compute: the fused definition; loads name the inputs ``in0``, ``in1``, ...; axes of
            extent 1 are gone.
        inputs: the buffers it loads, with their strides.
        output: the buffer ``out`` it stores, one dimension for each axis of the definition.
        constants: names of the inputs that are known now and may be packed.
        target: the machine.
        threads: that may run parts of the kernel at once.
        exact: whether the sums must be those of the definition but for their order.
        libraries: names of the generators with a library that are asked, too.
        encoding: of weights, where the user asked for one (``weft.kernels.encodings``).
        max_rounding: the largest error that a faster algorithm may add (``Alternative.error``).
        optimize: what the kernel is chosen for: ``size``, ``balanced`` (integer weights in as many
            bits as they have, shared loops) or ``speed``.
        arrays: the constants themselves but for parameters, in their own shapes.
        measured: whether a norm measures the output, so that the rounding of each of its rows
            counts relative to that row (``weft.plan.norms``).
    """

    name: str
    values: tuple[str, ...]
    compute: Compute
    inputs: tuple[Buffer, ...]
    output: Buffer
    constants: frozenset[str]
    target: Target
    threads: int = 1
    exact: bool = False
    libraries: tuple[str, ...] = ()
    encoding: str = ""
    optimize: str = "speed"
    max_rounding: float = MAX_ROUNDING
    arrays: Mapping[str, np.ndarray] = field(
        default_factory=dict[str, np.ndarray], compare=False, repr=False
    )
    measured: bool = False

    def value_of(self, input: str) -> str:
        """The graph's name of an input."""
        return self.values[[buffer.name for buffer in self.inputs].index(input)]


class Asked(TypedDict, total=False):
    """What is asked of all tasks of a network; ``Task`` documents it."""

    threads: int
    exact: bool
    libraries: Sequence[str]
    encoding: str
    optimize: str
    max_rounding: float
