"""What Strassen's algorithm multiplies: a product of matrices, one of constants, by quarters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.kernels.tiling import LaneBlock
from weft.loops.definition import Compute
from weft.loops.nodes import Access, Axis, Binary, Buffer, Load, Reduce, Var
from weft.records import dataclass
from weft.targets.target import Target

_F32 = DType.F32
HALVES = 2
PRODUCTS = (
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (-1.0, 1.0, 1.0, -1.0),
    (-1.0, 1.0, 0.0, 0.0),
    (1.0, -1.0, 0.0, 1.0),
    (0.0, -1.0, 0.0, 1.0),
    (0.0, 0.0, 0.0, 1.0),
)
"""For each product, in their order, what it takes of the quarters b11, b12, b21, b22."""
DATA = 4
"""Quarters of data that are sums."""


@dataclass(frozen=True)
class Product:
    """A product of two matrices, one of constants.

    Attributes:
        parts: of the task.
        image: the load of the other one; channel: the summed axis.
        positions, vectors: of a register tile.
    """

    parts: Contraction
    image: Load
    channel: Axis
    positions: int
    vectors: int

    @property
    def target(self) -> Target:
        """The machine."""
        return self.parts.task.target

    @property
    def tile(self) -> Axis:
        """The axis of positions."""
        assert self.parts.tile
        return self.parts.tile

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.target.lanes(_F32)

    @property
    def width(self) -> int:
        """Channels of a register tile."""
        return self.vectors * self.lanes

    @property
    def block(self) -> LaneBlock:
        """The channels of a register tile."""
        return LaneBlock(0, 1, (self.lanes,) * self.vectors)

    @property
    def terms(self) -> int:
        """Of a half of a sum."""
        return self.channel.extent // HALVES

    @property
    def groups(self) -> int:
        """Register tiles that hold half of the channels."""
        return self.parts.lane_extent // (HALVES * self.width)

    @property
    def name(self) -> str:
        """What the alternative is called."""
        return f"strassen-{self.positions}x{self.vectors}"

    def cuts(self) -> Iterator[tuple[int, int, int]]:
        """First position, positions and number of all tiles, those of one size at a time."""
        whole, rest = divmod(self.tile.extent, HALVES * self.positions)
        if whole:
            yield 0, HALVES * self.positions, whole
        if rest:
            yield self.tile.extent - rest, rest, 1


def parts_of(product: Product, image: Load, size: int, width: int) -> Contraction:
    """A product of quarters, taken apart."""
    terms = Axis(product.channel.var, product.terms)
    factor = Load("filter", (Var(terms.var), Var("wide")), _F32)
    value = Binary("mul", image, factor)
    reduce = Reduce("sum", (terms,), value)
    weight = Buffer("filter", _F32, (terms.extent, width))
    spot, lane = Axis("spot", size), Axis("wide", width)
    task = replace(
        product.parts.task,
        compute=Compute((spot, lane), reduce),
        inputs=(sums_of(product, size), weight, *product.parts.task.inputs),
        output=Buffer("product", _F32, (size, width), Access.LOCAL),
    )
    return Contraction(task, reduce, value, (), lane, spot, (), "filter")


def sums_of(product: Product, size: int, tiles: int = 1) -> Buffer:
    """The sums of quarters of tiles.  Rows must not fall onto the same cache sets."""
    return Buffer("data", _F32, (tiles * DATA, size, product.terms + product.lanes), Access.LOCAL)
