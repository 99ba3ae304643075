# pyright: basic
"""Memory that is asked for while PyTorch exports a module."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import weft
from weft.runtime.cache import Cache
from weft.runtime.record import MEMORY, MadeFor, made_for, read_record, write_record
from weft.runtime.reserve import Ahead
from weft.torch import foreseen

X = torch.ones(1, 1500)


def module(seed: int = 0, width: int = 1500) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(1500, width), torch.nn.ReLU()).eval()


@pytest.fixture(autouse=True)
def asked(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sizes that are asked for."""
    found: list[list[int]] = []

    def ahead(sizes: list[int]) -> Ahead:
        found.append(list(sizes))
        return Ahead(sizes)

    monkeypatch.setattr(foreseen, "Ahead", ahead)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return found


def records() -> list[str]:
    return [each.path.name for each in Cache().entries() if each.path.suffix == MEMORY]


def test_another_checkpoint_finds_its_memory(asked: list[list[int]]) -> None:
    weft.optimize(module(), X, measure=False)
    assert asked == []
    (name,) = records()
    known = read_record(Cache(), name)["bytes"]
    assert sum(known) >= 1500 * 1500 * 4
    assert made_for(Cache())[name] == [MadeFor("Sequential", "memory of a PyTorch module")]
    other = module(1)
    fast = weft.optimize(other, X, measure=False)
    assert asked == [known]
    with torch.no_grad():
        torch.testing.assert_close(fast(X), other(X))
    assert records() == [name]


def test_other_architectures_and_small_modules_ask_for_nothing(asked: list[list[int]]) -> None:
    weft.optimize(module(), X, measure=False)
    weft.optimize(module(width=1400), X, measure=False)
    small = torch.nn.Linear(4, 4).eval()
    for _ in range(2):
        weft.optimize(small, torch.ones(1, 4), measure=False)
    assert asked == []
    assert len(records()) == 2


def test_senseless_records_are_written_again(asked: list[list[int]]) -> None:
    weft.optimize(module(), X, measure=False)
    (name,) = records()
    known = read_record(Cache(), name)
    senseless: list[Any] = [
        {"bytes": sizes} for sizes in ([1 << 50], [1 - (1 << 50), 1 << 50], [-1], ["much"], 7)
    ]
    for record in (*senseless, {}, [], None):
        write_record(Cache(), name, record)
        weft.optimize(module(), X, measure=False)
        assert asked == []
        assert read_record(Cache(), name) == known


def test_an_export_that_fails_gives_the_memory_back(asked: list[list[int]]) -> None:
    class Sorts(torch.nn.Module):
        def __init__(self, *, fails: bool) -> None:
            super().__init__()
            self.layer, self.fails = torch.nn.Linear(1500, 1500), fails

        def forward(self, x: Any) -> Any:
            made = self.layer(x)
            return made[made > 0] if self.fails else made

    weft.optimize(Sorts(fails=False).eval(), X, measure=False)
    with pytest.raises(weft.UserError):
        weft.optimize(Sorts(fails=True).eval(), X, measure=False, strict=True)
    assert len(asked) == 1
    assert not foreseen.Foreseen(module(), [X], weft.Options())._known
