# pyright: basic
"""Convolutions of Keras 2 with kernels of their own at every place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.frontends.keras.activation import activated
from weft.frontends.keras.image_operations import extract_patches
from weft.frontends.keras.record import Config, Emit, Row, Tensor, layer


def _row(rank: int) -> Row:
    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        if c.channels_first():
            g.refuse("channels_first is not supported")
        if c.text("padding", "valid") != "valid" or c.size("implementation", 1) != 1:
            g.refuse("padding and implementations 2 and 3 are not supported")
        filters, kernel = c.size("filters"), c.sizes("kernel_size", rank)
        steps = c.sizes("strides", rank, 1)
        biased: Any = c.get("use_bias", True)
        weight, *bias = g.arrays_of("kernel", *(["bias"] if biased else []))
        # A row of points is an image of one line.
        lines = 2 - rank
        x = g.reshape(inputs, (inputs.shape[0], *(1,) * lines, *inputs.shape[1:]))
        patches = extract_patches(g, x, (*(1,) * lines, *kernel), (*(1,) * lines, *steps))
        batch, high, wide, taps = patches.shape
        points = high * wide
        if weight.shape != (points, taps, filters):
            g.refuse(f"its kernels are {list(weight.shape)} for {[points, taps, filters]}")
        apart = g.transpose(g.reshape(patches, (batch, points, taps)), (1, 0, 2))
        made = g.transpose(g("MatMul", apart, g.held(weight, "kernel")), (1, 0, 2))
        sizes = (high, wide)[lines:]
        made = g.reshape(made, (batch, *sizes, filters))
        if bias:
            assert bias[0].size == math.prod(sizes) * filters
            made = g("Add", made, g.held(np.reshape(bias[0], (*sizes, filters)), "bias"))
        return activated(g, made, c.get("activation"))

    return row


layer("LocallyConnected1D")(_row(1))
layer("LocallyConnected2D")(_row(2))
