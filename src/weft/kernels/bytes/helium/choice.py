"""When convolutions of bytes for Helium apply, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.dual.depthwise import MOST_BYTES
from weft.kernels.bytes.helium.products import name_of, write
from weft.kernels.bytes.helium.shape import VECTOR, Shape
from weft.kernels.bytes.lines import has_lines, is_signed
from weft.kernels.bytes.windows import ByteWindow, byte_window
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.instruction import families

_VECTOR = {4: 14, 8: 17}
"""Instructions for a vector of each sum of a tile, by its channels."""
_TILE, _GROUP, _LINE = 23, 16, 40
"""Instructions of a tile besides, of a group of channels and of a line."""
_COPY, _RUN = 0.2, 4
"""Instructions to copy a byte to the band, and a run to the patch."""
_LONGEST = 4 * MOST_BYTES
_LOOKUP, _ADD, _PLAIN = 0.4, 3.5, 20
"""Instructions of an output that a table holds, that bytes are added to, and of others."""


def shapes(window: ByteWindow) -> Iterator[Shape]:
    """How lines can be computed."""
    yield Shape(window, patched=False)
    shape = Shape(window, patched=True)
    enough = shape.down is not None and 1 < shape.run <= VECTOR
    if enough and shape.vectors < Shape(window, patched=False).vectors:
        yield shape


def refused(window: ByteWindow) -> str:
    """Why the loops do not apply; empty where they do."""
    found = window.found
    low, high = DType.I8.limits
    if not is_signed(window) or not has_lines(window):
        return "its input is not rows of signed bytes, channels side by side"
    if found.weights.min() < low or found.weights.max() > high:
        return "its weights are not signed bytes"
    sides = [each[1] for each in (window.rows, window.columns) if each]
    if any(each.dilation > 1 and each.taps > 1 for each in sides):
        return "its window has gaps"
    shape = Shape(window, patched=False)
    if window.rows is None and shape.bordered and shape.length > _LONGEST:
        return f"a copy of its input with borders takes more than {_LONGEST} bytes"
    return ""


def cost(shape: Shape) -> float:
    """About how many cycles it takes."""
    found = shape.window.found
    outputs = prod(axis.extent for axis in found.positions)
    channels = found.channel.extent
    lines = -(-outputs // shape.positions)
    groups = -(-channels // shape.group)
    tiles = -(-shape.positions // 2) if shape.positions > 1 else 1
    tile = _VECTOR[shape.group] * shape.vectors + _TILE
    total = lines * (groups * (tiles * tile + _GROUP) + _LINE)
    if shape.bordered:
        reached = shape.height * (shape.down.reach(shape.strip) / shape.strip if shape.down else 1)
        total += outputs / (shape.height * shape.lines.width) * reached * shape.length * _COPY
    if shape.patched:
        total += outputs * (_RUN * shape.taps + 3)
    if not shape.whole:
        looked_up = shape.table is not None
        each = _LOOKUP if looked_up else _ADD if shape.added else _PLAIN
        total += outputs * channels * each
    # As other generators count: two instructions a cycle.
    return total / 2


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternatives of this generator."""
    if families()["mve_sums"][0] not in task.target.features:
        return Refusal("the target has no Helium")
    window = byte_window(task)
    if isinstance(window, Refusal):
        return window
    reason = refused(window)
    if reason:
        return Refusal(reason)
    return tuple(
        Alternative(name_of(shape), cost(shape), Sums("tensorized"), partial(write, shape), always)
        for shape in shapes(window)
    )


GENERATOR = Generator(
    "byte-helium",
    "Convolutions and matrix products of bytes for Helium, the vector extension of Cortex-M55: "
    "windows are read where they lie, or from a copy with borders, by loops that hold eight sums.",
    (
        "one sum of products, in i32, of signed bytes and constant weights less their zero points",
        "output channels fastest in the output, all of which read the same input channels",
        "windows without gaps",
        "the target has Helium",
    ),
    propose,
    any_threads=True,
)
