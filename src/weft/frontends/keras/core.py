# pyright: basic
"""Dense layers, embeddings, and layers that do nothing in inference."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.activation import activated
from weft.frontends.keras.record import Config, Emit, Tensor, layer


@layer(
    "Identity", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "AlphaDropout", "GaussianDropout", "GaussianNoise", "ActivityRegularization",
    masking=True,
)  # fmt: skip
def identity(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed(*c.fields)
    return inputs


@layer("Dense", masking=True)
def dense(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed("units")
    kernel, *bias = g.arrays_of("kernel", *["bias"] * c.flag("use_bias", True))
    made = g("MatMul", inputs, g.held(kernel, "kernel"))
    if bias:
        made = g("Add", made, g.held(bias[0], "bias"))
    return activated(g, made, c.get("activation"))


@layer("EinsumDense")
def einsum_dense(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed("output_shape", "bias_axes")
    kernel, *bias = g.arrays_of("kernel", *["bias"] * c.has("bias_axes"))
    made = projected(g, inputs, kernel, c.text("equation"), "kernel")
    if bias:
        made = g("Add", made, g.held(bias[0], "bias"))
    return activated(g, made, c.get("activation"))


def projected(g: Emit, x: Tensor, kernel: np.ndarray, equation: str, name: str) -> Tensor:
    """A tensor times a weight by an Einstein sum; one matrix product where it is that."""
    given, _, result = equation.replace(" ", "").partition("->")
    left, _, right = given.partition(",")
    if "..." in left:
        count = x.rank - len(left) + 3
        letters = "".join(each for each in "ZYXWVUTS" if each not in equation)[:count]
        left, result = left.replace("...", letters), result.replace("...", letters)
    count = sum(each in left and each not in result for each in right)
    if len(left) != x.rank or len(right) != kernel.ndim or not count:
        g.refuse(f"{equation} does not fit {list(x.shape)} and {list(kernel.shape)}")
    plain = left[-count:] == right[:count] and result == left[:-count] + right[count:]
    if not plain:
        return g("Einsum", x, g.held(kernel, name), equation=f"{left},{right}->{result}")
    wide = prod(kernel.shape[:count])
    flat = g.reshape(x, (*x.shape[:-count], prod(x.shape[-count:])))
    made = g("MatMul", flat, g.held(kernel.reshape(wide, -1), name))
    return g.reshape(made, (*x.shape[:-count], *kernel.shape[count:]))


@layer("Embedding")
def embedding(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    c.heed("input_dim", "output_dim")
    if c.has("lora_rank") or c.has("quantization_mode"):
        g.refuse("low-rank or quantized embeddings are not supported")
    (table,) = g.arrays_of("embeddings")
    # Keras casts whatever numbers come to indices.
    indices = inputs if inputs.dtype in (DType.I32, DType.I64) else g.cast(inputs, DType.I32)
    made = g("Gather", g.held(table, "embeddings"), indices, axis=0)
    if c.flag("mask_zero"):
        g.masks[made.name] = g("Not", g.pair("Equal", indices, 0))
    return made


@layer("Masking")
def masking(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    value = c.number("mask_value", 0.0)
    other = g("Not", g.pair("Equal", inputs, value))
    some = g("ReduceMax", g.cast(other, inputs.dtype), axes=(inputs.rank - 1,), keepdims=1)
    kept = g.pair("Greater", some, 0.0)
    made = g.mul(inputs, some)
    g.masks[made.name] = g.reshape(kept, kept.shape[:-1])
    return made
