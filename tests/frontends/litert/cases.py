"""Models of one operator over grids of types, shapes and options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tests.frontends.litert.builder import Case, T, const

RNG = np.random.default_rng(16)
QUANTIZED = ("int8", "uint8", "int16")
NUMBERS = ("float32", *QUANTIZED)
SIGNED = ("float32", "int8", "int16")


def quantized(tensor: T, dtype: str, low: float = -3.0, high: float = 3.0) -> T:
    """A float tensor quantized for a range."""
    if dtype == "float32":
        return replace(tensor, low=low, high=high)
    ends = np.iinfo(dtype)
    if dtype == "int16":
        scale, zero = max(abs(low), abs(high)) / ends.max, 0
    else:
        scale = (high - low) / (ends.max - ends.min)
        zero = round(ends.min - low / scale)
    return replace(tensor, dtype=dtype, scale=scale, zero=zero, low=low, high=high)


def x(*shape: int, dtype: str = "float32", low: float = -3.0, high: float = 3.0) -> T:
    """An input or output."""
    return quantized(T(shape), dtype, low, high)


def weights(shape: Sequence[int], dtype: str, axis: int | None = None, scale: float = 0.02) -> T:
    """Constant weights for an input's type: float, or int8 by channel or as a whole."""
    if dtype == "float32":
        return const(RNG.uniform(-1, 1, shape).astype(np.float32), "float32")
    data = RNG.integers(-100, 101, shape)
    if dtype == "uint8":
        return const(data + 128, "uint8", scale=scale, zero=128)
    if axis is None:
        return const(data, "int8", scale=scale)
    scales = np.linspace(scale / 2, scale, shape[axis]).astype(np.float32)
    return const(data, "int8", scale=scales, zero=[0] * shape[axis], axis=axis)


def bias(count: int, given: T, weight: T) -> T:
    """The bias of a product."""
    if given.scale is None or weight.scale is None:
        return const(RNG.uniform(-1, 1, count).astype(np.float32), "float32")
    scales = np.ravel(weight.scale) * given.scale
    numbers = RNG.uniform(-1, 1, count) / scales
    dtype = "int64" if given.dtype == "int16" else "int32"
    return const(np.round(numbers), dtype, scale=scales, zero=[0] * scales.size)


def narrow(given: T) -> T:
    """A bias of 32 bits."""
    return replace(given, dtype="int32")


def plain(*shape: int, dtype: str = "int32", low: float = -9, high: float = 9) -> T:
    """An input or output of integers that are not quantized."""
    return T(shape, dtype, low=low, high=high)


# --- convolutions -----------------------------------------------------------------------------


