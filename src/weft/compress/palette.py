"""Palettes: weights of a few distinct values, found by k-means, and stored as numbers of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from math import prod

import numpy as np

from weft.compress.weight_axes import Weight, weights_of
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.edit import prune, set_constants
from weft.ir.graph import Graph, Origin, noted
from weft.ir.naming import listed
from weft.ir.order import topological
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.indexing import GatherAttributes
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import SliceAttributes
from weft.ops.table import OPS
from weft.records import dataclass
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness

_RECIPE = "palette"
_ROUNDS = 300


@dataclass(frozen=True)
class PaletteParameters:
    """Of ``palette``."""

    k: int = parameter("how many distinct values a palette has, 2 to 256", 16)
    channels: int = parameter("so many output channels share a palette; 0: all of a weight", 0)
    zero: bool = parameter("weights that are 0 stay 0: one value of the palette is 0", False)
    keep: bool = parameter("store palettes and numbers, look the weights up when running", False)
    layers: tuple[str, ...] = parameter("layers or weights; all if none are named", ())


@dataclass(frozen=True)
class Paletted:
    """A weight as palettes and the numbers of their values.

    Attributes:
        palettes: one row for each group of channels, as long as the longest needs.
        indices: of the weight's shape.
        axis: of the weight, along which groups follow one another.
        channels: how many entries of the axis are a group.
    """

    palettes: np.ndarray
    indices: np.ndarray
    axis: int
    channels: int

    def dense(self) -> np.ndarray:
        """The weight that they stand for."""
        return self.palettes.reshape(-1)[self.indices + self.offsets()]

    def offsets(self) -> np.ndarray:
        """Where the palette of each entry of the axis starts, as it broadcasts."""
        count = self.indices.shape[self.axis]
        shape = [1] * self.indices.ndim
        shape[self.axis] = count
        starts = np.arange(count, dtype=np.int32) // self.channels * self.palettes.shape[1]
        return np.asarray(starts, np.int32).reshape(shape)


@dataclass(frozen=True)
class Packed:
    """A weight as bytes that stand for several neighbours each.

    Attributes:
        table: for each byte the values of its neighbours.
        numbers: the bytes, in row-major order of the weight.
    """

    table: np.ndarray
    numbers: np.ndarray

    @property
    def bytes(self) -> int:
        """What both take."""
        return self.table.nbytes + self.numbers.nbytes


def packed(found: Paletted) -> Packed | None:
    """A weight in the narrowest numbers, of 1, 2 or 4 bits; ``None`` where bytes are smaller.

    A table of what each byte stands for makes looking up cheap; it must be worth its bytes.
    Groups with palettes of their own would need one each.
    """
    if len(found.palettes) > 1:
        return None
    options = [_packed(found, bits) for bits in (1, 2, 4) if found.palettes.size <= 1 << bits]
    best = min(options, key=lambda each: each.bytes, default=None)
    if best is None or best.bytes >= found.palettes.nbytes + found.indices.nbytes:
        return None
    return best


def _packed(found: Paletted, bits: int) -> Packed:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    flat = found.indices.reshape(-1)
    rows = np.pad(flat, (0, -len(flat) % len(shifts))).reshape(-1, len(shifts))
    places = np.arange(256)[:, None] >> shifts & ((1 << bits) - 1)
    # Where the palette is shorter, some bytes stand for nothing.
    table = found.palettes[0][np.minimum(places, found.palettes.size - 1)]
    return Packed(table, np.bitwise_or.reduce(rows << shifts, axis=1))


# --- one-dimensional k-means ------------------------------------------------------------------


def cluster(values: np.ndarray, k: int, zero: bool) -> np.ndarray:
    """At most ``k`` sorted numbers that are near to all values, in double precision.

    Lloyd's algorithm from evenly spaced centres between the extremes, which keeps the rare
    large weights (Han et al., Deep Compression, ICLR 2016).  Where there are few enough
    distinct values, they are what comes out.
    """
    exact = np.sort(values.astype(np.float64).reshape(-1))
    distinct = np.unique(exact)
    if len(distinct) <= k:
        return distinct
    if zero and (exact == 0).any():
        rest = _centres(exact[exact != 0], k - 1)
        return np.unique(np.append(rest, 0.0))
    return _centres(exact, k)


def _centres(exact: np.ndarray, k: int) -> np.ndarray:
    """Sorted values have clusters that are runs, so a round takes k binary searches."""
    sums: np.ndarray = np.concatenate([[0.0], np.cumsum(exact)])
    squares: np.ndarray = np.concatenate([[0.0], np.cumsum(exact**2)])
    centres: np.ndarray = np.linspace(float(exact[0]), float(exact[-1]), k)
    for _ in range(_ROUNDS):
        # What is half way belongs to the lower one, as in ``nearest_of``.
        ends = np.searchsorted(exact, (centres[1:] + centres[:-1]) / 2, side="right")
        ends = np.concatenate([[0], ends, [len(exact)]])
        sizes = np.diff(ends)
        means: np.ndarray = np.diff(sums[ends]) / np.maximum(sizes, 1)
        found: np.ndarray = np.where(sizes > 0, means, centres)
        # A centre that nothing is near to goes to the edge of the cluster that is worst off.
        unused = np.flatnonzero(sizes == 0)
        errors: np.ndarray = np.diff(squares[ends]) - means**2 * sizes
        worst = np.argsort(-errors, kind="stable")[: len(unused)]
        worst = worst[exact[ends[worst + 1] - 1] > exact[ends[worst]]]
        found[unused[: len(worst)]] = exact[ends[worst + 1] - 1]
        found = np.sort(found)
        if np.array_equal(found, centres):
            break
        centres = found
    return centres


def nearest_of(centres: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The number of the nearest centre, for every value; of two as near, the lower."""
    return np.searchsorted((centres[1:] + centres[:-1]) / 2, values.astype(np.float64))


