"""The kernels that the page of generated kernels shows: small networks, and what to say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS

TARGET = "x86-avx2"


class Layers:
    """A network in the making; its weights are not part of the C."""

    def __init__(self) -> None:
        self.builder = GraphBuilder(OPS, "example")
        self.constants = 0

    def input(self, *shape: int) -> str:
        """An input of the network."""
        return self.builder.input("x", TensorType(DType.F32, shape))

    def weights(self, *shape: int) -> str:
        """Some numbers, no two of them alike."""
        self.constants += 1
        first = self.constants
        numbers = np.linspace(first, first + 1, prod(shape), dtype=np.float32)
        return self.builder.constant(numbers.reshape(shape), "w")

    def op(self, op: str, *inputs: str, **attributes: object) -> str:
        """The first output of an op."""
        return self.builder.op(op, *inputs, attributes=OPS[op].attributes(**attributes))

    def conv(self, x: str, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        """A convolution with bias and ReLU."""
        inputs = self.builder.types[x].dims[1]
        weight = self.weights(channels, inputs // groups, kernel, kernel)
        made = self.op(
            "Conv",
            x,
            weight,
            self.weights(channels),
            kernel=(kernel, kernel),
            strides=(stride, stride),
            pads=(kernel // 2,) * 4,
            groups=groups,
        )
        return self.op("Relu", made)

    def features(self, channels: int, size: int) -> str:
        """An image inside of a network: channels last."""
        return self.conv(self.input(1, 3, size, size), channels, 1)

    def dense(self, x: str, features: int) -> str:
        """A product with a constant matrix."""
        return self.op("MatMul", x, self.weights(self.builder.types[x].dims[-1], features))

    def rows(self, x: str, features: int) -> str:
        """The same with a row of weights for each feature, as PyTorch has them."""
        weights = self.weights(features, self.builder.types[x].dims[-1])
        return self.op("Gemm", x, weights, transB=1)


@dataclass(frozen=True)
class Example:
    """A kernel to be shown.

    Attributes:
        title: of the section.
        make: builds the network that has it, and names its output.
        function: the C function to show.
        text: what there is to see.
        lines: at most so many of them are shown, from the first one on that ``start``
            matches; the signature always is.
        scheme: the alternative that is asked for; by default the usual one.
        target: the machine; precision: in which values are stored.
        parameters: weights that are given at run time.
    """

    title: str
    make: Callable[[Layers], str]
    function: str
    text: str
    lines: int = 40
    start: str = ""
    scheme: str = ""
    target: str = TARGET
    precision: str = "float32"
    parameters: str = ""


def _lstm(net: Layers) -> str:
    x = net.input(4, 1, 8)
    return net.op("LSTM", x, net.weights(1, 64, 8), net.weights(1, 64, 16), hidden_size=16)


def _chain(net: Layers) -> str:
    scaled = net.op("Mul", net.input(64, 16), net.weights(16))
    return net.op("HardSwish", net.op("Add", scaled, net.weights(16)))


def _pool(net: Layers) -> str:
    return net.op("MaxPool", net.features(16, 16), kernel=(2, 2), strides=(2, 2))


def _bands(net: Layers) -> str:
    wide = net.conv(net.input(1, 3, 112, 112), 16, 1)
    return net.conv(wide, 16, 3, stride=2, groups=16)


def _attention(net: Layers) -> str:
    queries, keys, values = (net.input(4, rows, 32) for rows in (24, 40, 40))
    scores = net.op("MatMul", queries, net.op("Transpose", keys, perm=(0, 2, 1)))
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), values)


EXAMPLES: tuple[Example, ...] = (
    Example(
        "Pointwise convolution (1x1)",
        lambda net: net.conv(net.features(32, 8), 16, 1),
        "conv_relu_2",
        "The plainest register tile. Of the output, a tile is six pixels by two vectors of "
        "eight channels: twelve accumulators, named one by one, for compilers leave an array "
        "of them in memory. Each step of the loop over input channels loads two vectors of "
        "weights once and multiplies them with one number of each pixel, so that eight loads "
        "feed twelve multiply-adds. The weights were packed when the network was compiled, in "
        "the order in which they are read here: one stream. The empty `__asm__` is no "
        "instruction: it keeps compilers from moving loads across steps and then running out "
        "of registers. `weft_keep_v8f32` is no instruction either: it keeps a vector of weights in "
        "one of AVX2's 16 registers, where gcc may read it from memory for every pixel. "
        "The *epilogue* adds the bias and applies ReLU while the sums are still "
        "in registers. 64 pixels are nine tiles of six and two of five.",
        44,
    ),
    Example(
        "Direct convolution",
        lambda net: net.conv(net.features(8, 14), 16, 3),
        "conv_relu_2",
        "The same tile with loops over the rows `i` and columns `j` of the window around it. "
        "The image is not padded. Above and below, the bounds of the loop over `i` leave out "
        "the rows that lie outside; at the left and right, where pixels are told apart anyway, "
        "there are tiles of their own: in this first one the left column of the window "
        "(`j` = 0, the first inner loop) has no pixel to multiply for the tile's first output, "
        "`acc0_0`. The tiles after it, not shown, look like the second inner loop alone, and "
        "the last one leaves out the right column.",
        48,
    ),
    Example(
        "Stem: few input channels, a stride",
        lambda net: net.conv(net.input(1, 3, 32, 32), 16, 3, stride=2),
        "conv_relu",
        "A network's first layer reads the caller's image as it is, plane by plane "
        "(`k * 1024`), every second pixel of it, and writes channels last for the layers "
        "behind it: the change of layout costs nothing.  Rows of planes are more streams than "
        "a processor follows by itself, so each tile asks for the lines that the tile below "
        "it will be the first to read.",
        35,
        r"for \(int k = ",
    ),
    Example(
        "Few filters: parts of sums in lanes",
        lambda net: net.conv(net.features(32, 32), 3, 3),
        "conv_relu_2",
        "Three filters would leave most lanes of a vector idle.  So each vector holds eight "
        "parts of one sum (`deep`), over eight neighbouring channels, and a step is the product "
        "of as many pixels and weights.  In the end vectors of two positions are folded into one, "
        "again and again, until the sums of eight positions lie side by side.  Where channels do "
        "not divide by eight, the rest is added behind that.",
        40,
        r"for \(int k = ",
    ),
    Example(
        "Winograd convolution",
        lambda net: net.conv(net.features(64, 32), 64, 3),
        "conv_relu_2",
        "3x3 windows by fewer multiplications: each patch of 6x6 pixels is transformed "
        "(`data`, 36 points), each point is a small matrix product with the transformed "
        "filters, and `product` is transformed back to 4x4 outputs, a quarter of the "
        "multiplications. This is the middle stage, for a block of tiles at a time so that "
        "`data` stays in cache. Rows of `data` are a vector longer than need be, lest all of "
        "them fall onto the same cache sets. While the filters of one point are used, "
        "`__builtin_prefetch` fetches those of the next, each register tile its part of them. "
        "Wide groups of channels are convolved one after another, each with filters of its own. "
        "Dilated windows take tiles whose pixels and outputs are as far apart as the taps.\n\n"
        "`winograd-f4-22` is F(4x4, 3x3) with 22 tiles at a time. In float32 the alternatives "
        "are tiles of 4x4 outputs (2.25 multiplications an output, where the direct sum has 9) "
        "and of 2x2 (4), for layers of few channels also strips of 4 or 2 rows "
        "(`winograd-f4x1`: 4.5 and 6), which are transformed in one direction only. In bfloat16 "
        "there are tiles of 3x3 (2.78), too: transforms are computed in float32, but what they "
        "give is stored in bfloat16, filters everywhere and pixels where an instruction "
        "multiplies pairs. The matrices are Toom-Cook's for a size of tile, of window and of "
        "stride (`kernels/winograd/toom_cook.py`); the points of F(4x4, 3x3) are 0, ±11/16, "
        "±3/2 and infinity, chosen for the least rounding among those that are exact in "
        "float32.\n\n"
        "Two things round more than in the direct sum. Transforms add and subtract numbers of "
        "different sizes: in float32 the error of a layer of 64 channels is 1.1 to 1.5 times "
        "that of the direct sum, which `--exact` keeps. And numbers that are stored in half "
        "precision are rounded before they are multiplied: the inverse transform adds these "
        "errors up, weighted by the squares of the matrices' elements, which makes them 1.67, "
        "2.86 and 4.81 times as large for tiles of 2x2, 3x3 and 4x4 "
        "(`Filtering.amplification`). That adds 0.39 %, 0.67 % and 1.13 % of the standard "
        "deviation of a layer's outputs (divided by 1.41 where only filters are rounded). An "
        "alternative is taken only if that is at most `--max-rounding` (0.005 by default: 2x2). "
        "[precision.md](precision.md#tiles-that-round-more) has measurements of layers and "
        "networks.",
        34,
        r"for \(int group = ",
    ),
    Example(
        "Depthwise convolution",
        lambda net: net.conv(net.features(32, 14), 32, 3, groups=32),
        "conv_relu_2",
        "Every channel has a filter of its own, so pixels are vectors too. A row of the window "
        "slides along the row of the image: each pixel is loaded once and added to all the "
        "outputs that it belongs to, and the three weights of the row stay in registers.",
        34,
    ),
    Example(
        "Matrix product (GEMM)",
        lambda net: net.op("Relu", net.dense(net.input(12, 64), 32)),
        "mat_mul_relu",
        "The tile of the pointwise convolution; rows are its pixels. `block` counts the packed "
        "blocks of columns, outermost, so that weights are read once. Where they are large, each "
        "tile fetches its part of the next block, evenly over its steps: a whole block at once "
        "would come faster than memory brings it.",
        34,
    ),
    Example(
        "Matrix product with long sums",
        lambda net: net.op("Relu", net.dense(net.input(72, 1024), 48)),
        "mat_mul_relu",
        "What 72 rows of 1024 numbers take is more than half of this processor's second cache, and "
        "every block of columns would read it anew. So all sums add up 256 terms before the next "
        "256: what a group of 36 rows has of those, and the weights of a block, stay near. Between "
        "stretches sums wait in `totals`; the last stretch ends them.",
        72,
        target="haswell",
    ),
    Example(
        "Matrix by vector (GEMV)",
        lambda net: net.op("Relu", net.dense(net.input(1, 64), 128)),
        "mat_mul_relu",
        "With one row there is nothing to reuse: the weights come from memory once, and all "
        "that matters is to read them at the full bandwidth. Eight vectors of accumulators "
        "hide the latency of the additions. Where the weights come from memory, a block lies "
        "in several streams that are read at once, if that is faster on the processor, or "
        "those of the next block are fetched ahead, line by line.",
        34,
    ),
    Example(
        "Matrix by vector: weights in 28 bits",
        lambda net: net.op("Relu", net.dense(net.input(1, 64), 128)),
        "mat_mul_relu",
        "Dense layers of many megabytes take as long as memory does, so fewer bytes are faster. "
        "Nearly all weights of a layer have one of sixteen exponents: sign, four bits for the "
        "exponent and 23 of the fraction are all that differs. Seven words of 32 bits hold a "
        "weight each and, in the four bits that are free, a seventh of an eighth weight, which "
        "`rest0` collects. One `&` and one `+` of the common part of the exponent make a float "
        "of a word, to the last bit. A short list for each output (there is none here) mends the "
        "few weights that are much smaller than the largest. Weights of this example's size stay "
        "in caches, where plain ones are faster; it was asked for by name.",
        44,
        scheme="packed-1x2",
    ),
    Example(
        "Matrix by vector: weights where they lie",
        lambda net: net.op("Relu", net.rows(net.input(1, 2048), 2048)),
        "gemm_relu",
        "Large weights that are given at run time need not be packed, nor copied: a row of them "
        "for each output lies in memory as PyTorch and others have it. Eight rows are read at "
        "once, along vectors; each vector of `deep` has parts of one sum. Shuffles add these up, "
        "two rows in one vector at every stage, so that the last one has the eight sums side by "
        "side.",
        60,
        parameters="runtime",
    ),
    Example(
        "Matrix product in bfloat16 by AMX's tiles",
        lambda net: net.op("Relu", net.dense(net.dense(net.input(96, 64), 64), 32)),
        "cast_mat_mul_relu",
        "On Sapphire Rapids the sums of 32 rows by 32 columns are four tiles, registers of 16 rows "
        "of 64 bytes. `weft_instr_tdpbf16ps_...` (not shown) sums along the whole reduction: two "
        "tiles of rows, two of weights, four products a step; then it stores the four to `sums`, "
        "which the epilogue reads. The numbers in its name are sizes and strides. Tiles are "
        "configured once for a share of the rows, of which a thread takes whole ones, and "
        "released behind it ([precision.md](precision.md#amx)).",
        40,
        target="sapphire-rapids",
        precision="bfloat16",
    ),
    Example(
        "Rows: softmax",
        lambda net: net.op("Softmax", net.input(1, 64), axis=-1),
        "reduce_max_sub_exp_reduce_sum_div",
        "Softmax is five ops and one kernel: the maximum, the exponentials, which are kept in "
        "`out` and summed on the way, and the division. A reduction along contiguous memory runs "
        "in several vectors (`top_v0`, `top_v1`, ...), which are folded at the end: eight lanes, "
        "four, two, one. Where there are several rows, some are computed side by side, for the "
        "steps of folding wait for one another.",
        44,
    ),
    Example(
        "Attention",
        _attention,
        "attention",
        "Two products with softmax between them are one kernel. Keys and values of a head are "
        "laid out in panels once (not shown), then a few queries at a time go through three "
        "stages: their `scores`, of which this is the product; softmax as above, which leaves "
        "exponentials in `scores` and their sums in `totals`; and the product with the values, "
        "which is divided by `totals` where it is stored. So the scores of a few queries stay "
        "in the nearest cache, and the matrix of all scores is never in memory.",
        34,
        r"for \(int block = ",
    ),
    Example(
        "Elementwise chain",
        _chain,
        "mul_add_hard_swish",
        "Three ops, one pass through memory: what one gives to the next stays in `t`. The "
        "scale and the bias are read again for every row and stay in the nearest cache.",
    ),
    Example(
        "Chain by bands of rows",
        _bands,
        "conv_relu",
        "A pointwise convolution that widens and a depthwise one with stride 2, one "
        "after another. The wide image would not fit a core's caches, so both run on a band of "
        "rows at a time: `strip` holds the rows that a band needs, the last of which is the "
        "first that the next band needs and is moved there. The loops inside are those that "
        "each of the two would have alone, but for the bounds of `row`, which leave out what "
        "was moved and what lies above or below the image.",
        44,
    ),
    Example(
        "Pooling",
        _pool,
        "max_pool_relu",
        "A reduction without weights: lanes are channels, and each vector of outputs takes the "
        "larger of the pixels of its window.",
        34,
    ),
    Example(
        "LSTM cell",
        _lstm,
        "slice_mat_mul_add_sigmoid_mul_tanh",
        "One step of the recurrence; the products with the inputs are done before, for all steps "
        "at once. The state `lhs` is multiplied by a matrix for each of three gates, whose sums "
        "stay in registers: from them the cell's new content is made, 1 / (1 + exp(-x)) of the "
        "forget gate times the old content, plus that of the input gate times tanh of the "
        "candidate. The product of the fourth gate and the output that is made of both follow "
        "(not shown). Larger cells do this block by block, in a loop that threads share; where "
        "the weights are more than a core's cache holds, every other step begins with the last "
        "block.",
    ),
)
