# pyright: basic
"""Padding; negative amounts crop."""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontends.emit import Number, Tensor
from weft.torch.aten.record import Emit, Row, aten

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def padded(
    g: Emit, x: Tensor, pad: Sequence[int], mode: str = "constant", value: Number | None = None
) -> Tensor:
    """Pads the last axes; PyTorch names the last axis first."""
    if not any(pad):
        return x
    front = [0] * (x.rank - len(pad) // 2)
    pads = (*front, *pad[-2::-2], *front, *pad[::-1][::2])
    fill = {} if value is None else {"value": value}
    return g("Pad", x, pads=pads, mode=_MODES[mode], **fill)


@aten("constant_pad_nd.default")
def constant_pad_nd(g: Emit, self: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    return padded(g, self, pad, "constant", value)


@aten("pad.default")
def pad(
    g: Emit, self: Tensor, pad: Sequence[int], mode: str = "constant", value: Number | None = None
) -> Tensor:
    return padded(g, self, pad, mode, value)


def _moded(mode: str) -> Row:
    def row(g: Emit, self: Tensor, padding: Sequence[int]) -> Tensor:
        return padded(g, self, padding, mode)

    return row


for _rank in (1, 2, 3):
    aten(f"reflection_pad{_rank}d.default")(_moded("reflect"))
    aten(f"replication_pad{_rank}d.default")(_moded("replicate"))


@aten("_pad_circular.default")
def pad_circular(g: Emit, self: Tensor, pad: Sequence[int]) -> Tensor:
    return padded(g, self, pad, "circular")
