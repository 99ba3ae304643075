"""Small networks: built by hand in a few lines, or at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from hypothesis import strategies as st

from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS


class Net:
    """A graph in the making, with random constants and an array for every input."""

    def __init__(self, seed: int = 0) -> None:
        self.builder = GraphBuilder(OPS, "net")
        self.random = np.random.default_rng(seed)
        self.arrays: dict[str, np.ndarray] = {}

    def shape(self, value: str) -> tuple[int, ...]:
        return self.builder.types[value].dims

    def input(self, *shape: int, dtype: DType = DType.F32) -> str:
        name = self.builder.input("x", TensorType(dtype, shape))
        self.arrays[name] = self.numbers(shape, 1, dtype)
        return name

    def constant(self, *shape: int, scale: float = 1.0, dtype: DType = DType.F32) -> str:
        return self.builder.constant(self.numbers(shape, scale, dtype), "w")

    def numbers(self, shape: Sequence[int], scale: float, dtype: DType) -> np.ndarray:
        if dtype is DType.BOOL:
            return self.random.integers(0, 2, shape).astype(np.bool_)
        if dtype.is_integer:
            return self.random.integers(0, 9, shape).astype(dtype.numpy)
        return (self.random.standard_normal(shape) * scale).astype(dtype.numpy)

    def op(self, op: str, *inputs: str, **attributes: object) -> str:
        return self.builder.op(op, *inputs, attributes=OPS[op].attributes(**attributes))

    def several(self, op: str, inputs: Sequence[str], outputs: object, **attributes: object):
        return self.builder.nodes_of(op, inputs, OPS[op].attributes(**attributes), outputs=outputs)

    def conv(
        self,
        x: str,
        channels: int,
        kernel: int | tuple[int, ...] = 3,
        *,
        pad: int | None = None,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
    ) -> str:
        """A convolution with bias that keeps the size of the image unless told otherwise."""
        dims = self.shape(x)
        axes = len(dims) - 2
        sizes = (kernel,) * axes if isinstance(kernel, int) else kernel
        pads = tuple(dilation * (size - 1) // 2 if pad is None else pad for size in sizes)
        fan = dims[1] // groups * prod(sizes)
        weight = self.constant(channels, dims[1] // groups, *sizes, scale=fan**-0.5)
        return self.op(
            "Conv",
            x,
            weight,
            self.constant(channels),
            kernel=sizes,
            pads=pads * 2,
            strides=(stride,) * axes,
            dilations=(dilation,) * axes,
            groups=groups,
        )

    def dense(self, x: str, features: int) -> str:
        """A product with a constant matrix."""
        fan = self.shape(x)[-1]
        return self.op("MatMul", x, self.constant(fan, features, scale=fan**-0.5))

    def graph(self, *outputs: str) -> Graph:
        return self.builder.graph(outputs)


# --- at random ------------------------------------------------------------------------------

MOST = 1000
"""Elements of the largest value, so that the interpreter stays fast."""


class RandomNet:
    """Adds nodes with drawn attributes to drawn values; ``None`` where nothing fits."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.net = Net(draw(st.integers(0, 99)))
        self.values: list[str] = []

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def one(self, choices: Sequence):
        return self.draw(st.sampled_from(choices))

    def value(self, ranks: Sequence[int] = range(6)) -> str | None:
        """A value of one of these ranks, later ones more often."""
        found = [each for each in self.values if len(self.net.shape(each)) in ranks]
        found = [each for each in found if prod(self.net.shape(each))]
        return found[-1 - min(self.number(0, len(found) - 1), self.number(0, 7))] if found else None

    def axis(self, value: str) -> int:
        return self.number(0, len(self.net.shape(value)) - 1)

    def windows(self, image: Sequence[int]) -> dict[str, tuple[int, ...]] | None:
        """Attributes of a sliding window over an image."""
        kernel = tuple(self.number(1, 4) for _ in image)
        dilations = tuple(self.one([1, 1, 1, 2, 3]) for _ in image)
        strides = tuple(self.one([1, 1, 2, 3, 5]) for _ in image)
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = [[self.number(0, min(2, each - 1)) for each in reach] for _ in range(2)]
        for size, need, before, after in zip(image, reach, *pads, strict=True):
            if size + before + after < need:
                return None
        return {
            "kernel": kernel,
            "dilations": dilations,
            "strides": strides,
            "pads": (*pads[0], *pads[1]),
        }

    # --- ops --------------------------------------------------------------------------

    def conv(self) -> str | None:
        x = self.value((3, 4, 5))
        if x is None:
            return None
        _, channels, *image = self.net.shape(x)
        window = self.windows(image)
        if window is None:
            return None
        groups = self.one([n for n in range(1, channels + 1) if channels % n == 0])
        made = groups * self.number(1, 5)
        dims = (made, channels // groups, *window["kernel"])
        weight = self.net.constant(*dims, scale=prod(dims[1:]) ** -0.5)
        bias = [self.net.constant(made)] if self.number(0, 1) else []
        return self.net.op("Conv", x, weight, *bias, groups=groups, **window)

    def transposed_conv(self) -> str | None:
        x = self.value((3, 4))
        if x is None:
            return None
        _, channels, *image = self.net.shape(x)
        kernel = tuple(self.number(1, 3) for _ in image)
        strides = tuple(self.number(1, 3) for _ in image)
        weight = self.net.constant(channels, self.number(1, 4), *kernel, scale=0.3)
        return self.net.op("ConvTranspose", x, weight, kernel=kernel, strides=strides)

    def pool(self) -> str | None:
        x = self.value((3, 4, 5))
        window = None if x is None else self.windows(self.net.shape(x)[2:])
        if x is None or window is None:
            return None
        if self.number(0, 2) == 0:
            return self.net.op("AveragePool", x, count_include_pad=self.number(0, 1), **window)
        if self.number(0, 1):
            return self.net.op("MaxPool", x, **window)
        return self.net.several("MaxPool", [x], 2, **window)[0]

    def squeeze_and_excite(self) -> str | None:
        x = self.value((4,))
        if x is None:
            return None
        pooled = self.net.op("GlobalAveragePool", x)
        scale = self.net.op("Sigmoid", self.net.conv(pooled, self.net.shape(x)[1], 1))
        return self.net.op("Mul", x, scale)

    def unary(self) -> str | None:
        x = self.value()
        return x and self.net.op(
            self.one(["Relu", "Tanh", "Sigmoid", "Abs", "HardSwish", "Neg"]), x
        )

    def binary(self) -> str | None:
        x = self.value()
        if x is None:
            return None
        dims = self.net.shape(x)
        same = [each for each in self.values if self.net.shape(each) == dims]
        if self.number(0, 2):
            other = self.one(same)
        else:
            other = self.net.constant(*(self.one([1, dim]) for dim in dims))
        pair = [x, other] if self.number(0, 1) else [other, x]
        return self.net.op(self.one(["Add", "Mul", "Sub", "Max", "Min"]), *pair)

    def concat(self) -> str | None:
        x = self.value(range(1, 6))
        if x is None:
            return None
        axis = self.axis(x)

        def rest(value: str) -> tuple[int, ...]:
            dims = self.net.shape(value)
            return (len(dims), *dims[:axis], *dims[axis + 1 :])

        alike = [each for each in self.values if rest(each) == rest(x)]
        parts = [x, *(self.one(alike) for _ in range(self.number(0, 3)))]
        return self.net.op("Concat", *parts, axis=self.one([axis, axis - len(self.net.shape(x))]))

    def dense_block(self) -> str | None:
        """Every layer reads all before it, as in DenseNet."""
        x = self.value((4,))
        if x is None:
            return None
        parts = [x]
        for _ in range(self.number(1, 3)):
            whole = self.net.op("Concat", *parts, axis=1) if len(parts) > 1 else x
            parts.append(self.net.op("Relu", self.net.conv(whole, self.number(1, 4), 1)))
            self.values.append(whole)
        return self.net.op("Concat", *parts, axis=1)

    def split(self) -> str | None:
        x = self.value(range(1, 6))
        if x is None:
            return None
        axis = self.axis(x)
        extent = self.net.shape(x)[axis]
        first = self.number(0, extent)
        sizes = (first, extent - first)
        names: list[str] = ["" if self.number(0, 3) == 0 else "part" for _ in sizes]
        if not any(names):
            return None
        made = self.net.several("Split", [x], names, axis=axis, split=sizes)
        found = [each for each in made if each]
        self.values += found[1:]
        return found[0]

    def transpose(self) -> str | None:
        x = self.value()
        if x is None:
            return None
        return self.net.op("Transpose", x, perm=tuple(self.draw(self._orders(x))))

    def _orders(self, value: str) -> st.SearchStrategy[list[int]]:
        return st.permutations(range(len(self.net.shape(value))))

    def reshape(self) -> str | None:
        x = self.value()
        if x is None:
            return None
        left, dims = prod(self.net.shape(x)), []
        while left > 1 and len(dims) < 4:
            dims.append(self.one([n for n in range(1, left + 1) if left % n == 0]))
            left //= dims[-1]
        return self.net.op("Reshape", x, shape=(*dims, left))

    def softmax(self) -> str | None:
        x = self.value(range(1, 6))
        return x and self.net.op("Softmax", x, axis=self.axis(x))

    def layer_norm(self) -> str | None:
        x = self.value(range(1, 5))
        if x is None:
            return None
        axis = self.axis(x)
        dims = self.net.shape(x)[axis:]
        # Of one number, the variance is 0 up to rounding, which the norm would blow up.
        if prod(dims) < 2:
            return None
        scale, bias = self.net.constant(*dims), self.net.constant(*dims)
        return self.net.op("LayerNormalization", x, scale, bias, axis=axis, epsilon=0.1)

    def matmul(self) -> str | None:
        x = self.value((2, 3, 4))
        if x is None:
            return None
        if self.number(0, 1):
            return self.net.dense(x, self.number(1, 9))
        order = [*range(len(self.net.shape(x)) - 2), -1, -2]
        other = self.net.op("Transpose", x, perm=tuple(a % len(order) for a in order))
        pair = [x, other] if self.number(0, 1) else [other, x]
        scale = self.net.constant(1, scale=1 / self.net.shape(pair[0])[-1])
        return self.net.op("Mul", self.net.op("MatMul", *pair), scale)

    def slice(self) -> str | None:
        x = self.value(range(1, 6))
        if x is None:
            return None
        axis = self.axis(x)
        extent = self.net.shape(x)[axis]
        start, stop = sorted((self.number(0, extent), self.number(0, extent)))
        step = self.one([1, 1, 2, 3])
        if self.number(0, 2) == 0:
            start, stop, step = stop - 1, start - 1 - extent, -step
        found = self.net.op("Slice", x, starts=(start,), ends=(stop,), axes=(axis,), steps=(step,))
        return found

    def pad(self) -> str | None:
        x = self.value(range(1, 5))
        if x is None:
            return None
        dims = self.net.shape(x)
        mode = self.one(["constant", "edge", "reflect"])
        most = [min(2, dim - 1) if mode == "reflect" else 2 for dim in dims]
        pads = [
            self.number(-min(1, dim - 1), 2) if mode == "constant" else self.number(0, top)
            for dim, top in zip(dims * 2, most * 2, strict=True)
        ]
        if any(d + pads[a] + pads[a + len(dims)] < 1 for a, d in enumerate(dims)):
            return None
        return self.net.op("Pad", x, pads=tuple(pads), mode=mode)

    def reduce(self) -> str | None:
        x = self.value(range(1, 6))
        if x is None:
            return None
        axes = tuple(a for a in range(len(self.net.shape(x))) if self.number(0, 1))
        op = self.one(["ReduceMean", "ReduceMax", "ReduceMin"])
        return axes and self.net.op(op, x, axes=axes, keepdims=self.number(0, 1))

    def expand(self) -> str | None:
        x = self.value(range(1, 5))
        if x is None:
            return None
        dims = (self.number(1, 3), *self.net.shape(x))
        return self.net.op("Expand", x, shape=tuple(3 if dim == 1 else dim for dim in dims))

    def upsample(self) -> str | None:
        x = self.value((4,))
        if x is None:
            return None
        scales = (1.0, 1.0, float(self.number(1, 3)), float(self.number(1, 3)))
        return self.net.op("Upsample", x, scales=scales)

    def pixels_to_channels(self) -> str | None:
        x = self.value((4,))
        if x is None:
            return None
        _, channels, height, width = self.net.shape(x)
        size = self.number(2, 3)
        if channels % (size * size) == 0:
            return self.net.op("DepthToSpace", x, blocksize=size, mode=self.one(["DCR", "CRD"]))
        if height % size == 0 and width % size == 0:
            return self.net.op("SpaceToDepth", x, blocksize=size)
        return None

    def gather(self) -> str | None:
        x = self.value(range(1, 5))
        if x is None:
            return None
        axis = self.axis(x)
        extent = self.net.shape(x)[axis]
        places = [self.number(-extent, extent - 1) for _ in range(self.number(1, 4))]
        index = self.net.builder.constant(np.array(places, np.int64), "places")
        return self.net.op("Gather", x, index, axis=axis)

    def recurrent(self) -> str | None:
        x = self.value((3,))
        if x is None:
            return None
        hidden, inputs = self.number(1, 5), self.net.shape(x)[2]
        directions = self.number(1, 2)
        weights = [
            self.net.constant(directions, 3 * hidden, size, scale=0.5) for size in (inputs, hidden)
        ]
        direction = "bidirectional" if directions == 2 else self.one(["forward", "reverse"])
        made = self.net.several("GRU", [x, *weights], 2, hidden_size=hidden, direction=direction)
        self.values.append(made[1])
        return made[0]

    def select(self) -> str | None:
        x = self.value()
        if x is None:
            return None
        limit = self.net.constant(*(self.one([1, dim]) for dim in self.net.shape(x)))
        return self.net.op("Where", self.net.op("Less", x, limit), limit, x)

    def grow(self, nodes: int) -> None:
        """Adds an input and nodes; what is too large or fits nowhere is left out."""
        rank = self.one([2, 3, 4, 4, 4, 5])
        dims = [self.number(1, 3), *(self.number(1, 7) for _ in range(rank - 1))]
        while prod(dims) > MOST // 2:
            dims[dims.index(max(dims))] -= 1
        self.values.append(self.net.input(*dims))
        for _ in range(nodes):
            made = self.one(OPERATIONS)(self)
            if made and 0 < prod(self.net.shape(made)) <= MOST:
                self.values.append(made)


OPERATIONS: tuple[Callable[[RandomNet], str | None], ...] = (
    RandomNet.conv,
    RandomNet.conv,
    RandomNet.transposed_conv,
    RandomNet.pool,
    RandomNet.squeeze_and_excite,
    RandomNet.unary,
    RandomNet.unary,
    RandomNet.binary,
    RandomNet.binary,
    RandomNet.concat,
    RandomNet.dense_block,
    RandomNet.split,
    RandomNet.transpose,
    RandomNet.reshape,
    RandomNet.softmax,
    RandomNet.layer_norm,
    RandomNet.matmul,
    RandomNet.slice,
    RandomNet.pad,
    RandomNet.reduce,
    RandomNet.expand,
    RandomNet.upsample,
    RandomNet.pixels_to_channels,
    RandomNet.gather,
    RandomNet.recurrent,
    RandomNet.select,
)


@st.composite
def nets(draw: st.DrawFn, nodes: int = 12) -> tuple[Graph, dict[str, np.ndarray]]:
    """Random networks and an array for every input."""
    random = RandomNet(draw)
    for _ in range(random.number(1, 2)):
        random.grow(random.number(1, nodes))
    extra = draw(st.lists(st.sampled_from(random.values), max_size=3))
    outputs = [random.values[-1], *extra]
    return random.net.graph(*outputs), random.net.arrays
