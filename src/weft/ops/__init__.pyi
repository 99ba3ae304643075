# Written by scripts/docs.py from the op table; do not edit.

"""The op table, and every op as a function: ``weft.ops.conv(x, w, strides=(2, 2))``."""

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import Symbol
from weft.ops.values import Input, Value

def abs(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The magnitude of x."""

def acos(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The arc cosine of x; NaN outside [-1, 1]."""

def acosh(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The inverse hyperbolic cosine of x; NaN below 1."""

def add(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """a + b, elementwise; integers wrap."""

def affine_grid(
    theta: Input,
    size: Sequence[int],
    align_corners: int = 0,
    *,
    name: str = "",
) -> Value:
    """The grid of sampling points that an affine map gives."""

def and_(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether both a and b."""

def argmax(
    x: Input,
    axis: int = 0,
    keepdims: int = 1,
    select_last_index: int = 0,
    *,
    name: str = "",
) -> Value:
    """Where along the axis the largest element is; NaN is passed over."""

def argmin(
    x: Input,
    axis: int = 0,
    keepdims: int = 1,
    select_last_index: int = 0,
    *,
    name: str = "",
) -> Value:
    """Where along the axis the smallest element is; NaN is passed over."""

def asin(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The arc sine of x; NaN outside [-1, 1]."""

def asinh(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The inverse hyperbolic sine of x."""

def atan(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The arc tangent of x."""

def atan2(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The angle of the point (b, a), in radians."""

def atanh(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The inverse hyperbolic tangent; NaN beyond 1."""

@overload
def attention(
    q: Input,
    k: Input,
    v: Input,
    attn_mask: Input | None = None,
    past_key: Input | None = None,
    past_value: Input | None = None,
    nonpad_kv_seqlen: Input | None = None,
    *,
    scale: float | None = None,
    is_causal: int = 0,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    softcap: float = 0.0,
    softmax_precision: DType | str | np.dtype | type | None = None,
    qk_matmul_output_mode: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
    outputs: Literal[0, 1] = 0,
    name: str = "",
) -> Value:
    """Means of values, weighted by the softmax of scaled products of queries and keys."""

@overload
def attention(
    q: Input,
    k: Input,
    v: Input,
    attn_mask: Input | None = None,
    past_key: Input | None = None,
    past_value: Input | None = None,
    nonpad_kv_seqlen: Input | None = None,
    *,
    scale: float | None = None,
    is_causal: int = 0,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    softcap: float = 0.0,
    softmax_precision: DType | str | np.dtype | type | None = None,
    qk_matmul_output_mode: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
    outputs: int,
    name: str = "",
) -> tuple[Value, ...]:
    """Means of values, weighted by the softmax of scaled products of queries and keys."""

def average_pool(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    *,
    name: str = "",
) -> Value:
    """The mean of each window, over the input alone or over the padding too."""

def average_pool_channels_last(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    *,
    name: str = "",
) -> Value:
    """AveragePool of images whose channels are the last axis; weights are as there."""

@overload
def batch_normalization(
    x: Input,
    scale: Input,
    b: Input,
    input_mean: Input,
    input_var: Input,
    epsilon: float = 1e-05,
    momentum: float = 0.9,
    training_mode: int = 0,
    *,
    outputs: Literal[0, 1] = 0,
    name: str = "",
) -> Value:
    """Channels normalized by given statistics, or by those of the batch in training."""

@overload
def batch_normalization(
    x: Input,
    scale: Input,
    b: Input,
    input_mean: Input,
    input_var: Input,
    epsilon: float = 1e-05,
    momentum: float = 0.9,
    training_mode: int = 0,
    *,
    outputs: int,
    name: str = "",
) -> tuple[Value, ...]:
    """Channels normalized by given statistics, or by those of the batch in training."""

def batch_normalization_channels_last(
    x: Input,
    scale: Input,
    b: Input,
    input_mean: Input,
    input_var: Input,
    epsilon: float = 1e-05,
    momentum: float = 0.9,
    training_mode: int = 0,
    *,
    name: str = "",
) -> Value:
    """BatchNormalization of images whose channels are the last axis; weights are as there."""

def bit_cast(
    x: Input,
    to: DType | str | np.dtype | type = DType.F32,
    *,
    name: str = "",
) -> Value:
    """The bits of x read as another type of the same size."""

def bit_shift(
    x: Input,
    y: Input,
    direction: str = "LEFT",
    *,
    name: str = "",
) -> Value:
    """x with its bits shifted by y; to the right, signed numbers keep their sign."""

def bitwise_and(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The bits set in both a and b."""

def bitwise_not(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x with every bit inverted."""

def bitwise_or(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The bits set in a or b."""

def bitwise_xor(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The bits that differ between a and b."""

def blackman_window(
    size: int,
    periodic: int = 1,
    output_datatype: DType | str | np.dtype | type = DType.F32,
    *,
    name: str = "",
) -> Value:
    """The Blackman window."""

def cast(
    x: Input,
    to: DType | str | np.dtype | type = DType.F32,
    *,
    name: str = "",
) -> Value:
    """x in another element type: floats truncate to integers, bool is x != 0; floats beyond an
    integer type give its ends and NaN gives 0, integers beyond it wrap.
    """

def cast_like(
    x: Input,
    target: Input,
    *,
    name: str = "",
) -> Value:
    """x in the element type of the target, as Cast converts."""

def ceil(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x rounded up."""

def celu(
    x: Input,
    alpha: float = 1.0,
    *,
    name: str = "",
) -> Value:
    """x, or alpha * (exp(x / alpha) - 1) below 0."""

def center_crop_pad(
    x: Input,
    shape: Sequence[int],
    axes: Sequence[int] | None = None,
    *,
    name: str = "",
) -> Value:
    """Crops or pads with 0 on both sides to a shape."""

def clip(
    x: Input,
    min: float | int | None = None,
    max: float | int | None = None,
    *,
    name: str = "",
) -> Value:
    """x held within [min, max]; max wins where they cross."""

def col2im(
    x: Input,
    image_shape: Sequence[int],
    block_shape: Sequence[int],
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    *,
    name: str = "",
) -> Value:
    """Sums blocks, one in each column, into the image that they were taken from."""

def compress(
    x: Input,
    condition: Sequence[bool],
    axis: int | None = None,
    *,
    name: str = "",
) -> Value:
    """The places along an axis whose condition is true."""

def concat(
    *inputs: Input | Sequence[Input],
    axis: int,
    name: str = "",
) -> Value:
    """The inputs one after another along an axis."""

def constant_of_shape(
    shape: Sequence[int],
    value: float | int | bool = 0.0,
    dtype: DType | str | np.dtype | type = DType.F32,
    *,
    name: str = "",
) -> Value:
    """A tensor of one value."""

def conv(
    x: Input,
    w: Input,
    b: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """Sums windows of all channels of a group times a weight, for any number of axes."""

def conv_channels_last(
    x: Input,
    w: Input,
    b: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """Conv of images whose channels are the last axis; weights are as there."""

def conv_integer(
    x: Input,
    w: Input,
    x_zero_point: Input | None = None,
    w_zero_point: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """The convolution of x and w less their zero points, in i32."""

def conv_integer16(
    x: Input,
    w: Input,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    sums: DType | str | np.dtype | type = DType.I64,
    *,
    name: str = "",
) -> Value:
    """The convolution of i16 by i8, in i32 (where sums wrap) or i64."""

def conv_integer16_channels_last(
    x: Input,
    w: Input,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    sums: DType | str | np.dtype | type = DType.I64,
    *,
    name: str = "",
) -> Value:
    """ConvInteger16 of images whose channels are the last axis; weights are as there."""

def conv_integer_channels_last(
    x: Input,
    w: Input,
    x_zero_point: Input | None = None,
    w_zero_point: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """ConvInteger of images whose channels are the last axis; weights are as there."""

def conv_transpose(
    x: Input,
    w: Input,
    b: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """The transpose of a convolution: every input element adds a scaled window."""

def conv_transpose_channels_last(
    x: Input,
    w: Input,
    b: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """ConvTranspose of images whose channels are the last axis; weights are as there."""

def copysign(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The magnitude of a with the sign of b."""

def cos(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The cosine of x in radians."""

def cosh(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The hyperbolic cosine of x."""

def cumprod(
    x: Input,
    axis: int = 0,
    exclusive: int = 0,
    reverse: int = 0,
    *,
    name: str = "",
) -> Value:
    """The running product along the axis."""

def cumsum(
    x: Input,
    axis: int = 0,
    exclusive: int = 0,
    reverse: int = 0,
    *,
    name: str = "",
) -> Value:
    """The running sum along the axis."""

def deform_conv(
    x: Input,
    w: Input,
    offset: Input,
    b: Input | None = None,
    mask: Input | None = None,
    *,
    kernel: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    groups: int = 1,
    offset_group: int = 1,
    name: str = "",
) -> Value:
    """Convolution whose taps are moved by offsets and weighted by a mask."""

def depth_to_space(
    x: Input,
    blocksize: int,
    mode: str = "DCR",
    *,
    name: str = "",
) -> Value:
    """Moves blocks of channels into height and width."""

def depth_to_space_channels_last(
    x: Input,
    blocksize: int,
    mode: str = "DCR",
    *,
    name: str = "",
) -> Value:
    """DepthToSpace of images whose channels are the last axis; weights are as there."""

def dequantize_linear(
    x: Input,
    scale: Input,
    zero_point: Input | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | str | np.dtype | type | None = None,
    name: str = "",
) -> Value:
    """(x - zero point) * scale."""

def det(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """Determinants of square matrices."""

def dft(
    x: Input,
    dft_length: int | None = None,
    axis: int = -2,
    inverse: int = 0,
    onesided: int = 0,
    *,
    name: str = "",
) -> Value:
    """The discrete Fourier transform along an axis, or its inverse."""

def div(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """a / b, elementwise; integers truncate towards zero."""

@overload
def dropout(
    x: Input,
    *,
    outputs: Literal[0, 1] = 0,
    name: str = "",
) -> Value:
    """x itself, as inference leaves it, and a mask that keeps everything."""

@overload
def dropout(
    x: Input,
    *,
    outputs: int,
    name: str = "",
) -> tuple[Value, ...]:
    """x itself, as inference leaves it, and a mask that keeps everything."""

def dynamic_quantize_asymmetric(
    x: Input,
    axis: int = 1,
    *,
    name: str = "",
) -> tuple[Value, Value, Value]:
    """x quantized to i8 by the scale and zero point that just hold it and 0; halves away from
    zero.
    """

def dynamic_quantize_linear(
    x: Input,
    *,
    name: str = "",
) -> tuple[Value, Value, Value]:
    """x quantized to u8 by the scale and zero point that just hold it and 0."""

def dynamic_quantize_symmetric(
    x: Input,
    axis: int = 1,
    *,
    name: str = "",
) -> tuple[Value, Value]:
    """x quantized to -127 to 127 by the scale that just holds it; halves away from zero."""

def einsum(
    *inputs: Input | Sequence[Input],
    equation: str,
    name: str = "",
) -> Value:
    """A sum of products of elements, by Einstein's notation."""

def elu(
    x: Input,
    alpha: float = 1.0,
    *,
    name: str = "",
) -> Value:
    """x, or alpha * (exp(x) - 1) below 0."""

def equal(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether a = b; never for NaN."""

def erf(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The error function of x."""

def erfc(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """1 less the error function of x."""

def exp(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """e to the power of x."""

def exp2(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """2 to the power of x."""

def expand(
    x: Input,
    shape: Sequence[int | Symbol],
    *,
    name: str = "",
) -> Value:
    """Repeats dimensions of 1 up to a shape."""

def expm1(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """e to the power of x, less 1."""

def eye_like(
    x: Input,
    dtype: DType | str | np.dtype | type | None = None,
    k: int = 0,
    *,
    name: str = "",
) -> Value:
    """Ones on a diagonal of a matrix of the shape of x, zeros elsewhere."""

def fixed_point_add(
    a: Input,
    b: Input,
    zeros: Sequence[int],
    multipliers: Sequence[int],
    shifts: Sequence[int],
    left_shift: int = 20,
    subtract: int = 0,
    *,
    name: str = "",
) -> Value:
    """The sum or difference of quantized tensors: each is shifted to the left, scaled by a
    multiplier and a shift, and so is the sum.
    """

def fixed_point_lstm_cell(
    gates: Input,
    state: Input,
    cell_bits: int,
    multiplier: int,
    shift: int,
    zero_point: int = 0,
    clip: int = 0,
    coupled: int = 0,
    *,
    name: str = "",
) -> tuple[Value, Value]:
    """A step of an LSTM in 16-bit fixed point: the output, i8, and the next state. Gates are
    what they are functions of, in 3 integer bits: input (unless coupled), forget, cell, output,
    one after another.
    """

def fixed_point_sigmoid(
    x: Input,
    table: Input,
    multiplier: int,
    shift: int = 0,
    tanh: int = 0,
    *,
    name: str = "",
) -> Value:
    """The logistic function or the hyperbolic tangent of i16, in steps of 1/32768, by
    interpolation in a table of the logistic function.
    """

def fixed_point_softmax(
    x: Input,
    powers: Input,
    axis: int = -1,
    *,
    name: str = "",
) -> Value:
    """Softmax of bytes in fixed point, 1 as 256 steps: exponentials by a table of how far a
    byte is below the largest, their sum's reciprocal by Newton's division.
    """

def fixed_point_softmax16(
    x: Input,
    powers: Input,
    shares: Input,
    axis: int = -1,
    multiplier: int = 1073741824,
    shift: int = 0,
    *,
    name: str = "",
) -> Value:
    """Softmax of i16, in steps of 1/32768: exponentials and the reciprocal of their sum by
    interpolation in tables.
    """

def flatten(
    x: Input,
    axis: int = 1,
    *,
    name: str = "",
) -> Value:
    """A matrix whose rows are the dimensions before axis."""

def floor(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x rounded down."""

def floor_divide(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """a / b rounded down."""

def frames(
    x: Input,
    length: int,
    step: int,
    axis: int = -1,
    *,
    name: str = "",
) -> Value:
    """Windows along an axis, as a new last axis; they may overlap."""

def gather(
    data: Input,
    indices: Input,
    axis: int = 0,
    *,
    name: str = "",
) -> Value:
    """The entries of an axis that the indices name."""

def gather_elements(
    data: Input,
    indices: Input,
    axis: int = 0,
    *,
    name: str = "",
) -> Value:
    """An element for each index, which replaces the place along one axis."""

def gather_nd(
    data: Input,
    indices: Input,
    batch_dims: int = 0,
    *,
    name: str = "",
) -> Value:
    """The slices of data at the places that the rows of indices name."""

def gelu(
    x: Input,
    approximate: str = "none",
    *,
    name: str = "",
) -> Value:
    """x times the standard normal distribution function at x."""

def gemm(
    a: Input,
    b: Input,
    c: Input | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    name: str = "",
) -> Value:
    """The scaled product of two matrices plus a scaled, broadcast third."""

def global_average_pool(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The mean of each channel."""

def global_average_pool_channels_last(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """GlobalAveragePool of images whose channels are the last axis; weights are as there."""

def global_lp_pool(
    x: Input,
    p: int = 2,
    *,
    name: str = "",
) -> Value:
    """The p-norm of each channel."""

def global_max_pool(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The largest element of each channel; NaN is passed over."""

def global_max_pool_channels_last(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """GlobalMaxPool of images whose channels are the last axis; weights are as there."""

def greater(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether a > b."""

def greater_or_equal(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether a >= b."""

def grid_sample(
    x: Input,
    grid: Input,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
    *,
    name: str = "",
) -> Value:
    """The input read at the points of a grid, by interpolation."""

def group_normalization(
    x: Input,
    scale: Input,
    b: Input,
    num_groups: int,
    epsilon: float = 1e-05,
    stash_type: int = 1,
    *,
    name: str = "",
) -> Value:
    """Zero mean and unit variance of each group of channels, then scaled and shifted."""

def gru(
    x: Input,
    w: Input,
    r: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    *,
    hidden_size: int = 0,
    direction: str = "forward",
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float = 0.0,
    layout: int = 0,
    linear_before_reset: int = 0,
    outputs: int = 0,
    name: str = "",
) -> tuple[Value, ...]:
    """A layer of gated recurrent units."""

def hamming_window(
    size: int,
    periodic: int = 1,
    output_datatype: DType | str | np.dtype | type = DType.F32,
    *,
    name: str = "",
) -> Value:
    """The Hamming window."""

def hann_window(
    size: int,
    periodic: int = 1,
    output_datatype: DType | str | np.dtype | type = DType.F32,
    *,
    name: str = "",
) -> Value:
    """The Hann window."""

def hard_sigmoid(
    x: Input,
    alpha: float = 0.20000000298023224,
    beta: float = 0.5,
    *,
    name: str = "",
) -> Value:
    """The line alpha * x + beta, held within [0, 1]."""

def hard_swish(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x times the line x / 6 + 1 / 2 held within [0, 1]."""

def hardmax(
    x: Input,
    axis: int = -1,
    *,
    name: str = "",
) -> Value:
    """1 at the first largest element along an axis, 0 elsewhere."""

def hypot(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The length of (a, b); no intermediate overflow."""

def identity(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x itself."""

def instance_normalization(
    x: Input,
    scale: Input,
    b: Input,
    epsilon: float = 1e-05,
    *,
    name: str = "",
) -> Value:
    """Zero mean and unit variance of each channel of each image, then scaled and shifted."""

def instance_normalization_channels_last(
    x: Input,
    scale: Input,
    b: Input,
    epsilon: float = 1e-05,
    *,
    name: str = "",
) -> Value:
    """InstanceNormalization of images whose channels are the last axis; weights are as there."""

def integer_average_pool(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    *,
    name: str = "",
) -> Value:
    """The mean of each window of integers, over the input alone; halves away from zero."""

def integer_average_pool_channels_last(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    *,
    name: str = "",
) -> Value:
    """IntegerAveragePool of images whose channels are the last axis; weights are as there."""

def interpolate16(
    x: Input,
    table: Input,
    *,
    name: str = "",
) -> Value:
    """A function of i16 by interpolation between 513 entries of a table, of -32768, -32640 to
    32768.
    """

def is_finite(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """Whether x is neither an infinity nor NaN."""

def isinf(
    x: Input,
    detect_negative: int = 1,
    detect_positive: int = 1,
    *,
    name: str = "",
) -> Value:
    """Whether x is an infinity of a kind that is asked for."""

def isnan(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """Whether x is not a number."""

@overload
def layer_normalization(
    x: Input,
    scale: Input,
    b: Input | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-05,
    stash_type: int = 1,
    outputs: Literal[0, 1] = 0,
    name: str = "",
) -> Value:
    """Zero mean and unit variance over the last axes, then scaled and shifted."""

@overload
def layer_normalization(
    x: Input,
    scale: Input,
    b: Input | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-05,
    stash_type: int = 1,
    outputs: int,
    name: str = "",
) -> tuple[Value, ...]:
    """Zero mean and unit variance over the last axes, then scaled and shifted."""

def leaky_relu(
    x: Input,
    alpha: float = 0.01,
    *,
    name: str = "",
) -> Value:
    """x, or alpha * x below 0."""

def less(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether a < b."""

def less_or_equal(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether a <= b."""

def log(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The natural logarithm of x; NaN below zero."""

def log10(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The logarithm of x to base 10."""

def log1p(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The natural logarithm of 1 + x."""

def log2(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The logarithm of x to base 2."""

def log_add_exp(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The logarithm of exp(a) + exp(b)."""

def log_softmax(
    x: Input,
    axis: int = -1,
    *,
    name: str = "",
) -> Value:
    """The logarithm of softmax along an axis."""

def lookup(
    x: Input,
    table: Input,
    *,
    name: str = "",
) -> Value:
    """The element of a table that a byte stands for; the smallest byte is the first."""

def lp_normalization(
    x: Input,
    axis: int = -1,
    p: int = 2,
    *,
    name: str = "",
) -> Value:
    """Divides by the p-norm along an axis; zeros stay zeros."""

def lp_pool(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    p: int = 2,
    *,
    name: str = "",
) -> Value:
    """The p-norm of each window."""

def lp_pool_channels_last(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    p: int = 2,
    *,
    name: str = "",
) -> Value:
    """LpPool of images whose channels are the last axis; weights are as there."""

def lrn(
    x: Input,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
    *,
    name: str = "",
) -> Value:
    """Divides by a power of the sum of squares of the neighbouring channels."""

def lstm(
    x: Input,
    w: Input,
    r: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    initial_c: Input | None = None,
    p: Input | None = None,
    *,
    hidden_size: int = 0,
    direction: str = "forward",
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float = 0.0,
    layout: int = 0,
    input_forget: int = 0,
    outputs: int = 0,
    name: str = "",
) -> tuple[Value, ...]:
    """A layer of long short-term memory."""

def matmul(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """The product of matrices, or of stacks of them, by NumPy's rule."""

def matmul_integer(
    a: Input,
    b: Input,
    a_zero_point: Input | None = None,
    b_zero_point: Input | None = None,
    *,
    name: str = "",
) -> Value:
    """The matrix product of a and b less their zero points, in i32."""

def max(
    *x: Input | Sequence[Input],
    name: str = "",
) -> Value:
    """The largest of all inputs, elementwise; NaN if any is NaN."""

@overload
def max_pool(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    storage_order: int = 0,
    *,
    outputs: Literal[0, 1] = 0,
    name: str = "",
) -> Value:
    """The largest element of each window, and its number in the whole input; NaN is passed
    over.
    """

@overload
def max_pool(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    storage_order: int = 0,
    *,
    outputs: int,
    name: str = "",
) -> tuple[Value, ...]:
    """The largest element of each window, and its number in the whole input; NaN is passed
    over.
    """

def max_pool_channels_last(
    x: Input,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    ceil_mode: int = 0,
    storage_order: int = 0,
    *,
    name: str = "",
) -> Value:
    """MaxPool of images whose channels are the last axis; weights are as there."""

def max_roi_pool(
    x: Input,
    rois: Input,
    pooled_shape: Sequence[int],
    spatial_scale: float = 1.0,
    *,
    name: str = "",
) -> Value:
    """The largest element in each bin of regions; NaN is passed over."""

def max_unpool(
    x: Input,
    i: Input,
    kernel: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    *,
    name: str = "",
) -> Value:
    """Puts pooled elements back where they came from, the rest 0."""

def mean(
    *x: Input | Sequence[Input],
    name: str = "",
) -> Value:
    """The mean of all inputs, elementwise."""

def mean_variance_normalization(
    x: Input,
    axes: Sequence[int] = (0, 2, 3),
    *,
    name: str = "",
) -> Value:
    """Zero mean and unit deviation over the axes."""

def mel_weight_matrix(
    num_mel_bins: int,
    dft_length: int,
    sample_rate: int,
    lower_edge_hertz: float,
    upper_edge_hertz: float,
    output_datatype: DType | str | np.dtype | type = DType.F32,
    *,
    name: str = "",
) -> Value:
    """Triangular filters that turn a spectrum into mel bins."""

def min(
    *x: Input | Sequence[Input],
    name: str = "",
) -> Value:
    """The smallest of all inputs, elementwise; NaN if any is NaN."""

def mish(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x * tanh(log(1 + exp(x)))."""

def mod(
    a: Input,
    b: Input,
    fmod: int = 0,
    *,
    name: str = "",
) -> Value:
    """The remainder of a / b, with the sign of b, or of a with fmod."""

def mul(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """a times b, elementwise; integers wrap."""

def neg(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """-x."""

def negative_log_likelihood_loss(
    x: Input,
    labels: Input,
    weights: Input | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
    name: str = "",
) -> Value:
    """The negated log probabilities of the labels."""

def non_max_suppression(
    boxes: Input,
    scores: Input,
    max_output_boxes_per_class: int = 0,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    center_point_box: int = 0,
    count: int | None = None,
    *,
    name: str = "",
) -> Value:
    """The best boxes of each class that do not overlap better ones too much."""

def non_zero(
    x: Input,
    count: int | None = None,
    *,
    name: str = "",
) -> Value:
    """Where the elements are that are not 0, a column for each."""

def not_(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """Whether not x."""

def one_hot(
    indices: Input,
    values: Input,
    depth: int,
    axis: int = -1,
    *,
    name: str = "",
) -> Value:
    """values[1] at the index along a new axis, values[0] elsewhere."""

def or_(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether a or b or both."""

def overlap_add(
    x: Input,
    step: int,
    *,
    name: str = "",
) -> Value:
    """The sum of windows, which are the last two axes, each where it begins."""

def pad(
    x: Input,
    constant_value: Input | None = None,
    *,
    pads: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
    name: str = "",
) -> Value:
    """Adds elements before and after every axis, or takes some away."""

def pow(
    x: Input,
    y: Input,
    *,
    name: str = "",
) -> Value:
    """x to the power of y, in the type of x."""

def prelu(
    x: Input,
    slope: Input,
    *,
    name: str = "",
) -> Value:
    """x, or x times the slope below 0."""

def q_linear_conv_channels_last(
    x: Input,
    x_scale: Input,
    x_zero_point: Input,
    w: Input,
    w_scale: Input,
    w_zero_point: Input,
    y_scale: Input,
    y_zero_point: Input,
    b: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """QLinearConv of images whose channels are the last axis; weights are as there."""

def qlinear_conv(
    x: Input,
    x_scale: Input,
    x_zero_point: Input,
    w: Input,
    w_scale: Input,
    w_zero_point: Input,
    y_scale: Input,
    y_zero_point: Input,
    b: Input | None = None,
    *,
    kernel: Sequence[int] = (),
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    groups: int = 1,
    name: str = "",
) -> Value:
    """The convolution of quantized x and w, plus an i32 bias, quantized. Beside ONNX's types x
    and y may be i16.
    """

def qlinear_matmul(
    a: Input,
    a_scale: Input,
    a_zero_point: Input,
    b: Input,
    b_scale: Input,
    b_zero_point: Input,
    y_scale: Input,
    y_zero_point: Input,
    *,
    name: str = "",
) -> Value:
    """The matrix product of quantized a and b, quantized."""

def quantize_linear(
    x: Input,
    scale: Input,
    zero_point: Input | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | str | np.dtype | type | None = None,
    precision: DType | str | np.dtype | type | None = None,
    name: str = "",
) -> Value:
    """round(x / scale) + zero point, halves to even, held within the integer type."""

def quantized_sqrt(
    x: Input,
    scale: float,
    step: float,
    *,
    name: str = "",
) -> Value:
    """The square root of i16 in steps of another scale, fractions of which are cut off; 0 of
    what is negative.
    """

def range(
    start: float | int,
    limit: float | int,
    delta: float | int,
    dtype: DType | str | np.dtype | type,
    *,
    name: str = "",
) -> Value:
    """Evenly spaced numbers from start up to limit."""

def reciprocal(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """1 / x."""

def reduce_l1(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The sum of magnitudes over the axes."""

def reduce_l2(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The square root of the sum of squares over the axes."""

def reduce_log_sum(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The logarithm of the sum over the axes; integers truncate."""

def reduce_log_sum_exp(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The logarithm of the sum of exponentials over the axes, without overflow; integers
    truncate.
    """

def reduce_max(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The largest over the axes; NaN is passed over."""

def reduce_mean(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The mean over the axes; integers truncate."""

def reduce_min(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The smallest over the axes; NaN is passed over."""

def reduce_prod(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The product over the axes."""

def reduce_sum(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The sum over the axes."""

def reduce_sum_square(
    x: Input,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    *,
    name: str = "",
) -> Value:
    """The sum of squares over the axes."""

def relu(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The larger of x and 0."""

def requantize(
    x: Input,
    multiplier: Input,
    shift: Input,
    zero_point: Input,
    axis: int = 1,
    *,
    name: str = "",
) -> Value:
    """x * multiplier * 2^(shift - 31) in integers, rounded to nearest twice as LiteRT's
    reference kernels do, plus the zero point, held within its type.
    """

def requantize_wide(
    x: Input,
    multiplier: Input,
    shift: Input,
    zero_point: Input,
    axis: int = 1,
    *,
    name: str = "",
) -> Value:
    """x * multiplier * 2^-shift in integers, rounded to nearest, halves up, as LiteRT's
    reference kernels do with sums of 64 bits and multipliers of 15; plus the zero point, held
    within its type. Shifts are 1 and more.
    """

def resample(
    x: Input,
    places: Input,
    weights: Input,
    axis: int,
    *,
    name: str = "",
) -> Value:
    """Weighted sums of the entries of an axis, by a table of places and weights."""

def reshape(
    x: Input,
    shape: Sequence[int],
    allowzero: int = 0,
    *,
    name: str = "",
) -> Value:
    """The same elements in the same order under another shape."""

def resize(
    x: Input,
    scales: Sequence[float] | None = None,
    sizes: Sequence[int] | None = None,
    roi: Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    keep_aspect_ratio_policy: str = "stretch",
    *,
    name: str = "",
) -> Value:
    """The input at another resolution: nearest, linear or cubic along each axis."""

def reverse_sequence(
    x: Input,
    sequence_lens: Input,
    batch_axis: int = 1,
    time_axis: int = 0,
    *,
    name: str = "",
) -> Value:
    """Reverses the first sequence_lens[b] steps of every entry of the batch."""

def rms_normalization(
    x: Input,
    scale: Input,
    axis: int = -1,
    epsilon: float = 1e-05,
    stash_type: int = 1,
    *,
    name: str = "",
) -> Value:
    """Unit mean square over the last axes, then scaled."""

def rnn(
    x: Input,
    w: Input,
    r: Input,
    b: Input | None = None,
    sequence_lens: Input | None = None,
    initial_h: Input | None = None,
    *,
    hidden_size: int = 0,
    direction: str = "forward",
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float = 0.0,
    layout: int = 0,
    outputs: int = 0,
    name: str = "",
) -> tuple[Value, ...]:
    """A layer of plain recurrent units."""

def roi_align(
    x: Input,
    rois: Input,
    batch_indices: Input,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel",
    *,
    name: str = "",
) -> Value:
    """Averages or maxima of interpolated points in the bins of regions."""

def rotary_embedding(
    x: Input,
    cos_cache: Input,
    sin_cache: Input,
    position_ids: Input | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    name: str = "",
) -> Value:
    """Rotates pairs of elements of each head by angles that depend on the position."""

def round(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x rounded to the nearest whole number, halves to even."""

def scan(
    *inputs: Input | Sequence[Input],
    body: Graph,
    num_states: int,
    num_scan_inputs: int,
    scan_input_directions: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
    outputs: int = 0,
    name: str = "",
) -> tuple[Value, ...]:
    """Runs a body once for each index of the first axis, handing on states."""

def scatter_elements(
    data: Input,
    indices: Input,
    updates: Input,
    axis: int = 0,
    reduction: str = "none",
    *,
    name: str = "",
) -> Value:
    """Data with an element written for each index, which replaces one coordinate."""

def scatter_nd(
    data: Input,
    indices: Input,
    updates: Input,
    reduction: str = "none",
    *,
    name: str = "",
) -> Value:
    """Data with a slice written at the place that each row of indices names."""

def selu(
    x: Input,
    alpha: float = 1.6732631921768188,
    gamma: float = 1.0507010221481323,
    *,
    name: str = "",
) -> Value:
    """gamma * x, or gamma * alpha * (exp(x) - 1) below 0."""

def shape(
    x: Input,
    start: int = 0,
    end: int | None = None,
    *,
    name: str = "",
) -> Value:
    """The dimensions of the input."""

def shrink(
    x: Input,
    bias: float = 0.0,
    lambd: float = 0.5,
    *,
    name: str = "",
) -> Value:
    """x moved towards 0 by bias; 0 within lambd of 0."""

def sigmoid(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """1 / (1 + exp(-x))."""

def sign(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """-1, 0 or 1, as x is negative, zero or positive."""

def sin(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The sine of x in radians."""

def sinc(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """sin(pi x) / (pi x); 1 at 0."""

def sinh(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The hyperbolic sine of x."""

def size(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The number of elements of the input."""

def slice(
    x: Input,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    *,
    name: str = "",
) -> Value:
    """Every step-th element between start and end, along some axes."""

def softmax(
    x: Input,
    axis: int = -1,
    *,
    name: str = "",
) -> Value:
    """Exponentials divided by their sum along an axis."""

@overload
def softmax_cross_entropy_loss(
    x: Input,
    labels: Input,
    weights: Input | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
    outputs: Literal[0, 1] = 0,
    name: str = "",
) -> Value:
    """The negated log softmax of the labels, and the log softmax itself."""

@overload
def softmax_cross_entropy_loss(
    x: Input,
    labels: Input,
    weights: Input | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
    outputs: int,
    name: str = "",
) -> tuple[Value, ...]:
    """The negated log softmax of the labels, and the log softmax itself."""

def softplus(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """log(1 + exp(x))."""

def softsign(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x / (1 + |x|)."""

def space_to_depth(
    x: Input,
    blocksize: int,
    mode: str = "DCR",
    *,
    name: str = "",
) -> Value:
    """Moves blocks of height and width into channels."""

def space_to_depth_channels_last(
    x: Input,
    blocksize: int,
    mode: str = "DCR",
    *,
    name: str = "",
) -> Value:
    """SpaceToDepth of images whose channels are the last axis; weights are as there."""

def split(
    x: Input,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
    *,
    outputs: int = 0,
    name: str = "",
) -> tuple[Value, ...]:
    """Consecutive parts along an axis."""

def sqrt(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The square root of x; NaN below zero."""

def squeeze(
    x: Input,
    axes: Sequence[int] | None = None,
    *,
    name: str = "",
) -> Value:
    """Removes dimensions of 1."""

def stft(
    signal: Input,
    window: Input | None = None,
    *,
    frame_step: int,
    frame_length: int | None = None,
    onesided: int = 1,
    name: str = "",
) -> Value:
    """Fourier transforms of overlapping frames of a signal."""

def sub(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """a - b, elementwise; integers wrap."""

def sum(
    *x: Input | Sequence[Input],
    name: str = "",
) -> Value:
    """The sum of all inputs."""

def swi_glu(
    a: Input,
    b: Input,
    alpha: float = 1.0,
    *,
    name: str = "",
) -> Value:
    """The Swish of a, a gate, times b."""

def swish(
    x: Input,
    alpha: float = 1.0,
    *,
    name: str = "",
) -> Value:
    """x times the sigmoid of alpha * x."""

def tan(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The tangent of x in radians."""

def tanh(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """The hyperbolic tangent of x."""

def tensor_scatter(
    past_cache: Input,
    update: Input,
    write_indices: Input | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
    name: str = "",
) -> Value:
    """A cache with an update written at a place of its own for each batch entry."""

def thresholded_relu(
    x: Input,
    alpha: float = 1.0,
    *,
    name: str = "",
) -> Value:
    """x above alpha, 0 elsewhere."""

def tile(
    x: Input,
    repeats: Sequence[int],
    *,
    name: str = "",
) -> Value:
    """The input repeated along its axes."""

def topk(
    x: Input,
    k: int,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
    *,
    name: str = "",
) -> tuple[Value, Value]:
    """The largest or smallest elements along an axis, and their places; NaN counts as larger
    than any number.
    """

def topk_indices(
    x: Input,
    k: int,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
    *,
    name: str = "",
) -> Value:
    """The places of the largest or smallest elements along an axis, in order."""

def transpose(
    x: Input,
    perm: Sequence[int] | None = None,
    *,
    name: str = "",
) -> Value:
    """The axes in another order."""

def trilu(
    x: Input,
    upper: int = 1,
    k: int = 0,
    *,
    name: str = "",
) -> Value:
    """The upper or lower triangle of matrices, the rest 0."""

def trunc(
    x: Input,
    *,
    name: str = "",
) -> Value:
    """x rounded towards zero."""

def unique(
    x: Input,
    axis: int | None = None,
    sorted: int = 1,
    count: int | None = None,
    *,
    name: str = "",
) -> tuple[Value, Value, Value, Value]:
    """Distinct elements, or slices along an axis, with their first places and counts."""

def unique_groups(
    x: Input,
    axis: int | None = None,
    sorted: int = 1,
    count: int | None = None,
    *,
    name: str = "",
) -> Value:
    """What Unique finds: first places, the group of each row, counts, one after another."""

def unsqueeze(
    x: Input,
    axes: Sequence[int],
    *,
    name: str = "",
) -> Value:
    """Inserts dimensions of 1."""

def upsample(
    x: Input,
    scales: Sequence[float],
    mode: str = "nearest",
    *,
    name: str = "",
) -> Value:
    """Resize as it was before opset 10: asymmetric coordinates, rounded down."""

def where(
    condition: Input,
    x: Input,
    y: Input,
    *,
    name: str = "",
) -> Value:
    """x where the condition holds, y elsewhere."""

def x_log_y(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """a times the natural logarithm of b; 0 where a is 0."""

def xor(
    a: Input,
    b: Input,
    *,
    name: str = "",
) -> Value:
    """Whether either a or b, not both."""
