# pyright: basic
"""Functions of TensorFlow that compute what layers do: pools, convolutions, resized images."""

from __future__ import annotations

from typing import Any

from weft.frontends.keras.legacy_functions import KERAS, Function, function, integers
from weft.frontends.keras.network_operations import channels_first
from weft.frontends.keras.operations import floating, tensor
from weft.frontends.keras.record import Emit, Tensor


def _first(g: Emit, data_format: Any) -> bool:
    """Whether channels come first, by TensorFlow's names of layouts."""
    names = {"NHWC": "channels_last", "NWC": "channels_last", "NDHWC": "channels_last"}
    names |= {"NCHW": "channels_first", "NCW": "channels_first", "NCDHW": "channels_first"}
    return channels_first(g, names.get(data_format, data_format))


def _layout(first: bool) -> str:
    return "channels_first" if first else "channels_last"


def _of_image(g: Emit, x: Tensor, given: Any, first: bool) -> list[int]:
    """Windows, strides and dilations of an image's axes: one number, or those of all axes, too."""
    rank = x.rank - 2
    found = [1] * rank if given is None else integers(given)
    if len(found) == 1:
        return found * rank
    if len(found) == rank + 2:
        around = found[:2] if first else [found[0], found[-1]]
        if around != [1, 1]:
            g.refuse(f"windows over batches or channels ({found}) are not supported")
        return found[2:] if first else found[1:-1]
    return found


def _padding(g: Emit, given: Any) -> str:
    if not isinstance(given, str):
        g.refuse(f"padding {str(given)[:40]} is not supported")
    return given.lower()


# --- layers -----------------------------------------------------------------------------------


@function("nn.bias_add", of_v1=True)
def bias_add(g: Emit, value: Tensor, bias: Any, data_format: Any = None) -> Tensor:
    added = tensor(g, bias)
    if _first(g, data_format):
        added = g.reshape(added, (1, added.type.size, *(1,) * (value.rank - 2)))
    return KERAS["Add"](g, value, added)


@function("nn.crelu", of_v1=True)
def crelu(g: Emit, features: Tensor, axis: int = -1) -> Tensor:
    both = [features, g("Neg", features)]
    return g("Relu", g.concat(both, g.axis(features, axis)))


@function("nn.local_response_normalization", "nn.lrn")
def local_response_normalization(
    g: Emit,
    input: Tensor,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Tensor:
    count = 2 * int(depth_radius) + 1
    turned = g.transpose(input, (0, 3, 1, 2))
    made = g("LRN", turned, size=count, alpha=alpha * count, beta=float(beta), bias=float(bias))
    return g.transpose(made, (0, 2, 3, 1))


def _pooling(kind: str) -> Function:
    def row(
        g: Emit, input: Tensor, ksize: Any, strides: Any, padding: Any, data_format: Any = None
    ) -> Tensor:
        first = _first(g, data_format)
        window, steps = (_of_image(g, input, each, first) for each in (ksize, strides))
        return KERAS[kind](g, input, window, steps, _padding(g, padding), _layout(first))

    return row


_RANKS = ("", "1d", "2d", "3d")
function(*(f"nn.max_pool{each}" for each in _RANKS), of_v1=True)(_pooling("MaxPool"))
function(*(f"nn.avg_pool{each}" for each in _RANKS), of_v1=True)(_pooling("AveragePool"))


def _convolution(kind: str) -> Function:
    def row(
        g: Emit,
        input: Tensor,
        filters: Any = None,
        strides: Any = None,
        padding: Any = "VALID",
        data_format: Any = None,
        dilations: Any = None,
        stride: Any = None,
        filter: Any = None,
        rate: Any = None,
        use_cudnn_on_gpu: Any = None,
    ) -> Tensor:
        del use_cudnn_on_gpu
        first = _first(g, data_format)
        apart = dilations if dilations is not None else rate
        return KERAS[kind](
            g,
            input,
            filters if filters is not None else filter,
            _of_image(g, input, strides if strides is not None else stride, first),
            _padding(g, padding),
            _layout(first),
            _of_image(g, input, apart, first),
        )

    return row


function("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.convolution", of_v1=True)(_convolution("Conv"))
function("nn.depthwise_conv2d", of_v1=True)(_convolution("DepthwiseConv"))


# --- images -----------------------------------------------------------------------------------


@function("image.resize")
def resize(
    g: Emit, images: Tensor, size: Any, method: Any = "bilinear", antialias: bool = False
) -> Tensor:
    if not images.dtype.is_float and method != "nearest":
        images = floating(g, images)
    return KERAS["Resize"](g, images, integers(size), str(method), bool(antialias))


@function("compat.v1.image.resize_bilinear")
def resize_bilinear(
    g: Emit,
    images: Tensor,
    size: Any,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    transform = "half_pixel" if half_pixel_centers else "asymmetric"
    return g(
        "Resize",
        floating(g, images),
        sizes=tuple(integers(size)),
        axes=(1, 2),
        mode="linear",
        coordinate_transformation_mode="align_corners" if align_corners else transform,
    )


@function("image.extract_patches")
def extract_patches(
    g: Emit, images: Tensor, sizes: Any, strides: Any, rates: Any, padding: Any
) -> Tensor:
    window, steps, apart = (_of_image(g, images, each, False) for each in (sizes, strides, rates))
    return KERAS["ExtractPatches"](g, images, window, steps, apart, _padding(g, padding))
