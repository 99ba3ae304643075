"""When Winograd convolution pays, and by which tiles."""

from __future__ import annotations

from functools import partial
from math import prod, sqrt

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.generator import Generator
from weft.kernels.paired_factors import depth_of, positions_of
from weft.kernels.products.pairs import PAIR
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, waiting
from weft.kernels.winograd import along_rows as winograd_rows
from weft.kernels.winograd import square as winograd
from weft.kernels.winograd.along_rows import groups_of, sums_of
from weft.kernels.winograd.along_rows_image import RowsOfImage, rows_of_image
from weft.kernels.winograd.convolution import Convolution, square_convolution
from weft.kernels.winograd.pooling import pooling_of
from weft.kernels.winograd.toom_cook import (
    Filtering,
    Matrix,
    filtering,
    most_outputs,
    straight_line,
)
from weft.plan.implementation import Implementation
from weft.targets.target import Target

OUTPUTS = (4, 2)
"""Sizes of output tiles, fewest multiplications first."""
ROUNDED_OUTPUTS = (4, 3, 2)
"""The same where transforms are stored in half precision: larger ones round more."""
MANY_TILES = (14, 28, 56)
"""How many tiles at once are worth trying."""

UNROLLED = 0.3
"""Of a transform's cycles in loops: what it takes with the sums of its first half in registers."""
MARGIN = 0.9
"""A kernel that rounds more must at least win so much."""
_GROUPED = 3.0
"""How many times as long transforms take where channels are in groups: of few channels at a time.

Measured on an Emerald Rapids for 3x3 windows: with it the estimates of 14x14 to 56x56 pixels in
groups of 16 and 56 channels are within 20 % of the times, without it down to half of them.
"""
_WASTE = 1 / 32
"""Of the tiles, so many may be computed twice before blocks become smaller."""


