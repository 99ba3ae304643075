"""Indices that lie outside of what they index."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import weft
from tests.torch.small import OWN, agrees
from weft.torch.dynamo import backend
from weft.torch.index_bounds import Bounds

Read = Callable[["_Indexed", torch.Tensor, torch.Tensor], torch.Tensor]

READS: dict[str, tuple[Read, list[int], list[list[int]]]] = {
    # What is read, indices that are right, and some that are not.
    "embedding": (lambda m, x, i: m.rows(i) + x[:3], [0, 5, 2], [[0, 6, 1], [-1, 0, 0]]),
    "bag": (lambda m, _, i: m.bags(i, torch.tensor([0, 2])), [0, 5, 2], [[6, 0, 0], [0, 0, -1]]),
    "x[i]": (lambda _, x, i: x[i], [-6, 5, 2], [[0, 6, 1], [0, 0, -7]]),
    "x[:, i]": (lambda _, x, i: x[:3, i], [-4, 3, 0], [[4, 0, 0], [-5, 0, 0]]),
    "x[i, i]": (lambda _, x, i: x[i, i] + x[:3, :3], [-4, 3, 0], [[4, 0, 0], [-5, 0, 0]]),
    "mask": (lambda _, x, i: x[torch.arange(6) > 2][:, i], [3, 0, 1], [[4, 0, 0]]),
    "index_select": (lambda _, x, i: x.index_select(0, i), [0, 5, 2], [[6, 0, 0], [-1, 0, 0]]),
    "gather": (lambda _, x, i: x.gather(-1, i.expand(6, 3)), [0, 3, 2], [[4, 0, 0], [-1, 0, 0]]),
    "take": (lambda _, x, i: x.take(i), [-24, 23, 0], [[24, 0, 0], [-25, 0, 0]]),
    "scatter": (lambda _, x, i: x.scatter(0, i[:, None], 1.0), [0, 5, 2], [[6, 0, 0], [-1, 0, 0]]),
    "index_add": (lambda _, x, i: x.index_add(0, i, x[:3]), [0, 5, 2], [[6, 0, 0], [-1, 0, 0]]),
    "index_put": (lambda _, x, i: x.index_put((i,), x[:3]), [-6, 5, 2], [[6, 0, 0], [-7, 0, 0]]),
    "one_hot": (
        lambda _, x, i: nn.functional.one_hot(i, 6) * x.sum(),
        [0, 5, 2],
        [[6, 0, 0], [-1, 0, 0]],
    ),
    "a view": (lambda _, x, i: x[i.flip(0)[:2].view(2, 1)], [-6, 5, 2], [[0, 6, 0], [0, 0, -7]]),
    "an int": (lambda _, x, i: x[i.int()], [-6, 5, 2], [[0, 6, 0], [1 << 31, 0, 0]]),
}


class _Indexed(nn.Module):
    def __init__(self, read: Read) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.rows = nn.Embedding(6, 4)
        self.bags = nn.EmbeddingBag(6, 4)
        self.read = read

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        OWN.append("_Indexed")
        return self.read(self, torch.relu(self.layer(x)), index) * 2.0


@pytest.mark.parametrize("name", READS)
@torch.no_grad()
def test_an_index_outside_is_pytorchs_error(name: str):
    read, right, wrong = READS[name]
    module: Any = _Indexed(read).eval()
    x = torch.randn(6, 4)
    fast = weft.optimize(module, x, torch.tensor(right), measure=False)
    compiled = torch.compile(module, backend=backend)
    for indices in wrong:
        index = torch.tensor(indices)
        with pytest.raises((IndexError, RuntimeError)) as theirs:
            module(x, index)
        for ours in (fast, compiled):
            with pytest.raises(theirs.type):
                ours(x, index)
    agrees(module, fast, x, torch.tensor(right))
    torch.testing.assert_close(compiled(x, torch.tensor(right)), fast(x, torch.tensor(right)))


@torch.no_grad()
def test_an_index_that_only_pytorch_takes_is_its_own():
    """Here an index counts modulo the size."""
    module: Any = _Indexed(lambda _, x, i: torch.take_along_dim(x, i[:, None], 0)).eval()
    x = torch.randn(6, 4)
    fast = weft.optimize(module, x, torch.tensor([0, 5, 2]), measure=False)
    agrees(module, fast, x, torch.tensor([-6, 5, 2]))
    other = torch.tensor([0, 8, 2])
    with pytest.warns(UserWarning, match="ran its own forward"):
        torch.testing.assert_close(fast(x, other), module(x, other))


@torch.no_grad()
def test_bytes_without_sign_that_become_indices_are_not_misread():
    """As signed bytes these would be negative, and outside."""
    module: Any = _Indexed(lambda _, x, i: x.repeat(40, 1)[i.long()]).eval()
    x, index = torch.randn(6, 4), torch.tensor([0, 200, 239], dtype=torch.uint8)
    fast = weft.optimize(module, x, index, measure=False)
    agrees(module, fast, x, index)


@pytest.mark.parametrize("count", [6, 9])
@torch.no_grad()
def test_indices_that_an_op_of_pytorch_gives_are_looked_at(count: int):
    def read(_: "_Indexed", x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[torch.randperm(count)] + x[index[0]]

    module: Any = _Indexed(read).eval()
    x, index = torch.randn(6, 4), torch.tensor([0, 1, 2])
    fast = weft.optimize(module, x, index, measure=False)
    if count > 6:
        with pytest.raises(IndexError):
            fast(x, index)
        return
    torch.manual_seed(1)
    wanted = module(x, index)
    torch.manual_seed(1)
    OWN.clear()
    torch.testing.assert_close(fast(x, index), wanted)
    assert not OWN


@pytest.mark.parametrize("count", [2, 3])
@torch.no_grad()
def test_a_signature_may_begin_with_an_index_outside(count: int):
    """What a comparison with PyTorch would end early of is not compared."""
    module: Any = _Indexed(lambda m, x, i: m.rows(i) + x[:count]).eval()
    x = torch.randn(6, 4)
    fast = weft.optimize(module, x, torch.zeros(count, dtype=torch.int64))
    wrong, right = torch.tensor([[6] * count]), torch.tensor([[5] * count])
    with pytest.raises(IndexError):
        fast(x, wrong)
    agrees(module, fast, x, right)


def test_bounds_hold_for_all_elements():
    assert Bounds(-2, 3).holds(torch.tensor([[-2, 3], [0, 1]]))
    assert Bounds(-2, 3).holds(torch.empty(0, dtype=torch.int64))
    assert not Bounds(-2, 3).holds(torch.tensor([0, 4]))
    assert not Bounds(-2, 3).holds(torch.tensor([-3, 0]))
