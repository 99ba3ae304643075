"""Calls of functions of ``keras.ops``, one or several for every row of the table.

``CASES`` maps the name of a row to what is called: ``ops`` is ``keras.ops``, ``i`` has the inputs
of ``INPUTS`` as attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

INPUTS: Mapping[str, tuple[tuple[int, ...], str]] = {
    "x": ((3, 4, 6), "float32"),
    "y": ((3, 4, 6), "float32"),
    "matrix": ((5, 6), "float32"),
    "row": ((6,), "float32"),
    "short": ((4,), "float32"),
    "odd": ((2, 3, 4), "float32"),  # with NaN, infinities and zeros of both signs
    "n": ((3, 4), "int32"),
    "m": ((3, 4), "int32"),
    "image": ((2, 7, 9, 4), "float32"),
    "first": ((2, 4, 7, 9), "float32"),
    "line": ((2, 11, 4), "float32"),
    "query": ((2, 5, 4, 8), "float32"),
    "key": ((2, 6, 4, 8), "float32"),
    "shared": ((2, 6, 2, 8), "float32"),
    "rgb": ((2, 6, 5, 3), "float32"),
    "sound": ((2, 100), "float32"),
}
"""Shape and type, by name."""
Function = Callable[[Any, Any], Any]


def numbers(*shape: int) -> np.ndarray:
    """Fixed random numbers."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _of_one(name: str, positive: bool = False) -> Function:
    def call(ops: Any, i: Any) -> Any:
        return getattr(ops, name)(ops.abs(i.x) + 1.1 if positive else i.x)

    return call


def _of_two(name: str) -> Function:
    return lambda ops, i: getattr(ops, name)(i.x, i.y)


def _of_integers(name: str) -> Function:
    return lambda ops, i: getattr(ops, name)(i.n, i.m)


def _reducing(name: str) -> Function:
    def call(ops: Any, i: Any) -> Any:
        function = getattr(ops, name)
        return [function(i.x), function(i.x, axis=1), function(i.x, axis=(0, 2), keepdims=True)]

    return call


def _named(table: Mapping[str, str], make: Callable[..., Function], *more: Any) -> dict[str, Any]:
    return {row: make(name, *more) for row, name in table.items()}


