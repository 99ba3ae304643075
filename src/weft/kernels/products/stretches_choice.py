"""When stretches of long sums pay, and how products are cut for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import gcd

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.products.stretches import (
    Stretches,
    matrix_of,
    refusal_of,
    stretch_of,
    terms_of,
    write,
)
from weft.kernels.products.tile_form import FROM_MEMORY, TileForm, form_blocks, lane_count
from weft.kernels.products.tiled_choice import cycles, products, shapes
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import FEW_REGISTERS, WIDE, even_size, most_positions, tile_shape
from weft.loops.affine import affine
from weft.loops.nodes import Var

_LANES = 320
"""About how many lanes go through all stretches together.

More leave threads less to share, fewer read the positions more often: 197x3072x768 on an Emerald
Rapids, 64 lanes 126 GFLOP/s, 128 lanes 140, 192 and more 143 to 146.
"""
_PAGE = 4096
"""Bytes whose lines a core's second cache keeps in places of their own."""
_EVEN = 1.03
"""So much longer than with the evenest shares larger ones may take."""


def product_of(task: Task) -> Contraction | Refusal:
    """The product whose sums are taken in stretches, or why they are not."""
    parts = contraction_of(task)
    return parts if isinstance(parts, Refusal) else refusal_of(parts) or parts


def _groups(parts: Contraction, terms: int, positions: int) -> int:
    """How many groups of positions read so little of a stretch that it stays near.

    Rows that lie whole pages apart use the same few sets of a cache.
    """
    target, matrix = parts.task.target, matrix_of(parts)
    assert matrix
    assert parts.tile
    load, buffer = matrix
    step = sum(
        affine(part).terms.get(Var(parts.tile.var), 0) * step
        for part, step in zip(load.index, buffer.steps, strict=True)
    )
    each, apart = terms * load.dtype.bytes, gcd(step * load.dtype.bytes, _PAGE)
    cache = target.caches[-1]
    held = min(cache // 4, cache * min(each, apart) // apart // 2)
    rows = max(positions, held // each)
    # Each group reads all weights, which come from memory.
    rows *= FROM_MEMORY if target.registers <= FEW_REGISTERS else 1
    return -(-parts.tile.extent // rows)


def cut_of(parts: Contraction, form: TileForm, terms: int) -> Stretches:
    """How a product is cut for the threads of its task."""
    assert parts.tile
    threads, tiles = parts.task.threads, -(-parts.tile.extent // form.positions)
    block = form_blocks(parts, form)[0]
    most, groups = max(1, _LANES // block.width), _groups(parts, terms, form.positions)
    least = -(-block.count // max(1, -(-block.count // most)))

    def time(groups: int, share: int) -> float:
        cells = groups * -(-block.count // share)
        return -(-cells // threads) * share * -(-tiles // groups)

    if threads == 1:
        return Stretches(form, terms, groups, least)
    ways = [
        (many, share)
        for many in range(groups, min(tiles, groups + threads) + 1)
        for share in range(least, 0, -1)
    ]
    best = min(time(*way) for way in ways)
    groups, share = next(way for way in ways if time(*way) <= _EVEN * best)
    return Stretches(form, terms, groups, share)


def _shape(stretch: Contraction, count: int) -> tuple[int, int]:
    """Positions and vectors of register tiles of a stretch.

    The weights of wide ones are read for more tiles, which a core's caches have time for, and
    fewer rows at once: 197x3072x768 on an Emerald Rapids, 14x2 150 GFLOP/s, 6x4 152; 128x3072x768
    91 and 108.

    Args:
        stretch: of the product.
        count: of vectors that hold all lanes.
    """
    assert stretch.tile
    if stretch.task.target.registers <= FEW_REGISTERS or count % WIDE:
        return tile_shape(stretch, lane_count(stretch))
    return even_size(stretch, stretch.tile.extent, most_positions(stretch, WIDE)), WIDE


def cuts(parts: Contraction) -> Iterator[Stretches]:
    """All worth trying, the usual one first."""
    assert parts.reduce
    sizes = terms_of(parts.reduce.axes[0].extent)
    count = -(-parts.lane_extent // lane_count(parts))
    usual = _shape(stretch_of(parts, sizes[0]), count)
    for terms in sizes[:1] + [size for size in sizes if size > sizes[0]][-1:]:
        for positions, vectors in dict.fromkeys((usual, *shapes(parts, count))):
            for ahead in (True, False):
                yield cut_of(parts, TileForm(positions, vectors, ahead=ahead), terms)


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The usual cut and others."""
    parts = product_of(task)
    if isinstance(parts, Refusal):
        return parts
    found = dict.fromkeys(cuts(parts))
    first = next(iter(found))
    # Of the usual one only the multiply-adds count, as of usual register tiles.
    costs = {
        cut: products(parts, cut.form) if cut == first else cycles(parts, cut.form) for cut in found
    }
    return tuple(
        Alternative(
            cut.name, cost, Sums("stretches", (cut.terms,)), partial(write, parts, cut), always
        )
        for cut, cost in sorted(costs.items(), key=lambda pair: pair[1])
    )


GENERATOR = Generator(
    "stretches",
    "Products of matrices with long sums, a stretch of their terms at a time, so that what all "
    "positions read of it stays in a core's caches.",
    (
        "a product of a matrix and one of constants, added in f32",
        "half of a core's caches does not hold the matrix",
        "sums of 1024 terms and more, which equal stretches of 128 to 512 terms make up",
        "the target has caches and an instruction that multiplies and adds, and code may be large",
    ),
    propose,
)
