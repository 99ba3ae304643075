"""The instructions and tiles that an integer contraction has to choose from, and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.generator import Generator
from weft.kernels.integer.sums import IntegerContraction, narrow_contraction
from weft.kernels.integer.tensorized import Shape, generate, shift_of
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.instruction import instructions

_FILL = 2
"""Cycles that an element of a patch takes beside vectors of sums (AVX2, Zen 3)."""
_GATHER = 5
"""The same where instructions have no lanes (Cortex-M4)."""
_STEP = 1.25
"""Cycles of a step of single sums in the loops that compilers make (Cortex-M4)."""
_STORE = 7
"""Cycles that requantize and store a vector of outputs."""


def shapes_of(found: IntegerContraction) -> Iterator[Shape]:
    """Instructions and tiles for a contraction."""
    target = found.task.target
    extent = found.positions[-1].extent if found.positions else 1
    for row in instructions().values():
        if row.needs not in target.features or shift_of(found, row) is None:
            continue
        lanes = prod(row.meaning.params[0].shape)
        for tile, block in ((2, 2), (1, 2), (1, 1)) if lanes == 1 else ((6, 4), (12, 2), (14, 1)):
            held = lanes == 1 or min(tile, extent) * block < target.registers
            if held and found.channel.extent % (lanes * block) == 0:
                yield Shape(row, min(tile, extent), block)


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternatives of this generator."""
    if not task.target.features:
        return Refusal(f"{task.target.name} has no instructions for it")
    found = narrow_contraction(task)
    if isinstance(found, Refusal):
        return found
    if found.depthwise:
        return Refusal("the weights belong to no output channel of their own")
    offered = {shape.name: shape for shape in shapes_of(found)}
    if not offered:
        return Refusal("no instruction of the target takes its types and sizes")
    return tuple(
        Alternative(
            name, cost(found, shape), Sums("tensorized"), partial(generate, found, shape), always
        )
        for name, shape in offered.items()
    )


def cost(found: IntegerContraction, shape: Shape) -> float:
    """About how many cycles it takes."""
    positions = prod(axis.extent for axis in found.positions)
    channels, depth = found.weights.shape
    steps = positions * channels / shape.lanes * -(-depth // shape.depth)
    # Loops of single sums take as many instructions where two of them are issued at once.
    loads = found.task.target.issue.loads if shape.lanes > 1 else 1.0
    loaded = (1 / shape.tile + 1 / shape.block) / loads
    # As other generators count: two instructions a cycle beside the loads.
    each = max(shape.row.cycles / 2, loaded) * (_STEP if shape.lanes == 1 else 1)
    # Patches are filled element by element; without lanes, so are outputs.
    fill, store = (_GATHER, _STORE) if shape.lanes == 1 else (_FILL, _STORE)
    return steps * each + positions * (fill * depth + store * channels / shape.lanes)


GENERATOR = Generator(
    "tensorized",
    "Convolutions and matrix products of bytes and 16-bit integers by an instruction of the "
    "target that multiplies pairs or quads and adds (SMLAD, VNNI), in register tiles.",
    (
        "one sum of products of bytes, or of i16, and constant weights less their zero points",
        "weights that differ along one axis of the output, whose extent is a multiple of "
        "the instruction's lanes, and inputs that do not",
        "the target has an instruction for operands of these ranges",
    ),
    propose,
    any_threads=True,
)