def cycles(conv: Convolution, outputs: int, tiles: int, lanes: int) -> float:
    """An estimate for tiles of ``outputs`` by ``outputs``, ``tiles`` of them at a time."""
    count, images = _tiles(conv, outputs), prod(axis.extent for axis in conv.outer)
    form = _form(conv, outputs)
    points = form.size**conv.sides
    into, out_of = _channels_in_vectors(conv)
    target = conv.parts.task.target
    steps = conv.steps_inside
    pairs = winograd.pair_rows(conv)
    if pairs:
        steps *= target.cycles(pairs[lanes]) / depth_of(pairs) / positions_of(pairs)
    products = count * points * steps * out_of / target.multiply_adds
    transform = _line_cycles if conv.sides == 1 else _transform_cycles
    before, after = transform(form.data, target), transform(form.inverse, target)
    into *= conv.steps_inside / conv.channel.extent
    transforms = count * (into * before + out_of * after) * (_GROUPED if conv.group else 1)
    size, groups = _filter_bytes(conv, form), conv.group.extent if conv.group else 1
    near = target.caches[-1] / 2
    # The filters of a group stay near while its tiles are computed, those of all may not.
    reads = -(-count // tiles) if size > near else int(groups > 1 and size * groups > near)
    return images * (max(1.1 * products, reads * size / target.far) + transforms)


def added_error(conv: Convolution, outputs: int, sides: int = 2) -> float:
    """What storing transforms in half precision adds to the error (``Alternative.error``).

    Measured for 3x3 windows over 64 channels of random data in pairs of bfloat16: 0.38 % (0.39 %
    by this estimate), 0.67 % (0.67 %) and 1.12 % (1.13 %) for tiles of 2, 3 and 4 outputs a side;
    less where neighbouring pixels are alike.
    """
    stored = [each for each in winograd.stored_types(conv) if each is not DType.F32]
    rounding = sqrt(sum(each.rounding**2 for each in stored))
    return rounding * _form(conv, outputs).amplification ** (sides / 2)


def _filter_bytes(conv: Convolution, form: Filtering) -> int:
    """Of the transformed filters."""
    return form.size**conv.sides * conv.steps * _channels(conv) * conv.filter.dtype.bytes


def _form(conv: Convolution, outputs: int) -> Filtering:
    return filtering(outputs, conv.size, conv.stride)


def _transform_cycles(matrix: Matrix, target: Target) -> float:
    """About what a matrix costs on both sides of a tile of one vector of channels.

    Measured for F(4, 3) on Zen 5: 105 to 120 in and 75 out, with vectors of 16, 32 and 64 bytes.
    """
    rows, columns = len(matrix), len(matrix[0])
    operations = straight_line(matrix).operations + rows + columns
    cycles = (rows + columns) * operations + target.costs.transform
    return UNROLLED * cycles / target.vectors.share


def cycles_by_rows(image: RowsOfImage, outputs: int) -> float:
    """An estimate for strips of so many rows of outputs."""
    conv = image.conv
    form, target = _form(conv, outputs), conv.parts.task.target
    images = prod(axis.extent for axis in conv.outer)
    strips = images * -(-conv.rows.extent // outputs)
    groups = groups_of(conv, form)
    vectors = sum(block.count * _vectors(target, block) for block in groups)
    sums = vectors * conv.columns.extent
    first, last = image.kept
    elements = image.lines * target.whole(last - first, DType.F32)
    products = sum(_products_by_rows(image, form, block) for block in groups)
    transforms = elements * _line_cycles(form.data, target)
    _, inverse = sums_of(form, max(block.depth for block in groups))
    transforms += sums * _line_cycles(inverse, target)
    return strips * (1.1 * products + transforms)


def _products_by_rows(image: RowsOfImage, form: Filtering, group: LaneBlock) -> float:
    """Of a strip, for a group of output channels."""
    target, steps = image.conv.parts.task.target, image.lines * image.taps
    columns, vectors = image.conv.columns.extent, _vectors(target, group)
    count = group.count * form.size / group.depth * columns * vectors * steps
    return count * waiting(target, columns, vectors, steps) / target.multiply_adds


def _line_cycles(matrix: Matrix, target: Target) -> float:
    """About what a matrix costs on one line of vectors."""
    operations = straight_line(matrix).operations + len(matrix) + len(matrix[0])
    return UNROLLED * operations / target.vectors.share


def _channels(conv: Convolution) -> int:
    assert conv.parts.lanes is not None
    return conv.parts.lanes.extent


def _channels_in_vectors(conv: Convolution) -> tuple[float, float]:
    target = conv.parts.task.target
    return (
        target.whole(conv.channel.extent, DType.F32),
        target.whole(_channels(conv), DType.F32),
    )


def _vectors(target: Target, group: LaneBlock) -> float:
    """Whole vectors that take as long as those of a group."""
    return sum(target.whole(width, DType.F32) for width in group.widths)


def _tiles(conv: Convolution, outputs: int) -> int:
    return conv.tiles_along(conv.rows, outputs) * conv.tiles_along(conv.columns, outputs)


def tiles_at_once(conv: Convolution, outputs: int) -> int:
    """How many tiles go through the stages together.

    As many as a register tile has rows where the filters stay in cache; twice as many where
    they are read from afar for every block; fewer where threads would have nothing to do.
    """
    size = _filter_bytes(conv, _form(conv, outputs))
    return even_tiles(conv, outputs, 14 if size <= conv.parts.task.target.caches[-1] / 2 else 28)


def even_tiles(conv: Convolution, outputs: int, most: int) -> int:
    """How many tiles, at the most so many, make blocks of one size, enough for all threads.

    Somewhat fewer, where the last block then computes clearly fewer tiles twice.  One block is
    enough, too, where every thread gets output channels of its own.
    """
    task = conv.parts.task
    count = _tiles(conv, outputs)
    blocks = -(-count // most)
    groups = _channels(conv) // (2 * task.target.lanes(DType.F32))
    if blocks == 1 and groups >= task.threads:
        return count
    least, most_blocks = (
        -(-each // task.threads) for each in (blocks, -(-3 * count // (2 * most)))
    )
    sizes = [
        -(-count // (task.threads * turn)) for turn in range(least, max(least, most_blocks) + 1)
    ]
    least = min(-(-count // size) * size for size in sizes)
    return next(size for size in sizes if -(-count // size) * size <= least * (1 + _WASTE))


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """Sizes of tiles, and how many tiles at once."""
    conv = _wanted(task)
    if isinstance(conv, Refusal):
        return conv
    lanes = task.target.lanes(DType.F32)
    costs: dict[tuple[int, int], float] = {}
    wanted = OUTPUTS if conv.filter.dtype is DType.F32 else ROUNDED_OUTPUTS
    possible = [each for each in wanted if each <= most_outputs(conv.size, conv.stride)]
    errors = {outputs: added_error(conv, outputs, conv.sides) for outputs in possible}
    if min(errors.values()) > task.max_rounding:
        return Refusal(
            f"transforms would add {min(errors.values()):.2%} of rounding error, and "
            f"{task.max_rounding:.2%} are allowed"
        )
    for outputs in possible:
        usual = tiles_at_once(conv, outputs)
        tiles = [usual, *(even_tiles(conv, outputs, most) for most in MANY_TILES)]
        found = {each: _beside_direct(conv, cycles(conv, outputs, each, lanes)) for each in tiles}
        # The usual number comes from measurements that the estimate does not know of.
        found[usual] = min(found.values())
        costs |= {(outputs, each): cost for each, cost in found.items()}
    squares = tuple(
        Alternative(
            f"winograd-f{outputs}-{tiles}",
            cost,
            Sums("winograd", (outputs,)),
            partial(_write, conv, outputs, tiles),
            always,
            error=errors[outputs],
            allowed=errors[outputs] <= task.max_rounding,
            pooled=partial(_pooled, conv, outputs, tiles),
        )
        for (outputs, tiles), cost in costs.items()
    )
    return squares + _by_rows(conv)


def _beside_direct(conv: Convolution, cost: float) -> float:
    """An estimate to be compared with that of the direct sum, which counts multiply-adds alone.

    The direct sum stores its outputs, too, and where sums are short nothing hides that.
    """
    target = conv.parts.task.target
    outputs = prod(axis.extent for axis in (*conv.outer, conv.rows, conv.columns))
    _, vectors = _channels_in_vectors(conv)
    stores = outputs * vectors / target.stores
    return max(0.0, cost - stores) / MARGIN


def _by_rows(conv: Convolution) -> tuple[Alternative, ...]:
    """Sizes of strips."""
    image = rows_of_image(conv)
    if image is None:
        return ()
    return tuple(
        Alternative(
            f"winograd-f{outputs}x1",
            _beside_direct(conv, cycles_by_rows(image, outputs)),
            Sums("winograd", (outputs, 1)),
            partial(winograd_rows.write, image, _form(conv, outputs)),
            always,
            error=added_error(conv, outputs, 1),
            allowed=added_error(conv, outputs, 1) <= conv.parts.task.max_rounding,
            pooled=partial(_pooled_by_rows, image, outputs),
        )
        for outputs in OUTPUTS
        if outputs <= most_outputs(conv.size, conv.stride)
    )


def _wanted(task: Task) -> Convolution | Refusal:
    """The convolution, if it is one and may round more, or why not."""
    if task.exact:
        return Refusal("it rounds more than the definition, and exact kernels were asked for")
    if not task.target.caches:
        return Refusal("the target has no caches, and its memory is short for the transforms")
    return square_convolution(task)


def _write(conv: Convolution, outputs: int, tiles: int) -> Implementation:
    return winograd.write(conv, _form(conv, outputs), tiles)


def _pooled(
    conv: Convolution, outputs: int, tiles: int, task: Task, link: str
) -> Implementation | None:
    pool = pooling_of(conv, task, link)
    if pool is None or not pool.fits((outputs, outputs)):
        return None
    return winograd.write(conv, _form(conv, outputs), tiles, pool)


def _pooled_by_rows(
    image: RowsOfImage, outputs: int, task: Task, link: str
) -> Implementation | None:
    pool = pooling_of(image.conv, task, link)
    # Two columns are in a vector where pairs of points share it.
    if pool is None or not pool.fits((outputs, PAIR)):
        return None
    return winograd_rows.write(image, _form(image.conv, outputs), pool)


def generate_as(task: Task, outputs: int, tiles: int) -> Implementation | None:
    """The kernel for ``outputs`` by ``outputs`` at once, ``tiles`` such tiles at a time."""
    conv = square_convolution(task)
    if isinstance(conv, Refusal) or outputs > most_outputs(conv.size, conv.stride):
        return None
    return _write(conv, outputs, tiles)


def generate_by_rows(task: Task, outputs: int) -> Implementation | None:
    """The kernel for strips of so many rows of outputs."""
    conv = square_convolution(task)
    if isinstance(conv, Refusal) or outputs > most_outputs(conv.size, conv.stride):
        return None
    image = rows_of_image(conv)
    return winograd_rows.write(image, _form(conv, outputs)) if image else None


GENERATOR = Generator(
    "winograd",
    "Convolution with fewer multiplications: tiles of the image and the filters are "
    "transformed, multiplied point by point, and transformed back; for few channels along the "
    "rows alone.",
    (
        "rounding more than the definition is allowed (not --exact)",
        "the target has caches",
        "convolution in f32, or of bf16 read so, by a square window of 2x2 or more, or by one "
        "along one axis, with constant filters, its channels "
        "fastest in the output, all or in groups; by strides of 1 or 2, or dilated, and at least "
        "two outputs for each transform; through frames of a volume by any taps side by side",
        "borders only where the window leaves the image",
        "transforms that are stored in half precision add no more error than is allowed "
        "(--max-rounding)",
    ),
    propose,
)