def convolutions() -> Iterator[Case]:
    grid = product(NUMBERS, (0, 1), (1, 2), (1, 2), (0, 1, 3))
    for at, (dtype, padding, stride, dilation, act) in enumerate(grid):
        if (stride > 1 and dilation > 1) or at % 2:
            continue
        given = x(1, 9, 7, 3, dtype=dtype)
        weight = weights((4, 3, 2, 3), dtype, None if dtype == "uint8" else 0)
        values = {
            "padding": padding,
            "strideH": stride,
            "strideW": 3 - stride if dilation == 1 else 1,
            "dilationHFactor": dilation,
            "dilationWFactor": 1,
            "fusedActivationFunction": act,
        }
        out = x(1, 1, 1, 4, dtype=dtype, low=0 if act and dtype != "int16" else -6, high=6)
        inputs = (given, weight, bias(4, given, weight))
        yield Case("CONV_2D", inputs, (out,), "Conv2DOptions", values, f"{at}")
    for at, (dtype, padding, stride, many) in enumerate(product(NUMBERS, (0, 1), (1, 2), (1, 2))):
        given = x(1, 8, 6, 3, dtype=dtype)
        weight = weights((1, 3, 3, 3 * many), dtype, None if dtype == "uint8" else 3)
        values = {
            "padding": padding,
            "strideH": stride,
            "strideW": stride,
            "depthMultiplier": many,
            "dilationHFactor": 1,
            "dilationWFactor": 1,
            "fusedActivationFunction": at % 2,
        }
        out = x(1, 1, 1, 1, dtype=dtype, low=-6, high=6)
        inputs = (given, weight, bias(3 * many, given, weight))
        yield Case("DEPTHWISE_CONV_2D", inputs, (out,), "DepthwiseConv2DOptions", values, f"{at}")
    yield from narrow_sums()
    for at, (padding, groups) in enumerate(product((0, 1), (1, 2))):
        given = x(2, 5, 5, 4)
        weight = weights((6, 3, 3, 4 // groups), "float32")
        values = {"padding": padding, "strideH": 1, "strideW": 1, "fusedActivationFunction": 0}
        values |= {"dilationHFactor": 1, "dilationWFactor": 1}
        inputs = (given, weight, bias(6, given, weight))
        yield Case(
            "CONV_2D", inputs, (x(1, 1, 1, 6),), "Conv2DOptions", values, f"groups{groups}-{at}"
        )
    for padding, act in product((0, 1), (0, 1)):
        given, weight = x(1, 5, 6, 4, 2), weights((2, 3, 2, 2, 3), "float32")
        values = {"padding": padding, "strideD": 1, "strideH": 2, "strideW": 1}
        values |= {f"dilation{axis}Factor": 1 for axis in "DHW"} | {"fusedActivationFunction": act}
        inputs = (given, weight, bias(3, given, weight))
        yield Case(
            "CONV_3D", inputs, (x(1, 1, 1, 1, 3),), "Conv3DOptions", values, f"{padding}{act}"
        )
    for dtype, padding, stride, taps in product(
        ("float32", "int8", "int16"), (0, 1), (1, 2), (2, 3)
    ):
        given, weight = x(1, 4, 3, 3, dtype=dtype), weights((2, taps, taps, 3), dtype, 0)
        sizes = [n * stride if padding == 0 else (n - 1) * stride + taps for n in (4, 3)]
        values = {"padding": padding, "strideH": stride, "strideW": stride}
        inputs = (const([1, *sizes, 2]), weight, given, bias(2, given, weight))
        out = x(1, *sizes, 2, dtype=dtype, low=-12, high=12)
        yield Case(
            "TRANSPOSE_CONV",
            inputs,
            (out,),
            "TransposeConvOptions",
            values,
            f"{padding}{stride}{taps}",
        )


def narrow_sums() -> Iterator[Case]:
    """Products of 16 bits that are added in 32 bits, as options ask for."""
    for axis, act in product((0, None), (0, 1)):
        given, weight = x(1, 5, 6, 8, dtype="int16"), weights((4, 3, 3, 8), "int16", axis)
        values = {"strideH": 1, "strideW": 1, "quantizedBiasType": 2}
        values |= {"fusedActivationFunction": act}
        inputs = (given, weight, narrow(bias(4, given, weight)))
        out = x(1, 1, 1, 4, dtype="int16", low=-12, high=12)
        yield Case("CONV_2D", inputs, (out,), "Conv2DOptions", values, f"narrow-{axis}{act}")
        given, weight = x(5, 24, dtype="int16"), weights((6, 24), "int16", axis)
        inputs = (given, weight, narrow(bias(6, given, weight)) if act else None)
        values = {"quantizedBiasType": 2} if act else {}
        out = x(5, 6, dtype="int16", low=-20, high=20)
        label = f"narrow-{axis}{act}"
        yield Case("FULLY_CONNECTED", inputs, (out,), "FullyConnectedOptions", values, label)
    given, weight = x(1, 4, 3, 3, dtype="int16"), weights((2, 3, 3, 3), "int16", 0)
    inputs = (const([1, 6, 5, 2]), weight, given, narrow(bias(2, given, weight)))
    values = {"padding": 1, "strideH": 1, "strideW": 1, "quantizedBiasType": 2}
    out = x(1, 6, 5, 2, dtype="int16", low=-12, high=12)
    yield Case("TRANSPOSE_CONV", inputs, (out,), "TransposeConvOptions", values, "narrow")


def hybrid() -> Iterator[Case]:
    """Weights of int8 or int4 with activations in float, which LiteRT quantizes as it runs."""
    floats = x(1)  # biases are in float
    for act, dtype, asymmetric in product((0, 1), ("int8", "int4"), (False, True)):
        weight = const(RNG.integers(-7, 8, (6, 10)), dtype, scale=0.05)
        yield Case(
            "FULLY_CONNECTED",
            (x(3, 10), weight, bias(6, floats, weight)),
            (x(3, 6),),
            "FullyConnectedOptions",
            {"fusedActivationFunction": act, "asymmetricQuantizeInputs": asymmetric},
            f"hybrid-{dtype}-{act}{asymmetric}",
        )
    for axis, low, asymmetric in product((None, 0), (-3.0, 2.0, 0.0), (False, True)):
        weight = weights((6, 40), "int8", axis)
        yield Case(
            "FULLY_CONNECTED",
            (x(2, 40, low=low, high=3 if low else 0), weight, None),
            (x(2, 6),),
            "FullyConnectedOptions",
            {"asymmetricQuantizeInputs": asymmetric},
            f"hybrid-{axis}-{low}{asymmetric}",
        )
    for one, two, asymmetric in product((False, True), (False, True), (False, True)):
        for batch in (1, 2):
            weight = weights((batch, *((5, 40) if two else (40, 5))), "int8")
            yield Case(
                "BATCH_MATMUL",
                (x(2, *((40, 3) if one else (3, 40))), weight),
                (x(2, 3, 5),),
                "BatchMatMulOptions",
                {"adjX": one, "adjY": two, "asymmetricQuantizeInputs": asymmetric},
                f"hybrid-{batch}{one:d}{two:d}{asymmetric:d}",
            )
    yield from _hybrid_convolutions()


def _hybrid_convolutions() -> Iterator[Case]:
    floats = x(1)
    shapes = (1, 2), (0, 1), (None, 0), (3, 1), (1, 2)
    for batch, padding, axis, depth, stride in product(*shapes):
        weight = weights((4, 3, 3, depth), "int8", axis)
        if depth == 1 and axis is None:
            continue  # LiteRT reads scales by channel that are not there
        values = {"padding": padding, "strideH": stride, "strideW": 1}
        values |= {"dilationHFactor": 1, "dilationWFactor": 1, "fusedActivationFunction": 1}
        yield Case(
            "CONV_2D",
            (x(batch, 7, 6, 3 if depth == 3 else 2), weight, bias(4, floats, weight)),
            (x(1, 1, 1, 4),),
            "Conv2DOptions",
            values,
            f"hybrid-{batch}{padding}{axis}{depth}{stride}",
        )
    # An image of one sign, and one of zeros.
    for low, high, axis in ((1.0, 3.0, None), (1.0, 3.0, 0), (0.0, 0.0, None), (0.0, 0.0, 0)):
        weight = weights((4, 3, 2, 3), "int8", axis)
        yield Case(
            "CONV_2D",
            (x(1, 5, 6, 3, low=low, high=high), weight, bias(4, floats, weight)),
            (x(1, 1, 1, 4),),
            "Conv2DOptions",
            {"strideH": 1, "strideW": 1},
            f"hybrid-{low}{axis}",
        )
    for batch, padding, many, stride in product((1, 2), (0, 1), (1, 2), (1, 2)):
        weight = weights((1, 3, 3, 3 * many), "int8", 3)
        values = {"padding": padding, "strideH": stride, "strideW": stride}
        values |= {"depthMultiplier": many, "dilationHFactor": 1, "dilationWFactor": 1}
        yield Case(
            "DEPTHWISE_CONV_2D",
            (x(batch, 7, 6, 3), weight, bias(3 * many, floats, weight)),
            (x(1, 1, 1, 3 * many),),
            "DepthwiseConv2DOptions",
            values,
            f"hybrid-{batch}{padding}{many}{stride}",
        )


def products() -> Iterator[Case]:
    for dtype, act, keep in product(NUMBERS, (0, 1), (False, True)):
        given = x(2, 3, 5, dtype=dtype)
        weight = weights((4, 5), dtype, None)
        values = {"fusedActivationFunction": act, "keepNumDims": keep}
        out = x(1, 4, dtype=dtype, low=-12, high=12)
        inputs = (given, weight, bias(4, given, weight))
        yield Case(
            "FULLY_CONNECTED", inputs, (out,), "FullyConnectedOptions", values, f"{act}{keep}"
        )
    for dtype in ("float32", "int8"):
        inputs = (x(3, 5, dtype=dtype), weights((4, 5), dtype), None)
        out = x(3, 4, dtype=dtype, low=-12, high=12)
        yield Case("FULLY_CONNECTED", inputs, (out,), "FullyConnectedOptions", {}, "nobias")
    for dtype, one, two in product(("float32", "int8", "int16"), (False, True), (False, True)):
        a = x(2, *((4, 3) if one else (3, 4)), dtype=dtype)
        b = x(2, *((5, 4) if two else (4, 5)), dtype=dtype)
        out = x(2, 3, 5, dtype=dtype, low=-36, high=36)
        values = {"adjX": one, "adjY": two}
        yield Case("BATCH_MATMUL", (a, b), (out,), "BatchMatMulOptions", values, f"{one}{two}")
    yield Case("BATCH_MATMUL", (x(2, 1, 3, 4), x(3, 4, 2)), (x(2, 3, 3, 2),), "BatchMatMulOptions")
    for table in (weights((7, 3), "float32"), const(np.arange(21).reshape(7, 3), "int8")):
        out = replace(x(4, 3), dtype=table.dtype)
        yield Case("EMBEDDING_LOOKUP", (const([3, 0, 6, 3]), table), (out,))


# --- pooling, images --------------------------------------------------------------------------


def pools() -> Iterator[Case]:
    for name, dtype, padding, stride, act in product(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), NUMBERS, (0, 1), (1, 2), (0, 1)
    ):
        if name == "L2_POOL_2D" and dtype != "float32":
            continue
        values = {"padding": padding, "strideH": stride, "strideW": 2, "filterHeight": 3}
        values |= {"filterWidth": 2, "fusedActivationFunction": act}
        given = x(2, 7, 6, 3, dtype=dtype)
        yield Case(
            name, (given,), (replace(given),), "Pool2DOptions", values, f"{padding}{stride}{act}"
        )


def images() -> Iterator[Case]:
    flags = [(False, False), (True, False), (False, True)]
    for dtype, (corners, half), size in product(NUMBERS, flags, ((5, 9), (8, 3), (3, 4))):
        given = x(1, 3, 4, 2, dtype=dtype)
        values = {"alignCorners": corners, "halfPixelCenters": half}
        label = f"{corners:d}{half:d}-{size[0]}"
        for kind in ("Bilinear", "NearestNeighbor"):
            name = "RESIZE_BILINEAR" if kind == "Bilinear" else "RESIZE_NEAREST_NEIGHBOR"
            yield Case(
                name,
                (given, const(size)),
                (replace(given, shape=(1, *size, 2)),),
                f"Resize{kind}Options",
                values,
                label,
                # LiteRT's weights of pixels have 10 bits.
                steps=128 if (dtype, kind) == ("int16", "Bilinear") else 1,
            )
    for dtype in ("float32", "int8"):
        given = x(1, 2, 3, 8, dtype=dtype)
        deep = replace(given, shape=(1, 4, 6, 2))
        yield Case("DEPTH_TO_SPACE", (given,), (deep,), "DepthToSpaceOptions", {"blockSize": 2})
        yield Case("SPACE_TO_DEPTH", (deep,), (given,), "SpaceToDepthOptions", {"blockSize": 2})
        for at, pads in enumerate(([[0, 0], [0, 0]], [[1, 1], [2, 0]])):
            flat = replace(given, shape=(2, 4, 6, 3))
            out = replace(given, shape=(1, 1, 1, 3))
            inputs = (flat, const([2, 2]), const(pads))
            yield Case("SPACE_TO_BATCH_ND", inputs, (out,), "SpaceToBatchNDOptions", {}, f"{at}")
            flat = replace(given, shape=(8, 2, 3, 3))
            inputs = (flat, const([2, 2]), const(pads))
            yield Case("BATCH_TO_SPACE_ND", inputs, (out,), "BatchToSpaceNDOptions", {}, f"{at}")


# --- elementwise ------------------------------------------------------------------------------

UNARY: dict[str, tuple[str, dict[str, Any], tuple[float, float], tuple[str, ...]]] = {
    "ABS": ("AbsOptions", {}, (-3, 3), ("float32", "int8", "int16")),
    "CEIL": ("", {}, (-3, 3), ("float32",)),
    "COS": ("CosOptions", {}, (-3, 3), ("float32",)),
    "ELU": ("", {}, (-3, 3), ("float32", "int8")),
    "EXP": ("ExpOptions", {}, (-3, 1), SIGNED),
    "FLOOR": ("", {}, (-3, 3), ("float32",)),
    "GELU": ("GeluOptions", {"approximate": False}, (-3, 3), SIGNED),
    "HARD_SWISH": ("HardSwishOptions", {}, (-4, 4), ("float32", "int8", "uint8")),
    "LEAKY_RELU": ("LeakyReluOptions", {"alpha": 0.2}, (-3, 3), NUMBERS),
    "LOG": ("", {}, (0, 3), SIGNED),
    "LOGISTIC": ("", {}, (-4, 4), NUMBERS),
    "NEG": ("NegOptions", {}, (-3, 3), ("float32",)),
    "RELU": ("", {}, (-3, 3), NUMBERS),
    "RELU6": ("", {}, (-3, 8), NUMBERS),
    "RELU_0_TO_1": ("", {}, (-3, 3), ("float32", "int8")),
    "RELU_N1_TO_1": ("", {}, (-3, 3), ("float32", "int8")),
    "ROUND": ("", {}, (-3, 3), ("float32",)),
    "RSQRT": ("", {}, (0, 3), SIGNED),
    "SIGN": ("SignOptions", {}, (-3, 3), ("float32",)),
    "SIN": ("", {}, (-3, 3), ("float32",)),
    "SQRT": ("", {}, (0, 3), SIGNED),
    "SQUARE": ("SquareOptions", {}, (-3, 3), ("float32",)),
    "TANH": ("", {}, (-3, 3), NUMBERS),
}
# How far the curve is from LiteRT's line between two entries of a table, near 0.
CURVED = {("LOG", "int16"): 2200, ("RSQRT", "int16"): 40}
# The scales that LiteRT's kernels require of their outputs.
FIXED = {
    "LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
    "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "LOG_SOFTMAX": {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)},
    "L2_NORMALIZATION": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)},
}


