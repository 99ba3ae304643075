"""Derivatives of ops: what their records' ``grad`` builds.

A ``grad`` function adds the nodes that turn the gradient of an op's outputs into the
gradients of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ops.record import Builder, Call
from weft.ops.steps import Steps


def reduced_to(steps: Steps, value: str, like: str) -> str:
    """A gradient summed over the axes along which ``like`` was broadcast."""
    have, want = steps.dims(value), steps.dims(like)
    extra = len(have) - len(want)
    repeated = [
        axis
        for axis, extent in enumerate(have)
        if axis < extra or (want[axis - extra] == 1 and extent != 1)
    ]
    if repeated:
        value = steps.op("ReduceSum", value, axes=tuple(repeated), keepdims=1)
    return steps.op("Reshape", value, shape=want) if extra else value


def add_grad(
    call: Call,
    builder: Builder,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gradients: Sequence[str],
) -> tuple[str, ...]:
    """Of ``a + b``: the gradient goes to both."""
    steps = Steps(builder)
    return tuple(reduced_to(steps, gradients[0], value) for value in inputs)


def sub_grad(
    call: Call,
    builder: Builder,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gradients: Sequence[str],
) -> tuple[str, ...]:
    """Of ``a - b``: the gradient, and its negative."""
    steps = Steps(builder)
    (gradient,) = gradients
    return (
        reduced_to(steps, gradient, inputs[0]),
        reduced_to(steps, steps.op("Neg", gradient), inputs[1]),
    )


def mul_grad(
    call: Call,
    builder: Builder,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gradients: Sequence[str],
) -> tuple[str, ...]:
    """Of ``a * b``: the gradient times the other factor."""
    steps = Steps(builder)
    (a, b), (gradient,) = inputs, gradients
    return (
        reduced_to(steps, steps.op("Mul", gradient, b), a),
        reduced_to(steps, steps.op("Mul", gradient, a), b),
    )


def div_grad(
    call: Call,
    builder: Builder,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gradients: Sequence[str],
) -> tuple[str, ...]:
    """Of ``a / b``: ``g / b`` and ``-g * (a / b) / b``."""
    steps = Steps(builder)
    (a, b), (gradient,) = inputs, gradients
    share = steps.op("Div", gradient, b)
    return (
        reduced_to(steps, share, a),
        reduced_to(steps, steps.op("Neg", steps.op("Mul", share, outputs[0])), b),
    )


def neg_grad(
    call: Call,
    builder: Builder,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gradients: Sequence[str],
) -> tuple[str, ...]:
    """Of ``-x``."""
    return (Steps(builder).op("Neg", gradients[0]),)


def exp_grad(
    call: Call,
    builder: Builder,
    inputs: Sequence[str],
    outputs: Sequence[str],
    gradients: Sequence[str],
) -> tuple[str, ...]:
    """Of ``exp(x)``: the gradient times the result."""
    return (Steps(builder).op("Mul", gradients[0], outputs[0]),)
