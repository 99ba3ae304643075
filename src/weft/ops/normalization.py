"""Normalization of layers, batches, instances and groups.

Half types are computed in ``f32`` throughout and rounded once, whatever ``stash_type``
says; it only types the statistics that ``LayerNormalization`` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.accumulate import accumulator, exact, floating
from weft.ops.record import Builder, Call, Expand, Op, Param
from weft.ops.steps import Steps
from weft.ops.support import axis_of, known
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class LayerNormalizationAttributes(Attributes):
    """Of ``LayerNormalization`` and ``RMSNormalization``: from ``axis`` on, all are normalized."""

    axis: int = -1
    epsilon: float = 1e-5
    stash_type: int = 1


@dataclass(frozen=True, slots=True)
class BatchNormalizationAttributes(Attributes):
    """Of ``BatchNormalization``."""

    epsilon: float = 1e-5
    momentum: float = 0.9
    training_mode: int = 0


@dataclass(frozen=True, slots=True)
class InstanceNormalizationAttributes(Attributes):
    """Of ``InstanceNormalization``."""

    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class GroupNormalizationAttributes(Attributes):
    """Of ``GroupNormalization``."""

    num_groups: int
    epsilon: float = 1e-5
    stash_type: int = 1


# --- checks ---------------------------------------------------------------------------------


def _per_channel(call: Call, names: Sequence[str]) -> int:
    """The number of channels, for which all inputs but the first have one number each."""
    x = floating(call)
    if len(x.shape) < 2:
        raise call.error("input must be [batch, channels, ...]", got=f"x {x}")
    channels = known(call, x.shape[1])
    for position, name in enumerate(names, 1):
        found = call.type(position)
        if found.shape != (channels,):
            raise call.error(
                f"{name} must have one number for each of the {channels} channels",
                got=f"{name} {found}",
            )
    return channels


def _check_scale(call: Call, position: int, name: str) -> None:
    """A scale or bias that broadcasts to the shape of the input; a bias may be absent."""
    x = call.type(0)
    if position > 1 and not call.has(position):
        return
    shape = call.type(position).shape
    offset = len(x.shape) - len(shape)
    if offset < 0 or any(dim not in (1, x.shape[offset + at]) for at, dim in enumerate(shape)):
        raise call.error(
            f"{name} cannot be broadcast to the input", got=f"x {x}, {name} {call.type(position)}"
        )


def _normalized_axes(call: Call) -> tuple[int, ...]:
    x = call.type(0)
    rank = len(x.shape)
    axes = tuple(range(axis_of(call, call.attributes.axis, rank), rank))
    for axis in axes:
        known(call, x.shape[axis])
    return axes


def _along_channels(x: np.ndarray, rank: int) -> np.ndarray:
    return exact(x).reshape(-1, *(1,) * (rank - 2))


# --- layer and RMS normalization --------------------------------------------------------------


def _infer_layer(call: Call) -> tuple[TensorType, ...]:
    x = floating(call)
    axes = _normalized_axes(call)
    _check_scale(call, 1, "scale")
    _check_scale(call, 2, "bias")
    statistics = TensorType(
        accumulator(x.dtype) if call.attributes.stash_type == 1 else x.dtype,
        tuple(1 if axis in axes else dim for axis, dim in enumerate(x.shape)),
    )
    return (x, statistics, statistics)[: max(1, call.outputs)]


def standardize(steps: Steps, x: str, axes: Sequence[int], epsilon: float) -> tuple[str, str, str]:
    """``(x - mean) / sqrt(variance + epsilon)``, the mean and the inverse deviation."""
    mean = _mean(steps, x, axes)
    centred = steps.sub(x, mean)
    variance = steps.reduce("ReduceMean", steps.mul(centred, centred), axes)
    inverse = steps.op("Reciprocal", steps.op("Sqrt", steps.add(variance, epsilon)))
    return steps.mul(centred, inverse), mean, inverse


def _mean(steps: Steps, x: str, axes: Sequence[int]) -> str:
    """The mean, whose sum does not overflow where the elements do not.

    They are scaled by a power of two, so that it is rounded as it would be without.
    """
    shape = steps.builder.types[x].shape
    count = prod(dim for dim in (shape[axis] for axis in axes) if isinstance(dim, int))
    part = 0.5 ** max(count - 1, 0).bit_length()
    total = steps.reduce("ReduceSum", steps.mul(x, part), axes)
    return total if count * part == 1 else steps.div(total, count * part)


def _scaled(steps: Steps, x: str, scale: str, bias: str = "") -> str:
    found = steps.mul(x, steps.wide(scale))
    return steps.add(found, steps.wide(bias)) if bias else found


def _expand_layer(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps = Steps(builder)
    x, scale, bias = (*inputs, "")[:3]
    axes = _normalized_axes(call)
    found, mean, inverse = standardize(steps, steps.wide(x), axes, call.attributes.epsilon)
    kept = _infer_layer(call)[-1].dtype
    value = steps.cast(_scaled(steps, found, scale, bias), call.type(0).dtype)
    if call.outputs == 1:
        return (value,)
    return (value, steps.cast(mean, kept), steps.cast(inverse, kept))[: call.outputs]


def _reference_layer(
    call: Call, x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    axes = _normalized_axes(call)
    wide = x.astype(np.float64)
    mean = wide.mean(axis=axes, keepdims=True)
    centred = wide - mean
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + wide.dtype.type(call.attributes.epsilon))
    value = centred * inverse * exact(scale)
    if bias is not None:
        value = value + exact(bias)
    types = _infer_layer(call)
    return tuple(
        each.astype(type.dtype.numpy)
        for each, type in zip((value, mean, inverse), types, strict=False)
    )


def _infer_rms(call: Call) -> tuple[TensorType, ...]:
    x = floating(call)
    _normalized_axes(call)
    _check_scale(call, 1, "scale")
    return (x,)


def _expand_rms(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps = Steps(builder)
    x = steps.wide(inputs[0])
    square = steps.reduce("ReduceMean", steps.mul(x, x), _normalized_axes(call))
    root = steps.op("Sqrt", steps.add(square, call.attributes.epsilon))
    found = steps.mul(x, steps.op("Reciprocal", root))
    return (steps.cast(_scaled(steps, found, inputs[1]), call.type(0).dtype),)


def _reference_rms(call: Call, x: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, ...]:
    wide = exact(x)
    square = (wide * wide).mean(axis=_normalized_axes(call), keepdims=True)
    root = np.sqrt(square + wide.dtype.type(call.attributes.epsilon))
    return ((wide / root * exact(scale)).astype(x.dtype),)


# --- batch normalization ----------------------------------------------------------------------


def _infer_batch(call: Call) -> tuple[TensorType, ...]:
    _per_channel(call, ("scale", "bias", "mean", "variance"))
    x, statistics = call.type(0), call.type(3)
    if call.attributes.training_mode:
        for axis in (0, *range(2, len(x.shape))):
            known(call, x.shape[axis])
    elif call.outputs > 1:
        raise call.error("only the training mode has more than one output")
    return (x, statistics, statistics)[: max(1, call.outputs)]


def _expand_batch(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps, a = Steps(builder), call.attributes
    x, scale, bias, mean, variance = (steps.wide(value) for value in inputs)
    rank = len(call.type(0).shape)
    running: tuple[str, ...] = ()
    if a.training_mode:
        axes = (0, *range(2, rank))
        old_mean, old_variance = mean, variance
        mean, variance = _moments(steps, x, axes)
        running = tuple(
            steps.cast(
                steps.add(steps.mul(old, a.momentum), steps.mul(new, 1 - a.momentum)),
                call.type(3).dtype,
            )
            for old, new in ((old_mean, mean), (old_variance, variance))
        )
    # One multiplication and one addition for each element; the rest is per channel and
    # folds away where the statistics are constants.
    root = steps.op("Sqrt", steps.add(variance, a.epsilon))
    wide = steps.dtype(x)
    factor = steps.div(steps.cast(scale, steps.dtype(root)), root)
    offset = steps.sub(steps.cast(bias, steps.dtype(root)), steps.mul(mean, factor))
    value = steps.add(
        steps.mul(x, _spread(steps, steps.cast(factor, wide), rank)),
        _spread(steps, steps.cast(offset, wide), rank),
    )
    return (steps.cast(value, call.type(0).dtype), *running)[: max(1, call.outputs)]


def _moments(steps: Steps, x: str, axes: Sequence[int]) -> tuple[str, str]:
    """Mean and variance of the channels as vectors."""
    mean = steps.reduce("ReduceMean", x, axes)
    centred = steps.sub(x, mean)
    variance = steps.reduce("ReduceMean", steps.mul(centred, centred), axes)
    return steps.squeeze(mean, *axes), steps.squeeze(variance, *axes)


def _spread(steps: Steps, x: str, rank: int) -> str:
    """A vector along the channels of a value of ``rank``."""
    return steps.reshape(x, (-1, *(1,) * (rank - 2))) if rank > 2 else x


def _reference_batch(
    call: Call,
    x: np.ndarray,
    scale: np.ndarray,
    bias: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> tuple[np.ndarray, ...]:
    a, wide = call.attributes, exact(x)
    running: tuple[np.ndarray, ...] = ()
    if a.training_mode:
        axes = (0, *range(2, x.ndim))
        old_mean, old_variance = mean, variance
        mean, variance = wide.mean(axis=axes), wide.var(axis=axes)
        running = tuple(
            (exact(old) * a.momentum + new * (1 - a.momentum)).astype(old.dtype)
            for old, new in ((old_mean, mean), (old_variance, variance))
        )
    centre, spread, factor, offset = (
        _along_channels(each, x.ndim) for each in (mean, variance, scale, bias)
    )
    root = np.sqrt(spread + spread.dtype.type(a.epsilon))
    value = (wide - centre) / root * factor + offset
    return (value.astype(x.dtype), *running)[: max(1, call.outputs)]


# --- instance and group normalization -----------------------------------------------------------


def _infer_instance(call: Call) -> tuple[TensorType, ...]:
    _per_channel(call, ("scale", "bias"))
    return (call.type(0),)


def _expand_instance(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps = Steps(builder)
    rank = len(call.type(0).shape)
    x = steps.wide(inputs[0])
    found, _, _ = standardize(steps, x, range(2, rank), call.attributes.epsilon)
    scale, bias = (_spread(steps, value, rank) for value in inputs[1:3])
    return (steps.cast(_scaled(steps, found, scale, bias), call.type(0).dtype),)


def _infer_group(call: Call) -> tuple[TensorType, ...]:
    channels = _per_channel(call, ("scale", "bias"))
    groups = call.attributes.num_groups
    if groups < 1 or channels % groups:
        raise call.error(f"num_groups={groups} must divide the {channels} channels")
    return (call.type(0),)


def _expand_group(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    steps = Steps(builder)
    groups = call.attributes.num_groups
    sizes = [known(call, dim) for dim in call.type(0).shape[1:]]
    rank = len(sizes) + 1
    x, scale, bias = steps.wide(inputs[0]), *inputs[1:3]
    if groups == 1:
        found, _, _ = standardize(steps, x, range(1, rank), call.attributes.epsilon)
        scale, bias = (_spread(steps, value, rank) for value in (scale, bias))
        return (steps.cast(_scaled(steps, found, scale, bias), call.type(0).dtype),)
    # The channels alone are split: joined with what follows them, they would have to be moved
    # together where memory has them last.
    parts = (groups, sizes[0] // groups)
    x = steps.reshape(x, (0, *parts, *sizes[1:]))
    found, _, _ = standardize(steps, x, range(2, rank + 1), call.attributes.epsilon)
    ones = (1,) * (rank - 2)
    scale, bias = (steps.reshape(value, (*parts, *ones)) for value in (scale, bias))
    found = steps.reshape(_scaled(steps, found, scale, bias), (0, *sizes))
    return (steps.cast(found, call.type(0).dtype),)


def _reference_group(
    call: Call, x: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, ...]:
    groups = getattr(call.attributes, "num_groups", x.shape[1])
    size = prod(x.shape[1:]) // max(1, groups)  # not -1: a batch of 0 would leave it open
    parts = x.astype(np.float64).reshape(x.shape[0], groups, size)
    centred = parts - parts.mean(axis=2, keepdims=True)
    variance = (centred * centred).mean(axis=2, keepdims=True)
    value = centred / np.sqrt(variance + parts.dtype.type(call.attributes.epsilon))
    value = value.reshape(x.shape) * _along_channels(scale, x.ndim)
    return ((value + _along_channels(bias, x.ndim)).astype(x.dtype),)


def _op(
    name: str,
    inputs: tuple[Param, ...],
    infer: Callable[[Call], tuple[TensorType, ...]],
    reference: Callable[..., tuple[np.ndarray, ...]],
    compute: Expand,
    attributes: type,
    doc: str,
    *outputs: str,
) -> Op:
    return Op(
        name=name,
        inputs=inputs,
        infer=infer,
        reference=reference,
        compute=compute,
        doc=doc,
        attributes=attributes,
        outputs=(Param("y"), *(Param(output, optional=True) for output in outputs)),
    )


X, SCALE, BIAS = Param("x"), Param("scale"), Param("b")

OPS: tuple[Op, ...] = (
    _op(
        "LayerNormalization",
        (X, SCALE, Param("b", optional=True)),
        _infer_layer,
        _reference_layer,
        Expand(_expand_layer),
        LayerNormalizationAttributes,
        "Zero mean and unit variance over the last axes, then scaled and shifted.",
        "mean",
        "inv_std_dev",
    ),
    _op(
        "RMSNormalization",
        (X, SCALE),
        _infer_rms,
        _reference_rms,
        Expand(_expand_rms),
        LayerNormalizationAttributes,
        "Unit mean square over the last axes, then scaled.",
    ),
    _op(
        "BatchNormalization",
        (X, SCALE, BIAS, Param("input_mean"), Param("input_var")),
        _infer_batch,
        _reference_batch,
        Expand(_expand_batch),
        BatchNormalizationAttributes,
        "Channels normalized by given statistics, or by those of the batch in training.",
        "running_mean",
        "running_var",
    ),
    _op(
        "InstanceNormalization",
        (X, SCALE, BIAS),
        _infer_instance,
        _reference_group,
        Expand(_expand_instance),
        InstanceNormalizationAttributes,
        "Zero mean and unit variance of each channel of each image, then scaled and shifted.",
    ),
    _op(
        "GroupNormalization",
        (X, SCALE, BIAS),
        _infer_group,
        _reference_group,
        Expand(_expand_group),
        GroupNormalizationAttributes,
        "Zero mean and unit variance of each group of channels, then scaled and shifted.",
    ),
)