def fixed(name: str, tensor: T) -> T:
    """An output with the scale that LiteRT requires."""
    found = FIXED.get(name, {}).get(tensor.dtype)
    return tensor if found is None else replace(tensor, scale=found[0], zero=found[1])


def unary() -> Iterator[Case]:
    for name, (options, values, (low, high), dtypes) in UNARY.items():
        for dtype, shape in product(dtypes, ((2, 5, 3), (1, 17))):
            given = x(*shape, dtype=dtype, low=low, high=high)
            out = x(*shape, dtype=dtype, low=-4, high=8)
            if name in ("ABS", "RELU", "RELU6") and dtype == "int16":
                out = replace(given)
            out = fixed(name, out)
            steps = CURVED.get((name, dtype), 2)
            yield Case(name, (given,), (out,), options, values, f"{len(shape)}", steps=steps)
    values = {"approximate": True}
    yield Case("GELU", (x(2, 9),), (x(2, 9),), "GeluOptions", values, "tanh")
    yield Case("LOGICAL_NOT", (T((2, 3), "bool"),), (T((2, 3), "bool"),), "LogicalNotOptions")
    for name, options in (("ABS", "AbsOptions"), ("NEG", "NegOptions")):
        yield Case(name, (plain(3, 4),), (plain(3, 4),), options, {}, "int")


