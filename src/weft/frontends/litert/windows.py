"""Windows of TensorFlow: paddings by name, as numbers before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.frontends.litert.record import Emit

SAME, VALID = 0, 1
_MOST = 1 << 20


def window(
    g: Emit,
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: int,
) -> dict[str, Any]:
    """Attributes of a convolution or pool; SAME divides rounding up, the odd element last."""
    if any(not 1 <= each <= _MOST for each in (*kernel, *strides, *dilations)):
        g.refuse("kernel, strides and dilations must be at least 1")
    if padding not in (SAME, VALID):
        g.refuse(f"padding {padding} is not supported")
    begins: list[int] = []
    ends: list[int] = []
    sizes = zip(spatial, kernel, strides, dilations, strict=True)
    for size, taps, stride, dilation in sizes:
        reach = (taps - 1) * dilation + 1
        missing = (-(-size // stride) - 1) * stride + reach - size
        missing = max(0, missing) if padding == SAME else 0
        begins.append(missing // 2)
        ends.append(missing - missing // 2)
        if size + missing < reach:
            g.refuse(f"a window of {reach} must fit into {size}")
    return {
        "kernel": tuple(kernel),
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "pads": (*begins, *ends),
    }
