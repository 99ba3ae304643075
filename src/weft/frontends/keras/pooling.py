# pyright: basic
"""Pooling of windows, of whole images, and to a given size."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontends.keras.convolution import image, same, spatial
from weft.frontends.keras.record import Config, Emit, Row, Tensor, layer

_MOST_WINDOWS = 1024
"""Of different sizes along an axis: each is some nodes of the graph."""


def window_pooling(op: str, rank: int) -> Row:
    """The row of ``MaxPoolingND`` or ``AveragePoolingND``."""

    def row(g: Emit, c: Config, inputs: Tensor) -> Tensor:
        if inputs.rank != rank + 2:
            g.refuse(f"its input must have {rank + 2} dimensions, but has {inputs.rank}")
        first, kernel = c.channels_first(), c.sizes("pool_size", rank, 2)
        strides = c.sizes("strides", rank) if c.has("strides") else kernel
        c.heed("strides")
        padding = c.text("padding", "valid", ("valid", "same"))
        pads = (0,) * 2 * rank
        if padding == "same":
            pads = same(spatial(inputs, first), kernel, strides, (1,) * rank)
        return image(g, op, first, inputs, kernel=kernel, strides=strides, pads=pads)

    return row


def global_pooling(op: str, rank: int) -> Row:
    """The row of ``GlobalMaxPoolingND`` or ``GlobalAveragePoolingND``."""

    def row(g: Emit, c: Config, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        if inputs.rank != rank + 2:
            g.refuse(f"its input must have {rank + 2} dimensions, but has {inputs.rank}")
        first, keep = c.channels_first(), c.flag("keepdims")
        if mask is not None and op == "GlobalAveragePool" and rank == 1:
            return _masked_mean(g, inputs, mask, 2 if first else 1, keep)
        made = image(g, op, first, inputs)
        if keep:
            return made
        return g.reshape(made, (inputs.shape[0], inputs.shape[1 if first else -1]))

    return row


def _masked_mean(g: Emit, x: Tensor, mask: Tensor, axis: int, keep: bool) -> Tensor:
    """The mean over the steps that a mask keeps."""
    weight = g("Unsqueeze", g.cast(mask, x.dtype), axes=(3 - axis,))
    total = g("ReduceSum", g.mul(x, weight), axes=(axis,), keepdims=int(keep))
    return g("Div", total, g("ReduceSum", weight, axes=(axis,), keepdims=int(keep)))


def adaptive_pooling(op: str, rank: int) -> Row:
    """The row of ``AdaptiveMaxPoolingND`` or ``AdaptiveAveragePoolingND``."""
    return lambda g, c, inputs: adapted(
        g, op, inputs, c.sizes("output_size", rank), c.channels_first()
    )


def adapted(g: Emit, op: str, x: Tensor, sizes: Sequence[int], first: bool) -> Tensor:
    """Images pooled to a given size; ``op`` is ``Max`` or ``Average``."""
    taken = spatial(x, first)
    if all(have % want == 0 for have, want in zip(taken, sizes, strict=True)):
        steps = tuple(have // want for have, want in zip(taken, sizes, strict=True))
        return image(g, f"{op}Pool", first, x, kernel=steps, strides=steps)
    if max(sizes) > _MOST_WINDOWS:
        g.refuse(f"more than {_MOST_WINDOWS} windows of different sizes are not supported")
    # Windows of different sizes: one axis after the other, window by window.
    reduce = "ReduceMax" if op == "Max" else "ReduceMean"
    for axis, (have, want) in enumerate(zip(taken, sizes, strict=True)):
        place = axis + (2 if first else 1)
        parts = [
            g.slice(x, place, at * have // want, -(-(at + 1) * have // want)) for at in range(want)
        ]
        x = g.concat([g(reduce, part, axes=(place,), keepdims=1) for part in parts], place)
    return x


for _rank in (1, 2, 3):
    for _name, _short in (("Max", "Max"), ("Average", "Avg")):
        layer(f"{_name}Pooling{_rank}D", f"{_short}Pool{_rank}D")(
            window_pooling(f"{_name}Pool", _rank)
        )
        layer(f"Global{_name}Pooling{_rank}D", f"Global{_short}Pool{_rank}D")(
            global_pooling(f"Global{_name}Pool", _rank)
        )
        layer(f"Adaptive{_name}Pooling{_rank}D")(adaptive_pooling(_name, _rank))
