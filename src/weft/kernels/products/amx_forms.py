"""How AMX's tiles cut lines of positions, and channels."""

from __future__ import annotations

from collections.abc import Sequence

from weft.kernels.products.amx_lines import LANES, ROWS, Lines
from weft.kernels.tiling import LaneBlock, Tile, blocks_of, even_tiles
from weft.loops.nodes import Expr
from weft.records import dataclass


@dataclass(frozen=True)
class Form:
    """How lines are cut.

    Attributes:
        apart: whether the second tile of positions lies in the next row of outputs.
        share: rows of outputs, or tiles of the only row, that one configuration serves.
        inside: whether a share goes through all blocks of channels, as copies always do.
        through: whether tiles go on from one row of copies to the next, past the ends of rows.
    """

    apart: bool
    share: int
    inside: bool = False
    through: bool = False

    @property
    def unit(self) -> int:
        """Rows of outputs that go together."""
        return 2 if self.apart else 1


@dataclass(frozen=True)
class Pair:
    """Positions of two tiles.

    Attributes:
        first: positions of the first; second: of the second, 0 for none.
        apart: whether the second's are in the next row of outputs.
    """

    first: int
    second: int
    apart: bool

    @property
    def size(self) -> int:
        """Positions of both."""
        return self.first + self.second


@dataclass(frozen=True)
class Pace:
    """How far a block of channels is at a tile.

    Attributes:
        done: positions before the tile.
        positions: of the whole block, before the next one begins.
    """

    done: Expr
    positions: int


def pairs_along(lines: Lines, form: Form) -> list[tuple[Tile, Pair]]:
    """How the positions of a row of outputs, or of two, are cut, and what each tile is."""
    extent = lines.width.extent
    if form.apart:
        return [(tile, Pair(tile.size, tile.size, True)) for tile in even_tiles(extent, ROWS)]
    return [(tile, _side_by_side(tile.size)) for tile in even_tiles(extent, 2 * ROWS)]


def _side_by_side(size: int) -> Pair:
    """So many positions, in one tile if it holds them."""
    first = -(-size // 2) if size > ROWS else size
    return Pair(first, size - first, False)


@dataclass(frozen=True)
class Through:
    """Tiles that go through the rows of a band of copies, past the ends of rows.

    What they compute there is not used. The last tile begins early enough to be as large as the
    others; what it computes again is the same.

    Attributes:
        line: positions from one row to the next.
        positions: from the first to the last that is used.
        count: of tiles.
        pair: the positions of each.
    """

    line: int
    positions: int
    count: int
    pair: Pair


def through_of(lines: Lines, rows: int) -> Through:
    """The tiles of a band of so many rows of outputs."""
    line = lines.row[0] * lines.pitch // lines.place[0]
    positions = (rows - 1) * line + lines.width.extent
    count = -(-positions // (2 * ROWS))
    return Through(line, positions, count, _side_by_side(-(-positions // count)))


def channel_blocks(lines: Lines) -> list[LaneBlock]:
    """Blocks of two tiles of channels, and what is left over."""
    return blocks_of(lines.parts.lane_extent, LANES, 2)


def halves_of(block: LaneBlock) -> int:
    """Parts of a block's weights: those of two whole tiles are apart, each one run of memory.

    Side by side in the same rows, weights from beyond L2 took up to 1.26 times as long.
    """
    return 2 if block.width == 2 * LANES else 1


def is_single(lines: Lines, bands: Sequence[Tile]) -> bool:
    """Whether threads share blocks of channels, for there is but one band of copies."""
    return len(bands) == bands[0].count == 1 and not lines.outer


def name_of(lines: Lines, form: Form) -> str:
    """What the alternative is called: ``tdpbf16ps-28x32``, ``tdpbf16ps-rows8-2x14x32``."""
    if form.through:
        pair = through_of(lines, form.share).pair
        return f"tdpbf16ps-rows{form.share}-through-{pair.size}x{channel_blocks(lines)[0].width}"
    (_, pair), *_ = pairs_along(lines, form)
    sizes = f"2x{pair.first}" if form.apart else f"{pair.size}"
    kind = f"rows{form.share}-" if lines.runs else ""
    group = f"-by{form.share}" if form.inside and not lines.runs else ""
    return f"tdpbf16ps-{kind}{sizes}x{channel_blocks(lines)[0].width}{group}"