BINARY = ("ADD", "SUB", "MUL")
SHAPES = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1, 3, 1), (2, 1, 4)), ((2, 3), ())]


def binary() -> Iterator[Case]:
    for name, dtype, (one, two), act in product(BINARY, NUMBERS, SHAPES, (0, 1)):
        if dtype == "int16" and name == "SUB" and act:
            continue
        a, b = x(*one, dtype=dtype), x(*two, dtype=dtype, low=-2, high=2)
        out = x(*np.broadcast_shapes(one, two), dtype=dtype, low=-6, high=6)
        values = {"fusedActivationFunction": act}
        if dtype == "int16" and name != "MUL":
            values["potScaleInt16"] = False
        label = f"{act}{len(two)}{len(one)}{one[0]}"
        yield Case(name, (a, b), (out,), f"{name.capitalize()}Options", values, label)
    for name, (one, two) in product(("ADD", "SUB", "MUL", "DIV"), SHAPES[:2]):
        a, b = plain(*one), plain(*two, low=1, high=7)
        out = plain(*np.broadcast_shapes(one, two))
        yield Case(name, (a, b), (out,), f"{name.capitalize()}Options", {}, f"int{len(two)}")
    for dtype, act in product(("float32", "uint8"), (0, 1)):
        a, b = (
            x(2, 3, 4, dtype=dtype),
            x(4, dtype=dtype, low=0.5, high=3)
            if dtype == "float32"
            else x(4, dtype=dtype, low=0, high=3),
        )
        out = x(2, 3, 4, dtype=dtype)
        yield Case("DIV", (a, b), (out,), "DivOptions", {"fusedActivationFunction": act}, f"{act}")
    for name, dtype, (one, two) in product(("MAXIMUM", "MINIMUM"), ("float32", "int8"), SHAPES[:3]):
        a = x(*one, dtype=dtype)
        out = replace(a, shape=np.broadcast_shapes(one, two))
        yield Case(
            name,
            (a, replace(a, shape=two)),
            (out,),
            "MaximumMinimumOptions",
            {},
            f"{len(two)}{one[0]}",
        )
    for dtype, two in product(("float32", "int8"), ((2, 3), (3,))):
        inputs = (x(2, 3, dtype=dtype), x(*two, dtype=dtype))
        out = x(2, 3, dtype=dtype, low=0, high=30)
        yield Case(
            "SQUARED_DIFFERENCE", inputs, (out,), "SquaredDifferenceOptions", {}, f"{len(two)}"
        )
    yield Case("POW", (x(2, 5, low=0.1), x(2, 5, low=-2, high=2)), (x(2, 5),), "PowOptions")
    yield Case(
        "POW",
        (plain(2, 5, low=1, high=5), plain(2, 5, low=0, high=4)),
        (plain(2, 5),),
        "PowOptions",
    )
    yield Case("ATAN2", (x(2, 5), x(2, 5)), (x(2, 5),), "ATan2Options")
    for dtype in ("float32", "int32"):
        a, b = replace(plain(3, 4), dtype=dtype), replace(plain(3, 4, low=1, high=5), dtype=dtype)
        yield Case("FLOOR_DIV", (a, b), (replace(a),), "FloorDivOptions")
        yield Case("FLOOR_MOD", (a, b), (replace(a),), "FloorModOptions")
    for count, dtype in product((2, 4), ("float32", "int32")):
        given = replace(plain(2, 3), dtype=dtype)
        inputs = tuple(replace(given) for _ in range(count))
        yield Case("ADD_N", inputs, (replace(given),), "AddNOptions", {}, f"{count}")
    ints = plain(2, 3, low=0, high=99)
    yield Case("BITWISE_XOR", (ints, replace(ints)), (replace(ints),))
    yield Case("RIGHT_SHIFT", (ints, plain(2, 3, low=0, high=5)), (replace(ints),))


COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")


def logic() -> Iterator[Case]:
    for name, dtype in product(COMPARISONS, ("float32", "int32", "int8")):
        a = plain(2, 3, low=-2, high=2) if dtype == "int32" else x(2, 3, dtype=dtype)
        options = "".join(part.capitalize() for part in name.split("_")) + "Options"
        inputs = (a, replace(a, shape=(3,)))
        yield Case(name, inputs, (T((2, 3), "bool"),), options)
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        options = "LogicalAndOptions" if name == "LOGICAL_AND" else "LogicalOrOptions"
        inputs = (T((2, 3), "bool"), T((2, 3), "bool"))
        yield Case(name, inputs, (T((2, 3), "bool"),), options)
    for dtype in ("float32", "int8"):
        a = x(2, 3, dtype=dtype)
        inputs = (T((3,), "bool"), a, replace(a))
        yield Case("SELECT_V2", inputs, (replace(a),), "SelectV2Options")
        inputs = (T((2,), "bool"), a, replace(a))
        yield Case("SELECT", inputs, (replace(a),), "SelectOptions")
    yield Case("BITCAST", (T((2, 7)),), (T((2, 7), "int32"),), "BitcastOptions")
    for source, to in product(("float32", "int32", "int8", "bool", "int64"), repeat=2):
        if source != to:
            kinds = {"float32": 0, "int32": 2, "int8": 9, "bool": 6, "int64": 4}
            values = {"inDataType": kinds[source], "outDataType": kinds[to]}
            given = T((2, 7), source)
            yield Case("CAST", (given,), (T((2, 7), to),), "CastOptions", values, f"to-{to}")


# --- along axes -------------------------------------------------------------------------------


