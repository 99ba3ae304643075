"""Transposed convolutions with strides as plain ones."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes
from weft.ops.ordering import TransposeAttributes
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import SliceAttributes
from weft.records import dataclass
from weft.rewrite.rule import Exactness, Rule

FEW_CHANNELS = 16
"""Below, the phases of an output together fill vectors that one alone would not."""
MOST_WORK = 2.5
"""Products of the plain convolution, zeros included, for each product that is needed."""


@dataclass(frozen=True)
class _Phases:
    """One spatial axis: outputs ``stride * i + phase`` from inputs ``i + first + u``.

    Attributes:
        stride: how many phases there are.
        first: the first input that any phase reads, beside ``i``.
        taps: for every phase, the kernel's tap at each ``u``; -1 where it has none.
        count: how many ``i`` there are.
        pads: zeros before and after the input.
    """

    stride: int
    first: int
    taps: tuple[tuple[int, ...], ...]
    count: int
    pads: tuple[int, int]


def _phases(kernel: int, stride: int, begin: int, extent: int, size: int) -> _Phases:
    reads: list[dict[int, int]] = []
    for phase in range(stride):
        whole, tap = divmod(phase + begin, stride)
        reads.append({whole - m: t for m, t in enumerate(range(tap, kernel, stride))})
    # A phase without taps is zero, or the bias.
    first = min(min(each, default=0) for each in reads)
    last = max(max(each, default=first) for each in reads)
    taps = tuple(tuple(each.get(place, -1) for place in range(first, last + 1)) for each in reads)
    count = -(-size // stride)
    after = max(0, count + last - extent)
    return _Phases(stride, first, taps, extent - first + after - (last - first), (-first, after))


def _axes(match: Match) -> tuple[_Phases, ...]:
    attributes, x, w = match.root.attributes, match.type("x"), match.type("w")
    kernel, sizes = w.dims[2:], match.type("y").dims[2:]
    rank = len(kernel)
    pads = attributes.pads or (0,) * (2 * rank)
    strides = attributes.strides or (1,) * rank
    return tuple(
        _phases(kernel[a], strides[a], pads[a], x.dims[2 + a], sizes[a]) for a in range(rank)
    )


def _problem(match: Match) -> str | None:
    attributes: Any = match.root.attributes
    if max(attributes.strides, default=1) == 1:
        return ""  # a plain convolution's loops already
    if attributes.groups > 1 or max(attributes.dilations, default=1) > 1:
        return "it has groups or dilations"
    if match.has("b") and match["b"] not in match.view.constants:
        return "the bias is computed"
    if not match.type("x").is_static:
        return "the input's shape is not known"
    kernel = match.type("w").dims[2:]
    taps = max(-(-k // step) for k, step in zip(kernel, attributes.strides, strict=True))
    if taps == 1 and match.type("w").dims[1] >= FEW_CHANNELS:
        return "every output is the product with one tap"
    axes = _axes(match)
    if any(axis.pads[0] < 0 for axis in axes):
        return "it crops more than the kernel reaches"
    made = prod(len(axis.taps[0]) * axis.stride for axis in axes)
    if made > MOST_WORK * prod(match.type("w").dims[2:]):
        return "the windows of the phases have little in common"
    return None


def _weights(w: np.ndarray, axes: tuple[_Phases, ...]) -> np.ndarray:
    """Filters of all phases: channels of a phase side by side."""
    window = tuple(len(axis.taps[0]) for axis in axes)
    found: list[np.ndarray] = []
    for numbers in product(*(range(axis.stride) for axis in axes)):
        phases = [axis.taps[number] for axis, number in zip(axes, numbers, strict=True)]
        part = np.zeros((w.shape[1], w.shape[0], *window), w.dtype)
        for place in product(*map(range, window)):
            taps = tuple(phase[u] for phase, u in zip(phases, place, strict=True))
            if min(taps) >= 0:
                part[:, :, *place] = w[:, :, *taps].T
        found.append(part)
    return np.concatenate(found)


def _plain(match: Match, builder: GraphBuilder) -> str:
    axes = _axes(match)
    rank, strides = len(axes), tuple(axis.stride for axis in axes)
    w = match.array("w")
    operands = [builder.constant(_weights(w, axes), match["w"])]
    if match.has("b"):
        operands.append(builder.constant(np.tile(match.array("b"), prod(strides)), match["b"]))
    pads = (*(axis.pads[0] for axis in axes), *(axis.pads[1] for axis in axes))
    window = tuple(len(axis.taps[0]) for axis in axes)
    conv = builder.op(
        "Conv", match["x"], *operands, attributes=ConvAttributes(kernel=window, pads=pads)
    )
    batch, counts = match.type("x").dims[0], tuple(axis.count for axis in axes)
    apart = builder.op(
        "Reshape",
        conv,
        attributes=ReshapeAttributes((batch, *strides, w.shape[1], *counts)),
    )
    order = [0, 1 + rank]
    for axis in range(rank):
        order += [2 + rank + axis, 1 + axis]
    woven = builder.op("Transpose", apart, attributes=TransposeAttributes(tuple(order)))
    sizes = tuple(count * stride for count, stride in zip(counts, strides, strict=True))
    whole = builder.op("Reshape", woven, attributes=ReshapeAttributes((batch, w.shape[1], *sizes)))
    wanted = match.type("y").dims[2:]
    if sizes == wanted:
        return whole
    cut = SliceAttributes((0,) * rank, wanted, tuple(range(2, 2 + rank)), (1,) * rank)
    return builder.op("Slice", whole, attributes=cut)


RULES: tuple[Rule, ...] = (
    Rule(
        name="transposed-convolution-by-phases",
        before="y = ConvTranspose(x, const w, b?)",
        where=_problem,
        after=_plain,
        exactness=Exactness.REASSOCIATING,
        doc="A transposed convolution with strides becomes a plain one that computes all "
        "outputs between two neighbouring inputs as channels, which are then put in their "
        "places: it runs on the fastest loops there are, and few channels fill a vector.",
    ),
)
