"""Small networks of one op each, of all the shapes that kernels must bear.

Sizes are drawn from the edges: one pixel, one channel, primes, a lane more or less than a
vector; strides over the kernel, dilation, padding that differs from side to side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hypothesis import assume
from hypothesis import strategies as st

from tests.plan.nets import Net

MOST = 40_000
"""Multiplications of a case."""

IMAGE = (1, 1, 2, 3, 5, 7, 8, 12, 13, 17)
CHANNELS = (1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 32, 33, 48)
ROWS = (1, 1, 2, 3, 5, 6, 7, 13, 14, 15, 29)
COLUMNS = (1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 48, 64, 67)
ACTIVATIONS = ("Relu", "HardSwish", "Sigmoid", "Tanh", "Gelu", "Elu", "Softplus")


class Shapes:
    """A network of a drawn shape."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.net = Net(draw(st.integers(0, 99)))

    def one(self, choices: Sequence):
        return self.draw(st.sampled_from(choices))

    def maybe(self) -> bool:
        return self.one((False, True))

    def image(self, most: int = 3) -> list[int]:
        return [self.one(IMAGE) for _ in range(self.one((*range(1, most + 1), 2, 2)))]

    def window(self, image: Sequence[int], pads: bool = True) -> dict[str, tuple[int, ...]]:
        """Attributes of a window that slides over an image."""
        kernel = tuple(self.one((1, 1, 2, 3, 3, 3, 5)) for _ in image)
        dilations = tuple(self.one((1, 1, 1, 2, 3)) for _ in image)
        strides = tuple(self.one((1, 1, 1, 2, 3, 6)) for _ in image)
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
        sides = [[self.one((0, min(1, each - 1), each - 1)) for each in reach] for _ in range(2)]
        if not pads:
            sides = [[0 for _ in reach] for _ in range(2)]
        for size, need, before, after in zip(image, reach, *sides, strict=True):
            assume(size + before + after >= need)
        return {
            "kernel": kernel,
            "dilations": dilations,
            "strides": strides,
            "pads": (*sides[0], *sides[1]),
        }

    def finished(self, value: str) -> str:
        """The value, or what an epilogue makes of it."""
        net = self.net
        match self.one(("", "", "activation", "residual", "clip", "both")):
            case "activation":
                return net.op(self.one(ACTIVATIONS), value)
            case "residual":
                return net.op("Add", value, net.input(*net.shape(value)))
            case "both":
                return net.op("Relu", net.op("Add", net.input(*net.shape(value)), value))
            case "clip":
                return net.op("Clip", value, min=-0.5, max=0.75)
            case _:
                return value


