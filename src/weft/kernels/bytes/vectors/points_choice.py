"""Which Winograd convolutions of bytes apply, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.vectors.points import SIDE, TALL, Points
from weft.kernels.bytes.vectors.row_tiles_choice import rows_of
from weft.kernels.bytes.windows import ByteWindow, byte_window
from weft.kernels.generator import Generator
from weft.kernels.integer.output import fits, largest_sum
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.instruction import Instruction, instructions

_I16 = DType.I16
_MADE_COST, _SUM_COST, _STORE_COST = 64, 40, 10
"""Operations on vectors that transform a tile of inputs, one of sums, and make an output."""


def _refused(window: ByteWindow) -> str:
    """Why the loops do not apply; empty where they do."""
    if window.rows is None or window.columns is None:
        return "it has no windows of 3x3 neighbours"
    for _, side in (window.rows, window.columns):
        if (side.taps, side.stride, side.dilation) != (3, 1, 1):
            return "it has no windows of 3x3 neighbours"
    if SIDE * SIDE * largest_sum(window.found) >= 1 << 31:
        return "four times its sums may not fit 32 bits"
    return ""


def points_of(window: ByteWindow) -> Iterator[Points]:
    """The instructions of the target that add products of 16 bits to vectors of sums."""
    target = window.found.task.target
    fastest = max(map(_rate, rows_of(window)), default=0.0)
    for row in instructions().values():
        sum, *factors = row.meaning.params
        if [len(each.shape) for each in row.meaning.params] != [1, 1, 2]:
            continue
        wide = {each.dtype for each in factors} == {_I16} and row.needs in target.features
        whole = window.found.channel.extent % sum.shape[0] or window.depth % factors[0].shape[0]
        if not wide or whole or fits(window.found, row) != 0:
            continue
        # 4 products for 9 pay neither for transforms nor for weights of 3.6 times the size where
        # another instruction multiplies twice as many bytes.
        if 2 * _rate(row) <= fastest:
            continue
        # Where loads do not fill all lanes, a tile has few of the operands that need it.
        most = 2 if target.fused else 4
        vectors = gcd(window.found.channel.extent // sum.shape[0], most)
        yield Points(window, row, max(1, (target.registers - 4) // vectors), vectors)


def _rate(row: Instruction) -> float:
    """Products in a cycle."""
    return prod(row.meaning.params[2].shape) / row.cycles


def cost(loops: Points) -> float:
    """About how many cycles it takes on one core."""
    target, found = loops.window.found.task.target, loops.window.found
    images = prod(axis.extent for axis in loops.window.outer)
    tiles = loops.across * loops.down
    _, lhs, _ = loops.row.meaning.params
    vectors = found.channel.extent / loops.lanes
    steps = loops.window.depth / lhs.shape[0]
    held = loops.tile * loops.vectors
    # As other generators count: two instructions a cycle.
    step = max(held * loops.row.cycles / 2, (loops.tile + loops.vectors) / target.issue.loads)
    products = TALL * TALL * vectors * steps * step / held
    made = loops.window.depth / target.lanes(_I16) * _MADE_COST
    outputs = vectors * (_SUM_COST + SIDE * SIDE * _STORE_COST)
    return images * tiles * (products + (made + outputs) / target.issue.operations)


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternatives of this generator."""
    if not task.target.features:
        return Refusal(f"{task.target.name} has no instructions for it")
    window = byte_window(task)
    if isinstance(window, Refusal):
        return window
    problem = _refused(window)
    if problem:
        return Refusal(problem)
    offered = tuple(points_of(window))
    if not offered:
        return Refusal("no instruction of the target takes its types and channels")
    return tuple(
        Alternative(each.name, cost(each), Sums("tensorized"), each.generate, always)
        for each in offered
    )


GENERATOR = Generator(
    "byte-points",
    "Winograd convolutions of bytes, exact in integers of 16 bits: 16 products for 4 outputs "
    "instead of 36, by an instruction that multiplies pairs and adds (AVX2, SSE2).",
    (
        "one sum of products, in i32, of bytes and constant weights less their zero points",
        "windows of 3x3 neighbours",
        "output channels a multiple of the lanes of an instruction of the target",
    ),
    propose,
)
