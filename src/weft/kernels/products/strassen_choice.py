"""When seven products of quarters pay, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.products.quarters import DATA, HALVES, PRODUCTS, Product, parts_of
from weft.kernels.products.strassen import write
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import tile_shape
from weft.loops.nodes import Axis, Load, Var
from weft.loops.walk import free_vars
from weft.plan.implementation import Implementation

_F32 = DType.F32
_LEAST = 64
"""Terms and channels from which on sums of quarters are little beside their products."""
_LEAST_WORK = 30e6
"""Multiply-adds from which on what is saved is worth a kernel of seven products to the compiler."""
_MOVED = 2
"""Packed weights may be so many times what is read and written."""
_STREAMED = 1.25
"""Of the time that weights take by themselves: what they take beside multiply-adds."""


def cycles(product: Product) -> float:
    """An estimate: multiply-adds, what is loaded, added and stored around them, or weights.

    Every tile reads the weights of all seven products, from where they fit.
    """
    target, outer = product.target, prod(axis.extent for axis in product.parts.outer)
    loads, adds = target.loads, target.multiply_adds
    stores = target.stores
    half_lanes = product.parts.lane_extent // HALVES // product.lanes
    size = len(PRODUCTS) * product.groups * product.terms * product.width * _F32.bytes
    rate = target.near if size <= target.caches[-1] / 2 else target.far
    total = 0.0
    for _, size_of, often in product.cuts():
        pairs = -(-size_of // HALVES)
        wait = max(1.0, target.issue.latency * adds / (pairs * product.vectors))
        sums = pairs * half_lanes
        cycles = len(PRODUCTS) * sums * product.terms * wait / adds
        # Loads, additions and stores overlap, those of products with the next one's multiply-adds.
        data = pairs * product.terms / product.lanes
        cycles += data * max(4 / loads, 4 / adds, DATA / stores)
        cycles += sums * max(8 / loads, 8 / adds, 4 / stores)
        cycles += len(PRODUCTS) * product.groups * target.costs.tile
        total += often * max(cycles, _STREAMED * size / rate)
    return outer * total


NOT_A_PRODUCT = Refusal("it is no product of a matrix and one of constants, each read in order")


def product_of(task: Task) -> Product | Refusal:
    """The product that a task is, or why these loops do not compute it."""
    if task.exact:
        return Refusal("it rounds more than the definition, and exact kernels were asked for")
    if task.measured:
        return Refusal("a norm measures rows of its output, which may be small beside others")
    if not task.target.caches or task.optimize != "speed":
        return Refusal("the target has no caches, or the code is to be small")
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    image, reduce = parts.image, parts.reduce
    if image is None or reduce is None or parts.weight is None or parts.lanes is None:
        return NOT_A_PRODUCT
    channels = parts.channels(image)
    plain = reduce.op == "sum" and not parts.guards and not parts.slide and not parts.pairs
    if not plain or parts.tile is None or len(reduce.axes) != 1 or len(channels) != 1:
        return NOT_A_PRODUCT
    place, channel = channels[0]
    source = next(each for each in task.inputs if each.name == image.buffer)
    if source.steps[place] != 1 or parts.lanes.var in _vars(image):
        return NOT_A_PRODUCT
    if set(parts.weight_index()) != {Var(channel.var), Var(parts.lanes.var)}:
        return NOT_A_PRODUCT
    return _cut(parts, image, channel)


def _cut(parts: Contraction, image: Load, channel: Axis) -> Product | Refusal:
    """The product with its register tiles, or why it cannot be cut in halves."""
    lanes, extent = parts.task.target.lanes(_F32), parts.lane_extent
    if channel.extent % (HALVES * lanes) or extent % (HALVES * lanes):
        return Refusal("its terms or channels are no two halves of whole vectors")
    if min(channel.extent, extent) < _LEAST:
        return Refusal("sums of quarters cost more than they save where sums are short")
    found = Product(parts, image, channel, 1, 1)
    assert parts.tile
    half = -(-parts.tile.extent // HALVES)
    quarter = parts_of(found, image, half, extent // HALVES)
    shape = tile_shape(quarter, lanes, alone=False)
    found = replace(found, positions=shape[0], vectors=shape[1])
    if not found.groups or extent % (HALVES * found.width):
        return Refusal("its channels are no two halves of whole register tiles")
    if parts.tile.extent < HALVES * lanes:
        return Refusal("it has few positions")
    return found


def _lost(product: Product) -> Refusal | None:
    """Why a kernel is not worth what it costs besides time, if so.

    Layers with many weights keep them as they are: a network's memory grows little.  Among them
    are products of few tokens, rows of which may differ much in size (see docs/precision.md).
    """
    parts, terms = product.parts, product.channel.extent
    positions = prod(axis.extent for axis in (*parts.outer, product.tile))
    weights = terms * parts.lane_extent
    if positions * weights < _LEAST_WORK:
        return Refusal("what it saves is too little for a kernel of seven products")
    packed = len(PRODUCTS) / HALVES**2 * weights
    if packed > _MOVED * positions * (terms + parts.lane_extent):
        return Refusal("packed weights would be many times what it reads and writes")
    return None


def _vars(load: Load) -> frozenset[str]:
    return frozenset[str]().union(*map(free_vars, load.index))


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The one alternative."""
    product = product_of(task)
    if isinstance(product, Refusal):
        return product
    if lost := _lost(product):
        return lost
    sums = Sums("strassen", (product.positions,))
    make = partial(write, product)
    return (Alternative(product.name, cycles(product), sums, make, always),)


def generate(task: Task) -> Implementation | None:
    """The kernel, whatever it costs."""
    product = product_of(task)
    return None if isinstance(product, Refusal) else write(product)


GENERATOR = Generator(
    "strassen",
    "Products of large matrices by seven products of quarters instead of eight.",
    (
        "rounding more than the definition is allowed (not --exact)",
        "no norm measures the output",
        "the target has caches, and code may be large",
        "a product of a matrix in f32 and one of constants, both of whose sides are two halves of "
        "whole register tiles",
        "sums and rows of many terms",
        "30 million multiply-adds and more, and packed weights no more than twice what is read and "
        "written",
    ),
    propose,
)