def convolution(shapes: Shapes) -> str:
    net, image = shapes.net, shapes.image()
    window = shapes.window(image)
    groups = shapes.one((1, 1, 1, 2, 3))
    inputs, outputs = groups * shapes.one(CHANNELS), groups * shapes.one(CHANNELS)
    taps = prod(window["kernel"]) * inputs // groups
    assume(prod(image) * taps * outputs <= MOST)
    x = net.input(shapes.one((1, 1, 2)), inputs, *image)
    weight = net.constant(outputs, inputs // groups, *window["kernel"], scale=taps**-0.5)
    bias = [net.constant(outputs)] if shapes.maybe() else []
    return shapes.finished(net.op("Conv", x, weight, *bias, groups=groups, **window))


def square(shapes: Shapes) -> str:
    """What Winograd's kernels take: 3x3 taps one after another."""
    net = shapes.net
    image = [shapes.one((1, 2, 3, 4, 5, 7, 8, 9, 13)) for _ in range(2)]
    pads = tuple(shapes.one((0, 1, 1, 2)) for _ in range(4))
    assume(all(size + pads[a] + pads[a + 2] >= 3 for a, size in enumerate(image)))
    inputs, outputs = shapes.one(CHANNELS), shapes.one(CHANNELS)
    assume(prod(image) * 9 * inputs * outputs <= 4 * MOST)
    x = net.input(shapes.one((1, 1, 2)), inputs, *image)
    weight = net.constant(outputs, inputs, 3, 3, scale=(9 * inputs) ** -0.5)
    bias = [net.constant(outputs)] if shapes.maybe() else []
    return shapes.finished(net.op("Conv", x, weight, *bias, kernel=(3, 3), pads=pads))


def sound(shapes: Shapes) -> str:
    """The same along one axis, where windows are dilated."""
    net, steps = shapes.net, shapes.one((1, 5, 8, 13, 24))
    taps, gap, batch = shapes.one((2, 3)), shapes.one((1, 1, 2, 5)), shapes.one((1, 1, 2))
    stride = shapes.one((1, 2)) if gap == 1 and taps > 2 else 1
    pads = tuple(shapes.one((0, gap * (taps - 1), 1)) for _ in range(2))
    assume(steps + sum(pads) > gap * (taps - 1))
    inputs, outputs = shapes.one(CHANNELS), shapes.one(CHANNELS)
    x = net.input(batch, inputs, steps)
    weight = net.constant(outputs, inputs, taps, scale=(taps * inputs) ** -0.5)
    window = {"kernel": (taps,), "strides": (stride,), "dilations": (gap,), "pads": pads}
    return shapes.finished(net.op("Conv", x, weight, **window))


def volume(shapes: Shapes) -> str:
    """The same through the frames of a volume, of which windows leave some out."""
    net = shapes.net
    frames, deep = shapes.one((1, 2, 3, 5)), shapes.one((1, 2, 3))
    image = [frames, *(shapes.one((3, 4, 6)) for _ in range(2))]
    pads = tuple(shapes.one((0, 1, 2)) for _ in range(6))
    kernel, strides = (deep, 3, 3), (shapes.one((1, 1, 2)), *(shapes.one((1, 1, 2)),) * 2)
    reach = [size + pads[a] + pads[a + 3] - kernel[a] for a, size in enumerate(image)]
    assume(min(reach) >= 0)
    inputs, outputs = shapes.one(CHANNELS), shapes.one(CHANNELS)
    assume(prod(image) * prod(kernel) * inputs * outputs <= 4 * MOST)
    x = net.input(1, inputs, *image)
    weight = net.constant(outputs, inputs, *kernel, scale=(prod(kernel) * inputs) ** -0.5)
    made = net.op("Conv", x, weight, kernel=kernel, pads=pads, strides=strides)
    return shapes.finished(made)


def thin(shapes: Shapes) -> str:
    """One filter, a few, or some more than fill vectors, over many channels."""
    net = shapes.net
    image = [shapes.one((1, 2, 5, 9, 13, 17, 31)) for _ in range(shapes.one((1, 2)))]
    inputs, outputs = shapes.one((2, 9, 16, 17, 24, 34, 48)), shapes.one((1, 1, *range(1, 27), 40))
    size, pad = shapes.one(((1, 0), (1, 0), (2, 0), (3, 0), (3, 1)))
    kernel = (size,) * len(image)
    assume(all(each + 2 * pad >= size for each in image))
    assume(prod(image) * prod(kernel) * inputs * outputs <= 4 * MOST)
    x = net.input(1, inputs, *image)
    if shapes.maybe():  # As behind squeeze and excitation: with a factor of each channel.
        x = net.op("Mul", net.op("Relu", x), net.input(1, inputs, *(1 for _ in image)))
    weight = net.constant(outputs, inputs, *kernel, scale=(inputs * prod(kernel)) ** -0.5)
    pads = (pad,) * (2 * len(image))
    strides = (shapes.one((1, 1, 2)),) * len(image)
    bias = [net.constant(outputs)] if shapes.maybe() else []
    made = net.op("Conv", x, weight, *bias, kernel=kernel, pads=pads, strides=strides)
    return shapes.finished(made)


def depthwise(shapes: Shapes) -> str:
    net, image = shapes.net, shapes.image(2)
    window = shapes.window(image)
    channels, multiplier = shapes.one(CHANNELS), shapes.one((1, 1, 1, 2, 3))
    taps = prod(window["kernel"])
    assume(prod(image) * taps * channels * multiplier <= MOST)
    x = net.input(shapes.one((1, 1, 2)), channels, *image)
    weight = net.constant(channels * multiplier, 1, *window["kernel"], scale=taps**-0.5)
    bias = [net.constant(channels * multiplier)] if shapes.maybe() else []
    return shapes.finished(net.op("Conv", x, weight, *bias, groups=channels, **window))


def transposed(shapes: Shapes) -> str:
    net, image = shapes.net, shapes.image(2)
    groups = shapes.one((1, 1, 1, 2))
    inputs, outputs = groups * shapes.one(CHANNELS), groups * shapes.one(CHANNELS)
    kernel = tuple(shapes.one((1, 2, 3, 4)) for _ in image)
    strides = tuple(shapes.one((1, 2, 2, 3)) for _ in image)
    dilations = tuple(shapes.one((1, 1, 2)) for _ in image)
    extra = tuple(shapes.one((0, each - 1)) for each in strides)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = tuple(shapes.one((0, each // 2)) for each in (*reach, *reach))
    sizes = [
        s * (size - 1) + r + e - pads[a] - pads[a + len(image)]
        for a, (size, s, r, e) in enumerate(zip(image, strides, reach, extra, strict=True))
    ]
    assume(min(sizes) > 0)
    assume(prod(image) * prod(kernel) * inputs * outputs // groups <= MOST)
    assume(prod(sizes) * prod(kernel) * inputs * outputs // groups <= 4 * MOST)
    x = net.input(1, inputs, *image)
    weight = net.constant(inputs, outputs // groups, *kernel, scale=(inputs // groups) ** -0.5)
    made = net.op(
        "ConvTranspose",
        x,
        weight,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=extra,
        groups=groups,
    )
    return shapes.finished(made)


def pooling(shapes: Shapes) -> str:
    net, image = shapes.net, shapes.image(2)
    x = net.input(shapes.one((1, 2)), shapes.one(CHANNELS), *image)
    if shapes.maybe():
        # Channels last, as behind a convolution.
        x = net.conv(x, shapes.one((1, 3, 8, 17, 32)), 1)
    assume(prod(net.shape(x)) <= 10_000)
    if shapes.one((False, False, True)):
        return net.op(shapes.one(("GlobalAveragePool", "GlobalMaxPool")), x)
    window = shapes.window(image)
    ceil = shapes.one((0, 0, 1))
    if shapes.maybe():
        return shapes.finished(net.op("MaxPool", x, ceil_mode=ceil, **window))
    count = shapes.one((0, 1))
    made = net.op("AveragePool", x, ceil_mode=ceil, count_include_pad=count, **window)
    return shapes.finished(made)


def product(shapes: Shapes) -> str:
    """Matrix by matrix, vector or batch; the right one known or not."""
    net = shapes.net
    rows, inner, columns = shapes.one(ROWS), shapes.one(COLUMNS), shapes.one(COLUMNS)
    batch = tuple(shapes.one((1, 2, 3)) for _ in range(shapes.one((0, 0, 0, 1, 2))))
    assume(prod(batch) * rows * inner * columns <= MOST)
    x = net.input(*batch, rows, inner)
    known = shapes.maybe()
    dims = (*(batch if shapes.maybe() else ()), inner, columns)
    if shapes.one((False, False, True)):
        dims = (*dims[:-2], columns, inner)
    other = net.constant(*dims, scale=inner**-0.5) if known else net.input(*dims)
    if dims[-2:] != (inner, columns):
        order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
        other = net.op("Transpose", other, perm=order)
    made = net.op("MatMul", x, other)
    if shapes.maybe():
        made = net.op("Add", made, net.constant(columns))
    return shapes.finished(made)


def general_product(shapes: Shapes) -> str:
    net = shapes.net
    rows, inner, columns = shapes.one(ROWS), shapes.one(COLUMNS), shapes.one(COLUMNS)
    assume(rows * inner * columns <= MOST)
    first, second = shapes.one((0, 1)), shapes.one((0, 1))
    lhs = net.input(*((inner, rows) if first else (rows, inner)))
    dims = (columns, inner) if second else (inner, columns)
    rhs = net.constant(*dims, scale=inner**-0.5) if shapes.maybe() else net.input(*dims)
    bias = [net.constant(*shapes.one(((columns,), (rows, 1), (1, columns), ())))]
    return shapes.finished(
        net.op("Gemm", lhs, rhs, *bias, transA=first, transB=second, alpha=0.5, beta=2.0)
    )


def rows(shapes: Shapes) -> str:
    """Softmax, norms and reductions along any axis."""
    net = shapes.net
    dims = [shapes.one((1, 2, 3, 7, 8, 16, 17, 33, 67)) for _ in range(shapes.one((1, 2, 3, 4)))]
    assume(prod(dims) <= 4000)
    x = net.input(*dims)
    axis = shapes.one(range(len(dims)))
    if shapes.one((False, False, True)):
        x = net.op("Transpose", x, perm=tuple(shapes.draw(st.permutations(range(len(dims))))))
    op = shapes.one(
        (
            "Softmax",
            "LogSoftmax",
            "LayerNormalization",
            "RMSNormalization",
            "ReduceMean",
            "ReduceMax",
            "ReduceSumSquare",
            "ReduceLogSumExp",
            "ReduceL2",
        )
    )
    if op.startswith("Reduce"):
        axes = tuple(a for a in range(len(dims)) if a == axis or shapes.one((0, 0, 1)))
        return net.op(op, x, axes=axes, keepdims=shapes.one((0, 1)))
    if op.endswith("Softmax"):
        return shapes.finished(net.op(op, x, axis=axis))
    size = net.shape(x)[axis:]
    terms = [net.constant(*size) for _ in range(2 if op == "LayerNormalization" else 1)]
    return shapes.finished(net.op(op, x, *terms, axis=axis, epsilon=0.1))


def attention(shapes: Shapes) -> str:
    net = shapes.net
    heads, queries = shapes.one((1, 2, 3)), shapes.one((1, 2, 5, 7, 16, 17))
    keys, size, width = (shapes.one((1, 3, 8, 13, 16, 17, 33)) for _ in range(3))
    assume(heads * queries * keys * (size + width) <= MOST)
    q, k, v = (
        net.input(shapes.one((1,)), heads, *dims)
        for dims in ((queries, size), (keys, size), (keys, width))
    )
    causal = shapes.one((0, 0, 1)) if queries <= keys else 0
    return net.op("Attention", q, k, v, is_causal=causal)


def recurrent(shapes: Shapes) -> str:
    net = shapes.net
    op, gates = shapes.one((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch = shapes.one((1, 2, 5)), shapes.one((1, 1, 2, 3))
    inputs, hidden = shapes.one((1, 3, 8, 17)), shapes.one((1, 4, 7, 16, 19, 32))
    directions = shapes.one((1, 1, 2))
    direction = "bidirectional" if directions == 2 else shapes.one(("forward", "reverse"))
    terms = [
        net.constant(directions, gates * hidden, size, scale=size**-0.5)
        for size in (inputs, hidden)
    ]
    if shapes.maybe():
        terms.append(net.constant(directions, 2 * gates * hidden))
    x = net.input(steps, batch, inputs)
    return net.several(op, [x, *terms], 2, hidden_size=hidden, direction=direction)[0]


def pointwise(shapes: Shapes) -> str:
    """Chains of elementwise ops and of what only moves elements."""
    net = shapes.net
    dims = [shapes.one((1, 2, 3, 5, 8, 16, 17, 31)) for _ in range(shapes.one((1, 2, 3, 4)))]
    assume(prod(dims) <= 3000)
    value = net.input(*dims)
    for _ in range(shapes.one((1, 2, 3))):
        match shapes.one(("binary", "binary", "activation", "transpose", "slice", "concat", "pad")):
            case "binary":
                other = net.constant(*(shapes.one((1, dim)) for dim in net.shape(value)))
                value = net.op(shapes.one(("Add", "Mul", "Sub", "Max", "Min")), value, other)
            case "activation":
                value = net.op(shapes.one(ACTIVATIONS), value)
            case "transpose":
                order = shapes.draw(st.permutations(range(len(dims))))
                value = net.op("Transpose", value, perm=tuple(order))
            case "slice":
                step = shapes.one((1, 2, 3))
                value = net.op(
                    "Slice", value, starts=(0,), ends=(net.shape(value)[-1],), axes=(-1,),
                    steps=(step,),
                )  # fmt: skip
            case "concat":
                value = net.op("Concat", value, net.input(*net.shape(value)), axis=0)
            case _:
                pads = tuple(shapes.one((0, 1, 2)) for _ in range(2 * len(dims)))
                value = net.op("Pad", value, pads=pads)
    return value


FAMILIES: tuple[Callable[[Shapes], str], ...] = (
    convolution,
    square,
    sound,
    volume,
    thin,
    depthwise,
    transposed,
    pooling,
    product,
    general_product,
    rows,
    attention,
    recurrent,
    pointwise,
)


@st.composite
def nets(draw: st.DrawFn, family: Callable[[Shapes], str]) -> tuple[Net, str]:
    """A network of a family, and the value that it ends with."""
    shapes = Shapes(draw)
    return shapes.net, family(shapes)