CASES: dict[str, Function] = {
    **_named(
        {
            "Abs": "abs", "Absolute": "absolute", "Negative": "negative", "Exp": "exp",
            "Exp2": "exp2", "Expm1": "expm1", "Sin": "sin", "Cos": "cos", "Tan": "tan",
            "Tanh": "tanh",
            "Sinh": "sinh", "Cosh": "cosh", "Arctan": "arctan", "Arcsinh": "arcsinh",
            "Floor": "floor", "Ceil": "ceil", "Sign": "sign", "Erf": "erf", "Fabs": "fabs",
            "Sinc": "sinc", "Erfc": "erfc", "Reciprocal": "reciprocal", "Relu": "relu",
            "Relu6": "relu6", "Sigmoid": "sigmoid", "Softplus": "softplus",
            "Softsign": "softsign", "Silu": "silu", "LogSigmoid": "log_sigmoid",
            "HardSilu": "hard_silu", "HardSigmoid": "hard_sigmoid", "HardTanh": "hard_tanh",
            "TanhShrink": "tanh_shrink", "SoftShrink": "soft_shrink",
            "HardShrink": "hard_shrink", "Selu": "selu", "SparsePlus": "sparse_plus",
            "SparseSigmoid": "sparse_sigmoid", "Squareplus": "squareplus", "Square": "square",
            "Trunc": "trunc", "Cbrt": "cbrt", "Deg2rad": "deg2rad", "Rad2deg": "rad2deg",
            "Ravel": "ravel", "ZerosLike": "zeros_like", "OnesLike": "ones_like",
            "StopGradient": "stop_gradient", "Copy": "copy", "Fliplr": "fliplr",
            "Flipud": "flipud",
        },
        _of_one,
    ),
    **_named(
        {
            "Log": "log", "Log10": "log10", "Log1p": "log1p", "Log2": "log2", "Sqrt": "sqrt",
            "Rsqrt": "rsqrt", "Arccosh": "arccosh",
        },
        _of_one,
        True,
    ),
    "Arcsin": lambda ops, i: ops.arcsin(ops.tanh(i.x)),
    "Arccos": lambda ops, i: ops.arccos(ops.tanh(i.x)),
    "Arctanh": lambda ops, i: ops.arctanh(ops.tanh(i.x) * 0.9),
    **_named(
        {
            "Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Maximum": "maximum",
            "Minimum": "minimum", "Arctan2": "arctan2", "Divide": "divide",
            "TrueDivide": "true_divide", "Equal": "equal", "NotEqual": "not_equal",
            "Greater": "greater", "GreaterEqual": "greater_equal", "Less": "less",
            "LessEqual": "less_equal", "LogicalAnd": "logical_and", "LogicalOr": "logical_or",
            "LogicalXor": "logical_xor", "Hypot": "hypot", "Logaddexp": "logaddexp",
            "Logaddexp2": "logaddexp2",
        },
        _of_two,
    ),
    **_named(
        {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"},
        _of_integers,
    ),
    "BitwiseLeftShift": lambda ops, i: ops.bitwise_left_shift(i.n, i.m),
    "LeftShift": lambda ops, i: ops.left_shift(i.n, i.m),
    "BitwiseRightShift": lambda ops, i: ops.bitwise_right_shift(i.n - 3, i.m),
    "RightShift": lambda ops, i: ops.right_shift(i.n, i.m),
    "BitwiseInvert": lambda ops, i: ops.bitwise_invert(i.n),
    "BitwiseNot": lambda ops, i: ops.bitwise_not(i.n),
    "Power": lambda ops, i: [ops.power(ops.abs(i.x), i.y), i.x**2],
    "Mod": lambda ops, i: [ops.mod(i.x, i.y), ops.mod(i.n - 2, i.m + 1), ops.mod(i.x, 0.7)],
    "Fmod": lambda ops, i: [ops.fmod(i.x, i.y), ops.fmod(i.n - 2, i.m + 1)],
    "FloorDivide": lambda ops, i: [i.x // i.y, (i.n - 2) // (i.m + 1)],
    "Heaviside": lambda ops, i: [ops.heaviside(i.x, i.y), ops.heaviside(i.x * 0, i.y)],
    "Ldexp": lambda ops, i: ops.ldexp(i.x[:, :, 0], i.n),
    "DivideNoNan": lambda ops, i: ops.divide_no_nan(i.x, ops.relu(i.y)),
    "Isclose": lambda ops, i: [
        ops.isclose(i.x, i.x * 1.000001),
        ops.isclose(i.x, i.y, 0.1, 0.5),
        ops.isclose(i.odd, i.odd),
        ops.isclose(i.odd, i.odd, equal_nan=True),
        ops.isclose(i.odd, 1 / i.odd),
    ],
    "Round": lambda ops, i: [ops.round(i.x * 3), ops.round(i.x, 2), ops.round(i.n)],
    "Signbit": lambda ops, i: ops.signbit(i.odd),
    "Isnan": lambda ops, i: ops.isnan(i.odd),
    "Isinf": lambda ops, i: ops.isinf(i.odd),
    "Isfinite": lambda ops, i: ops.isfinite(i.odd),
    "Isposinf": lambda ops, i: ops.isposinf(i.odd),
    "Isneginf": lambda ops, i: ops.isneginf(i.odd),
    "NanToNum": lambda ops, i: [ops.nan_to_num(i.odd), ops.nan_to_num(i.odd, 2.0, 3.0, -4.0)],
    "Fmax": lambda ops, i: [ops.fmax(i.odd, 0.5), ops.fmax(i.n, i.m)],
    "Fmin": lambda ops, i: [ops.fmin(i.odd, 0.5), ops.fmin(i.n, i.m)],
    "LogicalNot": lambda ops, i: ops.logical_not(ops.greater(i.x, 0)),
    "Clip": lambda ops, i: ops.clip(i.x, -0.5, 0.7),
    "Where": lambda ops, i: ops.where(i.x > 0.2, i.y, 1.0),
    "Select": lambda ops, i: ops.select([i.x > 0.8, i.x > 0.0], [i.x, i.y], 3.0),
    "Cast": lambda ops, i: [ops.cast(i.x * 5, "int32"), ops.cast(i.n, "float32")],
    "LeakyRelu": lambda ops, i: ops.leaky_relu(i.x, 0.1),
    "Elu": lambda ops, i: ops.elu(i.x, 0.5),
    "Celu": lambda ops, i: ops.celu(i.x, 0.5),
    "Gelu": lambda ops, i: [ops.gelu(i.x), ops.gelu(i.x, approximate=False)],
    "Glu": lambda ops, i: ops.glu(i.x, axis=1),
    "Sparsemax": lambda ops, i: [ops.sparsemax(i.x), ops.sparsemax(3 * i.y, 1)],
    "Threshold": lambda ops, i: ops.threshold(i.x, 0.3, -1.0),
    "Softmax": lambda ops, i: [ops.softmax(i.x), ops.softmax(i.x, 1), ops.softmax(i.x, None)],
    "LogSoftmax": lambda ops, i: [ops.log_softmax(i.x), ops.log_softmax(i.x, None)],
    # Reductions.
    **_named(
        {
            "Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min", "Amax": "amax",
            "Amin": "amin", "Prod": "prod", "Var": "var", "Std": "std",
            "Logsumexp": "logsumexp", "Ptp": "ptp",
        },
        _reducing,
    ),
    **{
        row: lambda ops, i, name=name: [
            getattr(ops, name)(ops.where(ops.isinf(i.odd), 0.5, i.odd)),
            getattr(ops, name)(i.odd * 0, axis=1),
            getattr(ops, name)(i.x, axis=(0, 2), keepdims=True),
        ]
        for row, name in {"Nansum": "nansum", "Nanprod": "nanprod", "Nanmean": "nanmean"}.items()
    },
    **{
        row: lambda ops, i, name=name: [
            getattr(ops, name)(i.odd),
            getattr(ops, name)(ops.sqrt(i.x), axis=(0, 2), keepdims=True),
        ]
        for row, name in {"Nanmax": "nanmax", "Nanmin": "nanmin"}.items()
    },
    "Any": lambda ops, i: [ops.any(i.x > 1), ops.any(i.x > 1, axis=1)],
    "All": lambda ops, i: [ops.all(i.x > -1), ops.all(i.x > -1, axis=1, keepdims=True)],
    "CountNonzero": lambda ops, i: [ops.count_nonzero(i.n), ops.count_nonzero(i.n, 1)],
    "Moments": lambda ops, i: [*ops.moments(i.x, [0, 1]), *ops.moments(i.x, [2], keepdims=True)],
    "Norm": lambda ops, i: [ops.norm(i.x, axis=1), ops.norm(i.x, ord=1, axis=-1, keepdims=True)],
    "Normalize": lambda ops, i: [
        ops.normalize(i.x, axis=1),
        ops.normalize(i.x, axis=2, order=1),
        ops.normalize(i.x * 0),
        ops.normalize(i.x, order=3, epsilon=3.0),
    ],
    "Argmax": lambda ops, i: [ops.argmax(i.x), ops.argmax(i.x, 1)],
    "Argmin": lambda ops, i: [ops.argmin(i.x), ops.argmin(i.x, 2, keepdims=True)],
    "Cumsum": lambda ops, i: [ops.cumsum(i.x, 1), ops.cumsum(i.x)],
    "ConvertToTensor": lambda ops, i: [
        ops.convert_to_tensor(i.n), ops.convert_to_tensor(i.x, "float16"),
    ],
    "Cumprod": lambda ops, i: [ops.cumprod(i.x, 1), ops.cumprod(i.x)],
    "Diff": lambda ops, i: [ops.diff(i.x), ops.diff(i.x, n=2, axis=1)],
    # Products.
    "Matmul": lambda ops, i: ops.matmul(i.x, ops.transpose(i.y, (0, 2, 1))),
    "Dot": lambda ops, i: ops.dot(i.matrix, ops.transpose(i.matrix)),
    "Einsum": lambda ops, i: ops.einsum("abc,adc->abd", i.x, i.y),
    "Vdot": lambda ops, i: ops.vdot(i.row, i.row),
    "Outer": lambda ops, i: [ops.outer(i.row, i.row), ops.outer(i.matrix, i.row)],
    "Tensordot": lambda ops, i: [
        ops.tensordot(i.x, i.y, axes=[[1, 2], [1, 2]]),
        ops.tensordot(i.matrix, i.row, axes=1),
        ops.tensordot(i.row, i.row, axes=0),
    ],
    # What moves elements.
    "Identity": lambda ops, i: ops.copy(i.x),
    "Reshape": lambda ops, i: ops.reshape(i.x, (3, -1, 2)),
    "Transpose": lambda ops, i: [ops.transpose(i.x), ops.transpose(i.x, (1, 2, 0))],
    "Swapaxes": lambda ops, i: ops.swapaxes(i.x, 0, -1),
    "Moveaxis": lambda ops, i: ops.moveaxis(i.x, 0, 1),
    "ExpandDims": lambda ops, i: ops.expand_dims(i.x, -1),
    "Squeeze": lambda ops, i: ops.squeeze(i.x[:, :1], 1),
    "Concatenate": lambda ops, i: ops.concatenate([i.x, i.y], axis=1),
    "Append": lambda ops, i: [ops.append(i.x, i.y), ops.append(i.x, i.y, axis=1)],
    "Stack": lambda ops, i: ops.stack([i.x, i.y], axis=-1),
    "Vstack": lambda ops, i: [ops.vstack([i.x, i.y]), ops.vstack([i.row, i.row])],
    "Hstack": lambda ops, i: [ops.hstack([i.x, i.y]), ops.hstack([i.matrix, i.matrix])],
    "Dstack": lambda ops, i: [ops.dstack([i.x, i.y]), ops.dstack([i.matrix, i.matrix])],
    "Split": lambda ops, i: [*ops.split(i.x, 2, axis=1), *ops.split(i.x, [1, 4], axis=2)],
    "ArraySplit": lambda ops, i: ops.array_split(i.x, 4, axis=2),
    "Vsplit": lambda ops, i: ops.vsplit(i.x, 3),
    "Hsplit": lambda ops, i: ops.hsplit(i.x, [1, 3]),
    "Dsplit": lambda ops, i: ops.dsplit(i.x, 2),
    "Unstack": lambda ops, i: ops.unstack(i.x, axis=1),
    "BroadcastTo": lambda ops, i: ops.broadcast_to(i.row, (2, 5, 6)),
    "Tile": lambda ops, i: [ops.tile(i.x, (2, 1, 3)), ops.tile(i.row, (2, 1))],
    "Repeat": lambda ops, i: [ops.repeat(i.x, 2, axis=1), ops.repeat(i.row, 3)],
    "Flip": lambda ops, i: [ops.flip(i.x), ops.flip(i.x, (0, 2))],
    "Rot90": lambda ops, i: [ops.rot90(i.x, turns, (1, 2)) for turns in (1, 2, 3, 4, -1)],
    "Roll": lambda ops, i: [ops.roll(i.x, 2), ops.roll(i.x, (1, -2), (0, 2))],
    "Pad": lambda ops, i: [
        ops.pad(i.x, ((0, 0), (1, 2), (2, 0))),
        ops.pad(i.x, ((0, 0), (1, 2), (2, 0)), mode="reflect"),
        ops.pad(i.x, ((1, 1), (0, 2), (1, 0)), constant_values=2.5),
    ],
    "Take": lambda ops, i: [ops.take(i.x, [0, 2, 2], axis=1), ops.take(i.x, i.n)],
    "TakeAlongAxis": lambda ops, i: ops.take_along_axis(i.x[:, :, 0], i.n % 3, axis=1),
    "GetItem": lambda ops, i: [i.x[:, -1], i.x[..., None, 1:5:2], i.x[1:, 2:3]],
    "Slice": lambda ops, i: ops.slice(i.x, [0, 1, 2], [3, 2, 4]),
    "Tril": lambda ops, i: [ops.tril(i.x), ops.tril(i.x, -1)],
    "Triu": lambda ops, i: [ops.triu(i.x), ops.triu(i.x, 2)],
    "Diagonal": lambda ops, i: [
        ops.diagonal(i.x),
        ops.diagonal(i.x, 1, 1, 2),
        ops.diagonal(i.x, -2, 2, 0),
    ],
    "Trace": lambda ops, i: [ops.trace(i.x), ops.trace(i.x, 1, 1, 2)],
    "Meshgrid": lambda ops, i: [
        *ops.meshgrid(i.row, i.short, i.row),
        *ops.meshgrid(i.row, i.short, indexing="ij"),
    ],
    "TopK": lambda ops, i: [*ops.top_k(i.x, 3)],
    "Sort": lambda ops, i: [ops.sort(i.x), ops.sort(i.x, axis=1)],
    "Argsort": lambda ops, i: [ops.argsort(i.x), ops.argsort(i.x, axis=0), ops.argsort(i.x, None)],
    "FullLike": lambda ops, i: [ops.full_like(i.x, 2.5), ops.full_like(i.x, 2, dtype="int32")],
    "OneHot": lambda ops, i: [ops.one_hot(i.n, 5), ops.one_hot(i.n, 6, axis=0)],
    "MultiHot": lambda ops, i: ops.multi_hot(i.n, 6),
    # What layers compute.
    "Conv": lambda ops, i: [
        ops.conv(i.image, numbers(3, 2, 4, 5), (2, 1), "same"),
        ops.conv(i.image, numbers(3, 2, 4, 6), 1, "valid", dilation_rate=(1, 2)),
        ops.conv(i.first, numbers(3, 3, 4, 5), 1, "valid", "channels_first"),
        ops.conv(i.line, numbers(3, 4, 5), 2, "same"),
        ops.conv(i.line, ops.reshape(i.x[..., :5], (3, 4, 5))),
    ],
    "DepthwiseConv": lambda ops, i: [
        ops.depthwise_conv(i.image, numbers(3, 3, 4, 2), 1, "same"),
        ops.depthwise_conv(i.line, numbers(3, 4, 1)),
    ],
    "SeparableConv": lambda ops, i: ops.separable_conv(
        i.image, numbers(3, 3, 4, 2), numbers(1, 1, 8, 5), 2, "same"
    ),
    "MaxPool": lambda ops, i: [
        ops.max_pool(i.image, 2),
        ops.max_pool(i.image, (3, 2), 2, "same"),
        ops.max_pool(i.first, 3, 1, data_format="channels_first"),
        ops.max_pool(i.line, 2, 1),
    ],
    "AveragePool": lambda ops, i: [
        ops.average_pool(i.image, (2, 3), (1, 2)),
        ops.average_pool(i.image, 3, 2, "same"),
    ],
    "AdaptiveMaxPool": lambda ops, i: ops.adaptive_max_pool(i.image, (3, 4)),
    "AdaptiveAveragePool": lambda ops, i: ops.adaptive_average_pool(i.image, (7, 3)),
    "BatchNorm": lambda ops, i: [
        ops.batch_normalization(i.image, numbers(4), abs(numbers(4)) + 0.5, -1),
        ops.batch_normalization(
            i.first, numbers(4), abs(numbers(4)) + 0.5, 1, numbers(4), numbers(4), 1e-2
        ),
    ],
    "LayerNorm": lambda ops, i: [
        ops.layer_normalization(i.x),
        ops.layer_normalization(i.x, numbers(6), numbers(6), epsilon=1e-2),
        ops.layer_normalization(i.x, numbers(4, 6), numbers(4, 6), axis=[1, 2]),
    ],
    "RMSNorm": lambda ops, i: [
        ops.rms_normalization(i.x),
        ops.rms_normalization(i.x, numbers(6), epsilon=1e-2),
    ],
    "DotProductAttention": lambda ops, i: [
        ops.dot_product_attention(i.query, i.key, i.key),
        ops.dot_product_attention(i.query, i.key, i.key, is_causal=True),
        ops.dot_product_attention(i.query, i.shared, i.shared, scale=0.3),
        ops.dot_product_attention(i.query, i.key, i.key, mask=np.tri(5, 6, 1)[None, None] > 0),
        ops.dot_product_attention(
            i.query, i.key, i.key, mask=(np.arange(30) % 4 != 2).reshape(1, 1, 5, 6), is_causal=True
        ),
        ops.dot_product_attention(i.query, i.key, i.key, bias=numbers(1, 4, 5, 6)),
    ],
    # Spectra.
    "FFT": lambda ops, i: ops.fft((i.x, i.y)),
    "FFT2": lambda ops, i: ops.fft2((i.x, i.y)),
    "IFFT2": lambda ops, i: ops.ifft2((i.x, i.y)),
    "RFFT": lambda ops, i: [*ops.rfft(i.x), *ops.rfft(i.x, 9), *ops.rfft(i.sound)],
    "IRFFT": lambda ops, i: [ops.irfft((i.x, i.y)), ops.irfft((i.x, i.y), 7)],
    "STFT": lambda ops, i: [
        *ops.stft(i.sound, 16, 4, 16),
        *ops.stft(i.sound, 12, 5, 17, window="hamming", center=False),
        *ops.stft(i.sound, 16, 8, 32, window=None),
        *ops.stft(i.sound, 6, 3, 6, window=numbers(6).tolist()),
    ],
    "ISTFT": lambda ops, i: [
        # At both ends PyTorch divides by fewer frames than TensorFlow.
        ops.istft(ops.stft(i.sound, 16, 4, 16), 16, 4, 16)[:, 8:-8],
        ops.istft(ops.stft(i.sound, 12, 4, 16), 12, 4, 16, window="hamming", length=40),
        ops.istft(ops.stft(i.sound, 16, 8, 16, window=None), 16, 8, 16, window=None, center=False),
    ],
    "ExtractSequences": lambda ops, i: ops.extract_sequences(i.sound, 7, 3),
    # Images.
    "Resize": lambda ops, i: [
        ops.image.resize(i.image, (9, 5)),
        ops.image.resize(i.image, (14, 18), interpolation="nearest"),
        ops.image.resize(i.image, (5, 4), antialias=True),
        ops.image.resize(i.image, (5, 4), interpolation="bicubic", antialias=True),
        ops.image.resize(i.image, (4, 4), crop_to_aspect_ratio=True),
        ops.image.resize(i.image, (4, 8), pad_to_aspect_ratio=True, fill_value=2.0),
        ops.image.resize(i.first, (9, 5), data_format="channels_first"),
    ],
    "RGBToGrayscale": lambda ops, i: ops.image.rgb_to_grayscale(i.rgb),
    "DepthToSpace": lambda ops, i: [
        ops.nn.depth_to_space(i.image, 2),
        ops.nn.depth_to_space(i.first, 2, data_format="channels_first"),
    ],
    "SpaceToDepth": lambda ops, i: ops.nn.space_to_depth(i.image[:, :6, :8], 2),
    "ExtractPatches": lambda ops, i: [
        ops.image.extract_patches(i.image, (3, 2)),
        ops.image.extract_patches(i.image, 3, strides=2, padding="same"),
        ops.image.extract_patches(i.image, 2, strides=1, dilation_rate=2),
        ops.image.extract_patches(i.first, 2, data_format="channels_first"),
    ],
    "PadImages": lambda ops, i: [
        ops.image.pad_images(i.image, 1, 2, 3, 0),
        ops.image.pad_images(i.image, 1, 2, target_height=10, target_width=12),
    ],
    "CropImages": lambda ops, i: [
        ops.image.crop_images(i.image, 1, 2, 3, 0),
        ops.image.crop_images(i.image, 1, 2, target_height=4, target_width=3),
    ],
}  # fmt: skip
