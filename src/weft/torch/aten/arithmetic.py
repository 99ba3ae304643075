# pyright: basic
"""Functions of two elements; PyTorch's promotion of types is that of the result."""

from __future__ import annotations

from weft.torch.aten.record import Emit, Number, Row, Tensor, aten


def _scaled(op: str) -> Row:
    def row(g: Emit, self: Tensor, other: Tensor | Number, alpha: Number = 1) -> Tensor:
        right = g.cast(other, g.dtype)
        if alpha != 1:
            right = g("Mul", right, g.number(alpha, g.dtype))
        return g(op, g.cast(self, g.dtype), right)

    return row


def _plain(op: str) -> Row:
    def row(g: Emit, self: Tensor, other: Tensor | Number) -> Tensor:
        return g(op, g.cast(self, g.dtype), g.cast(other, g.dtype))

    return row


for _name, _row in {"add": _scaled("Add"), "sub": _scaled("Sub"), "mul": _plain("Mul")}.items():
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_row)