def along() -> Iterator[Case]:
    for dtype, beta, shape in product(NUMBERS, (1.0, 0.5), ((2, 9), (1, 2, 3, 5))):
        out = fixed("SOFTMAX", x(*shape, dtype=dtype))
        label = f"{beta}-{len(shape)}"
        # LiteRT looks the exponential of 16 bits up in a table.
        steps = 24 if dtype == "int16" else 1
        yield Case(
            "SOFTMAX",
            (x(*shape, dtype=dtype),),
            (out,),
            "SoftmaxOptions",
            {"beta": beta},
            label,
            steps,
        )
    for dtype in ("float32", "int8", "uint8"):
        out = fixed("LOG_SOFTMAX", x(2, 9, dtype=dtype))
        yield Case("LOG_SOFTMAX", (x(2, 9, dtype=dtype),), (out,), "LogSoftmaxOptions")
        out = fixed("L2_NORMALIZATION", x(2, 5, dtype=dtype))
        yield Case("L2_NORMALIZATION", (x(2, 5, dtype=dtype),), (out,), "L2NormOptions")
    values = {"radius": 2, "bias": 1.0, "alpha": 0.3, "beta": 0.75}
    yield Case(
        "LOCAL_RESPONSE_NORMALIZATION",
        (x(1, 2, 3, 7),),
        (x(1, 2, 3, 7),),
        "LocalResponseNormalizationOptions",
        values,
        reference=False,  # whose windows lack their last channel
    )
    for dtype in ("float32", "int8", "uint8"):
        given = x(1, 3, 2, 4, dtype=dtype)
        slope = x(1, 1, 4, dtype=dtype, low=-0.5, high=0.5)
        yield Case("PRELU", (given, slope), (x(1, 3, 2, 4, dtype=dtype),))
    reductions = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    for name, dtype, keep, axes in product(
        reductions, ("float32", "int8", "int16"), (False, True), ([1, 2], [-1], [0, 2])
    ):
        given = x(2, 3, 4, 5, dtype=dtype)
        out = x(2, 1, dtype=dtype, low=-40, high=40) if name == "SUM" else replace(given)
        label = f"{keep:d}{axes}"
        yield Case(
            name,
            (given, const(axes)),
            (out,),
            "ReducerOptions",
            {"keepDims": keep},
            label,
            reference=name != "SUM",  # which adds 8 bits up in 8 bits
        )
    for name, keep in product(("SUM", "REDUCE_PROD", "REDUCE_MAX", "MEAN"), (False, True)):
        given = plain(2, 3, 4, low=1, high=3)
        values = {"keepDims": keep}
        yield Case(
            name, (given, const([1])), (plain(2, 4),), "ReducerOptions", values, f"int{keep:d}"
        )
    yield Case("REDUCE_PROD", (x(2, 3, 4), const([1])), (x(2, 4),), "ReducerOptions")
    for name, keep in product(("REDUCE_ANY", "REDUCE_ALL"), (False, True)):
        given = T((2, 3, 2), "bool")
        out = T((2, 2), "bool")
        yield Case(
            name, (given, const([1])), (out,), "ReducerOptions", {"keepDims": keep}, f"{keep:d}"
        )
    for name, dtype, axis in product(("ARG_MAX", "ARG_MIN"), ("float32", "int8", "int32"), (1, -1)):
        given = plain(2, 5, 3) if dtype == "int32" else x(2, 5, 3, dtype=dtype)
        options = "ArgMaxOptions" if name == "ARG_MAX" else "ArgMinOptions"
        inputs = (given, const(axis))
        yield Case(name, inputs, (T((2, 5), "int32"),), options, {"outputType": 2}, f"{axis}")
    for dtype, exclusive, reverse in product(("float32", "int32"), (False, True), (False, True)):
        given = replace(plain(2, 5), dtype=dtype)
        values = {"exclusive": exclusive, "reverse": reverse}
        label = f"{exclusive:d}{reverse:d}"
        yield Case("CUMSUM", (given, const(1)), (replace(given),), "CumsumOptions", values, label)
    for dtype in ("float32", "int32"):
        given = x(2, 9) if dtype == "float32" else plain(2, 9, low=-99, high=99)
        outs = (replace(given, shape=(2, 3)), T((2, 3), "int32"))
        yield Case("TOPK_V2", (given, const(3)), outs, "TopKV2Options")


def bins() -> Iterator[Case]:
    for given in (x(2, 9), plain(2, 9, low=-3, high=3)):
        edges = {"boundaries": [-1.0, 0.0, 0.5, 2.0]}
        yield Case("BUCKETIZE", (given,), (T((2, 9), "int32"),), "BucketizeOptions", edges)


# --- shapes -----------------------------------------------------------------------------------


def like(given: T, *shape: int) -> T:
    """A tensor of the same kind with another shape."""
    return replace(given, shape=shape)


def one(
    given: T,
    name: str,
    shape: Sequence[int],
    *rest: T,
    options: str = "",
    label: str = "",
    **values: Any,
) -> Case:
    """A case with one output of the input's kind."""
    return Case(name, (given, *rest), (like(given, *shape),), options, values, label)


def shapes() -> Iterator[Case]:
    for dtype in ("float32", "int8"):
        given = x(2, 3, 4, dtype=dtype)
        yield from arranged(given)
        yield from parts_of(given)
    yield from constants()


