"""Models that return caches of ``transformers``, whose classes are imitated here."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import weft


class Cache:
    """Like that of an encoder and a decoder: two parts, one object."""

    def __init__(self, self_attention_cache: Any, cross_attention_cache: Any) -> None:
        self.self_attention_cache = self_attention_cache
        self.cross_attention_cache = cross_attention_cache


class Caching(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Cache]:
        return x + 1, Cache((x * 2, x * 3), (x * 4,))


def test_caches_of_encoders_and_decoders(monkeypatch: pytest.MonkeyPatch):
    library, support = (
        ModuleType("transformers"),
        ModuleType("transformers.integrations.executorch"),
    )
    vars(library).update(PreTrainedModel=Caching, EncoderDecoderCache=Cache)
    monkeypatch.setitem(sys.modules, "transformers", library)
    monkeypatch.setitem(sys.modules, support.__name__, support)
    x = torch.randn(3, 4)
    for _ in range(2):  # the second time, the class is known already
        fast: Any = weft.optimize(Caching().eval(), x, measure=False)
        with torch.no_grad():
            result, cache = fast(x)
        assert torch.equal(result, x + 1)
        assert isinstance(cache, Cache)
        (keys, values), (cross,) = cache.self_attention_cache, cache.cross_attention_cache
        assert torch.equal(keys, x * 2)
        assert torch.equal(values, x * 3)
        assert torch.equal(cross, x * 4)
