"""When AMX's tiles apply, how lines are cut for them, and about what that costs.

The estimate counts products of tiles or their loads, whichever take longer, for they overlap;
stores of tiles and what ends the sums; configurations; copies of rows; and at least what comes from
beyond the first cache.  The rates are the target's (``costs.instructions``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import contraction_of
from weft.kernels.generator import Generator
from weft.kernels.products.amx import write
from weft.kernels.products.amx_forms import (
    Form,
    Pair,
    channel_blocks,
    is_single,
    name_of,
    pairs_along,
    through_of,
)
from weft.kernels.products.amx_lines import LANES, ROWS, Lines, lines_of
from weft.kernels.products.pair_runs import copied
from weft.kernels.products.tiled_choice import operand_bytes, rate
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, Tile, even_tiles
from weft.loops.instruction import families
from weft.targets.target import Target

_SHARE = 32
"""A share takes so many times as long as the configuration of its tiles."""
_COPIES = (2, 4, 8)
"""Rows of outputs that bands of copies may have."""
_HELD = 8
"""A share that goes through all weights reads such a part of a core's caches."""
_SUMS = 4
"""Sums of tiles that go through rows take at most such a part of the first cache."""
FAMILY = "tdpbf16ps"


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The forms of lines, the best first."""
    if families()[FAMILY][0] not in task.target.features:
        return Refusal("the target has no tiles for bf16")
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    lines = lines_of(parts)
    if isinstance(lines, Refusal):
        return lines
    costs = {form: cost(lines, form) for form in forms(lines)}
    return tuple(
        Alternative(
            name_of(lines, form),
            max(each),
            Sums("tiles", (lines.pairs,)),
            partial(write, lines, form),
            always,
        )
        for form, each in sorted(costs.items(), key=lambda pair: (max(pair[1]), pair[1]))
    )


def forms(lines: Lines) -> Iterator[Form]:
    """How lines may be cut."""
    if lines.passable:
        most = sum(lines.parts.task.target.caches[:1]) // _SUMS
        for share in sorted({min(each, lines.rows) for each in (*_COPIES, lines.rows)}):
            if DType.F32.bytes * 2 * LANES * through_of(lines, share).positions <= most:
                yield Form(False, share, through=True)
    for apart in (False, True) if lines.rows > 1 else (False,):
        unit = Form(apart, 1).unit
        if lines.runs:
            most = lines.rows + lines.rows % unit
            rows = {min(each, most) for each in (*_COPIES, *((most,) * lines.far_weights))}
            yield from (Form(apart, each) for each in sorted(rows))
            continue
        # Enough for one block of channels; and what the caches hold for all of them.
        least = _SHARE * configured(lines, Form(apart, 1))
        if lines.height:
            each = _line(lines, Form(apart, 1), channel_blocks(lines)[0], unit) / unit
            numbers = lines.width.extent
        else:
            ((_, pair), *_) = pairs_along(lines, Form(apart, 1))
            each = _tiles(lines, pair, channel_blocks(lines)[0])
            numbers = pair.size
        share = -(-int(least / each + 1) // unit) * unit
        yield Form(apart, share)
        caches = lines.parts.task.target.caches
        held = caches[-1] // _HELD // (DType.BF16.bytes * numbers * lines.place[0]) if caches else 0
        total = lines.rows if lines.height else lines.width.extent // numbers
        if unit <= held < total and lines.parts.lane_extent > 2 * LANES:
            yield Form(apart, held // unit * unit, inside=True)


def cost(lines: Lines, form: Form) -> tuple[float, float]:
    """About how many cycles a form takes on one core: to compute, and to wait for memory."""
    blocks = channel_blocks(lines)
    outer = prod(axis.extent for axis in lines.outer)
    bands = even_tiles(lines.rows, form.share, form.unit)
    total = sum(block.count * _rows(lines, form, block, bands) for block in blocks)
    if lines.height or lines.runs:
        shares = sum(band.count for band in bands)
        if lines.runs:
            total += sum(band.count * copied(lines.runs, band.size) for band in bands)
        inside = form.inside or (lines.runs is not None and not is_single(lines, bands))
    else:
        cut = [even_tiles(tile.count, form.share) for tile, _ in pairs_along(lines, form)]
        shares = sum(part.count for parts in cut for part in parts)
        inside = form.inside
    kinds = len(blocks) if inside else sum(block.count for block in blocks)
    total += shares * kinds * configured(lines, form)
    return outer * total, _traffic(lines, form, outer * shares if inside else 0)


def _rows(lines: Lines, form: Form, block: LaneBlock, bands: Sequence[Tile]) -> float:
    """Cycles of all rows of outputs, for a block of channels."""
    if form.through:
        each = [(band.count, through_of(lines, band.size)) for band in bands]
        return sum(count * of.count * _tiles(lines, of.pair, block) for count, of in each)
    whole, rest = divmod(lines.rows, form.unit)
    found = whole * _line(lines, form, block, form.unit)
    return found + (_line(lines, form, block, 1) if rest else 0)


def _line(lines: Lines, form: Form, block: LaneBlock, rows: int) -> float:
    """Cycles of one row of outputs, or of two that go together."""
    found = 0.0
    for tile, pair in pairs_along(lines, form):
        used = Pair(pair.first, 0, False) if rows < form.unit else pair
        found += tile.count * _tiles(lines, used, block)
    return found


def _tiles(lines: Lines, pair: Pair, block: LaneBlock) -> float:
    """Cycles of the outputs of two tiles of positions."""
    target = lines.parts.task.target
    high, wide = 1 + (pair.second > 0), -(-block.width // LANES)
    step = step_cycles(target, high, wide)
    ends = high * wide * instruction_rate(target, "tilestored")
    vectors = target.whole(block.width, DType.F32)
    ends += target.costs.tile + pair.size * vectors / target.vectors.share
    return lines.taps * lines.steps * step + ends


def step_cycles(target: Target, high: int, wide: int) -> float:
    """Cycles of a step of so many tiles of positions by tiles of channels."""
    products = high * wide * instruction_rate(target, FAMILY)
    return max(products, (high + wide) * instruction_rate(target, "tileloadd"))


def configured(lines: Lines, form: Form) -> float:
    """Cycles to configure the tiles of a share for blocks of channels, and to release them."""
    kinds = len(pairs_along(lines, form)) * (2 if lines.rows % form.unit else 1)
    kinds = 1 if form.through else kinds
    target = lines.parts.task.target
    return kinds * instruction_rate(target, "ldtilecfg") + instruction_rate(target, "tilerelease")


def instruction_rate(target: Target, name: str) -> float:
    """Cycles from one issue of an instruction on tiles to the next."""
    return dict(target.costs.instructions).get(name, float(ROWS))


def _traffic(lines: Lines, form: Form, shares: int) -> float:
    """Cycles for what comes from beyond the first cache.

    Args:
        lines: of positions.
        form: how they are cut.
        shares: that go through all weights; 0 where blocks of channels go through all shares.
    """
    parts, target = lines.parts, lines.parts.task.target
    if not target.caches:
        return 0.0
    image, filter = parts.fact(operand_bytes)
    blocks = sum(block.count for block in channel_blocks(lines))
    tiles = sum(tile.count for tile, _ in pairs_along(lines, form)) * -(-lines.rows // form.unit)
    if form.through:
        bands = even_tiles(lines.rows, form.share)
        tiles = sum(band.count * through_of(lines, band.size).count for band in bands)
    tiles *= prod(axis.extent for axis in lines.outer)
    reads = [(filter * max(1, shares), filter), (filter * tiles, filter / blocks)]
    reads += [(image, image), (image * (blocks - 1), image / max(1, shares))]
    return sum(size / rate(again, target) for size, again in reads)


GENERATOR = Generator(
    "tiles",
    "AMX's tiles for layers of bfloat16: 2x2 of them hold the sums of 32 positions by 32 output "
    "channels, and an instruction multiplies 16 of each along 32 input channels.",
    (
        "one sum of products of bf16, read as f32, with constant weights that can be packed, the "
        "same ones for at least two positions",
        "what a window reads of a row lies side by side, borders beside it",
        "output channels fastest in the output, in whole vectors, halves or quarters of them",
        "the target has AMX's tiles for bf16",
    ),
    propose,
    any_threads=True,
)
