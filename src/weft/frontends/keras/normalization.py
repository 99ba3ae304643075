# pyright: basic
"""Normalizations, by statistics of the model or of the input itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.frontends.keras.convolution import image
from weft.frontends.keras.merging import unit
from weft.frontends.keras.record import Config, Emit, Tensor, layer


def _axes(g: Emit, c: Config, x: Tensor, default: int = -1) -> list[int]:
    """The field ``axis``: one number, or several."""
    found = c.numbers("axis") if c.has("axis") else (default,)
    c.heed("axis")
    if any(not -x.rank <= axis < x.rank for axis in found):
        g.refuse(f"axis must be one of the input's, but is {list(found)}")
    return sorted(set(g.axes(x, list(found))))


def _along(array: np.ndarray, rank: int, axes: Sequence[int]) -> np.ndarray:
    """A parameter of these axes, shaped to meet a tensor of so many."""
    shape = [1] * rank
    for axis, size in zip(axes, array.shape, strict=True):
        shape[axis] = size
    return array.reshape(shape)


def _at_end(rank: int, axes: Sequence[int]) -> bool:
    return list(axes) == list(range(rank - len(axes), rank))


@layer("BatchNormalization", "SyncBatchNormalization", "BatchNormalizationV1", masking=True)
def batch_normalization(g: Emit, c: Config, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    # The mask only counts in training.
    axes = _axes(g, c, inputs)
    if len(axes) != 1 or axes[0] == 0:
        g.refuse(f"it must normalize one axis other than the batch, but axis is {axes}")
    scale, center = c.flag("scale", True), c.flag("center", True)
    names = [*["gamma"] * scale, *["beta"] * center, "moving_mean", "moving_variance"]
    found = dict(zip(names, g.arrays_of(*names), strict=True))
    like = found["moving_mean"]
    gamma, beta = found.get("gamma", np.ones_like(like)), found.get("beta", np.zeros_like(like))
    pairs = {"gamma": gamma, "beta": beta, "mean": like, "variance": found["moving_variance"]}
    parameters = [g.held(array, name) for name, array in pairs.items()]
    epsilon = c.number("epsilon", 1e-3)
    axis = axes[0]
    if axis == 1 or (axis == inputs.rank - 1 and inputs.rank > 2):
        return image(g, "BatchNormalization", axis == 1, inputs, *parameters, epsilon=epsilon)
    factor = gamma / np.sqrt(found["moving_variance"] + epsilon)
    shift = beta - like * factor
    scaled = g.mul(inputs, g.held(_along(factor, inputs.rank, axes), "factor"))
    return g("Add", scaled, g.held(_along(shift, inputs.rank, axes), "shift"))


@layer("LayerNormalization", masking=True)
def layer_normalization(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    axes = _axes(g, c, inputs)
    rms, scale, center = c.flag("rms_scaling"), c.flag("scale", True), c.flag("center", True)
    epsilon, rank = c.number("epsilon", 1e-3), inputs.rank
    names = [*["gamma"] * (scale or rms), *["beta"] * (center and not rms)]
    found = dict(zip(names, g.arrays_of(*names), strict=True))
    shape = tuple(inputs.shape[axis] for axis in axes)
    if _at_end(rank, axes) and not rms:
        gamma = g.held(found.get("gamma", np.ones(shape, g.compute.numpy)), "gamma")
        beta = g.held(found["beta"], "beta") if "beta" in found else None
        return g("LayerNormalization", inputs, gamma, beta, axis=axes[0], epsilon=epsilon)
    return normalized(g, inputs, axes, found, epsilon, centered=not rms)


def normalized(
    g: Emit,
    x: Tensor,
    axes: Sequence[int],
    found: dict[str, np.ndarray],
    epsilon: float,
    *,
    centered: bool,
) -> Tensor:
    """By mean and variance over axes; without ``centered`` only divided, as Keras does for RMS."""
    mean = g("ReduceMean", x, axes=tuple(axes), keepdims=1)
    away = g("Sub", x, mean)
    variance = g("ReduceMean", g.mul(away, away), axes=tuple(axes), keepdims=1)
    made = g("Div", away if centered else x, g("Sqrt", g.add(variance, epsilon)))
    if "gamma" in found:
        made = g("Mul", made, g.held(_along(found["gamma"], x.rank, axes), "gamma"))
    if "beta" in found:
        made = g("Add", made, g.held(_along(found["beta"], x.rank, axes), "beta"))
    return made


@layer("RMSNormalization", masking=False)
def rms_normalization(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    axes = _axes(g, c, inputs)
    epsilon = c.number("epsilon", 1e-6)
    (scale,) = g.arrays_of("scale")
    if _at_end(inputs.rank, axes):
        return g("RMSNormalization", inputs, g.held(scale, "scale"), axis=axes[0], epsilon=epsilon)
    square = g("ReduceMean", g.mul(inputs, inputs), axes=tuple(axes), keepdims=1)
    made = g("Div", inputs, g("Sqrt", g.add(square, epsilon)))
    return g("Mul", made, g.held(_along(scale, inputs.rank, axes), "scale"))


@layer("GroupNormalization", masking=True)
def group_normalization(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    axes = _axes(g, c, inputs)
    scale, center = c.flag("scale", True), c.flag("center", True)
    names = [*["gamma"] * scale, *["beta"] * center]
    found = dict(zip(names, g.arrays_of(*names), strict=True))
    (axis,) = axes
    channels = inputs.shape[axis]
    groups = c.size("groups", 32, least=-1)
    groups = channels if groups == -1 else groups
    if axis == 0 or groups < 1 or channels % groups:
        g.refuse(f"{channels} channels must be a multiple of {groups} groups")
    epsilon = c.number("epsilon", 1e-3)
    if axis == 1 and inputs.rank > 2:
        ones = np.ones(channels, g.compute.numpy)
        gamma, beta = found.get("gamma", ones), found.get("beta", 0 * ones)
        given = g.held(gamma, "gamma"), g.held(beta, "beta")
        return g("GroupNormalization", inputs, *given, num_groups=groups, epsilon=epsilon)
    # Groups as an axis of their own, so that no axis moves.
    shape = inputs.shape
    split = (*shape[:axis], groups, channels // groups, *shape[axis + 1 :])
    x = g.reshape(inputs, split)
    over = [place for place in range(1, len(split)) if place != axis]
    made = g.reshape(normalized(g, x, over, {}, epsilon, centered=True), shape)
    for name, op in (("gamma", "Mul"), ("beta", "Add")):
        if name in found:
            made = g(op, made, g.held(_along(found[name], inputs.rank, axes), name))
    return made


@layer("UnitNormalization", masking=True)
def unit_normalization(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    return unit(g, inputs, _axes(g, c, inputs), 1e-12)


@layer("LayerScale", masking=False)
def layer_scale(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    # Of ConvNeXt in keras.applications; the file has the scale, so these are not needed.
    c.heed("init_values", "projection_dim")
    (gamma,) = g.arrays_of(("gamma", "variable", "Variable"))
    return g("Mul", inputs, g.held(gamma, "gamma"))


@layer("SpectralNormalization")
def spectral_normalization(g: Emit, c: Config, inputs: Tensor) -> Tensor:
    # The kernel is divided in training; what is saved is what inference uses.
    assert g.call is not None
    return g.call(c.get("layer"), "layer", inputs)
