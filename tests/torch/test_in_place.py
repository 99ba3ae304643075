"""Large dense layers of one row read PyTorch's weights where they lie."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import weft
from weft.ir.unknown import IN_PLACE_BYTES

TERMS, OUTPUTS = 2048, 2053
assert 4 * TERMS * OUTPUTS >= IN_PLACE_BYTES


class Wide(nn.Module):
    """An image that is flattened, a large layer, a small one."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.wide = nn.Linear(TERMS, OUTPUTS)
        self.head = nn.Linear(OUTPUTS, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = torch.flatten(self.convolution(x).relu(), 1)
        return self.head(self.wide(flat).relu())


X = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def shared() -> tuple[Wide, Any]:
    torch.manual_seed(0)
    module = Wide().eval()
    return module, weft.optimize(module, X, measure=False, threads=2)


def weights(scale: float = 0.02) -> torch.Tensor:
    return torch.randn(OUTPUTS, TERMS) * scale


def check(module: nn.Module, fast: Any) -> None:
    wanted = module(X)
    error = (fast(X) - wanted).abs().max() / (wanted.max() - wanted.min())
    assert error < 1e-5


def library_of(fast: Any) -> Any:
    (runner,) = fast._weft._runners.known.values()
    return runner.part.compiled.library


@torch.no_grad()
def test_large_weights_are_not_copied(shared: tuple[Wide, Any]) -> None:
    module, fast = shared
    check(module, fast)
    first = library_of(fast).built.preparing
    assert first.held == ("wide.weight",)
    assert first.bytes < module.wide.weight.nbytes / 10


Change = Callable[[Wide], Any]


def _odd(module: Wide) -> None:
    """Weights that begin at an address that is a multiple of 4 only."""
    memory = torch.randn(OUTPUTS * TERMS + 3) / 50
    module.wide.weight = nn.Parameter(memory[3:].view(OUTPUTS, TERMS))


def _mapped(module: Wide, folder: Path) -> None:
    torch.save({name: 2 * each for name, each in module.state_dict().items()}, folder / "w.pt")
    module.load_state_dict(torch.load(folder / "w.pt", mmap=True), assign=True)


def _step(module: Wide) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with torch.enable_grad():
        module(X).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


CHANGES: dict[str, Change] = {
    "copy_": lambda m: m.wide.weight.copy_(weights()),
    "one element": lambda m: m.wide.weight[5, 7].add_(30),
    "optimizer": _step,
    "data.mul_": lambda m: m.wide.weight.data.mul_(1.5),
    "data =": lambda m: setattr(m.wide.weight, "data", weights()),
    "numpy, one element": lambda m: m.wide.weight.detach().numpy().__setitem__((9, 4), 30),
    "new parameter": lambda m: setattr(m.wide, "weight", nn.Parameter(weights())),
    "at an odd address": _odd,
    "transposed": lambda m: setattr(m.wide, "weight", nn.Parameter(weights().t().clone().t())),
    "transposed, then changed": lambda m: m.wide.weight.mul_(2),
    "share_memory": lambda m: m.share_memory(),
    "load_state_dict": lambda m: m.load_state_dict(Wide().state_dict()),
    "the small layer": lambda m: m.head.weight.mul_(2),
}


@pytest.mark.parametrize("name", CHANGES)
@torch.no_grad()
def test_the_next_call_sees_changes(shared: tuple[Wide, Any], name: str) -> None:
    module, fast = shared
    CHANGES[name](module)
    check(module, fast)


@torch.no_grad()
def test_weights_of_a_mapped_file(shared: tuple[Wide, Any], tmp_path: Path) -> None:
    module, fast = shared
    _mapped(module, tmp_path)
    check(module, fast)


@torch.no_grad()
def test_a_copy_reads_its_own_weights(shared: tuple[Wide, Any]) -> None:
    module, fast = shared
    twin = copy.deepcopy(fast)
    before = twin(X)
    module.wide.weight.mul_(3)
    assert torch.equal(twin(X), before)
    check(module, fast)


@torch.no_grad()
def test_weights_live_as_long_as_code_reads_them() -> None:
    module = nn.Sequential(nn.Linear(TERMS, OUTPUTS, bias=False)).eval()
    x = torch.randn(1, TERMS)
    fast = weft.optimize(module, x, measure=False, threads=1)
    library, wanted = library_of(fast), module(x)
    module[0].weight = nn.Parameter(weights())
    gc.collect()
    others = [torch.full((OUTPUTS, TERMS), 7.0) for _ in range(4)]  # would be in its place
    (made,) = library(x.numpy())
    assert (torch.from_numpy(made) - wanted).abs().max() < 1e-5
    assert (fast(x) - module(x)).abs().max() < 1e-5
    assert all(bool((each == 7).all()) for each in others)


@torch.no_grad()
def test_several_threads_read_the_same_weights(shared: tuple[Wide, Any]) -> None:
    module, fast = shared
    wanted, found = module(X), []

    @torch.no_grad()  # Threads begin with gradients.
    def call() -> None:
        found.extend(fast(X) for _ in range(5))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert len(found) == 20
    assert all(torch.allclose(each, wanted, rtol=1e-4, atol=1e-4) for each in found)


class Tied(nn.Module):
    """A table of embeddings whose rows are the weights of the last layer, too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8200, 512)
        self.head = nn.Linear(512, 8200, bias=False)
        self.head.weight = self.table.weight

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(token).tanh())


@torch.no_grad()
def test_a_table_of_embeddings_is_read_where_it_lies() -> None:
    module = Tied().eval()
    token = torch.tensor([8199])
    fast = weft.optimize(module, token, measure=False, threads=1)
    first = library_of(fast).built.preparing
    assert len(first.held) == 1
    assert first.bytes < 1000
    for change in (lambda: None, lambda: module.table.weight.mul_(2)):
        change()
        assert torch.allclose(fast(token), module(token), rtol=1e-4, atol=1e-4)
