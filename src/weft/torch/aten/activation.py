# pyright: basic
"""Functions of one element."""

from __future__ import annotations

from weft.torch.aten.record import Emit, Row, Tensor, aten


def _plain(op: str) -> Row:
    def row(g: Emit, self: Tensor) -> Tensor:
        return g(op, g.cast(self, g.dtype))

    return row


_PLAIN = {
    "abs": "Abs",
    "ceil": "Ceil",
    "cos": "Cos",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
for _name, _op in _PLAIN.items():
    aten(f"{_name}.default")(_plain(_op))


@aten("gelu.default")
def gelu(g: Emit, self: Tensor, approximate: str) -> Tensor:
    return g("Gelu", self, approximate=approximate)