def arranged(given: T) -> Iterator[Case]:
    yield one(given, "RESHAPE", (6, 4), const([6, 4]), options="ReshapeOptions", newShape=[6, 4])
    yield one(given, "RESHAPE", (2, 12), const([2, -1]), options="ReshapeOptions", label="open")
    yield one(given, "RESHAPE", (4, 6), options="ReshapeOptions", newShape=[4, 6], label="option")
    yield one(given, "EXPAND_DIMS", (2, 1, 3, 4), const(1), options="ExpandDimsOptions")
    yield one(
        given, "EXPAND_DIMS", (2, 3, 4, 1), const(-1), options="ExpandDimsOptions", label="last"
    )
    wide = replace(given, shape=(1, 3, 1, 4))
    for dims in ([], [0], [-2]):
        values = {"squeezeDims": dims}
        yield Case("SQUEEZE", (wide,), (like(given, 3, 4),), "SqueezeOptions", values, f"{dims}")
    for perm in ([0, 2, 1], [2, 0, 1], [1, 0, 2]):
        yield one(
            given, "TRANSPOSE", (2, 4, 3), const(perm), options="TransposeOptions", label=f"{perm}"
        )
    for axis in (0, 1, -1):
        inputs = (given, replace(given), replace(given))
        shape = [2, 3, 4]
        shape[axis] *= 3
        values = {"axis": axis, "fusedActivationFunction": 0}
        yield Case(
            "CONCATENATION",
            inputs,
            (like(given, *shape),),
            "ConcatenationOptions",
            values,
            f"{axis}",
        )
        values = {"axis": axis, "valuesCount": 2}
        yield Case("PACK", inputs[:2], (like(given, 2, 2, 3, 4),), "PackOptions", values, f"{axis}")
        parts = tuple(like(given, 2, 3) for _ in range([2, 3, 4][axis]))
        values = {"num": len(parts), "axis": axis}
        yield Case("UNPACK", (given,), parts, "UnpackOptions", values, f"{axis}")
    yield one(given, "TILE", (4, 3, 12), const([2, 1, 3]), options="TileOptions")
    yield Case(
        "BROADCAST_TO",
        (like(given, 3, 1), const([2, 3, 4])),
        (like(given, 2, 3, 4),),
        "BroadcastToOptions",
    )
    yield one(given, "REVERSE_V2", (2, 3, 4), const([1]), options="ReverseV2Options")
    inputs = (given, const([2, 3], "int32"))
    values = {"seqDim": 1, "batchDim": 0}
    if given.dtype == "float32":
        outs = (like(given, 2, 3, 4),)
        yield Case("REVERSE_SEQUENCE", inputs, outs, "ReverseSequenceOptions", values)


def parts_of(given: T) -> Iterator[Case]:
    for begin, size in (([0, 1, 1], [2, 2, 3]), ([1, 0, 0], [-1, 3, 2])):
        yield one(
            given,
            "SLICE",
            [abs(each) for each in size],
            const(begin),
            const(size),
            options="SliceOptions",
            label=f"{begin}",
        )
    yield from strided(given)
    parts = (like(given, 2, 3, 2), like(given, 2, 3, 2))
    yield Case("SPLIT", (const(2), given), parts, "SplitOptions", {"numSplits": 2})
    for sizes in ([1, 3], [3, -1]):
        inputs = (given, const(sizes), const(2))
        parts = (like(given, 2, 3, sizes[0]), like(given, 2, 3, 4 - sizes[0]))
        yield Case("SPLIT_V", inputs, parts, "SplitVOptions", {"numSplits": 2}, f"{sizes}")
    pads = const([[0, 1], [2, 0], [1, 1]])
    yield one(given, "PAD", (3, 5, 6), pads, options="PadOptions")
    value = replace(given, shape=(), data=np.array(2))
    yield Case("PADV2", (given, pads, value), (like(given, 3, 5, 6),), "PadV2Options")
    for mode, ends in product((0, 1), ([[0, 0], [1, 2], [2, 1]], [[1, 0], [0, 0], [3, 3]])):
        yield one(
            given,
            "MIRROR_PAD",
            (3, 6, 7),
            const(ends),
            options="MirrorPadOptions",
            label=f"{mode}{ends[0]}",
            mode=mode,
        )
    for axis, indices in product((0, 1, 2), ([1, 0], [[0, 1, 1]])):
        inputs = (given, const(indices))
        values = {"axis": axis}
        yield Case("GATHER", inputs, (like(given, 2),), "GatherOptions", values, f"{axis}{indices}")
    for axis in (1, 2):
        inputs = (given, const([[0, 2, 1], [1, 1, 0]]))
        values = {"axis": axis, "batchDims": 1}
        yield Case("GATHER", inputs, (like(given, 2),), "GatherOptions", values, f"batch{axis}")
    yield Case(
        "GATHER",
        (given, plain(3, low=0, high=1)),
        (like(given, 3, 3, 4),),
        "GatherOptions",
        {},
        "run",
    )
    for indices in ([[0, 1], [1, 2]], [[0], [1], [1]], [[1, 2, 3]]):
        inputs = (given, const(indices))
        yield Case("GATHER_ND", inputs, (like(given, 2),), "GatherNdOptions", {}, f"{len(indices)}")
    fill = replace(given, shape=(), data=None)
    yield Case("FILL", (const([2, 3]), fill), (like(given, 2, 3),), "FillOptions")


def strided(given: T) -> Iterator[Case]:
    rows: list[tuple[list[int], list[int], list[int], dict[str, int]]] = [
        ([0, 0, 0], [2, 3, 4], [1, 2, 3], {}),
        ([0, -1, 0], [2, -4, 4], [1, -1, 1], {}),
        ([1, 0, 0], [2, 3, 4], [1, 1, 1], {"shrinkAxisMask": 1}),
        ([0, 1, 1], [0, 0, 3], [1, 1, 1], {"beginMask": 1, "endMask": 3}),
        ([0, 1], [0, 3], [1, 1], {"ellipsisMask": 1}),
        ([0, 0, 1], [0, 0, 2], [1, 1, 1], {"newAxisMask": 1, "endMask": 7}),
        ([-1, 0, -2], [2, 2, 4], [1, 1, 1], {}),
    ]
    for at, (begin, end, step, masks) in enumerate(rows):
        inputs = (given, const(begin), const(end), const(step))
        values = {"beginMask": 0, "endMask": 0, "offset": False, **masks}
        out = replace(given, shape=(1,))
        yield Case("STRIDED_SLICE", inputs, (out,), "StridedSliceOptions", values, f"{at}")


