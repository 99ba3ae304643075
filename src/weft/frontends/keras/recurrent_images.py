# pyright: basic
"""Recurrence over images: LSTM whose products are convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.frontends.keras.activation import activated, is_known, named
from weft.frontends.keras.cells import Loop
from weft.frontends.keras.convolution import convolved, image, same
from weft.frontends.keras.record import Config, Emit, Made, Row, Tensor, layer
from weft.frontends.keras.recurrent import arguments, over_steps, result
from weft.records import dataclass


@dataclass
class ImageCell:
    """The cell of ``ConvLSTM``.

    Attributes:
        config: of its convolution of the inputs.
        first: whether channels lie before the spatial axes.
        spatial: sizes of its states' images.
        filters: channels of its states.
        arrays: kernel, recurrent kernel, and the bias if there is one.
        activation: of the output, as configured.
        gate: activation of the gates.
    """

    config: Config
    first: bool
    spatial: tuple[int, ...]
    filters: int
    arrays: dict[str, np.ndarray]
    activation: Any
    gate: Any

    @property
    def states(self) -> list[tuple[int, ...]]:
        """Sizes of each state, without the batch."""
        image = (self.filters, *self.spatial) if self.first else (*self.spatial, self.filters)
        return [image, image]

    def project(self, g: Emit, x: Tensor) -> Tensor:
        """The convolution of all steps, with the channels of all gates."""
        time, batch, *rest = x.shape
        flat = g.reshape(x, (time * batch, *rest))
        bias = [self.arrays["bias"]] if "bias" in self.arrays else []
        made = convolved(g, self.config, flat, self.arrays["kernel"], bias, "kernel")
        return g.reshape(made, (time, batch, *made.shape[1:]))

    def step(self, loop: Loop, part: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The output and the next states."""
        g, (hidden, cell) = loop.inner, states
        kernel = self.arrays["recurrent_kernel"]
        weight = np.moveaxis(kernel, (-1, -2), (0, 1))
        held = loop.take(loop.outer.held(weight, "recurrent_kernel"), "recurrent")
        taps = kernel.shape[:-2]
        ones = (1,) * len(taps)
        pads = same(self.spatial, taps, ones, ones)
        again = image(g, "Conv", self.first, hidden, held, pads=pads)
        total = g("Add", part, again)
        axis = 1 if self.first else total.rank - 1

        def channels(at: int) -> Tensor:
            return g.slice(total, axis, at * self.filters, (at + 1) * self.filters)

        i, f, o = (activated(g, channels(at), self.gate) for at in (0, 1, 3))
        new = activated(g, channels(2), self.activation)
        cell = g("Add", g.mul(f, cell), g.mul(i, new))
        hidden = g.mul(o, activated(g, cell, self.activation))
        return hidden, [hidden, cell]


def _image_cell(g: Emit, c: Config, x: Tensor, rank: int) -> ImageCell:
    """The cell of a layer that is called with these images."""
    if x.rank != rank + 3:
        g.refuse(f"its input must have {rank + 3} dimensions, but has {x.rank}")
    names = ("kernel", "recurrent_kernel", *["bias"] * c.flag("use_bias", True))
    arrays = dict(zip(names, g.arrays_of(*names, within=[("cell", "")]), strict=True))
    first, filters = c.channels_first(), c.size("filters")
    gate = c.get("recurrent_activation", "sigmoid" if g.major >= 3 else "hard_sigmoid")
    activation = c.get("activation", "tanh")
    for each in (activation, gate):
        if not is_known(each):
            g.refuse(f"activation {named(each) or each} is not supported")
    sizes = x.shape[3:] if first else x.shape[2:-1]
    kernel, strides = c.sizes("kernel_size", rank), c.sizes("strides", rank, 1)
    dilations = c.sizes("dilation_rate", rank, 1)
    if arrays["recurrent_kernel"].shape != (*kernel, filters, 4 * filters):
        g.refuse(f"its weights do not have {filters} filters")
    padded = c.text("padding", "valid", ("valid", "same")) == "same"
    spatial = tuple(
        -(-size // stride) if padded else (size - (taps - 1) * dilation - 1) // stride + 1
        for size, taps, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True)
    )
    return ImageCell(c, first, spatial, filters, arrays, activation, gate)


def _layer(rank: int) -> Row:
    def row(g: Emit, c: Config, sequence: Any, initial_state: Any = None, mask: Any = None) -> Made:
        x, initial = arguments(g, sequence, initial_state)
        if mask is not None:
            g.refuse("a mask for images is not supported")
        c.heed("unit_forget_bias", "zero_output_for_mask")
        cell = _image_cell(g, c, x, rank)
        found = over_steps(g, cell, c, x, None, initial, False, g.name)
        return result(g, c, found, None)

    return row


for _rank in (1, 2, 3):
    layer(f"ConvLSTM{_rank}D")(_layer(_rank))