def paletted(array: np.ndarray, axis: int, channels: int, k: int, zero: bool) -> Paletted:
    """A weight as palettes of groups of so many entries along an axis."""
    size = channels or array.shape[axis]
    starts = range(0, array.shape[axis], size)
    groups = [np.take(array, range(s, min(s + size, array.shape[axis])), axis) for s in starts]
    found = [cluster(group, k, zero).astype(array.dtype) for group in groups]
    length = max(len(centres) for centres in found)
    palettes = np.stack([np.pad(centres, (0, length - len(centres)), "edge") for centres in found])
    indices = [_indices(centres, group, zero) for centres, group in zip(found, groups, strict=True)]
    return Paletted(palettes, np.concatenate(indices, axis).astype(np.uint8), axis, size)


def _indices(centres: np.ndarray, group: np.ndarray, zero: bool) -> np.ndarray:
    places = nearest_of(centres.astype(np.float64), group)
    hole = np.flatnonzero(centres == 0)
    if zero and len(hole):
        places = np.where(group == 0, hole[0], places)
    return np.asarray(places)


# --- in the graph ------------------------------------------------------------------------------


def palette(graph: Graph, parameters: PaletteParameters) -> Graph:
    """Give weights few distinct values."""
    if not 2 <= parameters.k <= 256:
        raise UserError(f"{_RECIPE}: k must be within [2, 256]", got=str(parameters.k))
    if parameters.channels < 0:
        raise UserError(f"{_RECIPE}: channels must not be negative", got=str(parameters.channels))
    found: dict[str, Paletted] = {}
    for weight in weights_of(graph, parameters.layers, _RECIPE):
        array = graph.constants[weight.name]
        axis = _outputs_axis(weight, array.ndim) if parameters.channels else 0
        found[weight.name] = paletted(
            array, axis, parameters.channels, parameters.k, parameters.zero
        )
    if not parameters.keep:
        return set_constants(graph, {name: each.dense() for name, each in found.items()})
    return _looked_up(graph, found)


def _outputs_axis(weight: Weight, rank: int) -> int:
    """The axis of a weight that its layers' output channels come from."""
    summed = weight.summed(_RECIPE)
    return summed - 1 if summed else 1 if rank > 1 else 0


def _looked_up(graph: Graph, found: dict[str, Paletted]) -> Graph:
    """Weights are looked up by nodes; what reads them stays as it is."""
    builder = GraphBuilder(OPS, graph.name, taken=[*graph.types, *graph.by_name])
    for name, each in found.items():
        builder.origin = Origin((), (_RECIPE,))
        narrow = packed(each)
        made = (
            _by_numbers(builder, name, each)
            if narrow is None
            else _by_bytes(builder, name, narrow, each.indices.shape)
        )
        builder.nodes[-1] = changed(builder.nodes[-1], outputs=(name,))
        del builder.types[made]
    constants = {name: array for name, array in graph.constants.items() if name not in found}
    looked_up = changed(
        graph,
        nodes=topological([*builder.nodes, *graph.nodes]),
        types={**graph.types, **builder.types},
        constants={**constants, **builder.constants},
    )
    return prune(noted(looked_up, "look up", listed(found)))


def _by_numbers(builder: GraphBuilder, name: str, found: Paletted) -> str:
    """A byte for every element."""
    numbers = builder.constant(found.indices, f"{name}_numbers")
    values = builder.constant(found.palettes.reshape(-1), f"{name}_palette")
    where = builder.op("Cast", numbers, attributes=CastAttributes(DType.I32))
    if len(found.palettes) > 1:
        where = builder.op("Add", where, builder.constant(found.offsets(), f"{name}_starts"))
    return builder.op("Gather", values, where, attributes=GatherAttributes(0))


def _by_bytes(builder: GraphBuilder, name: str, found: Packed, shape: tuple[int, ...]) -> str:
    """A byte for several elements."""
    numbers = builder.constant(found.numbers, f"{name}_numbers")
    table = builder.constant(found.table, f"{name}_palette")
    where = builder.op("Cast", numbers, attributes=CastAttributes(DType.I32))
    made = builder.op("Gather", table, where, attributes=GatherAttributes(0))
    count = prod(shape)
    if found.numbers.size * found.table.shape[1] != count:
        flat = ReshapeAttributes((found.numbers.size * found.table.shape[1],))
        made = builder.op("Reshape", made, attributes=flat)
        made = builder.op("Slice", made, attributes=SliceAttributes((0,), (count,), (0,), (1,)))
    return builder.op("Reshape", made, attributes=ReshapeAttributes(shape))


def distinct(graph: Graph, names: Sequence[str]) -> dict[str, int]:
    """How many distinct values constants have."""
    return {name: len(np.unique(graph.constants[name])) for name in names}


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name=_RECIPE,
        doc="Gives every weight at most `k` distinct values, by k-means over the whole weight or "
        "over groups of output channels. The weights stay dense constants, which compress well; "
        "with `keep=yes` they are stored as palettes and numbers, and looked up when the network "
        "runs. The numbers have 8 bits, or 4, 2 or 1 where `k` is small enough, one palette is for "
        "all of a weight, and the weight is so large that a table of what each byte stands for is "
        "worth its bytes: a quarter of the flash or less, for the time and memory that the dense "
        "weights take then. A weight with so few values already is left exactly as it is.",
        exactness=Exactness.APPROXIMATE,
        parameters=PaletteParameters,
        apply=palette,
    ),
)
