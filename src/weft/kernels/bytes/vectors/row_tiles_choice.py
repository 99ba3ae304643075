"""The instructions and tiles of a convolution of bytes by rows, and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.vectors.row_tiles import Shape, write
from weft.kernels.bytes.vectors.wide_rows import wide_rows
from weft.kernels.bytes.windows import ByteWindow, byte_window
from weft.kernels.generator import Generator
from weft.kernels.integer.output import beside, fits
from weft.kernels.refusal import Refusal
from weft.kernels.row_copies import Side
from weft.kernels.task import Task
from weft.kernels.tiling import even_tiles
from weft.loops.instruction import Instruction, instructions
from weft.targets.target import Target

TILES = ((6, 2), (4, 3), (12, 1), (3, 4))
"""Positions and vectors of sums where registers are few; twice as many positions where many."""
_MANY_REGISTERS = 32
_OUTPUT = 14
"""Operations that requantize and store a vector of outputs."""
_FILL = 8
"""Operations that widen a vector of the input."""
_GATHER = 3
"""Operations that widen one element, where channels lie apart."""


def rows_of(window: ByteWindow) -> Iterator[Instruction]:
    """The instructions of the target that sum vectors of output channels."""
    target = window.found.task.target
    for row in instructions().values():
        shapes = [len(each.shape) for each in row.meaning.params]
        known = shapes == [1, 1, 2] and row.needs in target.features
        if known and fits(window.found, row) is not None:
            yield row


def shapes_of(window: ByteWindow) -> Iterator[Shape]:
    """Instructions and tiles for a contraction."""
    target = window.found.task.target
    many = target.registers >= _MANY_REGISTERS
    width = window.columns[1].out.extent if window.columns else 1
    seen: set[tuple[str, int, int]] = set()
    for row in rows_of(window):
        lanes = prod(row.meaning.params[0].shape)
        vectors = -(-window.found.channel.extent // lanes)
        for tile, across in TILES:
            tile = min(width, tile * 2 if many else tile)
            across = min(across, vectors)
            if (row.name, tile, across) not in seen:
                seen.add((row.name, tile, across))
                yield Shape(row, tile, across, *_cut(window, row, across))


def _cut(window: ByteWindow, row: Instruction, vectors: int) -> tuple[int, int, int]:
    """Rows and columns of a band, and into how many parts the output channels are cut.

    Threads share the image where it is larger than the weights, else the output channels, if
    the parts are as even.
    """
    task, wide = window.found.task, wide_rows(window, row)
    near = task.target.caches[-1] if task.target.caches else 0
    lanes, threads = prod(row.meaning.params[0].shape), task.threads
    weights, rows, columns = window.found.weights.size, wide.height, wide.width
    channels = rows, columns, threads
    if wide.direct:
        image = rows * (columns * window.depth + _beside(window))
        bands = [(-(-rows // threads), columns, 0), (1, -(-columns // threads), 0)]
        options = [channels, *bands] if weights > image else [*bands, channels]
    else:
        bands = [(_rows(window, row), columns, 0)]
        far = weights > near // 4
        # Where every band reads all weights again, that costs more than to widen the image twice.
        options = [channels, *bands] if far else [*bands, channels]
        if wide.down.extent(rows) * wide.length * wide.dtype.bytes > near // 4:
            options = bands
    groups = _groups(-(-window.found.channel.extent // lanes), vectors)
    return min(
        options, key=lambda each: round(_unevenness(threads, (rows, columns), groups, each), 1)
    )


def _unevenness(
    threads: int, image: tuple[int, int], groups: list[int], cut: tuple[int, int, int]
) -> float:
    """How much longer the largest part takes than the mean one.

    Args:
        threads: that share the work.
        image: rows and columns of outputs.
        groups: vectors of each group of output channels.
        cut: rows and columns of a band, and the parts of the output channels.
    """
    rows, columns, shares = cut
    kinds = [
        (down.size * across.size, down.count * across.count)
        for down in even_tiles(image[0], rows)
        for across in even_tiles(image[1], columns)
    ]
    if shares:
        kinds = [(size, groups.count(size)) for size in dict.fromkeys(groups)]
    # A band or a group of its own kind is the first thread's.
    longest = sum(size * -(-count // threads) for size, count in kinds)
    return longest * threads / sum(size * count for size, count in kinds)


def _rows(window: ByteWindow, row: Instruction) -> int:
    """Output rows of a band: what it reads stays near, and every thread has one."""
    if window.rows is None:
        return 1
    task = window.found.task
    height = window.rows[1].out.extent
    columns = window.columns[1] if window.columns else None
    places = Side(columns).extent(columns.out.extent) if columns else 1
    bytes = places * window.depth * row.meaning.params[1].dtype.bytes
    near = task.target.caches[-1] if task.target.caches else 0
    side, beside = Side(window.rows[1]), _beside(window)
    if window.found.weights.size > near // 4:
        # Every band reads all weights again, which costs more than its outputs, far away.
        beside = 0

    def fits(rows: int) -> bool:
        wide = side.extent(rows) * bytes
        return wide <= near // 4 and wide + rows * beside <= near // 2

    bands = next((count for count in range(1, height) if fits(-(-height // count))), height)
    return -(-height // min(height, -(-bands // task.threads) * task.threads))


def _beside(window: ByteWindow) -> int:
    """Bytes of a row of outputs, and of what they read beside the sums."""
    task = window.found.task
    across = window.columns[1].out.extent if window.columns else 1
    pixel = window.found.channel.extent * across
    return pixel * sum(each.bytes for each in (task.output.dtype, *beside(window.found)))


def cost(window: ByteWindow, shape: Shape) -> float:
    """About how many cycles it takes on one core."""
    found, target = window.found, window.found.task.target
    width = window.columns[1].out.extent if window.columns else 1
    height = window.rows[1].out.extent if window.rows else 1
    images = prod(axis.extent for axis in found.positions) / (height * width)
    vectors = -(-found.channel.extent // shape.lanes)
    # Rests of the columns and of the channels make smaller tiles.
    step = sum(
        tile.count * _step(target, shape, tile.size, across)
        for across in _groups(vectors, shape.vectors)
        for tile in even_tiles(width, shape.tile)
    )
    steps = -(-found.weights.shape[1] // shape.depth)
    requantized = width * vectors * _OUTPUT / target.issue.operations
    rows = Side(window.rows[1] if window.rows else None).extent(shape.rows) / shape.rows
    places = Side(window.columns[1]).extent(width) if window.columns else 1
    lanes = target.lanes(shape.row.meaning.params[1].dtype)
    each = _FILL / lanes if window.contiguous else _GATHER
    filled = rows * places * window.depth * each / target.issue.operations
    if wide_rows(window, shape.row).direct:
        filled = 0.0
    cut = shape.rows, shape.columns, shape.shares
    threads = found.task.threads if images == 1 else 1
    uneven = _unevenness(threads, (height, width), _groups(vectors, shape.vectors), cut)
    return uneven * images * height * (step * steps + requantized + filled)


def _groups(vectors: int, most: int) -> list[int]:
    whole, rest = divmod(vectors, most)
    return [most] * whole + [rest] * bool(rest)


def _step(target: Target, shape: Shape, tile: int, across: int) -> float:
    """Cycles of one step of a tile: instructions, loads, or the wait of sums for themselves."""
    sums = tile * across
    loads = (tile + across) / target.issue.loads
    # As other generators count: two instructions a cycle.
    return max(sums * shape.row.cycles / 2, loads, target.issue.latency)


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternatives of this generator."""
    if not task.target.features:
        return Refusal(f"{task.target.name} has no instructions for it")
    window = byte_window(task)
    if isinstance(window, Refusal):
        return window
    shapes = tuple(shapes_of(window))
    if not shapes:
        return Refusal("no instruction of the target takes its types")
    return tuple(
        Alternative(
            shape.name,
            cost(window, shape),
            Sums("tensorized"),
            partial(write, window, shape),
            always,
        )
        for shape in shapes
    )


GENERATOR = Generator(
    "byte-rows",
    "Convolutions and matrix products of bytes: rows of the input are widened and their borders "
    "filled in once, then register tiles of all output channels read them, by an instruction of "
    "the target that multiplies pairs or quads and adds (AVX2, SSE2, VNNI, NEON).",
    (
        "one sum of products, in i32, of bytes and constant weights less their zero points",
        "output channels fastest in the output, all of which read the same input channels",
        "the target has an instruction for operands of these ranges",
    ),
    propose,
)
