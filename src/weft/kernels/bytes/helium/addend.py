"""What is added to requantized bytes, by an instruction for lines of both (Helium)."""

from __future__ import annotations

from collections.abc import Sequence

from weft.dtypes import DType
from weft.kernels.bytes.helium.line_sum import LineSum, float_sum, integer_sum
from weft.kernels.bytes.scaling import ROW, RequantizedRow
from weft.kernels.integer.output import IntegerOutput
from weft.kernels.writer import integer
from weft.loops.instruction import member
from weft.loops.nodes import Axis, Buffer, Const, Expr, Instruct, Load, Var
from weft.loops.walk import map_expr, walk
from weft.records import dataclass

_I8 = DType.I8
TOTAL = "total"


def line_sum(rounding: RequantizedRow, value: Expr) -> tuple[Expr, LineSum] | None:
    """The part of a definition that adds other bytes to requantized ones, and how."""
    if rounding.made is None or rounding.whole:
        return None
    if rounding.add is not None:
        return value, integer_sum(rounding.add)
    for node in walk(value):
        made = float_sum(node)
        if made is not None and ROW in {load.buffer for load in made.loads}:
            return node, made
    return None


@dataclass(frozen=True)
class Addend:
    """Bytes that are added, by lines.

    Attributes:
        sum: what it makes with a row of bytes; whole: whether that is the output.
        buffer: the bytes: other dimensions, rows, positions, channels.
        kept: where they are along the other dimensions.
    """

    sum: LineSum
    whole: bool
    buffer: Buffer
    kept: tuple[Expr, ...]

    def add(self, out: Load, step: int, row: Load, place: Expr | None, positions: int) -> Instruct:
        """Adds to a row of bytes, and stores the sum.

        Args:
            out: where.
            step: from a position of the output to the next.
            row: the bytes, channels of a position after those of another.
            place: the row of the addend, if it has rows.
            positions: how many.
        """
        zero, rows = integer(0), () if place is None else (place,)
        other = Load(self.buffer.name, (*self.kept, *rows, zero, zero), _I8)
        pair = [other if each.buffer == other.buffer else row for each in self.sum.loads]
        channels = self.buffer.shape[-1]
        steps = [self.buffer.steps[-2] if each is other else channels for each in pair]
        name = member(self.sum.family, positions, channels, step, *steps, *self.sum.sizes)
        arrays = self.sum.arrays.items()
        constants = (Load(each, (zero,), DType.of(array.dtype)) for each, array in arrays)
        return Instruct(name, (out, *pair, *constants))


def addend(
    rounding: RequantizedRow, output: IntegerOutput, axes: Sequence[Axis], image: str
) -> Addend | None:
    """What is added to requantized bytes.

    Args:
        rounding: of the bytes.
        output: its definition reads the bytes; it gets the constants of the sum. If the sum is
            not the output, the definition reads ``total[channel]`` then.
        axes: of the output that an addend has: rows (if there are any), positions, channels.
        image: a buffer that the addend must not be.
    """
    found = line_sum(rounding, output.value)
    if found is None:
        return None
    node, sum = found
    (other,) = [each for each in sum.loads if each.buffer != ROW]
    (source,) = [each for each in output.inputs if each.name == other.buffer]
    wanted = [Var(axis.var) for axis in axes]
    places = [other.index.index(each) for each in wanted if each in other.index]
    rest = [at for at in range(len(other.index)) if at not in places]
    plain = all(isinstance(other.index[at], Var | Const) for at in rest)
    if other.buffer == image or len(places) < len(wanted) or not plain:
        return None
    if source.steps[places[-1]] != 1:
        return None
    order = (*rest, *places)
    shape, steps = (tuple(each[at] for at in order) for each in (source.shape, source.steps))
    buffer = Buffer(other.buffer, _I8, shape, source.access, steps)
    output.arrays = {**sum.arrays, **output.arrays}
    whole = node == output.value
    total = Load(TOTAL, (wanted[-1],), _I8)
    output.value = map_expr(output.value, lambda each: total if each == node else each)
    return Addend(sum, whole, buffer, tuple(other.index[at] for at in rest))