def constants() -> Iterator[Case]:
    given = x(2, 3, 4)
    yield Case("SHAPE", (given,), (T((3,), "int32"),), "ShapeOptions", {"outType": 2})
    yield Case("RANK", (given,), (T((), "int32"),), "RankOptions")
    for dtype in ("float32", "int32", "int64"):
        tensor = T((2, 3), dtype)
        yield Case("ZEROS_LIKE", (tensor,), (replace(tensor),), "ZerosLikeOptions")
    inputs = (const([2, 1, 4]), const([3, 1]))
    yield Case("BROADCAST_ARGS", inputs, (T((3,), "int32"),))
    for ends, dtype in product(((0, 7, 2), (5, 0, -1)), ("int32", "float32")):
        inputs = tuple(const(each, dtype) for each in ends)
        yield Case("RANGE", inputs, (T((4,), dtype),), "RangeOptions", {}, f"{ends[0]}")
    for axis in (-1, 0, 1):
        inputs = (
            plain(2, 3, low=-1, high=5),
            const(5),
            const(2.0, "float32"),
            const(-1.0, "float32"),
        )
        yield Case("ONE_HOT", inputs, (x(2, 3, 5),), "OneHotOptions", {"axis": axis}, f"{axis}")
    for dtype in ("float32", "int32"):
        updates = replace(plain(3, 2), dtype=dtype)
        inputs = (const([[0], [3], [0]]), updates, const([5, 2]))
        yield Case("SCATTER_ND", inputs, (replace(updates, shape=(5, 2)),), "ScatterNdOptions")
        rows = replace(plain(4, 3), dtype=dtype)
        inputs = (rows, const([0, 0, 1, 2]))
        yield Case("SEGMENT_SUM", inputs, (replace(rows),), "SegmentSumOptions")
        inputs = (rows, replace(rows, shape=(2, 2)), const([1, 1]))
        yield Case("DYNAMIC_UPDATE_SLICE", inputs, (replace(rows),), "DynamicUpdateSliceOptions")


# --- quantization, states ---------------------------------------------------------------------


def conversions() -> Iterator[Case]:
    for dtype in QUANTIZED:
        inner = x(3, 7, dtype=dtype)
        yield Case("QUANTIZE", (x(3, 7),), (inner,), "QuantizeOptions")
        yield Case("DEQUANTIZE", (inner,), (x(3, 7),), "DequantizeOptions")
        out = x(3, 7, dtype=dtype, low=-2, high=5)
        if dtype != "uint8":
            yield Case("QUANTIZE", (inner,), (out,), "QuantizeOptions", {}, "again")
    for source, to in (("int8", "uint8"), ("uint8", "int8"), ("int16", "int8"), ("int8", "int16")):
        inputs, outputs = (x(3, 7, dtype=source),), (x(3, 7, dtype=to),)
        yield Case("QUANTIZE", inputs, outputs, "QuantizeOptions", {}, f"to-{to}")
    half = const(RNG.uniform(-1, 1, (3, 4)), "float16")
    yield Case("DEQUANTIZE", (half,), (T((3, 4)),), "DequantizeOptions", {}, "half")
    values = {"min": -1.5, "max": 2.0, "numBits": 8, "narrowRange": False}
    yield Case("FAKE_QUANT", (x(3, 7),), (x(3, 7),), "FakeQuantOptions", values, tolerance=1e-2)


def states() -> Iterator[Case]:
    for rank, act in product((1, 2), (0, 1)):
        filters = 4 * rank
        inputs = (
            x(2, 3),
            weights((filters, 3), "float32"),
            weights((filters, 5), "float32"),
            bias(4, x(1), x(1)),
            T((2, filters * 5), variable=True),
        )
        values = {"rank": rank, "fusedActivationFunction": act}
        yield Case("SVDF", inputs, (x(2, 4),), "SVDFOptions", values, f"{rank}{act}")
    cell = (
        weights((4, 3), "float32"),
        weights((4, 4), "float32"),
        bias(4, x(1), x(1)),
        T((2, 4), variable=True),
    )
    for act in (1, 4):
        values = {"fusedActivationFunction": act}
        yield Case("RNN", (x(2, 3), *cell), (x(2, 4),), "RNNOptions", values, f"{act}")
        for time_major in (False, True):
            values = {"fusedActivationFunction": act, "timeMajor": time_major}
            steps = (5, 2) if time_major else (2, 5)
            inputs, out = (x(*steps, 3), *cell), x(*steps, 4)
            yield Case(
                "UNIDIRECTIONAL_SEQUENCE_RNN",
                inputs,
                (out,),
                "SequenceRNNOptions",
                values,
                f"{act}{time_major:d}",
            )


FAMILIES = (
    convolutions,
    hybrid,
    products,
    pools,
    images,
    unary,
    binary,
    logic,
    along,
    bins,
    shapes,
    conversions,
    states,
)
CASES: tuple[Case, ...] = tuple(case for family in FAMILIES for case in family())
