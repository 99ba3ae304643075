"""Rows of shapes, orders, parts and repetitions."""

import pytest
import torch
from torch.nn import functional

from tests.torch.aten.checking import check, refusals

X = torch.randn(2, 3, 4)
SQUARE = torch.randn(2, 4, 5)
IMAGE = torch.randn(2, 8, 4, 6)
VECTOR = torch.randn(6)
NUMBER = torch.tensor(1.5)

SHAPES = {
    "view": (lambda x: x.view(6, -1), X),
    "view_as": (lambda x, y: x.view_as(y), X, torch.zeros(4, 6)),
    "flatten": (lambda x: x.flatten(1), X),
    "unflatten": (lambda x: x.unflatten(2, (2, 2)), X),
    "unsqueeze": (lambda x: x.unsqueeze(-1), X),
    "squeeze": (lambda x: (x[:1].squeeze(), x[:1].squeeze(0), x.squeeze(1)), X),
    "ravel": (lambda x: x.ravel() + 1, X),
    "permute": (lambda x: x.permute(2, 0, -2), X),
    "transpose": (lambda x: x.transpose(-1, 0), X),
    "swapaxes": (lambda x: x.swapaxes(0, 2), X),
    "t": (lambda x: x[0].t(), X),
    "numpy_T": (lambda x: x[0].T, X),
    "mT": (lambda x: x.mT, X),
    "movedim": (lambda x: (x.movedim(0, 2), x.movedim((0, 1), (2, 0))), X),
    "expand": (lambda x: x[:, :1].expand(5, -1, 3, -1), X),
    "expand_as": (lambda x: x[:, :1].expand_as(x), X),
    "broadcast_to": (lambda x: x.broadcast_to(3, 6), VECTOR),
    "broadcast_tensors": (lambda x, y: torch.broadcast_tensors(x, y), X, torch.randn(3, 1)),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), VECTOR, torch.randn(2)),
    "meshgrid_xy": (lambda x, y: torch.meshgrid(x, y, indexing="xy"), VECTOR, torch.randn(2)),
    "repeat": (lambda x: x.repeat(2, 1, 3, 1), X),
    "tile": (lambda x: x.tile(2, 2), X),
    "repeat_interleave": (lambda x: (x.repeat_interleave(3, 1), x.repeat_interleave(2)), X),
    "pixel_shuffle": (lambda x: functional.pixel_shuffle(x, 2), IMAGE),
    "pixel_unshuffle": (lambda x: functional.pixel_unshuffle(x, 2), IMAGE),
    "channel_shuffle": (lambda x: functional.channel_shuffle(x, 4), IMAGE),
    "to": (lambda x: (x.to(torch.int32), x.double(), x.to("cpu"), x > 0, (x > 0).float()), X),
    "type_as": (lambda x, y: y.type_as(x), X, torch.arange(3)),
    "same": (lambda x: (x.clone(), x.contiguous() * 2, x.detach() + 1, +x), X),
    "number": (lambda x: (x.reshape(1), x.expand(3), x.transpose(0, 0)), NUMBER),
}

PARTS = {
    "slice": (lambda x: (x[:, 1:3], x[..., ::2], x[:, -2:], x[:, 2:1], x[0:100]), X),
    "narrow": (lambda x: x.narrow(1, -2, 2), X),
    "select": (lambda x: (x[1], x[:, -1], x.select(2, 3)), X),
    "unbind": (lambda x: x.unbind(1), X),
    "split": (lambda x: x.split(2, 1), X),
    "split_sizes": (lambda x: x.split([1, 0, 3], -1), X),
    "chunk": (lambda x: (x.chunk(2, 2), x.chunk(1)), X),
    "tensor_split": (lambda x: (x.tensor_split(3, 2), x.tensor_split((1, 2), 2)), X),
    "cat": (lambda x, y: torch.cat([x, y, x], -1), X, torch.randn(2, 3, 1)),
    "cat_mixed": (lambda x, y: torch.cat([x, y, torch.zeros(0)]), VECTOR, torch.arange(3)),
    "stack": (lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1)), X, X + 1),
    "hstack": (lambda x, y: (torch.hstack([x, y]), torch.hstack([x[0], y[0]])), X, X + 1),
    "vstack": (lambda x: torch.vstack([x, x]), VECTOR),
    "flip": (lambda x: (x.flip(0, 2), x.fliplr(), x.flipud()), X),
    "rot90": (lambda x: [torch.rot90(x, k, (1, 2)) for k in range(-1, 4)], SQUARE),
    "roll": (lambda x: (x.roll((1, -3), (0, 2)), x.roll(5), x.roll(-1, 1)), X),
    "diagonal": (
        lambda x: [torch.diagonal(x, k, 1, 2) for k in range(-4, 6)] + [x.diagonal()],
        SQUARE,
    ),
    "tri": (lambda x: (x.tril(), x.tril(-1), x.triu(1)), SQUARE),
    "unfold": (lambda x: (x.unfold(2, 2, 1), x.unfold(1, 3, 2), x.unfold(2, 2, 2)), X),
    "as_strided": (
        lambda x: (
            (x + 1).as_strided((2, 3, 2, 4), (12, 2, 4, 1)),
            (x + 1).as_strided((5, 3), (1, 7), 3),
            (x + 1).as_strided((2, 2), (0, 24 - 5)),
            (x + 1)[1:].as_strided((3,), (2,), 13),
            (x + 1).as_strided((), (), 23),
            (x + 1).as_strided((2, 0), (1, 1)),
        ),
        X,
    ),
    "im2col": (lambda x: functional.unfold(x, (3, 2), (1, 2), (1, 0), (2, 1)), IMAGE),
    "im2col_plain": (lambda x: functional.unfold(x, 2, stride=2), IMAGE[0]),
    "col2im": (
        lambda x: functional.fold(x, (5, 6), (3, 2), (1, 2), (1, 0), (2, 1)),
        torch.randn(2, 12, 12),
    ),
}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x.as_strided((2, 2), (1, 1)), "of inputs"),
        (lambda x: (x + 1).mT.as_strided((2, 2), (1, 1)), "not contiguous"),
        (lambda x: (x + 1)[1:].as_strided((2, 2), (1, 1), 0), "beyond the tensor"),
        (lambda x: (x + 1)[:1].as_strided((2, 2), (1, 12)), "beyond the tensor"),
    ],
)
def test_strides_into_other_memory_are_refused(function, why: str):
    (told,) = refusals(function, X)
    assert why in told


@pytest.mark.parametrize("compiled", [False, True])
def test_shapes(compiled: bool):
    check(SHAPES, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_parts(compiled: bool):
    check(PARTS, compiled=compiled)
