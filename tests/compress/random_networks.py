"""Random convolutional networks, in double precision, with everything that ties channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from weft.dtypes import DType
from weft.ir.edit import prune
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.arithmetic import ClipAttributes
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes, ConvTransposeAttributes
from weft.ops.indexing import GatherAttributes
from weft.ops.linear import GemmAttributes
from weft.ops.ordering import BlockAttributes, TransposeAttributes
from weft.ops.pooling import MaxPoolAttributes
from weft.ops.reduction import ReduceAttributes
from weft.ops.shape import FlattenAttributes, ReshapeAttributes
from weft.ops.slicing import ConcatAttributes, SliceAttributes, SplitAttributes
from weft.ops.softmax import SoftmaxAttributes
from weft.ops.table import OPS

SIZE = 4


@dataclass
class Maker:
    """Adds random layers; ``values`` are the images made so far."""

    draw: st.DrawFn
    rng: np.random.Generator
    builder: GraphBuilder = field(default_factory=lambda: GraphBuilder(OPS))
    values: list[str] = field(default_factory=list[str])
    weights: dict[tuple[int, ...], str] = field(default_factory=dict[tuple[int, ...], str])

    def channels(self, value: str) -> int:
        return self.builder.types[value].dims[1]

    def pick(self) -> str:
        return self.draw(st.sampled_from(self.values))

    def like(self, value: str) -> list[str]:
        type = self.builder.types[value]
        return [each for each in self.values if self.builder.types[each] == type]

    def array(self, *shape: int) -> str:
        return self.builder.constant(self.rng.normal(0, 0.5, shape).astype(np.float64), "w")

    def weight(self, *shape: int) -> str:
        """A weight, now and then one that another layer has."""
        if shape in self.weights and self.draw(st.booleans()):
            return self.weights[shape]
        self.weights[shape] = self.array(*shape)
        return self.weights[shape]

    # Every layer takes an image and makes one of the same size.

    def conv(self) -> str:
        x = self.pick()
        count = self.draw(st.sampled_from([4, 6, 8]))
        kernel = self.draw(st.sampled_from([1, 3]))
        inputs = [x, self.weight(count, self.channels(x), kernel, kernel)]
        inputs += [self.array(count)] if self.draw(st.booleans()) else []
        return self.builder.op("Conv", *inputs, attributes=ConvAttributes(pads=(kernel // 2,) * 4))

    def grouped(self) -> str:
        x = self.pick()
        have = self.channels(x)
        groups = self.draw(
            st.sampled_from([n for n in (have, 2, have // 2) if n and have % n == 0])
        )
        count = groups * self.draw(st.sampled_from([1, 2]))
        w = self.weight(count, have // groups, 3, 3)
        attributes = ConvAttributes(pads=(1,) * 4, groups=groups)
        return self.builder.op("Conv", x, w, self.array(count), attributes=attributes)

    def transposed(self) -> str:
        x = self.pick()
        have = self.channels(x)
        groups = self.draw(st.sampled_from([1, have]))
        w = self.weight(have, self.draw(st.sampled_from([2, 4])) if groups == 1 else 1, 3, 3)
        attributes = ConvTransposeAttributes(pads=(1,) * 4, groups=groups)
        return self.builder.op("ConvTranspose", x, w, attributes=attributes)

    def norm(self) -> str:
        x = self.pick()
        count = self.channels(x)
        given = [self.array(count), self.array(count), self.array(count)]
        variance = self.builder.constant(self.rng.uniform(0.5, 2, count).astype(np.float64))
        return self.builder.op("BatchNormalization", x, *given, variance)

    def relu6(self) -> str:
        return self.builder.op("Clip", self.pick(), attributes=ClipAttributes(0.0, 6.0))

    def sigmoid(self) -> str:
        # Not 0 at 0: what is pruned may not be taken for zeros behind it.
        return self.builder.op("Sigmoid", self.pick())

    def scaled(self) -> str:
        x = self.pick()
        op = self.draw(st.sampled_from(["Mul", "Add", "PRelu"]))
        return self.builder.op(op, x, self.array(self.channels(x), 1, 1))

    def add(self) -> str:
        x = self.pick()
        return self.builder.op("Add", x, self.draw(st.sampled_from(self.like(x))))

    def excite(self) -> str:
        x = self.pick()
        count = self.channels(x)
        pooled = self.builder.op("GlobalAveragePool", x)
        small = self.builder.op("Relu", self.builder.op("Conv", pooled, self.array(4, count, 1, 1)))
        gate = self.builder.op("Conv", small, self.array(count, 4, 1, 1))
        return self.builder.op("Mul", self.builder.op("Sigmoid", gate), x)

    def concat(self) -> str:
        parts = [self.pick() for _ in range(self.draw(st.integers(2, 3)))]
        return self.builder.op("Concat", *parts, attributes=ConcatAttributes(1))

    def split(self) -> str:
        x = self.pick()
        first = self.draw(st.integers(1, max(1, self.channels(x) - 1)))
        rest = self.channels(x) - first
        if not rest:
            return x
        parts = self.builder.nodes_of("Split", [x], SplitAttributes(1, (first, rest)), outputs=2)
        self.values.append(parts[1])
        return parts[0]

    def cut(self) -> str:
        x = self.pick()
        start = self.draw(st.integers(0, self.channels(x) - 1))
        end = self.draw(st.integers(start + 1, self.channels(x)))
        backwards = self.draw(st.booleans())
        ends = (start - 1 if start else -(2**31),) if backwards else (end,)
        begin = (end - 1,) if backwards else (start,)
        attributes = SliceAttributes(begin, ends, (1,), (-1 if backwards else 1,))
        return self.builder.op("Slice", x, attributes=attributes)

    def pick_channels(self) -> str:
        x = self.pick()
        order = self.rng.permutation(self.channels(x)).astype(np.int64)
        indices = self.builder.constant(order, "order")
        return self.builder.op("Gather", x, indices, attributes=GatherAttributes(1))

    def shuffle(self) -> str:
        x = self.pick()
        count = self.channels(x)
        if count % 2:
            return x
        shape = (1, 2, count // 2, SIZE, SIZE)
        parted = self.builder.op("Reshape", x, attributes=ReshapeAttributes(shape))
        turned = self.builder.op(
            "Transpose", parted, attributes=TransposeAttributes((0, 2, 1, 3, 4))
        )
        shape = (1, count, SIZE, SIZE)
        return self.builder.op("Reshape", turned, attributes=ReshapeAttributes(shape))

    def pool(self) -> str:
        attributes = MaxPoolAttributes((3, 3), pads=(1,) * 4)
        return self.builder.op("MaxPool", self.pick(), attributes=attributes)

    def deep(self) -> str:
        x = self.pick()
        if self.channels(x) % 4:
            return x
        mode = self.draw(st.sampled_from(["DCR", "CRD"]))
        wide = self.builder.op("DepthToSpace", x, attributes=BlockAttributes(2, mode))
        attributes = MaxPoolAttributes((2, 2), strides=(2, 2))
        return self.builder.op("MaxPool", wide, attributes=attributes)

    def softmax(self) -> str:
        # Combines all channels, so they must stay.
        return self.builder.op("Softmax", self.pick(), attributes=SoftmaxAttributes(1))

    # Heads make outputs of the graph.

    def flat(self, x: str) -> str:
        flat = self.builder.op("Flatten", x, attributes=FlattenAttributes())
        w = self.array(5, self.channels(x) * SIZE * SIZE)
        return self.builder.op("Gemm", flat, w, self.array(5), attributes=GemmAttributes(transB=1))

    def summed(self, x: str) -> str:
        total = self.builder.op("ReduceSum", x, attributes=ReduceAttributes((2, 3), keepdims=0))
        hidden = self.builder.op("MatMul", total, self.array(self.channels(x), 8))
        return self.builder.op("MatMul", self.builder.op("Tanh", hidden), self.array(8, 3))

    def energy(self, x: str) -> str:
        return self.builder.op("ReduceSumSquare", x, attributes=ReduceAttributes((1,), keepdims=0))

    def plain(self, x: str) -> str:
        w = self.array(2, self.channels(x), 1, 1)
        return self.builder.op("Conv", x, w)


LAYERS: tuple[Callable[[Maker], str], ...] = (
    Maker.conv,
    Maker.conv,
    Maker.grouped,
    Maker.transposed,
    Maker.norm,
    Maker.relu6,
    Maker.sigmoid,
    Maker.scaled,
    Maker.add,
    Maker.excite,
    Maker.concat,
    Maker.split,
    Maker.cut,
    Maker.pick_channels,
    Maker.shuffle,
    Maker.pool,
    Maker.deep,
    Maker.softmax,
)
HEADS: tuple[Callable[[Maker, str], str], ...] = (
    Maker.flat,
    Maker.summed,
    Maker.energy,
    Maker.plain,
)


@st.composite
def networks(draw: st.DrawFn, most: int = 9) -> Graph:
    """Networks of up to so many layers, with one to three outputs."""
    maker = Maker(draw, np.random.default_rng(draw(st.integers(0, 999))))
    x = maker.builder.input("x", TensorType(DType.F64, (1, 3, SIZE, SIZE)))
    maker.values.append(x)
    maker.values = [maker.conv()]
    for _ in range(draw(st.integers(1, most))):
        value = draw(st.sampled_from(LAYERS))(maker)
        if maker.channels(value) <= 24:
            maker.values.append(value)
    outputs = [draw(st.sampled_from(HEADS))(maker, maker.values[-1])]
    for _ in range(draw(st.integers(0, 2))):
        outputs.append(draw(st.sampled_from(HEADS))(maker, maker.pick()))
    return prune(maker.builder.graph(outputs))
